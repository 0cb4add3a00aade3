package main

import (
	"bytes"
	"strings"
	"testing"

	"bigset/engine"
	"bigset/internal/testkit"
)

// TestFullDisk runs commands on a full disk: those that read work, those that write end with status 2 and say what to do.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	run := func(dir string, args ...string) (code int, out, errs string) {
		var o, e bytes.Buffer
		a := newApp(strings.NewReader(""), &o, &e)
		a.adjust = func(opt *engine.Options) { opt.FS = disk }
		code = a.run(t.Context(), append([]string{"--dir", dir}, args...))
		return code, o.String(), e.String()
	}
	if code, _, errs := run("data", "set", "add", "s", "a", "b"); code != exitOK {
		t.Fatal(errs)
	}
	disk.Fill(0)
	if code, out, errs := run("data", "set", "ls", "s"); code != exitOK || out != "a\nb\n" {
		t.Errorf("ls: got status %d, %q, %q", code, out, errs)
	}
	for _, c := range []struct {
		dir, hint string
		args      []string
	}{
		{"data", "bytes are needed", []string{"set", "add", "s", "c"}},
		{"data", "bytes are needed", []string{"set", "rm", "s", "a"}},
		{"data", "bytes are needed", []string{"compact"}},
		{"new", "disk is full", []string{"set", "add", "s", "c"}},
	} {
		code, _, errs := run(c.dir, c.args...)
		if code != exitError || !strings.Contains(errs, c.hint) || !strings.Contains(errs, "hint: free some space") {
			t.Errorf("%q: got status %d, %q", c.args, code, errs)
		}
	}
	disk.Heal()
	if code, _, errs := run("data", "set", "add", "s", "c"); code != exitOK {
		t.Error(errs)
	}
}
