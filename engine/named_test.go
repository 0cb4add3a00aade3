package engine_test

import (
	"errors"
	"slices"
	"testing"

	"bigset"
)

// TestSet: a Set does what the methods of its store do, in the set of its name.
func TestSet(t *testing.T) {
	p := newPair("store")
	p.open(t)
	friends, others := p.store.Set("friends"), p.store.Set("others")
	if r, err := friends.Add(bg, "paul", "ringo"); err != nil || len(r.Dots) != 2 {
		t.Fatalf("add: %d dots, %v", len(r.Dots), err)
	}
	seen, err := friends.Look(bg, "paul")
	must(t, err, "look")
	again, err := friends.Add(bg, "paul")
	must(t, err, "add paul again")

	// The context covers the first add only.
	if r, err := friends.RemoveSeen(bg, "paul", seen.Context); err != nil || r.Removed != 0 {
		t.Errorf("remove of what was seen before the second add: %d removed, %v", r.Removed, err)
	}
	if now, err := friends.Look(bg, "paul"); err != nil || !slices.Equal(now.Context.Dots, again.Dots) {
		t.Errorf("paul has dots %v, want %v, %v", now.Context.Dots, again.Dots, err)
	}
	var names []string
	for name, err := range friends.Elements(bg) {
		must(t, err, "elements")
		names = append(names, name)
	}
	if want := []string{"paul", "ringo"}; !slices.Equal(names, want) {
		t.Errorf("elements: %q, want %q", names, want)
	}

	// Without a context a remove takes what the store has.
	if r, err := friends.Remove(bg, "paul", "yoko"); err != nil || r.Removed != 1 {
		t.Errorf("remove: %d removed, %v", r.Removed, err)
	}
	for element, want := range map[string]bool{"paul": false, "ringo": true} {
		if has, err := friends.Contains(bg, element); err != nil || has != want {
			t.Errorf("contains %s: %v, %v", element, has, err)
		}
	}
	if has, err := others.Contains(bg, "ringo"); err != nil || has {
		t.Errorf("another set contains ringo: %v, %v", has, err)
	}

	p.close(t)
	errs := 0
	for name, err := range friends.Elements(bg) {
		if errs++; name != "" || !errors.Is(err, bigset.ErrClosed) {
			t.Errorf("elements of a closed store: %q, %v", name, err)
		}
	}
	if errs != 1 {
		t.Errorf("elements of a closed store: %d errors", errs)
	}
}
