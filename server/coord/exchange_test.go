package coord_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

// replaced makes a cluster in which "x" was added, at all replicas, and then added again, which the second has missed, and the third
// maybe, too.
func replaced(t *testing.T, s *sched, third bool) *cluster {
	t.Helper()
	c := newCluster(t, s, 3)
	first, err := c.links[0].store.Add(ctx, set, [][]byte{[]byte("x")}, bigset.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range c.links[1:] {
		if err := l.store.Replica().ApplyDelta(ctx, first.Delta, bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
			t.Fatal(err)
		}
	}
	second, err := c.links[0].store.Write(ctx, set, add("x"), bigset.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if third {
		if err := c.links[2].store.Replica().ApplyDelta(ctx, second.Delta, bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// present asks two replicas for "x" as a quorum would, of their dots at this moment.
func (c *cluster) present(a, b *link) bool {
	for _, pair := range [][2]*link{{a, b}, {b, a}} {
		l, other := pair[0], pair[1]
		found, err := l.store.Look(ctx, set, []byte("x"))
		if err != nil {
			c.t.Fatal(err)
		}
		for _, d := range found.Context.Dots {
			if !other.state().Dead.Contains(d) {
				return true
			}
		}
	}
	return false
}

// TestKeysBeforeDeaths reads between any two steps of an exchange, at a replica that takes part and at one that does not: an element
// that is in the set all along is in each read, also when it is replaced again and again in the middle of the exchange.
func TestKeysBeforeDeaths(t *testing.T) {
	left := 0 // for the next exchange
	for i := range 40 {
		replacements := i / 2
		s := newSched(uint64(i))
		c := replaced(t, s, i%2 == 1)
		check := func() {
			if !c.present(c.links[1], c.links[2]) {
				t.Fatalf("%d replacements: a quorum read misses x", replacements)
			}
		}
		again := replacements
		c.links[1].after = check
		c.links[0].after = func() {
			if check(); again > 0 { // after the state that was just read
				again--
				if _, err := c.links[0].store.Write(ctx, set, add("x"), bigset.WriteOptions{}); err != nil {
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
			left += sum.Left
			again = 0
			if _, err := coord.Exchange(ctx, c.links[0], c.links[1], 0, keyscheme.SlotMax); err != nil {
				t.Error(err)
			}
		})
		if a, b := c.links[0].state(), c.links[1].state(); !a.Seen.Equal(b.Seen) || !a.Dead.Equal(b.Dead) || b.Dead.Empty() {
			t.Errorf("%d replacements: %v, %v", replacements, a, b)
		}
	}
	if left == 0 {
		t.Error("no exchange has met more deaths than it waits for")
	}
}

// refusing is a replica that fails for one set.
type refusing struct {
	*link
	set string
	err error
}

var errRefusing = errors.New("this set is damaged")

func (r refusing) State(ctx context.Context, set []byte) (bigset.State, peer.Member, error) {
	if string(set) == r.set {
		return bigset.State{}, r.Member(), r.err
	}
	return r.link.State(ctx, set)
}

// TestExchangeGoesOn: what fails for some sets is reported, and the others are exchanged.
func TestExchangeGoesOn(t *testing.T) {
	names := []string{"one", "two", "three", "four"}
	for _, bad := range names {
		s := newSched(1)
		c := newCluster(t, s, 2)
		for _, name := range names {
			if _, err := c.links[0].store.Add(ctx, []byte(name), [][]byte{[]byte("x")}, bigset.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		s.run(t, minute, func() {
			sum, err := coord.Exchange(ctx, refusing{c.links[0], bad, errRefusing}, c.links[1], 0, keyscheme.SlotMax)
			if !errors.Is(err, errRefusing) || sum.Differ != len(names) || sum.Keys != uint64(len(names)-1) {
				t.Errorf("%+v, %v", sum, err)
			}
		})
		for _, name := range names {
			if found, err := c.links[1].store.Look(ctx, []byte(name), []byte("x")); err != nil || found.Present != (name != bad) {
				t.Errorf("%q fails: x in %q: %v, %v", bad, name, found, err)
			}
		}
	}
}

// TestExchangeEnds: a replica that does not answer in time ends the exchange. Otherwise each set would take that time.
func TestExchangeEnds(t *testing.T) {
	names, compared := []string{"one", "two", "three", "four"}, 0
	for _, bad := range names {
		s := newSched(1)
		c := newCluster(t, s, 2)
		for _, name := range names {
			if _, err := c.links[0].store.Add(ctx, []byte(name), [][]byte{[]byte("x")}, bigset.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		s.run(t, minute, func() {
			sum, err := coord.Exchange(ctx, refusing{c.links[0], bad, context.DeadlineExceeded}, c.links[1], 0, keyscheme.SlotMax)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%q: %v", bad, err)
			}
			compared += sum.Sets
		})
	}
	if want := 1 + 2 + 3 + 4; compared != want {
		t.Errorf("%d sets were compared, want %d", compared, want)
	}
}

// forgetful is a replica that loses power after it has sent its state, and comes back without what it had not synced.
type forgetful struct {
	*link
	once sync.Once
}

func (f *forgetful) Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	f.once.Do(func() {
		node := f.Member().Node
		store, err := engine.Open("db", &engine.Options{FS: f.disk.CrashClone(0, 1), BackgroundInterval: -1, MemTableBytes: 1 << 20})
		if err != nil {
			f.c.t.Fatal(err)
		}
		f.c.t.Cleanup(func() { _ = store.Close() })
		f.store = store
		if f.Replica, err = local.New(node, store, peer.Normal); err != nil {
			f.c.t.Fatal(err)
		}
	})
	return f.link.Locate(ctx, set, dots)
}

// TestExchangeWithAnotherIncarnation: a replica that crashes in the middle of an exchange has forgotten what it had seen and not
// synced. It has lost no key by damage, and the next exchange goes on with what it has.
func TestExchangeWithAnotherIncarnation(t *testing.T) {
	s := newSched(1)
	c := newCluster(t, s, 2)
	for i, durability := range []bigset.Durability{bigset.Sync, bigset.NoSync} {
		if _, err := c.links[0].store.Add(ctx, set, [][]byte{{'x', byte(i)}}, bigset.WriteOptions{Durability: durability}); err != nil {
			t.Fatal(err)
		}
	}
	a := &forgetful{link: c.links[0]}
	s.run(t, minute, func() {
		sum, err := coord.Exchange(ctx, a, c.links[1], 0, keyscheme.SlotMax)
		if err != nil || sum != (coord.Exchanged{Sets: 1, Differ: 1, Keys: 1, Left: 1}) {
			t.Errorf("%+v, %v", sum, err)
		}
		if sum, err = coord.Exchange(ctx, a, c.links[1], 0, keyscheme.SlotMax); err != nil || sum != (coord.Exchanged{Sets: 1}) {
			t.Errorf("the next one: %+v, %v", sum, err)
		}
	})
}

// TestExchangeOfDeathsAlone: a whole-set delete has no dot of its own, so that both have seen the same, and the deaths go over.
func TestExchangeOfDeathsAlone(t *testing.T) {
	for _, first := range []int{0, 1} {
		s := newSched(1)
		c := newCluster(t, s, 2)
		r, err := c.links[0].store.Add(ctx, set, [][]byte{[]byte("x"), []byte("y")}, bigset.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.links[1].store.Replica().ApplyDelta(ctx, r.Delta, bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
			t.Fatal(err)
		}
		if err := c.links[0].store.Replica().ApplyDelta(ctx, bigset.Delta{Set: set, Clear: c.links[0].state().Seen.Clone()}, bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
			t.Fatal(err)
		}
		s.run(t, minute, func() {
			sum, err := coord.Exchange(ctx, c.links[first], c.links[1-first], 0, keyscheme.SlotMax)
			if err != nil || sum != (coord.Exchanged{Sets: 1, Differ: 1, Dead: 2}) {
				t.Errorf("%+v, %v", sum, err)
			}
		})
		if c.links[1].has("x") || c.links[1].has("y") {
			t.Errorf("node1 has %v", c.links[1].elements())
		}
	}
}

// TestExchangeOfUnknownSets: sets that one of the two does not know are sent, whichever it is.
func TestExchangeOfUnknownSets(t *testing.T) {
	for _, has := range []int{0, 1} {
		s := newSched(1)
		c := newCluster(t, s, 2)
		const sets = 40
		for i := range sets {
			if _, err := c.links[has].store.Add(ctx, []byte{'s', byte(i)}, [][]byte{[]byte("x")}, bigset.WriteOptions{Durability: bigset.NoSync}); err != nil {
				t.Fatal(err)
			}
		}
		s.run(t, minute, func() {
			sum, err := coord.Exchange(ctx, c.links[0], c.links[1], 0, keyscheme.SlotMax)
			if err != nil || sum != (coord.Exchanged{Sets: sets, Differ: sets, Keys: sets}) {
				t.Errorf("node%d has them: %+v, %v", has, sum, err)
			}
		})
		for i := range sets {
			found, err := c.links[1-has].store.Look(ctx, []byte{'s', byte(i)}, []byte("x"))
			if err != nil || !found.Present {
				t.Errorf("set %d: %v, %v", i, found, err)
			}
		}
	}
}

// TestKeysBeforeDeathsOfContexts reads between any two steps in which a replica receives what it is missing of an operation's wide context. The
// context names an add that has been replaced where it is asked for, once, or again and again at the same time.
func TestKeysBeforeDeathsOfContexts(t *testing.T) {
	for replacements := range 24 {
		s := newSched(uint64(replacements))
		c := newCluster(t, s, 3)
		first, err := c.links[0].store.Add(ctx, set, [][]byte{[]byte("x"), []byte("y")}, bigset.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.links[2].store.Replica().ApplyDelta(ctx, first.Delta, bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.links[1].store.Write(ctx, set, add("z"), bigset.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		replace := func() {
			if _, err := c.links[0].store.Write(ctx, set, add("x"), bigset.WriteOptions{}); err != nil {
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
		context := bigset.SawAll(clock.Of(first.Dots...))
		s.run(t, minute, func() {
			r, err := c.coordinator(coord.Options{}).Write(ctx, coord.Write{Set: set, Quorum: coord.Quorum{W: 1, DW: 1},
				Ops: []bigset.Op{{Kind: keyscheme.OpRemove, Element: []byte("y"), Context: context}}})
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
