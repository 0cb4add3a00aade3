package filters_test

import (
	"fmt"
	"testing"

	"bigset/engine/filters"
	"bigset/internal/testkit"
)

// filtersUsed makes a number of filters, each with one key, as a server does: without waiting if that is possible, otherwise with a
// wait. It returns the filters, and how many marks had to wait.
func filtersUsed(t *testing.T, s *store, n int, most uint64, beside func()) (all []*filters.Filter, waited int) {
	t.Helper()
	for i := range n {
		f, err := s.Filters().Create(bg, fmt.Appendf(nil, "filter %d", i), testkit.SmallFilter())
		must(t, err, "create")
		all = append(all, f)
	}
	key, added := [][]byte{[]byte("key")}, make([]bool, 1)
	for _, f := range all {
		n, err := f.MarkNow(key, added)
		if must(t, err, "mark now"); n == 0 {
			waited++
			must(t, f.MarkAll(bg, key, added), "mark")
		}
		st, err := s.Stats()
		if must(t, err, "stats"); st.BytesFilters > most {
			t.Fatalf("filters have %d bytes in memory, at most %d", st.BytesFilters, most)
		}
		beside()
	}
	return all, waited
}

// TestTrimManyFilters: the cost of a key in one of many filters, few of which fit into memory, does not grow with the number of
// open filters. Few keys wait, few slices are looked at, and memory stays within its bound.
func TestTrimManyFilters(t *testing.T) {
	t.Parallel()
	for _, n := range []int{500, 1500} {
		p := newRoom("store")
		p.opt.FilterCacheBytes = 4 << 20
		p.open(t)
		all, waited := filtersUsed(t, p.store, n, 4<<20+64<<10, func() {}) // and the pages of the mark that comes before the trim
		if waited == 0 || waited > n/3 {
			t.Errorf("%d filters: %d marks waited", n, waited)
		}
		if looks := p.store.own.TrimLooks(); looks < uint64(n/2) || looks > uint64(6*n) {
			t.Errorf("%d filters: %d looks for pages that may go", n, looks)
		}
		for i, f := range all {
			if has, err := f.Check([]byte("key")); err != nil || !has {
				t.Fatalf("filter %d denies its key, %v", i, err)
			}
		}
		for i, f := range all { // all ways in which a slice is closed take it out of the ring
			var err error
			switch i % 3 {
			case 0:
				_, err = f.Close(bg)
			case 1:
				err = p.store.Filters().Drop(bg, f.Name())
			}
			must(t, err, "close or drop")
		}
		must(t, p.store.own.CheckRing(), "ring")
		p.close(t)
	}
}

// TestTrimSparesUsed: pages of a filter that is in use stay, while others come and go.
func TestTrimSparesUsed(t *testing.T) {
	t.Parallel()
	p := newRoom("store")
	p.opt.FilterCacheBytes = 4 << 20
	p.open(t)
	hot, err := p.store.Filters().Create(bg, []byte("hot"), testkit.SmallFilter())
	must(t, err, "create")
	_, err = hot.Mark(bg, []byte("key"))
	must(t, err, "mark")
	missed := 0
	filtersUsed(t, p.store, 500, 4<<20+64<<10, func() {
		present := make([]bool, 1)
		n, err := hot.CheckNow([][]byte{[]byte("key")}, present)
		if must(t, err, "check"); n == 0 {
			missed++
			must(t, hot.CheckAll([][]byte{[]byte("key")}, present), "check")
		}
		if !present[0] {
			t.Fatal("the key is denied")
		}
	})
	if missed > 2 {
		t.Errorf("%d checks of 500 did not find the pages in memory", missed)
	}
	st, err := p.store.Stats()
	if must(t, err, "stats"); st.FilterPagesOut < 500 {
		t.Errorf("%d pages have left memory", st.FilterPagesOut)
	}
	p.close(t)
}
