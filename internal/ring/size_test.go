package ring_test

import (
	"testing"

	"bigset/internal/ring"
)

// TestSplits: each reason to cut a bucket, and the value at which it begins to apply.
func TestSplits(t *testing.T) {
	const gib = 1 << 30
	var rules ring.SplitRules
	b := ring.Bucket{Mask: 0xFF}
	for what, c := range map[string]struct {
		l    ring.Load
		want int
	}{
		"small":                 {ring.Load{BucketBytes: gib, NodeBytes: 100 * gib, NodeCopies: 50}, 0},
		"at the limit":          {ring.Load{BucketBytes: 2 * gib, NodeBytes: 100 * gib, NodeCopies: 50}, 0},
		"large":                 {ring.Load{BucketBytes: 2*gib + 1, NodeBytes: 100 * gib, NodeCopies: 50}, 4},
		"an eighth of its node": {ring.Load{BucketBytes: gib, NodeBytes: 8 * gib, NodeCopies: 50}, 0},
		"more than an eighth":   {ring.Load{BucketBytes: gib, NodeBytes: 8*gib - 8, NodeCopies: 50}, 4},
		"one of few copies":     {ring.Load{BucketBytes: 1, NodeBytes: gib, NodeCopies: 7}, 4},
	} {
		if got := rules.Splits(b, c.l); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
	large := ring.Load{BucketBytes: 3 * gib, NodeBytes: 100 * gib, NodeCopies: 50}
	if rules.Splits(ring.BucketOf(0, 32), large) != 0 || rules.Splits(ring.BucketOf(0, 30), large) != 2 {
		t.Error("a bucket of one slot is cut, or one of four slots into more than four")
	}
	for what, c := range map[string]struct {
		l    ring.Load
		want bool
	}{
		"small":     {ring.Load{BucketBytes: gib, NodeBytes: 100 * gib, NodeCopies: 50}, true},
		"large":     {ring.Load{BucketBytes: gib + 1, NodeBytes: 100 * gib, NodeCopies: 50}, false},
		"of a few":  {ring.Load{BucketBytes: 1, NodeBytes: gib, NodeCopies: 22}, false},
		"of enough": {ring.Load{BucketBytes: 1, NodeBytes: gib, NodeCopies: 23}, true},
	} {
		if got := rules.Merges(b, 16, c.l); got != c.want {
			t.Errorf("merge, %s: %t", what, got)
		}
	}
}

// TestMoveRules: a bucket that was moved rests for two hours, and bytes move only if that pays.
func TestMoveRules(t *testing.T) {
	var rules ring.MoveRules
	a := &ring.Assignment{Moved: 1000}
	for now, want := range map[uint32]bool{1000: true, 1119: true, 1120: false, 5000: false, 900: false} {
		if got := rules.Rests(a, now); got != want {
			t.Errorf("at %d: %t", now, got)
		}
	}
	if rules.Rests(&ring.Assignment{}, 10) {
		t.Error("a bucket that was never moved rests")
	}
	if !rules.Exempt(a, 2, 3, false) || rules.Exempt(a, 3, 3, false) || rules.Exempt(a, 2, 3, true) {
		t.Error("a bucket that is short of copies waits, or one that fails everywhere does not")
	}
	for what, c := range map[string]struct {
		fromCopies, toCopies int
		from, to, bytes      uint64
		want                 bool
	}{
		"two copies":                    {5, 3, 100, 100, 10, true},
		"one copy":                      {5, 4, 100, 100, 10, false},
		"bytes":                         {4, 4, 200, 100, 20, true},
		"too few bytes":                 {4, 4, 200, 100, 10, false},
		"the receiver would be as full": {4, 4, 200, 100, 100, false},
	} {
		if got := rules.Improves(c.fromCopies, c.toCopies, c.from, c.to, c.bytes); got != c.want {
			t.Errorf("%s: %t", what, got)
		}
	}
}

// TestFrozen: the brake applies when more than a third of the nodes are down, or a whole zone.
func TestFrozen(t *testing.T) {
	zones := func(i int) string { return string(rune('a' + i/2)) }
	for what, c := range map[string]struct {
		n    int
		down []int
		zone func(int) string
		want bool
	}{
		"one of three":       {3, []int{0}, nil, false},
		"two of five":        {5, []int{0, 1}, nil, true},
		"three of nine":      {9, []int{0, 1, 2}, nil, false},
		"a zone of three":    {8, []int{0, 1}, zones, true},
		"two of other zones": {8, []int{0, 2}, zones, false},
	} {
		list := nodes(c.n, c.zone)
		for _, i := range c.down {
			list[i].State = ring.NodeDown
		}
		if got := ring.Frozen(list); got != c.want {
			t.Errorf("%s: %t", what, got)
		}
	}
}
