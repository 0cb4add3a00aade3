package dscrdt

import (
	"testing"
	"time"

	"bigset/convergence"
	"bigset/convergence/bubble"
)

func explore(t *testing.T, salted bool) *convergence.Report {
	t.Helper()
	sys := convergence.System{Name: "go-ds-crdt", Share: Share, Open: Open(salted)}
	r, err := convergence.Explore(t.Context(), bubble.In(t, sys, time.Second), convergence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d schedules in %v\n%v", r.Schedules, r.Elapsed, r.Failure)
	return r
}

// TestSalted: if each add has a value of its own, the map is an observed-remove set.
func TestSalted(t *testing.T) {
	if r := explore(t, true); r.Failure != nil {
		t.Error("it fails")
	}
}

// TestEmpty: if all values are empty, a remove hides a concurrent add. findBestValue returns nil for no value and for an empty one.
func TestEmpty(t *testing.T) {
	if r := explore(t, false); r.Failure == nil {
		t.Error("the bug was not found")
	}
}
