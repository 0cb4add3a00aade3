package clock

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestAddAll: it does what Add does for each counter, whatever the clock had before.
func TestAddAll(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		c := random(rnd, rnd.IntN(4), rnd.Float64(), 200)
		if rnd.IntN(2) == 0 {
			c.AddRange("a", 1, rnd.Uint64N(3*pageValues))
		}
		if rnd.IntN(3) == 0 {
			c.AddRange("a", pageValues, 2*pageValues-1)
		}
		first, span := 1+rnd.Uint64N(2*pageValues), 1+rnd.Uint64N(3*pageValues)
		counters := make([]uint64, rnd.IntN(20_000))
		for i := range counters {
			counters[i] = first + rnd.Uint64N(span)
		}
		if rnd.IntN(3) == 0 { // all of a range, backwards
			counters = counters[:0]
			for n := first + span; n >= first; n-- {
				counters = append(counters, n)
			}
		}
		if rnd.IntN(4) == 0 {
			counters = append(counters, 0, 1<<40+rnd.Uint64N(3))
		}
		before := c.Append(nil)
		want, was := c.Clone(), c.Clone()
		for _, n := range counters {
			want.Add(Dot{"a", n})
		}
		c.AddAll("a", counters)
		if err := c.check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !c.Equal(want) || c.Len() != want.Len() {
			t.Fatalf("seed %d: %v, want %v", seed, c, want)
		}
		if !bytes.Equal(was.Append(nil), before) {
			t.Fatalf("seed %d: a clone has changed", seed)
		}
	}
	c := &Clock{}
	c.AddAll("", []uint64{1})
	if c.AddAll("a", nil); !c.Empty() {
		t.Error(c)
	}
}
