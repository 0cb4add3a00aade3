// Damage and single crashes need no race detector, and Pebble asserts other things under it.

//go:build !race

package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// tagged is a filter as it was acknowledged: its keys are "tag-0", "tag-1" and so on, and no other filter of its name has them.
type tagged struct {
	tag     string
	flushed int
}

type filterStates map[string]tagged

// filterHistory is a script of filters. It tells of each step before it is done and after.
type filterHistory struct {
	p    *pair
	tags int
	now  filterStates
	step func(before, after filterStates)
}

func (h *filterHistory) do(t *testing.T, name string, becomes tagged, f func() error) {
	t.Helper()
	before, after := maps.Clone(h.now), maps.Clone(h.now)
	if after[name] = becomes; becomes.tag == "" {
		delete(after, name)
	}
	h.step(before, after)
	must(t, f(), name)
	h.now = after
	h.step(after, after)
}

func (h *filterHistory) create(t *testing.T, name string, o bigset.FilterOptions) {
	h.tags++
	h.do(t, name, tagged{tag: fmt.Sprintf("t%d", h.tags)}, func() error {
		_, err := h.p.store.CreateFilter(bg, []byte(name), o)
		return err
	})
}

func (h *filterHistory) mark(t *testing.T, name string, from, to int) {
	f, err := h.p.store.Filter([]byte(name))
	must(t, err, "filter")
	must(t, f.MarkAll(bg, taggedKeys(h.now[name].tag, from, to), make([]bool, to-from)), "mark")
}

func (h *filterHistory) flush(t *testing.T, name string, n int) {
	h.do(t, name, tagged{h.now[name].tag, n}, func() error {
		f, err := h.p.store.Filter([]byte(name))
		if err != nil {
			return err
		}
		return f.Flush(bg)
	})
}

func (h *filterHistory) drop(t *testing.T, name string) {
	h.do(t, name, tagged{}, func() error { return h.p.store.DropFilter(bg, []byte(name)) })
}

func (h *filterHistory) same(t *testing.T, f func() error) { h.do(t, "a", h.now["a"], f) }

func (h *filterHistory) run(t *testing.T) {
	h.create(t, "a", smallFilter())
	for range times(3) {
		h.mark(t, "a", 0, 200)
		h.flush(t, "a", 200)
		h.mark(t, "a", 200, 300)
		h.drop(t, "a")
		h.create(t, "a", smallFilter())
		h.mark(t, "a", 0, 300)
		h.flush(t, "a", 300)
		big := smallFilter()
		big.Capacity, big.Slices = 500_000, 4
		h.create(t, "b", big)
		h.mark(t, "b", 0, 100)
		h.same(t, h.p.store.FlushTables)
		h.mark(t, "b", 100, 1000)
		h.flush(t, "b", 1000)
		h.mark(t, "a", 300, 400)
		h.same(t, func() error {
			f, err := h.p.store.Filter([]byte("a"))
			if err == nil {
				_, err = f.Close(bg)
			}
			return err
		})
		h.drop(t, "b")
		h.same(t, func() error { h.p.store.FiltersCut(); return nil })
		h.same(t, func() error { return h.p.store.CompactTables(bg) })
		h.same(t, func() error { return errors.Join(h.p.store.Close(), h.reopen()) })
	}
	must(t, h.p.store.Close(), "close")
}

func (h *filterHistory) reopen() (err error) {
	h.p.store, err = engine.Open("store", &h.p.opt)
	return err
}

// TestFilterCrashes cuts the power before every operation on the disk of a history of filters: a drop that returned is one, nothing of a
// dropped filter is in a new one of its name, no flushed key is denied, and what was dropped leaves the disk after the next open.
func TestFilterCrashes(t *testing.T) {
	t.Parallel()
	p := newPair("history")
	p.open(t)
	type states struct{ before, after filterStates }
	var now atomic.Pointer[states]
	now.Store(&states{})
	stop := crashing[*states]{short: 7, push: 3, rates: []int{0, 60}, known: now.Load}.on(t, p.disk)
	h := &filterHistory{p: p, now: filterStates{}, step: func(before, after filterStates) { now.Store(&states{before, after}) }}
	h.run(t)
	points, operations := stop()
	for _, c := range points {
		h.survives(t, c.label, c.disk, c.known.before, c.known.after)
	}
	tier.Count(t, "crashes", len(points))
	t.Logf("%d operations, %d crashes", operations, len(points))
	if !testing.Short() && operations < 150 {
		t.Error("the history is too short")
	}
}

