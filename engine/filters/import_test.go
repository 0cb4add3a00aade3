package filters_test

import (
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/filters"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
)

// elsewhere is a filter that no store has: its options, layers and pages.
type elsewhere struct {
	opt    bloomslice.Options
	slice  *bloomslice.Slice
	layers []bloomslice.Layer
	pages  []filters.Page
}

func filterKey(i int) []byte { return fmt.Appendf(nil, "key-%d", i) }

// newElsewhere makes a filter with a number of keys. Above 10,001 it has two layers.
func newElsewhere(t *testing.T, keys int) *elsewhere {
	t.Helper()
	e := &elsewhere{opt: bloomslice.Options{Capacity: 10_001, Probability: 0.01, Scale: 4, Reduction: 0.9, Slices: 1, Owners: 1}}
	var err error
	e.slice, err = bloomslice.New(e.opt, nil, nil, nil)
	must(t, err, "new slice")
	must(t, e.slice.AddLayer(""), "add layer")
	for i := range keys {
		h := bloomslice.Sum(filterKey(i))
		_, added, err := e.slice.Admit(&h, "")
		must(t, err, "admit")
		if added {
			e.slice.Commit()
		}
	}
	e.layers = e.slice.Layers()
	for taking := e.slice.Take(); ; {
		dirty := taking.Next(1000)
		if dirty.Empty() {
			return e
		}
		for _, p := range dirty.Pages {
			bits, err := bloomslice.DecodePage(nil, p.Value)
			must(t, err, "decode page")
			left := e.layers[p.ID.Index].Shape.Bytes - uint64(p.Page)*bloomslice.PageBytes
			e.pages = append(e.pages, filters.Page{Layer: p.ID, Page: p.Page, Bits: bits[:min(left, uint64(len(bits)))]})
		}
	}
}

func (e *elsewhere) all() iter.Seq2[filters.Page, error] { return pagesThen(e.pages, nil) }

// pagesThen returns pages, and after them an error if there is one.
func pagesThen(pages []filters.Page, err error) iter.Seq2[filters.Page, error] {
	return func(yield func(filters.Page, error) bool) {
		for _, p := range pages {
			if !yield(p, nil) {
				return
			}
		}
		if err != nil {
			yield(filters.Page{}, err)
		}
	}
}

func (e *elsewhere) importTo(s *store, name string) (*filters.Filter, error) {
	return s.Filters().Import(bg, []byte(name), bigset.FilterOptions{Options: e.opt, Durability: bigset.FilterSync}, e.layers, e.all())
}

// equals checks that a filter of a store answers as this one, down to the false positives.
func (e *elsewhere) equals(t *testing.T, label string, f *filters.Filter, every int) {
	t.Helper()
	info, err := f.Info()
	must(t, err, label)
	if want := bloomslice.FiguresOf(e.layers); info.Figures != want || info.Options.Options != e.opt {
		t.Fatalf("%s: %+v, %+v, want %+v, %+v", label, info.Figures, info.Options.Options, want, e.opt)
	}
	foreign := 0
	for i := 0; i < 40_000; i += every {
		h := bloomslice.Sum(filterKey(i))
		want, err := e.slice.Check(&h)
		must(t, err, label)
		got, err := f.Check(filterKey(i))
		must(t, err, label)
		if got != want {
			t.Fatalf("%s: key %d: %v, want %v", label, i, got, want)
		}
		if want && i >= 20_000 {
			foreign++
		}
	}
	if every == 1 && foreign == 0 {
		t.Errorf("%s: no false positive: the test shows less than it should", label)
	}
}

