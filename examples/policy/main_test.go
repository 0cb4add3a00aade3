package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bigset/bench/lab"
	"bigset/bench/run"
)

// TestMeasure runs the example, small: the strategy takes part, does the same operations as the others, and is drawn.
func TestMeasure(t *testing.T) {
	var out bytes.Buffer
	page := filepath.Join(t.TempDir(), "policy.html")
	o := lab.Options{Run: run.Options{Rounds: 1, Sizes: []int{2000}, Dir: t.TempDir()}}
	if err := measure(t.Context(), &out, "churn", page, o); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{out.String(), string(text)} {
		if !strings.Contains(where, "bigset lazy") || !strings.Contains(where, "bigset point-deletes") {
			t.Errorf("the strategy is not among the others:\n%.2000s", where)
		}
	}
}

// TestNoPage asks for a page in a folder that does not exist: that is known before anything is measured.
func TestNoPage(t *testing.T) {
	ran := false
	o := lab.Options{Run: run.Options{Rounds: 1, Sizes: []int{100}, Dir: t.TempDir()}, Progress: func(string) { ran = true }}
	err := measure(t.Context(), &bytes.Buffer{}, "churn", filepath.Join(t.TempDir(), "none", "policy.html"), o)
	if !errors.Is(err, fs.ErrNotExist) || ran {
		t.Errorf("got %v; a round was begun: %v", err, ran)
	}
}

// TestFile measures a file of the developer's own.
func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, []byte("name: mine\nabout: a few adds\nsize: 100\nphases:\n  - {name: main, ops: 100%, mix: {add: 1}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	o := lab.Options{Run: run.Options{Rounds: 1, Dir: t.TempDir()}}
	if err := measure(t.Context(), &out, file, filepath.Join(t.TempDir(), "policy.html"), o); err != nil || !strings.Contains(out.String(), "bigset lazy") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if err := measure(t.Context(), &out, file+".none", filepath.Join(t.TempDir(), "policy.html"), o); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
}
