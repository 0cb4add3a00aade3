package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestVerifyDamage removes, empties, cuts in half, and replaces by a folder, files that a closed store can't be without. verify then has
// status 1, names the file, and points at restore; what is restored from a copy is whole.
func TestVerifyDamage(t *testing.T) {
	dir := newDir(t)
	call(t, "", "--dir", dir, "set", "add", "s", "a", "b").want(t, exitOK)
	call(t, "", "--dir", dir, "set", "add", "s", "c").want(t, exitOK)
	for _, c := range []struct{ file, treatments, want string }{
		{"BIGSET", "removed emptied halved folder", "BIGSET"},
		{"CLOSED", "emptied halved folder", "CLOSED: "},
		{"IDENTITY", "emptied halved folder", "IDENTITY: "},
		{"LOCK", "folder", "LOCK: "},
		{"MANIFEST-*", "removed emptied halved folder", "MANIFEST-"},
		{"marker.manifest.*", "removed folder", "marker.manifest"},
		{"marker.format-version.*", "removed folder", "marker.format-version"},
		{"OPTIONS-*", "folder", "OPTIONS-"},
		{"*.sst", "removed emptied halved folder", "00"},
		{"*.log", "removed emptied halved folder", ".log: "},
	} {
		for _, treatment := range strings.Fields(c.treatments) {
			t.Run(c.file+" "+treatment, func(t *testing.T) {
				t.Parallel()
				damaged := filepath.Join(t.TempDir(), "damaged")
				if err := os.CopyFS(damaged, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				loseLast(t, filepath.Join(damaged, c.file), treatment)
				r := call(t, "", "--dir", damaged, "verify")
				if r.code != exitAbsent || r.errs != "" || !strings.Contains(r.out, "store is damaged: ") || !strings.Contains(r.out, c.want) ||
					!strings.Contains(r.out, "from a copy") || !strings.Contains(r.out, "restore COPY") || strings.Contains(r.out, "pristine") {
					t.Errorf("verify: status %d, %q, %q", r.code, r.out, r.errs)
				}
				if r := call(t, "", "--dir", damaged, "set", "add", "s", "d"); r.code != exitError || !strings.Contains(r.errs, "restore COPY") {
					t.Errorf("add: status %d, %q, %q", r.code, r.out, r.errs)
				}
			})
		}
	}
	restored := newDir(t)
	call(t, "", "--dir", restored, "restore", dir).want(t, exitOK)
	if out := call(t, "", "--dir", restored, "set", "ls", "s").want(t, exitOK); out != "a\nb\nc\n" {
		t.Errorf("restored: %q", out)
	}
}

// loseLast treats the last of the files that fit a pattern.
func loseLast(t *testing.T, pattern, treatment string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(pattern, files, err)
	}
	path := slices.Max(files)
	whole, err := os.ReadFile(path)
	if err == nil {
		err = os.Remove(path)
	}
	switch treatment {
	case "emptied":
		err = os.WriteFile(path, nil, 0o644)
	case "halved":
		err = os.WriteFile(path, whole[:len(whole)/2], 0o644)
	case "folder":
		err = os.MkdirAll(filepath.Join(path, "inside"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}
