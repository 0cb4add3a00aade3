package bloomslice

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"bigset/internal/testkit/tier"
)

// admit adds a key for an owner and reports whether it was new.
func admit(t *testing.T, s *Slice, key, owner string) bool {
	t.Helper()
	h := Sum([]byte(key))
	to, added, err := s.Admit(&h, owner)
	if err != nil {
		t.Fatal(err)
	}
	if added && to.ID.Owner != owner {
		t.Fatalf("%s of %q goes to layer %d of %q", key, owner, to.ID.Index, to.ID.Owner)
	}
	if added {
		s.Commit()
		if l := s.find(to.ID); l.count != to.Count {
			t.Fatalf("%s: a count of %d was told, it is %d", key, to.Count, l.count)
		}
	}
	return added
}

// TestGrowth: a layer takes as many keys as its capacity, and the next key opens the next layer.
func TestGrowth(t *testing.T) {
	s := slice(t, options(10001, 0.0001), nil, nil)
	if err := s.AddLayer(""); err != nil {
		t.Fatal(err)
	}
	capacities := []uint64{10001, 40004, 160016}
	next := 0
	for size := range uint64(10001 + 40004 + 2) {
		var want []Layer
		for i, left := 0, size; i == 0 || left > 0; i++ {
			shape, err := s.opt.Shape(i)
			if err != nil || shape.Capacity != capacities[i] {
				t.Fatalf("layer %d: %+v, %v", i, shape, err)
			}
			n := min(left, capacities[i])
			want = append(want, Layer{LayerID{Index: uint16(i)}, shape, n})
			left -= n
		}
		if got := s.Layers(); !slices.Equal(got, want) {
			t.Fatalf("with %d keys the layers %+v, want %+v", size, got, want)
		}
		for !add(t, s, fmt.Sprint("g", next)) {
			next++
		}
		next++
	}
}

