package tier_test

import (
	"testing"

	"bigset/internal/testkit/tier"
)

// TestShare: the shares of consecutive turns cover each place once.
func TestShare(t *testing.T) {
	if testing.Short() {
		t.Setenv("BIGSET_TESTS", "full") // does not make a short run longer
	} else {
		t.Setenv("BIGSET_TESTS", "")
	}
	want := tier.Pick(5, 3, 1)
	var met [20]int
	for _, turn := range []string{"7", "8", "9", "10", "11"}[:want] {
		t.Setenv("BIGSET_TURN", turn)
		s := tier.ShareOf(t, 5, 3)
		if s.Every != want {
			t.Fatalf("one place in %d, want %d", s.Every, want)
		}
		for place := range met {
			if s.Has(place) {
				met[place]++
			}
		}
	}
	for place, n := range met {
		if n != 1 {
			t.Errorf("place %d is in %d shares", place, n)
		}
	}
}

// TestFull: a full run checks every place, and a drawn turn stays the same.
func TestFull(t *testing.T) {
	if testing.Short() {
		t.Skip("a short run is never full")
	}
	t.Setenv("BIGSET_TURN", "")
	if a, b := tier.ShareOf(t, 5, 1_000), tier.ShareOf(t, 5, 1_000); a != b {
		t.Errorf("shares of one process are %v and %v", a, b)
	}
	t.Setenv("BIGSET_TURN", "7")
	if n := tier.Turn(t); n != 7 {
		t.Errorf("turn %d, want 7", n)
	}
	t.Setenv("BIGSET_TESTS", "full")
	if n := tier.Turn(t); n != 0 {
		t.Errorf("a full run has turn %d", n)
	}
	if s := tier.ShareOf(t, 5, 3); !tier.Full() || s != (tier.Share{Every: 1}) || tier.Pick(1, 2, 3) != 3 {
		t.Errorf("a full run has the share %v", s)
	}
}
