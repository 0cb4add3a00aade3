package filters_test

import (
	"errors"
	"fmt"
	"testing"

	"bigset"
	"bigset/engine/filters"
	"bigset/internal/testkit"
)

// refusedBy wants an error that names a limit.
func refusedBy(t *testing.T, err error, limit filters.Limit, what string) {
	t.Helper()
	var e *filters.LimitError
	if !errors.As(err, &e) || !errors.Is(err, filters.ErrLimit) || e.Limit != limit || e.Want <= e.Max {
		t.Fatalf("%s: got %v, want a refusal for the %s", what, err, limit)
	}
}

func layerBytes(t *testing.T, o bigset.FilterOptions) uint64 {
	t.Helper()
	shape, err := o.Shape(0)
	must(t, err, "shape")
	return shape.Bytes
}

// fillTo marks keys until the filter's first layer is full.
func fillTo(t *testing.T, f *filters.Filter, capacity uint64) {
	t.Helper()
	for i := 0; ; i += 1000 {
		info, err := f.Info()
		must(t, err, "info")
		left := capacity - info.Size
		if left == 0 {
			return
		}
		n := min(1000, int(left))
		must(t, f.MarkAll(bg, testkit.TaggedKeys("k", i, i+n), make([]bool, n)), "fill")
	}
}

// TestFilterLimits: each limit refuses what exceeds it, names itself, and allows what just fits.
func TestFilterLimits(t *testing.T) {
	t.Parallel()
	o := testkit.SmallFilter()
	one := layerBytes(t, o)
	for _, c := range []struct {
		limit  filters.Limit
		limits filters.Limits
		fits   int // filters that fit
	}{
		{filters.LimitCapacity, filters.Limits{Capacity: o.Capacity - 1}, 0},
		{filters.LimitBytes, filters.Limits{Bytes: one - 1}, 0},
		{filters.LimitFilters, filters.Limits{Filters: 2, Capacity: o.Capacity, Bytes: one}, 2},
		{filters.LimitTotalBytes, filters.Limits{TotalBytes: 2*one + one/2}, 2},
	} {
		p := newRoom("store")
		p.opt.FilterLimits = c.limits
		p.open(t)
		name := func(i int) []byte { return fmt.Append(nil, i) }
		for i := range c.fits {
			_, err := p.store.Filters().Create(bg, name(i), o)
			must(t, err, string(c.limit))
		}
		refused := func(what string) {
			t.Helper()
			_, err := p.store.Filters().Create(bg, name(9), o)
			refusedBy(t, err, c.limit, what)
			if _, err := p.store.Filters().Get(name(9)); !errors.Is(err, bigset.ErrNoFilter) {
				t.Fatalf("%s: the filter that was refused: %v", what, err)
			}
		}
		refused("create")
		if c.fits > 0 {
			f, err := p.store.Filters().Get(name(0))
			must(t, err, "filter")
			_, err = f.Close(bg)
			must(t, err, "close")
			must(t, p.store.Filters().Clear(name(0)), "clear")
			refused("after a clear")
			if _, err = p.store.Filters().Create(bg, name(0), o); err != nil {
				t.Fatalf("a filter that was cleared does not come back: %v", err)
			}
			refused("after it came back")
			must(t, p.store.Filters().Drop(bg, name(1)), "drop")
			_, err = p.store.Filters().Create(bg, name(1), o)
			must(t, err, "after a drop")
			refused("after a drop and a create")
			p.close(t)
			p.open(t)
			refused("after a new open")
			p.close(t)
			p.opt.FilterLimits = filters.Limits{Filters: 1, TotalBytes: 1, Bytes: 1, Capacity: 1}
			p.open(t) // with more than there may be
			f, err = p.store.Filters().Get(name(0))
			must(t, err, "filter")
			added, err := f.Mark(bg, []byte("new"))
			if must(t, err, "mark"); !added {
				t.Error("a filter beyond a limit takes no key that it has room for")
			}
		}
		p.close(t)
	}
}

