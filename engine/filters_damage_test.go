// Damage and single crashes need no race detector, and Pebble asserts other things under it.

//go:build !race

package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/engine/pebbletool"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// plantFilter makes a store with the filter "f", of two pages or more, and has plant change its records as no engine would.
func plantFilter(t *testing.T, plant func(db *pebble.DB, p keyscheme.FilterPrefix, generation uint64)) *pair {
	t.Helper()
	p := newPair("planted")
	p.open(t)
	f, err := p.store.Filters().Create(bg, []byte("f"), testkit.SmallFilter())
	must(t, err, "create")
	must(t, f.MarkAll(bg, testkit.TaggedKeys("k", 0, 500), make([]bool, 500)), "mark")
	info, err := f.Info()
	must(t, err, "info")
	p.close(t)
	po := pebbletool.BaselineOptions(1<<20, engine.LSM{})
	po.FS, po.Logger = p.disk, pebbleSilent{}
	db, err := pebble.Open("store", po)
	must(t, err, "open with Pebble")
	plant(db, keyscheme.NewFilterPrefix([]byte("f"), 0), info.Generation)
	must(t, db.Close(), "close Pebble")
	p.open(t)
	return p
}

// TestVerifyFilters: each damage of a filter is found, as what it is; and a check that meets it returns an error, never "no".
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
		{"page of no layer", "page 0 of layer 1, which does not exist", false, false, func(set func(_, _ []byte), _ func([]byte), p keyscheme.FilterPrefix, g uint64) {
			value, _ := bloomslice.AppendPage(nil, []byte{1})
			set(p.AppendPage(nil, g, bloomslice.LayerID{Index: 1}, 0), value)
		}},
		{"no layer", "layer 0, which does not exist", false, true, func(_ func(_, _ []byte), remove func([]byte), p keyscheme.FilterPrefix, g uint64) {
			remove(p.AppendLayer(nil, g, layer))
		}},
		{"no head", "has no head", false, false, func(_ func(_, _ []byte), remove func([]byte), p keyscheme.FilterPrefix, g uint64) {
			remove(p.AppendHead(nil, g))
		}},
		{"too many keys", "layer 0 has 20000 keys", false, false, func(set func(_, _ []byte), _ func([]byte), p keyscheme.FilterPrefix, g uint64) {
			shape, _ := testkit.SmallFilter().Shape(0)
			set(p.AppendLayer(nil, g, layer), keyscheme.AppendFilterLayer(nil, bloomslice.Layer{Shape: shape, Count: 20_000}))
		}},
		{"an older generation", "generation 5 is not in the directory", false, false, func(set func(_, _ []byte), _ func([]byte), p keyscheme.FilterPrefix, g uint64) {
			shape, _ := testkit.SmallFilter().Shape(0)
			set(p.AppendHead(nil, 5), keyscheme.AppendFilterHead(nil, keyscheme.FilterOptions{Options: testkit.SmallFilter().Options, Generation: 5}))
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
		infos, err := p.store.Filters().List(nil)
		if must(t, err, "list"); c.what != "no head" && (len(infos) != 1 || infos[0].Damaged != c.damaged) {
			t.Errorf("%s: listed as %+v", c.what, infos)
		}
		f, err := p.store.Filters().Get([]byte("f"))
		must(t, err, "filter")
		keys, corrupt := testkit.TaggedKeys("k", 0, 500), 0
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
		if err := p.store.Filters().Drop(bg, []byte("f")); err != nil && (c.what != "no head" || !errors.Is(err, bigset.ErrNoFilter)) {
			t.Errorf("%s: drop: %v", c.what, err)
		}
		_, err = p.store.Filters().Create(bg, []byte("f"), testkit.SmallFilter())
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
	big := testkit.SmallFilter()
	big.Capacity = 500_000
	f, err := p.store.Filters().Create(bg, []byte("f"), big)
	must(t, err, "create")
	must(t, f.MarkAll(bg, testkit.TaggedKeys("k", 0, 2000), make([]bool, 2000)), "mark")
	p.close(t)
	sst, data := "", []byte(nil)
	for _, name := range tablesOn(t, p.disk) {
		if b := testkit.ReadFile(t, p.disk, "store/"+name); len(b) > len(data) {
			sst, data = "store/"+name, b
		}
	}
	for i := len(data) / 4; i < len(data)/2; i += 10_000 {
		data[i] ^= 4
	}
	testkit.WriteFile(t, p.disk, sst, data)
	p.open(t)
	if f, err = p.store.Filters().Get([]byte("f")); err != nil {
		t.Fatal(err)
	}
	met := 0
	for _, key := range testkit.TaggedKeys("k", 0, 2000) {
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

// TestCheckpointOfDamagedLog: a store whose log of marks could not be brought in, because a page is damaged, makes no copy: the copy would be without
// what only the log has.
func TestCheckpointOfDamagedLog(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	o := testkit.SmallFilter()
	o.Durability, o.Capacity = bigset.FilterSync, 1_000_000 // few keys have bits in a page
	f, err := p.store.Filters().Create(bg, []byte("f"), o)
	must(t, err, "create")
	keys := testkit.TaggedKeys("k", 0, 500)
	must(t, f.MarkAll(bg, keys[:200], make([]bool, 200)), "mark")
	must(t, f.Flush(bg), "flush")
	must(t, f.MarkAll(bg, keys[200:], make([]bool, 300)), "mark more")
	info, err := f.Info()
	must(t, err, "info")
	left := p.disk.CrashClone(0, 1)
	must(t, p.store.Close(), "close")
	po := pebbletool.BaselineOptions(1<<20, engine.LSM{})
	po.FS, po.Logger = left, pebbleSilent{}
	db, err := pebble.Open("store", po)
	must(t, err, "open with Pebble")
	page := keyscheme.NewFilterPrefix([]byte("f"), 0).AppendPage(nil, info.Generation, bloomslice.LayerID{}, 0)
	must(t, db.Set(page, []byte("garbage"), pebble.Sync), "damage")
	must(t, db.Close(), "close Pebble")
	q := p.openedAt(t, "damaged", "store", left)
	if err := q.store.Checkpoint(bg, "copy"); !errors.Is(err, bigset.ErrCorrupt) {
		t.Errorf("checkpoint: %v", err)
	}
	must(t, q.store.Filters().Drop(bg, []byte("f")), "drop")
	must(t, q.store.Close(), "close")
	q = p.openedAt(t, "dropped", "store", left)
	must(t, q.store.Checkpoint(bg, "copy"), "checkpoint without the filter")
	must(t, q.store.Close(), "close")
}

// TestDropRangeOfFiltersCrashes cuts the power before every operation of a DropRange that has a filter in it: the filter is whole or gone,
// the store proves itself right, and the name can be given again.
func TestDropRangeOfFiltersCrashes(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	keys := testkit.TaggedKeys("k", 0, 50)
	f, err := p.store.Filters().Create(bg, []byte("f"), testkit.SmallFilter())
	must(t, err, "create")
	must(t, f.MarkAll(bg, keys, make([]bool, len(keys))), "mark")
	must(t, f.Flush(bg), "flush")
	slot := keyscheme.SlotOf(keyscheme.PartitionFilter, []byte("f"), 0)
	var returned atomic.Bool
	stop := testkit.Crashing[bool]{Known: returned.Load}.On(t, p.disk)
	must(t, p.store.Replica().DropRange(bg, slot, slot), "drop range")
	returned.Store(true)
	p.close(t)
	points, operations := stop()
	kept := 0
	for _, c := range points {
		q := p.openedAt(t, c.Label, "store", c.Disk)
		f, err := q.store.Filters().Get([]byte("f"))
		if err == nil {
			present := make([]bool, len(keys))
			if err = f.CheckAll(keys, present); err == nil {
				if kept++; c.Known || slices.Contains(present, false) {
					t.Errorf("%s: returned %v, present %v", c.Label, c.Known, present)
				}
			}
		}
		if err != nil && !errors.Is(err, bigset.ErrNoFilter) {
			t.Errorf("%s: %v", c.Label, err)
		}
		rep, e := q.store.Verify(bg, engine.VerifyOptions{})
		if must(t, e, c.Label); !rep.OK() {
			t.Errorf("%s: %+v", c.Label, rep)
		}
		if _, e := q.store.Filters().Create(bg, []byte("f"), testkit.SmallFilter()); e != nil && !errors.Is(e, bigset.ErrFilterExists) {
			t.Errorf("%s: create: %v", c.Label, e)
		}
		must(t, q.store.Close(), c.Label)
	}
	if t.Logf("%d operations, %d crashes, %d left the filter", operations, len(points), kept); kept == 0 || kept == len(points) {
		t.Error("this tells nothing")
	}
}
