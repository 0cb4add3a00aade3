package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets a test run the command itself.
func TestMain(m *testing.M) {
	if os.Getenv("MUTANTS_COMMAND") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestFitsNothing: a pattern that matches no bug is an error that names the pattern, and so is a part that is not valid.
func TestFitsNothing(t *testing.T) {
	t.Parallel()
	for arg, value := range map[string]string{"-only": "no-such-bug", "-part": "5/4"} {
		cmd := exec.Command(os.Args[0], arg, value)
		cmd.Env = append(os.Environ(), "MUTANTS_COMMAND=1")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), arg+` "`+value+`"`) {
			t.Errorf("%s %s: %v\n%s", arg, value, err, out)
		}
	}
}

// TestChoose: the parts together have all bugs, each once.
func TestChoose(t *testing.T) {
	t.Parallel()
	var all []mutant
	for _, name := range []string{"a1", "a2", "b1", "a3", "a4", "a5"} {
		all = append(all, mutant{name: name})
	}
	for _, c := range []struct{ only, part, want string }{
		{"", "", "a1 a2 b1 a3 a4 a5"}, {"b", "", "b1"}, {"", "1/2", "a1 b1 a4"}, {"", "2/2", "a2 a3 a5"}, {"", "1/1", "a1 a2 b1 a3 a4 a5"},
		{"a", "1/3", "a1 a4"}, {"a", "2/3", "a2 a5"}, {"a", "3/3", "a3"}, {"b", "2/2", ""},
	} {
		got, err := choose(all, c.only, c.part)
		var names []string
		for _, m := range got {
			names = append(names, m.name)
		}
		if strings.Join(names, " ") != c.want || err != nil {
			t.Errorf("-only %q -part %q: %q, %v, want %q", c.only, c.part, names, err, c.want)
		}
	}
	for _, part := range []string{"0/2", "3/2", "1", "1/", "/2", "x/2", "1/0", "-1/2", "1/2/3"} {
		if got, err := choose(all, "", part); err == nil {
			t.Errorf("-part %s: %v", part, got)
		}
	}
	if _, err := choose(all, "(", ""); err == nil {
		t.Error("a bad pattern")
	}
}

// TestDone: each verdict goes to the file at once, and a later run plants only what was not caught.
func TestDone(t *testing.T) {
	t.Parallel()
	root, tools := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write(filepath.Join(root, "a.txt"), "right\n")
	for _, name := range []string{"one", "two", "three"} {
		write(filepath.Join(root, "internal/mutants/testdata", name+".txt"), "bug "+name+"\na.txt\n. -run Test\n--- old\nright\n--- new\n"+name+"\n")
	}
	// A command in place of Go records what was planted, and misses what a file names.
	planted, misses, done := filepath.Join(tools, "planted"), filepath.Join(tools, "misses"), filepath.Join(tools, "done")
	write(filepath.Join(tools, "go.sh"), "cat a.txt >>"+planted+"\nif cmp -s a.txt "+misses+"; then echo ok; else echo '--- FAIL: Test'; exit 1; fi\n")
	o := options{done: done, goCommand: []string{"sh", filepath.Join(tools, "go.sh")}, limit: time.Minute}
	for _, c := range []struct {
		missed, part         string
		fails                bool
		planted, done, total string
	}{
		{"two", "2/2", false, "three\n", "three caught\n", "1 of 1 caught\n"},
		{"two", "", true, "one\ntwo\n", "three caught\none caught\ntwo MISSED\n", "2 of 3 caught, 1 of them before, says " + done + "\n"},
		{"", "", false, "two\n", "three caught\none caught\ntwo MISSED\ntwo caught\n", "3 of 3 caught, 2 of them before, says " + done + "\n"},
		{"one", "", false, "", "three caught\none caught\ntwo MISSED\ntwo caught\n", "3 of 3 caught, 3 of them before, says " + done + "\n"},
	} {
		write(misses, c.missed+"\n")
		write(planted, "")
		var out bytes.Buffer
		o.part = c.part
		if err := run(root, o, &out); (err != nil) != c.fails {
			t.Errorf("missed %q: error %v", c.missed, err)
		}
		if got := read(planted); got != c.planted {
			t.Errorf("missed %q: planted %q, want %q", c.missed, got, c.planted)
		}
		if got := read(done); got != c.done {
			t.Errorf("missed %q: verdicts %q, want %q", c.missed, got, c.done)
		}
		if !strings.HasSuffix(out.String(), c.total) || strings.Count(out.String(), "\n") != 1+strings.Count(c.planted, "\n") {
			t.Errorf("missed %q: it says %q, want the end %q", c.missed, out.String(), c.total)
		}
	}
	if got := read(filepath.Join(root, "a.txt")); got != "right\n" {
		t.Errorf("the module itself was changed: %q", got)
	}
}

// TestPlantable: every bug still has its place in the code.
func TestPlantable(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	all, err := load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Errorf("only %d bugs", len(all))
	}
	doc, err := os.ReadFile(filepath.Join(root, "docs", "reliability.md"))
	if says := fmt.Sprintf("plants %d bugs", len(all)); err != nil || !strings.Contains(string(doc), says) {
		t.Errorf("docs/reliability.md does not say that it %s, %v", says, err)
	}
	for _, m := range all {
		text, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		} else if n := strings.Count(string(text), m.old); n != 1 {
			t.Errorf("%s: the old lines are %d times in %s", m.name, n, m.file)
		}
	}
}

// TestParse refuses files that are not bugs.
func TestParse(t *testing.T) {
	for _, text := range []string{"", "what\nfile\n./pkg -run Test\n", "what\nfile\n--- old\na\n--- new\nb\n", "what\nfile\n./pkg\n--- old\na\n--- new\nb\n"} {
		if m, err := parse(text); err == nil {
			t.Errorf("%q: %+v", text, m)
		}
	}
	m, err := parse("what\nfile\n./pkg -run Test\n--- old\na\n--- new\nb\n")
	if err != nil || m.what != "what" || m.file != "file" || len(m.tests) != 3 || m.old != "a\n" || m.new != "b\n" {
		t.Errorf("%+v, %v", m, err)
	}
}