// TestFilterGrowthLimits: a filter that may not grow refuses new keys, and denies none that it has, also after it was opened again.
func TestFilterGrowthLimits(t *testing.T) {
	t.Parallel()
	o := testkit.SmallFilter()
	one := layerBytes(t, o)
	for limit, limits := range map[filters.Limit]filters.Limits{
		filters.LimitBytes:      {Bytes: 2 * one},
		filters.LimitTotalBytes: {TotalBytes: 2 * one},
	} {
		p := newRoom("store")
		p.opt.FilterLimits = limits
		p.open(t)
		f, err := p.store.Filters().Create(bg, []byte("f"), o)
		must(t, err, "create")
		fillTo(t, f, o.Capacity)
		for _, when := range []string{"made", "closed", "opened"} {
			_, err = f.Mark(bg, []byte("one more"))
			refusedBy(t, err, limit, when)
			if n, err := f.MarkNow([][]byte{[]byte("another")}, make([]bool, 1)); n != 0 || err != nil {
				t.Errorf("%s: MarkNow marks %d, %v", when, n, err)
			}
			keys := testkit.TaggedKeys("k", 0, 1000)
			got := make([]bool, len(keys))
			must(t, f.MarkAll(bg, keys, got), "mark keys that it has")
			for i := range keys {
				if got[i] {
					t.Fatalf("%s: %q is new", when, keys[i])
				}
			}
			if has, err := f.Check([]byte("one more")); has || err != nil {
				t.Errorf("%s: the key that was refused: %v, %v", when, has, err)
			}
			if when == "made" {
				_, err = f.Close(bg)
				must(t, err, "close")
			} else if when == "closed" {
				p.close(t)
				p.open(t)
				f, err = p.store.Filters().Get([]byte("f"))
				must(t, err, "filter")
			}
		}
		p.close(t)
		p.opt.FilterLimits = filters.Limits{}
		p.open(t)
		f, err = p.store.Filters().Get([]byte("f"))
		must(t, err, "filter")
		if added, err := f.Mark(bg, []byte("one more")); !added || err != nil {
			t.Errorf("without a limit: %v, %v", added, err)
		}
		p.close(t)
	}
}

// TestFilterMemoryLimit: filters in memory only take no more bytes than the limit allows, however they are marked. They deny no key
// that they accepted, and give room back when they are dropped.
func TestFilterMemoryLimit(t *testing.T) {
	t.Parallel()
	const most = 60 << 10
	p := newRoom("store")
	p.opt.FilterLimits.MemoryBytes = most
	p.open(t)
	o := testkit.SmallFilter()
	o.InMemory = true
	within := func() {
		t.Helper()
		st, err := p.store.Stats()
		if must(t, err, "stats"); st.BytesFilters > most {
			t.Fatalf("%d bytes in memory, at most %d", st.BytesFilters, most)
		}
	}
	refused := 0
	var made []*filters.Filter
	for i := range 4 {
		f, err := p.store.Filters().Create(bg, fmt.Append(nil, i), o)
		must(t, err, "create")
		made = append(made, f)
		for _, key := range testkit.TaggedKeys("k", 0, 20) {
			added := make([]bool, 1)
			n, err := f.MarkNow([][]byte{key}, added)
			must(t, err, "mark now")
			within()
			if n == 0 {
				if added[0], err = f.Mark(bg, key); err != nil {
					refusedBy(t, err, filters.LimitMemoryBytes, "mark")
					refused++
					continue
				}
			}
			within()
			if has, err := f.Check(key); !has || err != nil || !added[0] {
				t.Fatalf("filter %d, key %q: added %v, has %v, %v", i, key, added[0], has, err)
			}
		}
	}
	if refused == 0 || refused == 80 {
		t.Errorf("%d keys of 80 were refused", refused)
	}
	if _, err := made[0].Mark(bg, []byte("k-0")); err != nil {
		t.Errorf("a key that was marked: %v", err)
	}
	big := o
	big.Capacity = 30_000_000
	_, err := p.store.Filters().Create(bg, []byte("big"), big)
	refusedBy(t, err, filters.LimitMemoryBytes, "create, whose table is too large")
	for i := range 3 {
		must(t, p.store.Filters().Drop(bg, fmt.Append(nil, i)), "drop")
	}
	if added, err := made[3].Mark(bg, []byte("more")); !added || err != nil {
		t.Errorf("after drops: %v, %v", added, err)
	}
	disk, err := p.store.Filters().Create(bg, []byte("disk"), testkit.SmallFilter())
	must(t, err, "create")
	must(t, disk.MarkAll(bg, testkit.TaggedKeys("k", 0, 1000), make([]bool, 1000)), "a filter on disk")
	p.close(t)
	p.opt.FilterLimits.MemoryBytes = 10
	p.open(t)
	f, err := p.store.Filters().Get([]byte("3"))
	must(t, err, "filter")
	_, err = f.Check([]byte("more"))
	refusedBy(t, err, filters.LimitMemoryBytes, "the first use after an open")
	p.close(t)
}
