package ring_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"bigset/internal/ring"
)

var usual = ring.Settings{N: 3, R: 2, W: 2, DW: 2, Buckets: 256, Slices: 256}

// nodes returns nodes n00, n01 and so on, each of weight 1 and in the zone that zone says, if it is not nil.
func nodes(n int, zone func(int) string) []ring.Node {
	list := make([]ring.Node, n)
	for i := range list {
		list[i] = ring.Node{Member: ring.Member{Node: fmt.Sprintf("n%02d", i), Incarnation: "1"}, Addr: fmt.Sprintf("h%d:1", i), Weight: 1, Started: uint64(i)}
		if zone != nil {
			list[i].Zone = zone(i)
		}
	}
	return list
}

func static(t testing.TB, s ring.Settings, list []ring.Node) *ring.Map {
	t.Helper()
	m, err := ring.Static(ring.ID{1, 2, 3}, s, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// shuffled returns a map after changes of all kinds: buckets that are split, merged, moving and moved. It also returns all maps on
// the way.
func shuffled(t testing.TB, r *rand.Rand, buckets, changes int) (maps []*ring.Map) {
	t.Helper()
	s := usual
	s.Buckets = buckets
	list := nodes(5, nil)
	m := static(t, s, list)
	maps = append(maps, m)
	for range changes {
		a := m.Lookup(ring.Slot(r.Uint32()))
		d := &ring.Delta{Generation: m.Generation, From: m.Version, Term: m.Term + r.Uint64N(2)}
		if d.Assignments = change(r, m, a); d.Assignments == nil {
			continue
		}
		next, err := m.Apply(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Check(ring.Limits{}); err != nil {
			t.Fatal(err)
		}
		m = next
		maps = append(maps, m)
	}
	return maps
}

// change returns the result of one of the possible steps of an assignment, or nil if none is possible.
func change(r *rand.Rand, m *ring.Map, a *ring.Assignment) []ring.Assignment {
	one := func(b ring.Assignment, err error) []ring.Assignment {
		if err != nil {
			return nil
		}
		return []ring.Assignment{b}
	}
	switch x := r.IntN(10); {
	case a.State == ring.Copying && x < 2:
		return one(a.Abort())
	case a.State == ring.Copying:
		return one(a.CutOver())
	case a.State == ring.Settling:
		return one(a.Finish())
	case x < 4:
		n := 1 + r.IntN(4)
		if a.Bucket.Bits()+n > 20 {
			return nil
		}
		list, err := a.Split(n)
		if err != nil {
			return nil
		}
		return list
	case x < 7:
		var siblings []ring.Assignment
		n := 1 + r.IntN(2)
		parent := a.Bucket.Parent(n)
		for _, b := range parent.Split(n) {
			siblings = append(siblings, *m.Lookup(b.First()))
		}
		return one(ring.Merge(siblings))
	default:
		next := append([]ring.Member{}, a.Owners...)
		next[r.IntN(len(next))] = m.Nodes[r.IntN(len(m.Nodes))].Member
		b, err := a.Begin(next)
		if err == nil {
			err = b.Check(m.N)
		}
		return one(b, err)
	}
}
