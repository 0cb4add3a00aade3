package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestClusterRestoreRefuses: a copy that can't be marked is named, with what to do about it; and so is a folder in which an earlier run was interrupted.
func TestClusterRestoreRefuses(t *testing.T) {
	t.Parallel()
	dir, from, to := newDir(t), filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	call(t, "", "--dir", dir, "set", "add", "friends", "paul").want(t, exitOK)
	call(t, "", "--dir", dir, "checkpoint", from).want(t, exitOK)
	for _, says := range []string{
		"this folder is of no cluster: a node that is started with --peers and this folder brings its data into a new one; remove " + to + ", which is a copy of " + from + " now\n",
		"; if it is the copy that an earlier run has made, `bigset cluster restore --dir " + to + "` marks it\n",
	} {
		if r := call(t, "", "cluster", "restore", from, "--dir", to); r.code != exitError || r.out != "" || !strings.Contains(r.errs, says) {
			t.Errorf("status %d, %s, want %q", r.code, r.errs, says)
		}
	}
}
