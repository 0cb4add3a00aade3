package coord_test

import (
	"testing"

	"bigset/clock"
	"bigset/engine"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
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

// TestKeysBeforeDeathsOfContexts reads between any two steps in which a replica is told what it lacks of an operation's wide context. The
// context names an add that has been replaced where it is asked for, once, or again and again meanwhile.
func TestKeysBeforeDeathsOfContexts(t *testing.T) {
	for replacements := range 24 {
		s := newSched(uint64(replacements))
		c := newCluster(t, s, 3)
		first, err := c.links[0].store.Add(ctx, set, [][]byte{[]byte("x"), []byte("y")}, engine.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.links[2].store.ApplyDelta(ctx, first.Delta, engine.NoSync); err != nil {
			t.Fatal(err)
		}
		if _, err := c.links[1].store.Write(ctx, set, add("z"), engine.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		replace := func() {
			if _, err := c.links[0].store.Write(ctx, set, add("x"), engine.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		replace()
		c.links[0].SetState(peer.Joining) // the second coordinates
		c.links[2].SetState(peer.Joining)
		check := func() {
			if !c.present(c.links[1], c.links[2]) {
				t.Fatalf("%d replacements: a quorum read misses x", replacements)
			}
		}
		left := replacements
		c.links[1].after = check
		c.links[0].after = func() {
			if check(); left > 0 {
				left--
				replace()
			}
		}
		context := engine.SawAll(clock.Of(first.Dots...))
		s.run(t, minute, func() {
			r, err := c.coordinator(coord.Options{}).Write(ctx, coord.Write{Set: set, Quorum: coord.Quorum{W: 1, DW: 1},
				Ops: []engine.Op{{Kind: keyscheme.OpRemove, Element: []byte("y"), Context: context}}})
			if err != nil || r.By.Node != "node1" {
				t.Errorf("%d replacements: %+v, %v", replacements, r, err)
			}
		})
		l := c.links[1]
		if check(); l.has("y") || !l.has("x") || !l.has("z") {
			t.Errorf("%d replacements: %v", replacements, l.elements())
		}
		if dead := l.state().Dead.Contains(first.Dots[0]); replacements < 12 && !dead || replacements > 20 && dead {
			t.Errorf("%d replacements: what was replaced is dead: %v", replacements, dead)
		}
	}
}
