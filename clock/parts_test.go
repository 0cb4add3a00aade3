package clock

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawParts draws a clock of a few actors with base, extents and pages of every kind.
func drawParts(t *rapid.T) *Clock {
	c := new(Clock)
	for range rapid.IntRange(0, 8).Draw(t, "ranges") {
		a := rapid.SampledFrom([]Actor{"a", "b", "\x00\xff"}).Draw(t, "actor")
		first := rapid.SampledFrom([]uint64{1, 2, 3, 70_000, pageValues, 2*pageValues - 1, 5 * pageValues, 1<<64 - 9}).Draw(t, "first")
		n := rapid.SampledFrom([]uint64{0, 0, 1, 5, 70_000, 3 * pageValues}).Draw(t, "length")
		c.AddRange(a, first, max(first, first+n))
	}
	return c
}

// TestParts: parts are in order, each decodes as what the clock has in its page, and together they are the clock.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, sum := drawParts(t), new(Clock)
		for _, a := range c.Actors() {
			r := c.Counters(a)
			parts := slices.Collect(r.Parts())
			if !slices.IsSorted(parts) || len(slices.Compact(slices.Clone(parts))) != len(parts) || len(parts) == 0 {
				t.Fatalf("%v has parts %v", c, parts)
			}
			for _, n := range parts {
				enc := r.AppendPart(nil, n)
				part, err := Decode(enc)
				if err != nil || part.Empty() || !r.HasPart(n) {
					t.Fatalf("part %d of %v is %v, %v, there %v", n, c, part, err, r.HasPart(n))
				}
				for run := range part.Runs() {
					if run.Actor != a || n != 0 && (run.First>>pageBits != n || run.Last>>pageBits != n) {
						t.Fatalf("part %d of %v has %v", n, c, run)
					}
				}
				sum.Union(part)
			}
			for _, n := range []uint64{0, 1, 2, 5, 9, 1 << 47} {
				if r.HasPart(n) != slices.Contains(parts, n) {
					t.Fatalf("HasPart(%d) of %v is %v", n, c, r.HasPart(n))
				}
			}
		}
		if !sum.Equal(c) {
			t.Fatalf("the parts of %v unite to %v", c, sum)
		}
	})
	var none *Counters
	if none.HasPart(0) || len(slices.Collect(none.Parts())) > 0 || none.CountIn(1, 9) != 0 {
		t.Error("no counters have a part")
	}
	if got, err := Decode(none.AppendPart(nil, 3)); err != nil || !got.Empty() {
		t.Errorf("a part of nothing is %v, %v", got, err)
	}
}

func TestCountIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawParts(t)
		first := rapid.SampledFrom([]uint64{0, 1, 2, 65_000, 70_001, 6 * pageValues, 1<<64 - 3}).Draw(t, "first")
		last := rapid.SampledFrom([]uint64{0, 1, 3, 69_999, 140_000, 9 * pageValues, 1<<64 - 1}).Draw(t, "last")
		for _, a := range c.Actors() {
			want := uint64(0)
			for lo, hi := range c.Counters(a).runs() {
				if lo, hi = max(lo, first), min(hi, last); lo <= hi {
					want += hi - lo + 1
				}
			}
			if got := c.Counters(a).CountIn(first, last); got != want {
				t.Fatalf("%v has %d of %q in %d-%d, want %d", c, got, a, first, last, want)
			}
		}
	})
}

// TestHasMore: a clock has more than a part of it, and not more than itself.
func TestHasMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawParts(t)
		part := c.Clone()
		part.Subtract(drawParts(t))
		if got, want := c.HasMore(part), !c.Equal(part); got != want {
			t.Fatalf("%v has more than %v: %v", c, part, got)
		}
		if c.HasMore(c.Clone()) {
			t.Fatalf("%v has more than itself", c)
		}
	})
}