func (h *filterHistory) survives(t *testing.T, label string, disk *testkit.Disk, before, after filterStates) {
	t.Helper()
	q := &pair{label: label, disk: disk, opt: h.p.opt}
	q.open(t)
	q.store.FiltersCut()
	listed, entries := 0, 0
	for _, name := range []string{"a", "b"} {
		was, wasThere := before[name]
		is, isThere := after[name]
		f, err := q.store.Filter([]byte(name))
		keys, e := q.store.FilterKeys([]byte(name))
		must(t, e, "keys")
		if err != nil && (wasThere && isThere && was.tag == is.tag || len(keys) > 0) {
			t.Fatalf("%s: filter %q: %v, and %v on disk", label, name, err, keys)
		}
		if err != nil {
			continue
		}
		if listed++; !wasThere && !isThere || len(keys) != 1 {
			t.Fatalf("%s: filter %q is there, with %v", label, name, keys)
		}
		for i := range h.tags + 1 {
			tag := fmt.Sprintf("t%d", i)
			sure := 0
			if wasThere && was.tag == tag {
				sure = was.flushed
			}
			may := wasThere && was.tag == tag || isThere && is.tag == tag
			asked := taggedKeys(tag, 0, max(sure, 60))
			present := make([]bool, len(asked))
			must(t, f.CheckAll(asked, present), label)
			for n, yes := range present {
				if !yes && n < sure || yes && !may {
					t.Fatalf("%s: filter %q: key %q: %v", label, name, asked[n], yes)
				}
			}
		}
		must(t, f.MarkAll(bg, taggedKeys("more", 0, 10), make([]bool, 10)), label)
		info, err := f.Info()
		must(t, err, label)
		entries += int(info.Options.Slices)
	}
	present, dropped, err := q.store.Directory()
	must(t, err, "directory")
	rep, err := q.store.Verify(bg, engine.VerifyOptions{})
	must(t, err, "verify")
	if present != entries || dropped != 0 || !rep.OK() || rep.Filters != listed {
		t.Fatalf("%s: %d filters, directory of %d and %d, %+v", label, listed, present, dropped, rep)
	}
	must(t, q.store.Close(), "close")
}

// TestCreateFilterFails fails every operation on the disk of a create, once: it leaves a filter or nothing.
func TestCreateFilterFails(t *testing.T) {
	for n := int64(0); ; n++ {
		p := newPair(fmt.Sprintf("operation %d", n))
		p.open(t)
		hook, fired := failing(n, true, syscall.EIO, testkit.IsWrite)
		p.disk.SetHook("fail", hook)
		_, err := p.store.CreateFilter(bg, []byte("f"), smallFilter())
		p.disk.SetHook("fail", nil)
		_, found := p.store.Filter([]byte("f"))
		if (err == nil) != (found == nil) {
			t.Errorf("%s: created %v, found %v", p.label, err, found)
		}
		if err != nil && p.store.Failed() == nil {
			_, again := p.store.CreateFilter(bg, []byte("f"), smallFilter())
			must(t, again, p.label+": again")
		}
		q := &pair{label: p.label, disk: p.disk.CrashClone(100, 1), opt: p.opt}
		closeWithin(t, p.store, p.label)
		q.open(t)
		if _, found := q.store.Filter([]byte("f")); err == nil && found != nil {
			t.Errorf("%s: %v after a crash", p.label, found)
		}
		rep, e := q.store.Verify(bg, engine.VerifyOptions{})
		if must(t, e, "verify"); !rep.OK() {
			t.Errorf("%s: %+v", p.label, rep)
		}
		must(t, q.store.Close(), "close")
		if !fired.Load() {
			break
		}
	}
}

// plantFilter makes a store with the filter "f", of two pages or more, and has plant change its records as no engine would.
func plantFilter(t *testing.T, plant func(db *pebble.DB, p keyscheme.FilterPrefix, generation uint64)) *pair {
	t.Helper()
	p := newPair("planted")
	p.open(t)
	f, err := p.store.CreateFilter(bg, []byte("f"), smallFilter())
	must(t, err, "create")
	must(t, f.MarkAll(bg, taggedKeys("k", 0, 500), make([]bool, 500)), "mark")
	info, err := f.Info()
	must(t, err, "info")
	p.close(t)
	po := engine.BaselineOptions(1 << 20)
	po.FS, po.Logger = p.disk, pebbleSilent{}
	db, err := pebble.Open("store", po)
	must(t, err, "open with Pebble")
	plant(db, keyscheme.NewFilterPrefix([]byte("f"), 0), info.Generation)
	must(t, db.Close(), "close Pebble")
	p.open(t)
	return p
}

