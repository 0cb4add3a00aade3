package workloads

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"bigset/bench/spec/parser"
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
		w, err := parser.Parse(file, text, parser.Known{})
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

// What Ready returns may be changed.
func TestNamed(t *testing.T) {
	w, err := Named("churn")
	if err != nil {
		t.Fatal(err)
	}
	w.Phases[1].Roles[0].Clients, w.Small[0] = 99, 1
	if again, _ := Named("churn"); again.Phases[1].Roles[0].Clients == 99 || again.Small[0] == 1 {
		t.Error("a change of one copy is seen in another")
	}
	if _, err := Named("chrn"); err == nil || !strings.Contains(err.Error(), "is it churn?") {
		t.Errorf("no hint: %v", err)
	}
}

// The limits of the ready files, with their signs: those below say that less is better.
func TestLimits(t *testing.T) {
	w, err := Named("churn")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		atMost bool
		limit  float64
	}{{true, 1}, {true, 1.5}, {true, 1}, {false, 0.7}, {false, 1}} {
		if a := w.Assertions[i]; a.AtMost != want.atMost || a.Limit != want.limit {
			t.Errorf("%s: at most %v, limit %v", a.Text, a.AtMost, a.Limit)
		}
	}
}
