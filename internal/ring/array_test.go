package ring_test

import (
	"math/rand/v2"
	"testing"

	"bigset/internal/ring"
	"bigset/internal/testkit/tier"
)

// TestArray: a client that learns all changes of a map, late and out of order, knows for each slot what the map says; before it has
// learned of a split, it knows an assignment with the same owners.
func TestArray(t *testing.T) {
	t.Parallel()
	r := tier.Random(t)
	for range 20 {
		maps := shuffled(t, r, 1<<r.IntN(7), 40)
		array := ring.NewArray()
		learn(array, r, maps[0])
		for i, m := range maps {
			late := maps[r.IntN(i+1)]
			learn(array, r, late)
			if i%3 == 0 {
				learn(array, r, m)
				agree(t, array, r, m)
			}
		}
		last := maps[len(maps)-1]
		learn(array, r, last)
		agree(t, array, r, last)
	}
}

// learn gives the array all assignments of a map, in random order.
func learn(array *ring.Array, r *rand.Rand, m *ring.Map) {
	list := all(m)
	for _, i := range r.Perm(len(list)) {
		array.Learn(&list[i])
	}
}

func agree(t *testing.T, array *ring.Array, r *rand.Rand, m *ring.Map) {
	t.Helper()
	for range 200 {
		s := ring.Slot(r.Uint32())
		want, got := m.Lookup(s), array.Lookup(s)
		if want.Bucket.Bits() > 16 {
			continue // it shares an entry with others
		}
		if got == nil || got.Epoch != want.Epoch || !got.SameContent(want) {
			t.Fatalf("slot %08x is %+v, want %+v", s, got, want)
		}
	}
}

// TestArrayGrows: the document's example. When the mask grows, each new entry is that of its low bits.
func TestArrayGrows(t *testing.T) {
	array := ring.NewArray()
	s := usual
	s.Buckets = 16
	m := static(t, s, nodes(4, nil))
	for a := range m.All() {
		array.Learn(a)
	}
	if array.Bits() != 4 {
		t.Fatalf("%d bits", array.Bits())
	}
	four := m.Lookup(0x40000000) // hashes that end in 2
	kids, err := four.Split(4)
	if err != nil {
		t.Fatal(err)
	}
	kid := kids[5].At(9)
	array.Learn(&kid)
	if array.Bits() != 8 {
		t.Fatalf("%d bits", array.Bits())
	}
	for _, k := range kids {
		want := four
		if k.Bucket == kid.Bucket {
			want = &kid
		}
		if got := array.Lookup(k.Bucket.First()); got != want {
			t.Errorf("bucket %v is %+v", k.Bucket, got)
		}
	}
	for a := range m.All() {
		if got := array.Lookup(a.Bucket.First()); a != four && got != a {
			t.Errorf("bucket %v is %+v", a.Bucket, got)
		}
	}
}