// TestVerifyFilters: each damage of a filter is found, as what it is; and whoever meets it is told so, and never "no".
func TestVerifyFilters(t *testing.T) {
	var layer bloomslice.LayerID
	for _, c := range []struct {
		what, want string // a part of the one problem; none where it is empty
		damaged    bool   // it is listed as damaged
		corrupt    bool   // checks say so
		plant      func(set func(key, value []byte), remove func(key []byte), p keyscheme.FilterPrefix, g uint64)
	}{
		{what: "nothing", plant: func(func(_, _ []byte), func([]byte), keyscheme.FilterPrefix, uint64) {}},
		{"head", "head: ", true, true, func(set func(_, _ []byte), _ func([]byte), p keyscheme.FilterPrefix, g uint64) {
			set(p.AppendHead(nil, g), []byte("garbage"))
		}},
		{"layer", "layer 0: ", true, true, func(set func(_, _ []byte), _ func([]byte), p keyscheme.FilterPrefix, g uint64) {
			set(p.AppendLayer(nil, g, layer), []byte("garbage"))
		}},
		{"page", "page 0 of layer 0: ", true, true, func(set func(_, _ []byte), _ func([]byte), p keyscheme.FilterPrefix, g uint64) {
			set(p.AppendPage(nil, g, layer, 0), []byte("garbage"))
		}},
		{"page beyond the end", "page 900 of layer 0 lies beyond its end", false, false, func(set func(_, _ []byte), _ func([]byte), p keyscheme.FilterPrefix, g uint64) {
			value, _ := bloomslice.AppendPage(nil, []byte{1})
			set(p.AppendPage(nil, g, layer, 900), value)
		}},
		{"page of no layer", "page 0 of layer 1, which is gone", false, false, func(set func(_, _ []byte), _ func([]byte), p keyscheme.FilterPrefix, g uint64) {
			value, _ := bloomslice.AppendPage(nil, []byte{1})
			set(p.AppendPage(nil, g, bloomslice.LayerID{Index: 1}, 0), value)
		}},
		{"no layer", "layer 0, which is gone", false, true, func(_ func(_, _ []byte), remove func([]byte), p keyscheme.FilterPrefix, g uint64) {
			remove(p.AppendLayer(nil, g, layer))
		}},
		{"no head", "has no head", false, false, func(_ func(_, _ []byte), remove func([]byte), p keyscheme.FilterPrefix, g uint64) {
			remove(p.AppendHead(nil, g))
		}},
		{"too many keys", "layer 0 has 20000 keys", false, false, func(set func(_, _ []byte), _ func([]byte), p keyscheme.FilterPrefix, g uint64) {
			shape, _ := smallFilter().Shape(0)
			set(p.AppendLayer(nil, g, layer), keyscheme.AppendFilterLayer(nil, bloomslice.Layer{Shape: shape, Count: 20_000}))
		}},
		{"an older generation", "generation 5 is not in the directory", false, false, func(set func(_, _ []byte), _ func([]byte), p keyscheme.FilterPrefix, g uint64) {
			shape, _ := smallFilter().Shape(0)
			set(p.AppendHead(nil, 5), keyscheme.AppendFilterHead(nil, keyscheme.FilterOptions{Options: smallFilter().Options, Generation: 5}))
			set(p.AppendLayer(nil, 5, layer), keyscheme.AppendFilterLayer(nil, bloomslice.Layer{Shape: shape}))
		}},
		{"an entry with a bad value", "bad number of slices", true, true, func(set func(_, _ []byte), _ func([]byte), p keyscheme.FilterPrefix, g uint64) {
			set(keyscheme.AppendDirectoryKey(nil, keyscheme.DirectoryEntry{Kind: keyscheme.EntryPresent, Name: []byte("f"), Generation: g}), []byte("x"))
		}},
	} {
		p := plantFilter(t, func(db *pebble.DB, prefix keyscheme.FilterPrefix, g uint64) {
			c.plant(func(key, value []byte) { must(t, db.Set(key, value, pebble.Sync), "set") }, func(key []byte) { must(t, db.Delete(key, pebble.Sync), "delete") }, prefix, g)
		})
		rep, err := p.store.Verify(bg, engine.VerifyOptions{})
		must(t, err, "verify")
		text := fmt.Sprint(rep.Problems)
		if c.want == "" && !rep.OK() || !strings.Contains(text, c.want) {
			t.Errorf("%s: found %s", c.what, text)
		}
		scrub, err := p.store.Verify(bg, engine.VerifyOptions{BytesPerSecond: 1 << 20})
		if must(t, err, "scrub"); fmt.Sprint(scrub.Problems) != text {
			t.Errorf("%s: a scrub found %v", c.what, scrub.Problems)
		}
		infos, err := p.store.Filters(nil)
		if must(t, err, "list"); c.what != "no head" && (len(infos) != 1 || infos[0].Damaged != c.damaged) {
			t.Errorf("%s: listed as %+v", c.what, infos)
		}
		f, err := p.store.Filter([]byte("f"))
		must(t, err, "filter")
		keys, corrupt := taggedKeys("k", 0, 500), 0
		for _, key := range keys {
			if yes, err := f.Check(key); errors.Is(err, bigset.ErrCorrupt) {
				corrupt++
			} else if !yes && err == nil {
				t.Fatalf("%s: %q is denied", c.what, key)
			}
		}
		if (corrupt > 0) != c.corrupt {
			t.Errorf("%s: %d checks met damage", c.what, corrupt)
		}
		if err := p.store.DropFilter(bg, []byte("f")); err != nil && (c.what != "no head" || !errors.Is(err, bigset.ErrNoFilter)) {
			t.Errorf("%s: drop: %v", c.what, err)
		}
		_, err = p.store.CreateFilter(bg, []byte("f"), smallFilter())
		must(t, err, c.what+": create after drop")
		p.close(t)
	}
}

