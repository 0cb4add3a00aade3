package coord_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"bigset"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

// Read lets every chunk wait for its turn, and may fail before any.
func (l *link) Read(ctx context.Context, set []byte, o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) {
		for chunk, err := range l.Replica.Read(ctx, set, o) {
			if e := l.over(ctx, func() error { return err }); e != nil {
				yield(nil, e)
				return
			}
			if l.chunks++; !yield(chunk, nil) {
				return
			}
		}
	}
}

// gather reads to the end. A context comes first.
func gather(co *coord.Coordinator, r coord.Read) (elements []fold.Element, contexts int, err error) {
	r.Passing = r.Options.BatchSize%2 == 1 // of both kinds there are many
	for part, err := range co.Read(ctx, r) {
		if err != nil {
			return elements, contexts, err
		}
		if part.Context != nil {
			contexts++
		}
		if contexts == 0 {
			return elements, contexts, errors.New("a part without a context")
		}
		if !r.Passing {
			elements = append(elements, part.Elements...)
			continue
		}
		for _, e := range part.Elements {
			elements = append(elements, fold.Element{Name: bytes.Clone(e.Name), Dots: slices.Clone(e.Dots)})
		}
	}
	return elements, contexts, nil
}

// scattered makes a cluster in which each replica has missed some adds and removes, and returns what all of them have together.
func scattered(t *testing.T, s *sched, elements int) (*cluster, *testkit.Set) {
	c := newCluster(t, s, 3)
	var deltas []bigset.Delta
	rng := rand.New(rand.NewPCG(s.rng.Uint64(), 1))
	for i := range elements {
		name := fmt.Appendf(nil, "%05d", i)
		by := rng.IntN(3)
		r, err := c.links[by].store.Add(ctx, set, [][]byte{name}, bigset.WriteOptions{Durability: bigset.NoSync})
		if err != nil {
			t.Fatal(err)
		}
		all := []bigset.Delta{r.Delta}
		if rng.IntN(3) == 0 {
			r, err := c.links[by].store.Remove(ctx, set, [][]byte{name}, bigset.WriteOptions{Durability: bigset.NoSync})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r.Delta)
		}
		for _, d := range all { // one of the two others may miss it
			deltas = append(deltas, d)
			misses := (by + 1 + rng.IntN(2)) % 3
			if rng.IntN(2) == 0 {
				misses = by
			}
			for k, l := range c.links {
				if k == by || k == misses {
					continue
				}
				if err := l.store.Replica().ApplyDelta(ctx, d, bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return c, testkit.Specified(deltas)
}

func TestReadAtQuorum(t *testing.T) {
	for seed := range uint64(6) {
		c, want := scattered(t, newSched(seed), 400)
		co := c.coordinator(coord.Options{})
		all := want.Elements()
		c.s.run(t, minute, func() {
			for _, o := range []bigset.ReadOptions{{}, {BatchSize: 7}, {BatchSize: 50, Reverse: true}, {Prefix: []byte("002"), BatchSize: 9},
				{From: []byte("00100"), To: []byte("00250")}, {Limit: 5}, {Limit: 120, BatchSize: 16}, {After: []byte("00300"), Limit: 3}} {
				names := testkit.Select(all, o)
				got, contexts, err := gather(co, coord.Read{Set: set, Options: o})
				if err != nil || contexts != 1 || !sameNames(got, names) {
					t.Errorf("seed %d, %+v: %d elements, want %d; %d contexts, %v", seed, o, len(got), len(names), contexts, err)
				}
			}
			if n, err := co.Count(ctx, coord.Read{Set: set}); n.Elements != uint64(len(all)) || err != nil {
				t.Errorf("%d counted of %d, %v", n.Elements, len(all), err)
			}
			var elements [][]byte
			for i := range 400 {
				elements = append(elements, fmt.Appendf(nil, "%05d", i))
			}
			contexts, err := co.Lookup(ctx, coord.Lookup{Set: set, Elements: elements})
			if err != nil {
				t.Fatal(err)
			}
			var got []fold.Element
			for i, e := range contexts {
				if e.Present() {
					got = append(got, fold.Element{Name: elements[i], Dots: e.Dots})
				}
			}
			if !sameNames(got, all) {
				t.Errorf("seed %d: %d of %d looked up", seed, len(got), len(all))
			}
		})
		if n := c.saw(coord.EventRepaired); n == 0 || c.saw(coord.EventRepairLeft)+c.saw(coord.EventDamage) > 0 {
			t.Errorf("%d repairs, of %d events", n, len(c.events))
		}
	}
}

func sameNames(a, b []fold.Element) bool {
	return slices.EqualFunc(a, b, func(a, b fold.Element) bool { return string(a.Name) == string(b.Name) })
}

// TestReadRepairs reads at all replicas: what one has, all have afterwards.
func TestReadRepairs(t *testing.T) {
	c, want := scattered(t, newSched(3), 300)
	co := c.coordinator(coord.Options{})
	c.s.run(t, minute, func() {
		if _, _, err := gather(co, coord.Read{Set: set, Quorum: coord.Quorum{R: 3}}); err != nil {
			t.Error(err)
		}
	})
	for _, l := range c.links {
		if err := testkit.SameElements(l.elements(), want.Elements()); err != nil {
			t.Errorf("%v: %v", l.Member(), err)
		}
	}
	c, _ = scattered(t, newSched(3), 300)
	co = c.coordinator(coord.Options{RepairsMax: 10})
	c.s.run(t, minute, func() {
		if _, _, err := gather(co, coord.Read{Set: set, Options: bigset.ReadOptions{BatchSize: 10}, Quorum: coord.Quorum{R: 3}}); err != nil {
			t.Error(err)
		}
	})
	n := 0
	for _, e := range c.events {
		if e.Kind == coord.EventRepaired {
			n += e.Count
		}
	}
	if n > 10 || c.saw(coord.EventRepairLeft) == 0 {
		t.Errorf("%d repaired of at most 10, %d left", n, c.saw(coord.EventRepairLeft))
	}
}

// TestReadFailsOver has a replica fail, fall silent or turn out to be joining in mid-stream.
func TestReadFailsOver(t *testing.T) {
	for name, spoil := range map[string]func(*link) string{
		"down":    func(l *link) string { l.down = true; return "" },
		"silent":  func(l *link) string { return "lost" },
		"joining": func(l *link) string { l.SetState(peer.Joining); return "" },
	} {
		for seed := range uint64(5) {
			c, want := scattered(t, newSched(seed), 200)
			co := c.coordinator(coord.Options{RepairsMax: -1})
			at := 1 + int(seed)*2
			c.links[1].fault = func() string {
				if c.links[1].chunks == at {
					return spoil(c.links[1])
				}
				return ""
			}
			c.s.run(t, minute, func() {
				got, contexts, err := gather(co, coord.Read{Set: set, Options: bigset.ReadOptions{BatchSize: 11}})
				if err != nil || contexts != 2 || !sameNames(got, want.Elements()) {
					t.Errorf("%s, seed %d: %d elements, want %d; %d contexts, %v", name, seed, len(got), len(want.Elements()), contexts, err)
				}
				c.links[2].down = true
				if _, _, err := gather(co, coord.Read{Set: set}); !errors.Is(err, coord.ErrNoQuorum) {
					t.Errorf("%s, one replica left: %v", name, err)
				}
			})
		}
	}
}

func TestReadOfNothing(t *testing.T) {
	c := newCluster(t, newSched(1), 3)
	co := c.coordinator(coord.Options{})
	c.s.run(t, minute, func() {
		if _, _, err := gather(co, coord.Read{Set: set}); !errors.Is(err, bigset.ErrNotFound) {
			t.Error(err)
		}
		if _, err := c.links[0].store.Add(ctx, set, [][]byte{[]byte("x")}, bigset.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got, _, err := gather(co, coord.Read{Set: set}); err != nil || len(got) != 1 {
			t.Errorf("%v, %v", got, err)
		}
		if _, _, err := gather(co, coord.Read{Set: set, NotFoundFails: true}); !errors.Is(err, coord.ErrNoQuorum) || !errors.Is(err, bigset.ErrNotFound) {
			t.Error(err)
		}
		found, err := co.Lookup(ctx, coord.Lookup{Set: set, Elements: [][]byte{[]byte("x"), []byte("y")}, Quorum: coord.Quorum{R: 3}}) // one has it, surely
		if err != nil || !found[0].Present() || found[1].Present() {
			t.Errorf("%v, %v", found, err)
		}
	})
}

// TestReadStops counts what replicas still send when the reader has gone.
func TestReadStops(t *testing.T) {
	c, _ := scattered(t, newSched(2), 400)
	co := c.coordinator(coord.Options{})
	c.s.run(t, minute, func() {
		for part, err := range co.Read(ctx, coord.Read{Set: set, Options: bigset.ReadOptions{BatchSize: 10}}) {
			if err != nil {
				t.Error(err)
			}
			if len(part.Elements) > 0 {
				break
			}
		}
	})
	if n := c.links[0].chunks + c.links[1].chunks; n > 8 || c.links[2].chunks > 0 {
		t.Errorf("%d chunks were sent", n)
	}
}

// TestReadWaits: while the reader takes its time, replicas send no more than what may be ahead of it, and none passes for late.
func TestReadWaits(t *testing.T) {
	s := newSched(4)
	c, want := scattered(t, s, 400)
	co := c.coordinator(coord.Options{})
	var got []fold.Element
	s.run(t, 2*time.Hour, func() {
		waited, contexts := false, 0
		for part, err := range co.Read(ctx, coord.Read{Set: set, Options: bigset.ReadOptions{BatchSize: 10}}) {
			if err != nil {
				t.Fatal(err)
			}
			if part.Context != nil {
				contexts++
			}
			got = append(got, part.Elements...)
			if len(got) == 0 || waited {
				continue
			}
			waited = true
			s.Sleep(time.Hour)
			for _, l := range c.links[:2] {
				if l.chunks == 0 || l.chunks > 4 { // one merged, and three ahead
					t.Errorf("%v has sent %d chunks", l.Member(), l.chunks)
				}
			}
		}
		if contexts != 1 || c.links[2].chunks > 0 {
			t.Errorf("%d contexts: a replica was replaced", contexts)
		}
	})
	if !sameNames(got, want.Elements()) {
		t.Errorf("%d elements, want %d", len(got), len(want.Elements()))
	}
}

// TestLookupAsksAgain: dots are asked about only where answers differ.
func TestLookupAsksAgain(t *testing.T) {
	c := newCluster(t, newSched(1), 3)
	co := c.coordinator(coord.Options{})
	c.s.run(t, minute, func() {
		if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x"), Quorum: coord.Quorum{W: 3}}); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := c.links[0].store.Add(ctx, set, [][]byte{[]byte("y")}, bigset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for element, calls := range map[string]int{"x": 3, "y": 6, "z": 3} {
		before := c.links[0].calls + c.links[1].calls + c.links[2].calls
		c.s.run(t, minute, func() {
			found, err := co.Lookup(ctx, coord.Lookup{Set: set, Elements: [][]byte{[]byte(element)}, Quorum: coord.Quorum{R: 3}})
			if n := c.links[0].calls + c.links[1].calls + c.links[2].calls - before; err != nil || n != calls || found[0].Present() != (element != "z") {
				t.Errorf("%q: %v by %d calls, want %d, %v", element, found, n, calls, err)
			}
		})
	}
}

// TestReadAmidWrites reads while elements are replaced: those that are in the set all along are in every read.
func TestReadAmidWrites(t *testing.T) {
	for seed := range uint64(10) {
		s := newSched(seed)
		c := newCluster(t, s, 3)
		co := c.coordinator(coord.Options{})
		names := []string{"a", "b", "c", "d", "e"}
		s.run(t, time.Hour, func() {
			if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add(names...)}); err != nil {
				t.Fatal(err)
			}
			left := 3
			for range left {
				s.Go(func() {
					for range 10 {
						if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add(names[s.rng.IntN(5)])}); err != nil {
							t.Error(err)
						}
					}
					left--
				})
			}
			for left > 0 {
				got, _, err := gather(co, coord.Read{Set: set, Options: bigset.ReadOptions{BatchSize: 2}})
				if err != nil || len(got) != 5 {
					t.Errorf("seed %d: %v, %v", seed, got, err)
				}
				found, err := co.Lookup(ctx, coord.Lookup{Set: set, Elements: [][]byte{[]byte("a"), []byte("b")}})
				if err != nil && !errors.Is(err, coord.ErrUnsettled) || err == nil && (!found[0].Present() || !found[1].Present()) {
					t.Errorf("seed %d: looked up %v, %v", seed, found, err)
				}
			}
		})
	}
}

func TestExchange(t *testing.T) {
	for seed := range uint64(5) {
		s := newSched(seed)
		c, want := scattered(t, s, 300)
		only := []byte("only")
		if _, err := c.links[1].store.Add(ctx, only, [][]byte{[]byte("x")}, bigset.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.run(t, minute, func() {
			for range 2 {
				for i := range 3 {
					if _, err := coord.Exchange(ctx, c.links[i], c.links[(i+1)%3], 0, keyscheme.SlotMax); err != nil {
						t.Error(err)
					}
				}
			}
			sum, err := coord.Exchange(ctx, c.links[0], c.links[2], 0, keyscheme.SlotMax)
			if err != nil || sum != (coord.Exchanged{Sets: 2}) {
				t.Errorf("%+v, %v", sum, err)
			}
			c.links[2].down = true
			if _, err := c.links[0].store.Add(ctx, only, [][]byte{[]byte("y")}, bigset.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			if sum, err := coord.Exchange(ctx, c.links[0], c.links[2], 0, keyscheme.SlotMax); !errors.Is(err, peer.ErrUnavailable) || sum.Differ != 0 {
				t.Errorf("%+v, %v", sum, err)
			}
		})
		for _, l := range c.links {
			st := l.state()
			if !want.Seen.Equal(st.Seen) || !want.Dead.Equal(st.Dead) || testkit.SameElements(l.elements(), want.Elements()) != nil {
				t.Errorf("%v: Seen %v Dead %v", l.Member(), st.Seen, st.Dead)
			}
			if found, err := l.store.Look(ctx, only, []byte("x")); err != nil || !found.Present {
				t.Errorf("%v does not have a set: %v", l.Member(), err)
			}
		}
	}
}
