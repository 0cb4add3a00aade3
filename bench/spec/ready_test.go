package spec

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// Every ready file is read, is in the list, and has its file's name.
func TestReady(t *testing.T) {
	names, err := fs.Glob(Files(), "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != len(order) {
		t.Errorf("%d files, %d in the list", len(names), len(order))
	}
	for _, file := range names {
		text, err := fs.ReadFile(Files(), file)
		if err != nil {
			t.Fatal(err)
		}
		w, err := Parse(file, text, Known{})
		if err != nil {
			t.Error(err)
			continue
		}
		if w.Name+".yaml" != file || !slices.Contains(order, w.Name) {
			t.Errorf("%s has the workload %s, which is in the list: %v", file, w.Name, slices.Contains(order, w.Name))
		}
		if !strings.HasPrefix(string(text), "#") && !strings.Contains(string(text), "#") && len(w.Phases) > 4 {
			t.Errorf("%s has no comment for its reader", file)
		}
	}
}