// TestOwners: an owner's keys go to its own layers, whatever others have, and it opens a layer when its own is full, after all
// others.
func TestOwners(t *testing.T) {
	s := slice(t, options(10001, 0.0001), nil, nil)
	next := 0
	fill := func(owner string, n int) {
		for ; n > 0; next++ {
			if admit(t, s, fmt.Sprint("o", next), owner) {
				n--
			}
		}
	}
	type counted struct {
		index uint16
		owner string
		count uint64
	}
	is := func(want ...counted) {
		t.Helper()
		var got []counted
		for i, l := range s.Layers() {
			if shape, err := s.opt.Shape(int(l.ID.Index)); err != nil || l.Shape != shape {
				t.Errorf("layer %d has the shape %+v, want %+v (%v)", i, l.Shape, shape, err)
			}
			got = append(got, counted{l.ID.Index, l.ID.Owner, l.Count})
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	fill("a", 10000)
	if err := s.AddLayer("a"); err != nil { // it has one already
		t.Fatal(err)
	}
	fill("b", 3)
	is(counted{0, "a", 10000}, counted{1, "b", 3})
	fill("a", 1)
	is(counted{0, "a", 10001}, counted{1, "b", 3})
	fill("b", 1)
	fill("a", 1)
	is(counted{0, "a", 10001}, counted{1, "b", 4}, counted{2, "a", 1})
	if err := s.AddLayer("c"); err != nil {
		t.Fatal(err)
	}
	if admit(t, s, "o0", "b") || admit(t, s, "o10001", "c") {
		t.Error("a key of another owner's was added again")
	}
	is(counted{0, "a", 10001}, counted{1, "b", 4}, counted{2, "a", 1}, counted{3, "c", 0})
}

// TestLayerOrder: layers are in the order of their keys on disk, in whatever order they are added.
func TestLayerOrder(t *testing.T) {
	s := slice(t, options(10001, 0.01), nil, nil)
	want := []LayerID{{0, ""}, {0, "b"}, {0, "z"}, {0, "aa"}, {0, "az"}, {1, ""}, {1, "c"}, {256, "a"}}
	for _, i := range []int{5, 0, 4, 2, 7, 1, 6, 3} {
		if err := s.Restore(Layer{want[i], Shape{1, 1, 1}, 0}); err != nil {
			t.Fatal(err)
		}
	}
	for i, l := range s.Layers() {
		if l.ID != want[i] {
			t.Errorf("layer %d is %+v, want %+v", i, l.ID, want[i])
		}
	}
}

// TestCounts: of two counts of a layer the larger one stays.
func TestCounts(t *testing.T) {
	s := slice(t, options(10001, 0.01), nil, nil)
	h := Sum([]byte("x"))
	l := Layer{ID: LayerID{2, "a"}}
	var err error
	if l.Shape, err = s.opt.Shape(2); err != nil {
		t.Fatal(err)
	}
	most := uint64(0)
	for _, n := range []uint64{5, 4, 9, 9, 0, 8, 10} {
		l.Count, most = n, max(most, n)
		if err := s.Restore(l); err != nil {
			t.Fatal(err)
		}
		if got := s.Layers(); len(got) != 1 || got[0].Count != most {
			t.Fatalf("restored %d: %+v, want %d", n, got, most)
		}
		l.Count += 20
		most = max(most, l.Count)
		if err := s.Set(l, &h); err != nil {
			t.Fatal(err)
		}
		if got := s.Layers(); len(got) != 1 || got[0].Count != most {
			t.Fatalf("set with %d: %+v, want %d", l.Count, got, most)
		}
	}
}

// TestLayersMax: a slice has at most the allowed number of layers, and then returns an error.
func TestLayersMax(t *testing.T) {
	s := slice(t, options(10001, 0.01), nil, nil)
	for i := range uint16(LayersMax) {
		if err := s.Restore(Layer{LayerID{i, "a"}, Shape{1, 1, 1}, 1}); err != nil {
			t.Fatalf("layer %d: %v", i, err)
		}
	}
	if err := s.Restore(Layer{LayerID{7, "b"}, Shape{1, 1, 1}, 1}); !errors.Is(err, ErrOptions) {
		t.Errorf("one more: %v", err)
	}
	if err := s.Restore(Layer{LayerID{7, "a"}, Shape{1, 1, 1}, 2}); err != nil {
		t.Errorf("a layer that exists: %v", err)
	}
}

// TestRefused gives a slice what does not fit it.
func TestRefused(t *testing.T) {
	s := slice(t, options(10001, 0.01), nil, nil)
	if err := s.AddLayer(""); err != nil {
		t.Fatal(err)
	}
	shape := s.Layers()[0].Shape
	h := Sum([]byte("x"))
	other := shape
	other.K++
	whole := Layer{LayerID{Index: 1}, Shape{PageBytes, 1, 10001}, 0} // ends with its only page
	if err := s.Restore(whole); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"shape":    s.Restore(Layer{Shape: other}),
		"set":      s.Set(Layer{Shape: other}, &h),
		"no shape": s.Restore(Layer{ID: LayerID{Index: 5}}),
		"layer":    s.MergePage(LayerID{Index: 5}, 0, emptyPage()),
		"page":     s.MergePage(LayerID{}, uint32(shape.pages()), emptyPage()),
		"behind":   s.MergePage(whole.ID, 1, emptyPage()),
		"beyond":   s.MergePage(LayerID{}, uint32(shape.pages()-1), appendPlaces(nil, []uint16{uint16(shape.Bytes % PageBytes * 8)})),
	} {
		if !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.MergePage(LayerID{}, 0, []byte{pageSparse, 1}); !errors.Is(err, ErrCorruptPage) {
		t.Errorf("damaged page: %v", err)
	}
	if got := allBits(s, 0); len(got) > 0 {
		t.Errorf("bits %v were set", got)
	}
	last := shape.Bytes*8 - 1
	if err := s.MergePage(LayerID{}, uint32(shape.pages()-1), appendPlaces(nil, []uint16{uint16(last % pageBits)})); err != nil {
		t.Error(err)
	}
	if got := allBits(s, 0); !slices.Equal(got, []uint64{last}) {
		t.Errorf("bits %v, want the last of the layer, %d", got, last)
	}
}

// tables is what a slice takes in memory without pages.
func tables(s *Slice) (bytes int64) {
	for _, l := range *s.layers.Load() {
		bytes += l.bytes()
	}
	return bytes
}

// stored is what a store has of a slice: what dirty pages and layers say, and nothing else.
type stored struct {
	*disk
	layers map[LayerID]Layer
}

func (d *stored) list() (list []Layer) {
	for _, l := range d.layers {
		list = append(list, l)
	}
	return list
}

// pass stores what is dirty, some pages at a time. It stops if fails returns true, and puts back what it had taken.
func (d *stored) pass(s *Slice, some int, fails func() bool) (whole bool) {
	for taking := s.Take(); ; {
		dirty := taking.Next(some)
		if dirty.Empty() {
			return true
		}
		if fails() {
			s.PutBack(dirty)
			return false
		}
		for _, l := range dirty.Layers {
			d.layers[l.ID] = l
		}
		for _, p := range dirty.Pages {
			d.pages[pageKey(p.ID, p.Page)] = p.Value
		}
	}
}

// TestStored goes through random lives of a slice of two owners whose passes fail now and then. After a pass that did not fail, the
// stored data is exactly what the slice has: a slice opened from it has the same layers and all keys. The memory of pages is
// counted throughout.
func TestStored(t *testing.T) {
	for seed := range uint64(tier.Pick(3, 7, 20)) {
		rng := rand.New(rand.NewPCG(seed, 2))
		d := &stored{newDisk(), map[LayerID]Layer{}}
		var resident Memory
		open := func() *Slice {
			s, err := New(options(10001, 0.01), d.list(), d, &resident)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s, added := open(), map[string]bool{}
		for step := range 30 {
			for range rng.IntN(2000) {
				key := fmt.Sprint(rng.IntN(30_000))
				admit(t, s, key, fmt.Sprint(rng.IntN(2)))
				added[key] = true
			}
			some, fails := 1+rng.IntN(9), func() bool { return rng.IntN(30) == 0 }
			whole := d.pass(s, some, fails)
			if !whole {
				whole = d.pass(s, some, fails) // brings what the first did not
			}
			if !whole {
				continue
			}
			was := s.Layers()
			for _, l := range was {
				if d.layers[l.ID] != l {
					t.Fatalf("seed %d, step %d: stored is %+v, want %+v", seed, step, d.layers[l.ID], l)
				}
			}
			if rng.IntN(2) == 0 {
				want := min(resident.Bytes()-tables(s), rng.Int64N(1<<17))
				if rng.IntN(2) == 0 {
					want -= want % PageBytes
				}
				before := resident.Bytes()
				freed := s.Evict(want)
				if freed != before-resident.Bytes() || freed < want || freed >= want+PageBytes {
					t.Fatalf("seed %d, step %d: asked for %d of %d bytes: freed %d, and %d are left", seed, step, want, before, freed, resident.Bytes())
				}
			} else {
				s.Release()
				if resident.Bytes() != 0 {
					t.Fatalf("seed %d, step %d: released, and %d bytes are left", seed, step, resident.Bytes())
				}
				if h := Sum([]byte("0")); added["0"] {
					if yes, err := s.Check(&h); !yes || err != nil || resident.Bytes() != 0 {
						t.Fatalf("seed %d, step %d: of a released slice: %v, %v, %d bytes", seed, step, yes, err, resident.Bytes())
					}
				}
				s = open()
			}
			if got := s.Layers(); !slices.Equal(got, was) {
				t.Fatalf("seed %d, step %d: layers %+v, want %+v", seed, step, got, was)
			}
			for key := range added {
				if !has(t, s, key) {
					t.Fatalf("seed %d, step %d: %s is denied", seed, step, key)
				}
			}
		}
	}
}
