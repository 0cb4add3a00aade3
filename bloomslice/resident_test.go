package bloomslice

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// inMemory counts what a slice has in memory.
func inMemory(s *Slice) int64 {
	bytes := tables(s)
	for _, l := range *s.layers.Load() {
		for page := range l.pages {
			if w := l.pages[page].Load(); w != nil && w != &zeroPage {
				bytes += PageBytes
			}
		}
	}
	return bytes
}

// TestResident goes through lives of a slice, with concurrent readers: it has in memory what it reports, and it gives back all of
// it when it is released, once.
func TestResident(t *testing.T) {
	o := options(10001, 0.01)
	o.Owners = 8
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 9))
		d := newDisk()
		var resident Memory
		s, err := New(o, nil, d, &resident)
		if err != nil {
			t.Fatal(err)
		}
		for range rng.IntN(20) {
			switch rng.IntN(5) {
			case 0, 1:
				for range rng.IntN(3000) {
					h := Sum(fmt.Append(nil, rng.IntN(20_000)))
					_, added, err := s.Admit(&h, fmt.Sprint(rng.IntN(3)))
					if err != nil {
						t.Fatal(err)
					}
					if added {
						s.Commit()
					}
				}
			case 2:
				d.store(t, s, 10)
			case 3:
				s.Evict(rng.Int64N(1 << 17))
			case 4:
				s.Release()
				if n := resident.Bytes(); n != 0 {
					t.Fatalf("seed %d: %d bytes are left", seed, n)
				}
				if s, err = New(o, d.store(t, slice(t, o, s.Layers(), d), 10), d, &resident); err != nil {
					t.Fatal(err)
				}
			}
			if have, want := resident.Bytes(), inMemory(s); have != want {
				t.Fatalf("seed %d: %d bytes, it has %d", seed, have, want)
			}
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for i := range 2000 {
					h := Sum(fmt.Append(nil, i))
					if _, err := s.Check(&h); err != nil {
						t.Error(err)
					}
				}
			})
		}
		s.Release()
		wg.Wait()
		s.Release()
		if n := resident.Bytes(); n != 0 {
			t.Fatalf("seed %d: %d bytes are left", seed, n)
		}
	}
}

// TestResidentRefused: a slice that can't be made leaves nothing behind.
func TestResidentRefused(t *testing.T) {
	var resident Memory
	shape, err := options(10001, 0.01).Shape(0)
	if err != nil {
		t.Fatal(err)
	}
	layers := []Layer{{Shape: shape}, {ID: LayerID{Index: 1}}}
	if _, err := New(options(10001, 0.01), layers, nil, &resident); !errors.Is(err, ErrOptions) {
		t.Errorf("a layer without a shape: %v", err)
	}
	if n := resident.Bytes(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// TestReleased: nothing can be added to a released slice.
func TestReleased(t *testing.T) {
	s := slice(t, options(10001, 0.01), nil, newDisk())
	add(t, s, "one")
	layer := s.Layers()[0]
	s.Release()
	h := Sum([]byte("two"))
	if _, _, err := s.Admit(&h, ""); !errors.Is(err, errReleased) {
		t.Errorf("Admit: %v", err)
	}
	if err := s.Set(layer, &h); !errors.Is(err, errReleased) {
		t.Errorf("Set: %v", err)
	}
	if err := s.MergePage(layer.ID, 0, []byte{pageSparse, 0, 1}); !errors.Is(err, errReleased) {
		t.Errorf("MergePage: %v", err)
	}
}

// TestMergeNothing: merging a page whose bits are all set makes nothing dirty, and takes no memory.
func TestMergeNothing(t *testing.T) {
	var resident Memory
	s, err := New(options(10001, 0.01), nil, nil, &resident)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AddLayer(""); err != nil {
		t.Fatal(err)
	}
	have := resident.Bytes()
	if err := s.MergePage(LayerID{}, 0, emptyPage()); err != nil || s.DirtyPages() != 0 || resident.Bytes() != have {
		t.Errorf("an empty page: %v, %d are dirty, %d bytes", err, s.DirtyPages(), resident.Bytes()-have)
	}
	one := []byte{pageSparse, 0, 1}
	if err := s.MergePage(LayerID{}, 0, one); err != nil || s.DirtyPages() != 1 || resident.Bytes() != have+PageBytes {
		t.Errorf("a bit: %v, %d are dirty, %d bytes", err, s.DirtyPages(), resident.Bytes()-have)
	}
	newDisk().store(t, s, 10)
	if err := s.MergePage(LayerID{}, 0, one); err != nil || s.DirtyPages() != 0 {
		t.Errorf("the bit again: %v, %d are dirty", err, s.DirtyPages())
	}
}

// DirtyPages returns how many pages have changed since they were stored.
func (s *Slice) DirtyPages() (n int) {
	for _, l := range *s.layers.Load() {
		n += l.dirty.n
	}
	return n
}