// TestImportFilter: an imported filter answers as it did elsewhere, at once and after an open; it grows on, and is exported as it
// was imported.
func TestImportFilter(t *testing.T) {
	t.Parallel()
	p := newRoom("store")
	p.open(t)
	e := newElsewhere(t, 20_000)
	f, err := e.importTo(p.store, "f")
	must(t, err, "import")
	if info, _ := f.Info(); info.Open {
		t.Error("it is open")
	}
	e.equals(t, "imported", f, 1)
	if info, _ := f.Info(); info.Options.Durability != bigset.FilterSync {
		t.Errorf("durability %d", info.Options.Durability)
	}
	if _, dropped, err := p.store.Directory(); dropped != 0 || err != nil {
		t.Errorf("%d dropped generations (%v), want none", dropped, err)
	}
	p.close(t)
	p.open(t)
	f, err = p.store.Filters().Get([]byte("f"))
	must(t, err, "find")
	e.equals(t, "after an open", f, 1)

	r, err := f.Read(bg)
	must(t, err, "read")
	for i := 20_000; i < 21_000; i++ {
		_, err := f.Mark(bg, filterKey(i))
		must(t, err, "mark")
	}
	must(t, f.Flush(bg), "flush")
	must(t, p.store.Filters().Drop(bg, []byte("f")), "drop beside a reader")
	_, err = p.store.Filters().Import(bg, []byte("g"), r.Options, r.Layers, r.Pages(bg))
	must(t, err, "import of what was read")
	must(t, r.Close(), "close reader")
	g, err := p.store.Filters().Get([]byte("g"))
	must(t, err, "find")
	e.equals(t, "a copy of what was read", g, 1)
	for i := 20_000; i < 60_000; i += 1000 {
		keys := make([][]byte, 1000)
		for j := range keys {
			keys[j] = filterKey(i + j)
		}
		must(t, g.MarkAll(bg, keys, make([]bool, len(keys))), "mark")
	}
	r, err = g.Read(bg)
	must(t, err, "read what was not flushed")
	h, err := p.store.Filters().Import(bg, []byte("h"), r.Options, r.Layers, r.Pages(bg))
	must(t, err, "import")
	must(t, r.Close(), "close reader")
	for i := range 60_000 {
		if has, err := h.Check(filterKey(i)); !has || err != nil {
			t.Fatalf("key %d is not in the copy (%v)", i, err)
		}
	}
	if info, err := g.Info(); err != nil || info.Capacity <= bloomslice.FiguresOf(e.layers).Capacity {
		t.Errorf("it did not grow: %+v, %v", info.Figures, err)
	}
	p.close(t)
}

// TestImportFilterRefused: a filter that can't be imported whole is not imported at all, and its pages are removed.
func TestImportFilterRefused(t *testing.T) {
	p := newRoom("store")
	p.open(t)
	e := newElsewhere(t, 20_000)
	_, err := e.importTo(p.store, "there")
	must(t, err, "import")
	must(t, p.store.Filters().Clear([]byte("there")), "clear")
	broken := errors.New("broken")
	n := len(e.pages)
	last := e.pages[n-1]
	long, lost := last, last
	long.Bits = append(long.Bits[:len(long.Bits):len(long.Bits)], 1)
	lost.Layer.Index = 2
	for _, c := range []struct {
		what, name string
		layers     []bloomslice.Layer
		pages      iter.Seq2[filters.Page, error]
		want       error
	}{
		{"an error behind all pages", "f", e.layers, pagesThen(e.pages, broken), broken},
		{"a page twice", "f", e.layers, pagesThen(append(e.pages[:n:n], last), nil), bigset.ErrRequest},
		{"pages of another order", "f", e.layers, pagesThen([]filters.Page{e.pages[1], e.pages[0]}, nil), bigset.ErrRequest},
		{"a page beyond the end", "f", e.layers, pagesThen(append(e.pages[:n-1:n-1], long), nil), bigset.ErrRequest},
		{"a page of no layer", "f", e.layers, pagesThen(append(e.pages[:n:n], lost), nil), bigset.ErrRequest},
		{"no layers", "f", nil, e.all(), bigset.ErrRequest},
		{"layers of another order", "f", []bloomslice.Layer{e.layers[1], e.layers[0]}, e.all(), bigset.ErrRequest},
		{"a name that was cleared", "there", e.layers, e.all(), bigset.ErrFilterExists},
	} {
		if _, err := p.store.Filters().Import(bg, []byte(c.name), bigset.FilterOptions{Options: e.opt}, c.layers, c.pages); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if _, err := p.store.Filters().Get([]byte("f")); !errors.Is(err, bigset.ErrNoFilter) {
			t.Errorf("%s: it exists: %v", c.what, err)
		}
		p.store.own.Excised()
		if keys, dropped, err := leftOf(p.store, "f"); keys != 0 || dropped != 0 || err != nil {
			t.Errorf("%s: %d keys and %d dropped generations are left (%v)", c.what, keys, dropped, err)
		}
	}
	f, err := p.store.Filters().Create(bg, []byte("there"), bigset.FilterOptions{})
	must(t, err, "create what was cleared")
	e.equals(t, "come back", f, 7)
	if _, err := e.importTo(p.store, "there"); !errors.Is(err, bigset.ErrFilterExists) {
		t.Errorf("import over a filter that exists: %v", err)
	}
	p.close(t)
}