// TestFilterDamagedTable flips bits of a table that has the pages of a filter: no key that is in it is denied.
func TestFilterDamagedTable(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.opt.BlockCacheBytes = 1
	p.open(t)
	big := smallFilter()
	big.Capacity = 500_000
	f, err := p.store.CreateFilter(bg, []byte("f"), big)
	must(t, err, "create")
	must(t, f.MarkAll(bg, taggedKeys("k", 0, 2000), make([]bool, 2000)), "mark")
	p.close(t)
	sst, data := "", []byte(nil)
	for _, name := range tablesOn(t, p.disk) {
		if b := bytesOf(t, p.disk, "store/"+name); len(b) > len(data) {
			sst, data = "store/"+name, b
		}
	}
	for i := len(data) / 4; i < len(data)/2; i += 10_000 {
		data[i] ^= 4
	}
	putBytes(t, p.disk, sst, data)
	p.open(t)
	if f, err = p.store.Filter([]byte("f")); err != nil {
		t.Fatal(err)
	}
	met := 0
	for _, key := range taggedKeys("k", 0, 2000) {
		switch yes, err := f.Check(key); {
		case err != nil && !errors.Is(err, bigset.ErrCorrupt):
			t.Fatal(err)
		case err != nil:
			met++
		case !yes:
			t.Fatalf("%q is denied", key)
		}
	}
	if met == 0 {
		t.Error("nobody met the damage")
	}
	must(t, p.store.Close(), "close")
}

// TestFilterFlushAgain: what one flush could not store is stored by the next.
func TestFilterFlushAgain(t *testing.T) {
	p := newPair("store")
	p.open(t)
	o := smallFilter()
	o.Capacity = 500_000 // its pages go in as a table
	f, err := p.store.CreateFilter(bg, []byte("f"), o)
	must(t, err, "create")
	keys := taggedKeys("k", 0, 2000)
	must(t, f.MarkAll(bg, keys, make([]bool, len(keys))), "mark")
	p.disk.SetHook("fail", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasPrefix(path.Base(op.Path), "span-") {
			return errors.New("no table")
		}
		return nil
	})
	if err := f.Flush(bg); err == nil {
		t.Error("a flush without a table did not fail")
	}
	p.disk.SetHook("fail", nil)
	must(t, f.Flush(bg), "flush again")
	q := &pair{label: "after a crash", disk: p.disk.CrashClone(0, 0), opt: p.opt}
	q.open(t)
	f, err = q.store.Filter([]byte("f"))
	must(t, err, "filter")
	present := make([]bool, len(keys))
	must(t, f.CheckAll(keys, present), "check")
	if slices.Contains(present, false) {
		t.Error("a flushed key is denied")
	}
	must(t, errors.Join(q.store.Close(), p.store.Close()), "close")
}

// TestFilterLayerFirst ends the process before every operation on the disk of a flush that stores a new layer and its pages as a table: none
// of them is there without it.
func TestFilterLayerFirst(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	o := smallFilter()
	o.Probability = 1e-200 // a key has bits in most pages
	f, err := p.store.CreateFilter(bg, []byte("f"), o)
	must(t, err, "create")
	keys := taggedKeys("k", 0, 10_101)
	must(t, f.MarkAll(bg, keys[:10_001], make([]bool, 10_001)), "mark")
	must(t, f.Flush(bg), "flush")
	must(t, f.MarkAll(bg, keys[10_001:], make([]bool, 100)), "mark more")
	stop := p.disk.CrashEverywhere(100)
	must(t, f.Flush(bg), "flush")
	crashes := stop()
	if info, err := f.Info(); err != nil || info.Size != 10_101 || info.Capacity != 5*10_001 {
		t.Errorf("%+v, %v", info, err)
	}
	must(t, p.store.Close(), "close")
	for i, disk := range crashes {
		q := &pair{label: fmt.Sprint("crash ", i), disk: disk, opt: p.opt}
		q.open(t)
		rep, err := q.store.Verify(bg, engine.VerifyOptions{})
		if must(t, err, "verify"); !rep.OK() {
			t.Errorf("crash %d: %+v", i, rep)
		}
		must(t, q.store.Close(), "close")
	}
	t.Logf("%d crashes", len(crashes))
}
