package server

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"bigset/server/door"
)

// TestListing has lists in parts be what the store's are, with clients that take turns, other prefixes, and filters that come and go.
func TestListing(t *testing.T) {
	n := startNode(t, testConfig(t))
	b := &bloomFilters{store: n.store.Load()}
	for i := range 25 {
		talk(t, n, fmt.Sprintf("create f%02d in_memory=1", i), "Done", fmt.Sprintf("create g%02d in_memory=1", i), "Done")
	}
	names := func(prefix, after string, most int) (names []string) {
		t.Helper()
		infos, err := b.List(t.Context(), door.FilterListing{Prefix: []byte(prefix), After: after, Most: most})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range infos {
			names = append(names, i.Name)
		}
		return names
	}
	inParts := func(prefix string, between func(after string)) (all []string) {
		t.Helper()
		for after := ""; ; {
			part := names(prefix, after, 4)
			if all = append(all, part...); len(part) < 4 {
				return all
			}
			after = part[3]
			between(after)
		}
	}
	for _, prefix := range []string{"", "f", "f1", "g", "g2", "h", "f24"} {
		for _, other := range []string{"", "f", "f0", "g", "h"} {
			for _, age := range []time.Duration{0, 2 * listingAge} {
				got := inParts(prefix, func(after string) {
					names(other, "", 5)
					names(other, after, 5)
					b.listing.made = b.listing.made.Add(-age)
				})
				if want := names(prefix, "", 1000); !slices.Equal(got, want) || len(want) == 0 && prefix != "h" {
					t.Fatalf("%q, with %q between: got %q, want %q", prefix, other, got, want)
				}
			}
		}
	}
	if b.listing.all != nil {
		t.Error("a list is kept of which all parts were asked for")
	}
	names("", "", 4)
	talk(t, n, "drop f00", "Done", "create f000", "Done")
	if got, want := names("f", "", 2), []string{"f000", "f01"}; !slices.Equal(got, want) {
		t.Errorf("after a drop and a create: got %q, want %q", got, want)
	}
	got := inParts("g", func(after string) {
		talk(t, n, "create "+after+"x", "Done")
	})
	if len(slices.DeleteFunc(got, func(name string) bool { return len(name) > 3 })) != 25 {
		t.Errorf("with filters that come during it: got %q", got)
	}
}
