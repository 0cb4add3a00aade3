package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
	for _, m := range all {
		text, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		} else if n := strings.Count(string(text), m.old); n != 1 {
			t.Errorf("%s: the old lines are %d times in %s", m.name, n, m.file)
		}
	}
}

// TestParse refuses what is no bug.
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