// TestImportFilterCrash cuts the power before every operation on the disk of an import. After the next open the filter is whole, or
// nothing of it is left; it is whole if the import had returned.
func TestImportFilterCrash(t *testing.T) {
	t.Parallel()
	p := newRoom("store")
	p.open(t)
	e := newElsewhere(t, 20_000)
	var returned atomic.Bool
	stop := testkit.Crashing[bool]{Short: 12, Push: 6, Known: returned.Load}.On(t, p.disk)
	_, err := e.importTo(p.store, "f")
	must(t, err, "import")
	returned.Store(true)
	must(t, p.store.FlushTables(), "flush tables")
	p.close(t)
	points, _ := stop()
	whole, none, orphans := 0, 0, 0
	for _, c := range points {
		p.disk = c.Disk
		p.open(t)
		before, _, err := leftOf(p.store, "f")
		must(t, err, c.Label)
		f, err := p.store.Filters().Get([]byte("f"))
		switch {
		case err == nil:
			whole++
			e.equals(t, c.Label, f, 97)
		case !errors.Is(err, bigset.ErrNoFilter) || c.Known:
			t.Fatalf("%s: returned %v: %v", c.Label, c.Known, err)
		default:
			none++
			if before > 0 {
				orphans++
			}
			p.store.own.Excised()
			if keys, dropped, err := leftOf(p.store, "f"); keys != 0 || dropped != 0 || err != nil {
				t.Errorf("%s: %d keys and %d dropped generations are left (%v)", c.Label, keys, dropped, err)
			}
			f, err := e.importTo(p.store, "f")
			must(t, err, c.Label)
			e.equals(t, c.Label+", imported again", f, 97)
		}
		must(t, p.store.Close(), c.Label)
	}
	tier.Count(t, "crashes", len(points))
	t.Logf("%d crashes: %d left it whole, %d nothing, %d of them with orphans", len(points), whole, none, orphans)
	if whole == 0 || none == 0 {
		t.Error("the history is too short")
	}
}

// TestVerifyWithinImport: the pages of an import that goes on, and of one that a crash has ended, are no damage.
func TestVerifyWithinImport(t *testing.T) {
	t.Parallel()
	p := newRoom("store")
	p.open(t)
	shape := bloomslice.Options{Capacity: 5_000_000, Probability: 0.01, Scale: 4, Reduction: 0.9, Slices: 1, Owners: 1}
	first, err := shape.Shape(0)
	must(t, err, "shape")
	layers := []bloomslice.Layer{{Shape: first}}
	good := func(s *store, when string) {
		t.Helper()
		keys, dropped, err := leftOf(s, "f")
		if must(t, err, "left"); keys == 0 || dropped != 1 {
			t.Errorf("%s: %d keys, %d dropped: this tells nothing", when, keys, dropped)
		}
		rep, err := s.Verify()
		if must(t, err, "verify"); !rep.OK() || rep.Filters != 0 {
			t.Errorf("%s: %+v", when, rep)
		}
	}
	var crashed *testkit.Disk
	pages := func(yield func(filters.Page, error) bool) {
		for i := range uint32(600) {
			if !yield(filters.Page{Page: i, Bits: []byte{1}}, nil) {
				return
			}
		}
		good(p.store, "within")
		crashed = p.disk.CrashClone(100, 0)
	}
	_, err = p.store.Filters().Import(bg, []byte("f"), bigset.FilterOptions{Options: shape}, layers, pages)
	must(t, err, "import")
	rep, err := p.store.Verify()
	if must(t, err, "verify"); !rep.OK() || rep.Filters != 1 || rep.FilterPages != 600 {
		t.Errorf("imported: %+v", rep)
	}
	p.close(t)
	q := p.openedAt(t, "crashed", "store", crashed)
	rep, err = q.store.Verify()
	if must(t, err, "verify"); !rep.OK() {
		t.Errorf("after a crash: %+v", rep)
	}
	q.close(t)
}

// leftOf returns how many keys a store has of a filter, and how many filters are still to be excised.
func leftOf(s *store, name string) (keys, dropped int, err error) {
	byGeneration, err := s.FilterKeys([]byte(name))
	for _, n := range byGeneration {
		keys += n
	}
	if err == nil {
		_, dropped, err = s.Directory()
	}
	return keys, dropped, err
}
