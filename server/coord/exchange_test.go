package coord_test

import (
	"testing"

	"bigset/engine"
	"bigset/keyscheme"
	"bigset/server/coord"
)

// replaced makes a cluster in which "x" was added, at all replicas, and then added again, which the second has missed, and the third
// maybe, too.
func replaced(t *testing.T, s *sched, third bool) *cluster {
	t.Helper()
	c := newCluster(t, s, 3)
	first, err := c.links[0].store.Add(ctx, set, [][]byte{[]byte("x")}, engine.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range c.links[1:] {
		if err := l.store.ApplyDelta(ctx, first.Delta, engine.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	second, err := c.links[0].store.Write(ctx, set, add("x"), engine.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if third {
		if err := c.links[2].store.ApplyDelta(ctx, second.Delta, engine.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// present asks two replicas for "x" as a quorum would, of their dots at this moment.
func (c *cluster) present(a, b *link) bool {
	for _, pair := range [][2]*link{{a, b}, {b, a}} {
		l, other := pair[0], pair[1]
		found, err := l.store.Contains(ctx, set, []byte("x"))
		if err != nil {
			c.t.Fatal(err)
		}
		for _, d := range found.Dots {
			if !other.state().Dead.Contains(d) {
				return true
			}
		}
	}
	return false
}

// TestKeysBeforeDeaths reads between any two steps of an exchange, at a replica that takes part and at one that does not: an element
// that is there all along is in each read, also when it is replaced again and again in the middle of the exchange.
func TestKeysBeforeDeaths(t *testing.T) {
	for i := range 24 {
		replacements := i / 2
		s := newSched(uint64(i))
		c := replaced(t, s, i%2 == 1)
		check := func() {
			if !c.present(c.links[1], c.links[2]) {
				t.Fatalf("%d replacements: a quorum read misses x", replacements)
			}
		}
		left := replacements
		c.links[1].after = check
		c.links[0].after = func() {
			if check(); left > 0 { // behind the state that was just read
				left--
				if _, err := c.links[0].store.Write(ctx, set, add("x"), engine.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.run(t, minute, func() {
			sum, err := coord.Exchange(ctx, c.links[0], c.links[1], 0, keyscheme.SlotMax)
			if err != nil || replacements == 0 && sum != (coord.Exchanged{Sets: 1, Differ: 1, Keys: 1, Dead: 1}) {
				t.Errorf("%d replacements: %+v, %v", replacements, sum, err)
			}
			check()
			left = 0
			if _, err := coord.Exchange(ctx, c.links[0], c.links[1], 0, keyscheme.SlotMax); err != nil {
				t.Error(err)
			}
		})
		if a, b := c.links[0].state(), c.links[1].state(); !a.Seen.Equal(b.Seen) || !a.Dead.Equal(b.Dead) || b.Dead.Empty() {
			t.Errorf("%d replacements: %v, %v", replacements, a, b)
		}
	}
}
