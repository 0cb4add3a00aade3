package ring_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"bigset/internal/ring"
	"bigset/internal/testkit/tier"
)

// TestLookup: after splits, merges and moves, a slot's assignment is the one whose bucket has it, and iteration yields each
// assignment once.
func TestLookup(t *testing.T) {
	t.Parallel()
	r := tier.Random(t)
	for _, buckets := range []int{1, 4, 256, 1024} {
		for _, m := range shuffled(t, r, buckets, 60) {
			n := 0
			for a := range m.All() {
				n++
				for _, s := range []ring.Slot{a.Bucket.First(), a.Bucket.Last(), a.Bucket.First() + ring.Slot(r.Uint64N(a.Bucket.Size()))} {
					if m.Lookup(s) != a {
						t.Fatalf("slot %08x is in bucket %v, not in %v", s, m.Lookup(s).Bucket, a.Bucket)
					}
				}
			}
			if n != m.Len() {
				t.Fatalf("%d assignments, Len is %d", n, m.Len())
			}
		}
	}
}

// TestLookupAllocates: a look-up allocates nothing.
func TestLookupAllocates(t *testing.T) {
	m := static(t, usual, nodes(3, nil))
	if n := testing.AllocsPerRun(100, func() { m.Lookup(0x12345678) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestDeltas: the change between two maps, applied to the first, gives the second, through its bytes as well. Pages that did not
// change are shared, so that the change is found without reading them.
func TestDeltas(t *testing.T) {
	t.Parallel()
	r := tier.Random(t)
	for _, buckets := range []int{1, 16, 512} {
		maps := shuffled(t, r, buckets, 40)
		for i, before := range maps[:len(maps)-1] {
			after := maps[i+1]
			d, err := ring.Diff(before, after)
			if err != nil {
				t.Fatal(err)
			}
			b, err := ring.AppendDelta(nil, d)
			if err != nil {
				t.Fatal(err)
			}
			if d, err = ring.DecodeDelta(b); err != nil {
				t.Fatal(err)
			}
			again, err := before.Apply(d)
			if err != nil {
				t.Fatal(err)
			}
			same(t, again, after)
			if len(d.Assignments) == 0 || len(d.Assignments) > 16 {
				t.Errorf("a change of %d assignments", len(d.Assignments))
			}
			if _, err := after.Apply(d); !errors.Is(err, ring.ErrVersion) {
				t.Errorf("the change of another version: %v", err)
			}
		}
	}
}

// same fails unless two maps are equal.
func same(t testing.TB, got, want *ring.Map) {
	t.Helper()
	if !reflect.DeepEqual(got.Head, want.Head) {
		t.Fatalf("head is %+v, want %+v", got.Head, want.Head)
	}
	if g, w := all(got), all(want); !reflect.DeepEqual(g, w) {
		t.Fatalf("assignments are\n%+v, want\n%+v", g, w)
	}
}

func all(m *ring.Map) (list []ring.Assignment) {
	for a := range m.All() {
		list = append(list, *a)
	}
	return list
}

// TestChangeRefused: changes that break an invariant are refused, and leave the map as it is.
func TestChangeRefused(t *testing.T) {
	m := static(t, usual, nodes(4, nil))
	first := *m.Lookup(0)
	delta := func(list ...ring.Assignment) *ring.Delta {
		return &ring.Delta{Generation: m.Generation, From: m.Version, Term: m.Term, Assignments: list}
	}
	other := first
	other.Owners = slices.Clone(first.Owners)
	other.Owners[0], other.Owners[1] = other.Owners[1], other.Owners[0]
	other.Next = other.Owners
	lower := first
	lower.Epoch = 0
	wide := first
	wide.Bucket = first.Bucket.Parent(1)
	narrow := first
	narrow.Bucket, narrow.Epoch = first.Bucket.Split(1)[0], 2
	oldTerm := delta()
	m.Term = 5
	for _, c := range []struct {
		what string
		d    *ring.Delta
		want error
	}{
		{"the same epoch with other owners", delta(other), ring.ErrEpoch},
		{"a lower epoch", delta(lower), ring.ErrEpoch},
		{"a merge without a higher epoch", delta(wide), ring.ErrEpoch},
		{"half of a bucket", delta(narrow), ring.ErrMap},
		{"an earlier manager", oldTerm, ring.ErrTerm},
		{"another version", &ring.Delta{Generation: m.Generation, From: m.Version + 1, Term: m.Term}, ring.ErrVersion},
		{"another generation", &ring.Delta{Generation: m.Generation + 1, From: m.Version, Term: m.Term}, ring.ErrVersion},
	} {
		before := all(m)
		if _, err := m.Apply(c.d); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
		if !reflect.DeepEqual(before, all(m)) {
			t.Errorf("%s: the map has changed", c.what)
		}
	}
}

// TestCheck: breaking each invariant is detected.
func TestCheck(t *testing.T) {
	good := static(t, usual, nodes(6, func(i int) string { return string(rune('x' + i%3)) }))
	who := func(n string) ring.Member { return ring.Member{Node: n, Incarnation: "1"} }
	with := func(f func(h *ring.Head, list []ring.Assignment)) error {
		h, list := good.Head, all(good)
		h.Nodes, h.Members = slices.Clone(h.Nodes), slices.Clone(h.Members)
		f(&h, list)
		m, err := ring.New(h, list)
		if err != nil {
			return err
		}
		return m.Check(ring.Limits{Moves: 2, In: 1, Placed: true})
	}
	if err := with(func(*ring.Head, []ring.Assignment) {}); err != nil {
		t.Fatal(err)
	}
	give := func(a *ring.Assignment, names ...string) {
		a.Owners = nil
		for _, n := range names {
			a.Owners = append(a.Owners, who(n))
		}
		a.Next = a.Owners
	}
	begin := func(a *ring.Assignment, names ...string) {
		old := a.Owners
		give(a, names...)
		a.Owners, a.State = old, ring.Copying
	}
	for _, c := range []struct {
		what string
		f    func(h *ring.Head, list []ring.Assignment)
		want error
	}{
		{"M1", func(_ *ring.Head, l []ring.Assignment) { l[3].Bucket = l[4].Bucket }, ring.ErrMap},
		{"M1, a mask with gaps", func(_ *ring.Head, l []ring.Assignment) { l[3].Bucket.Mask = 0xF0 }, ring.ErrBucket},
		{"M2, nobody", func(_ *ring.Head, l []ring.Assignment) { give(&l[0]) }, ring.ErrMap},
		{"M2, too many", func(_ *ring.Head, l []ring.Assignment) { give(&l[0], "n00", "n01", "n02", "n03") }, ring.ErrMap},
		{"M2, twice", func(_ *ring.Head, l []ring.Assignment) { give(&l[0], "n00", "n01", "n00") }, ring.ErrMap},
		{"M3, stable", func(_ *ring.Head, l []ring.Assignment) { l[0].Next = l[0].Next[:2] }, ring.ErrMap},
		{"M3, copying", func(_ *ring.Head, l []ring.Assignment) { l[0].State = ring.Copying }, ring.ErrMap},
		{"no epoch", func(_ *ring.Head, l []ring.Assignment) { l[0].Epoch, l[0].Since = 0, 0 }, ring.ErrMap},
		{"since later", func(_ *ring.Head, l []ring.Assignment) { l[0].Since = 2 }, ring.ErrMap},
		{"M5, moves", func(_ *ring.Head, l []ring.Assignment) {
			begin(&l[0], "n00", "n01", "n02")
			begin(&l[1], "n03", "n04", "n05")
			begin(&l[2], "n00", "n04", "n02")
		}, ring.ErrLimit},
		{"M6, list", func(_ *ring.Head, l []ring.Assignment) { give(&l[0], "n00", "n01", "nobody") }, ring.ErrMap},
		{"M6, node", func(h *ring.Head, _ []ring.Assignment) { h.Members[0].Incarnation = "0" }, ring.ErrMap},
		{"M6, twice", func(h *ring.Head, _ []ring.Assignment) { h.Members = append(h.Members, h.Members[0]) }, ring.ErrMap},
		{"nodes out of order", func(h *ring.Head, _ []ring.Assignment) { h.Nodes[0], h.Nodes[1] = h.Nodes[1], h.Nodes[0] }, ring.ErrMap},
		{"M7", func(_ *ring.Head, l []ring.Assignment) { give(&l[0], "n00", "n03", "n01") }, ring.ErrMap},
		{"M8", func(_ *ring.Head, l []ring.Assignment) { give(&l[0], "n00", "n01") }, ring.ErrMap},
		{"r+w", func(h *ring.Head, _ []ring.Assignment) { h.R = 1 }, ring.ErrSettings},
	} {
		if err := with(c.f); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestSplitMerge: a split keeps members and epoch, so that a request by the old assignment is served; the parts can be merged
// again, under a higher epoch than any of them had.
func TestSplitMerge(t *testing.T) {
	m := static(t, usual, nodes(4, nil))
	a := m.Lookup(77 << 24)
	kids, err := a.Split(4)
	if err != nil || len(kids) != 16 {
		t.Fatal(len(kids), err)
	}
	for _, k := range kids {
		if k.Epoch != a.Epoch || !k.SameContent(a) {
			t.Errorf("part %+v of %+v", k, a)
		}
	}
	back, err := ring.Merge(kids)
	if err != nil || back.Bucket != a.Bucket || back.Epoch != a.Epoch+1 || !back.SameContent(a) {
		t.Errorf("merged again: %+v, %v", back, err)
	}
	kids[7].Epoch = 9
	kids[7].Owners = []ring.Member{a.Owners[2], a.Owners[0], a.Owners[1]}
	kids[7].Next = kids[7].Owners
	if back, err = ring.Merge(kids); err != nil || back.Epoch != 10 {
		t.Errorf("merged in another order: %+v, %v", back, err)
	}
	kids[7].Owners = slices.Clone(kids[7].Owners)
	kids[7].Owners[0] = m.Nodes[3].Member
	kids[7].Next = kids[7].Owners
	if slices.Contains(a.Owners, m.Nodes[3].Member) {
		kids[7].Owners[0].Node = "else"
	}
	for what, list := range map[string][]ring.Assignment{"other owners": kids, "three": kids[:3], "not aligned": kids[1:3], "one": kids[:1]} {
		if _, err := ring.Merge(list); !errors.Is(err, ring.ErrStep) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{256, 4096, 65536} {
		s := usual
		s.Buckets = n
		m := static(b, s, nodes(9, nil))
		slots := make([]ring.Slot, 1024)
		for i := range slots {
			slots[i] = ring.Slot(rand.Uint32())
		}
		b.Run(sizeName(n), func(b *testing.B) {
			b.ReportAllocs()
			var sum uint64
			for i := 0; b.Loop(); i++ {
				sum += m.Lookup(slots[i&1023]).Epoch
			}
			if sum == 0 {
				b.Fatal("no epochs")
			}
		})
	}
}

func sizeName(n int) string {
	return map[int]string{256: "256", 4096: "4096", 65536: "65536"}[n]
}
