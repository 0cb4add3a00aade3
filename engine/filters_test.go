package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// TestFilterMadeWithinSweep makes filters between the sets that a sweep copies, while it does: the swap must not take them along.
func TestFilterMadeWithinSweep(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	for i := range 40 {
		p.all(t, smallName(i), keyscheme.OpAdd, elementNames(0, 4), bigset.Sync)
		p.all(t, smallName(i), keyscheme.OpRemove, elementNames(0, 2), bigset.Sync)
	}
	p.flush(t)
	made := make(chan error, 1)
	stop := p.whileCopied(func() {
		go func() {
			var err error
			for i := range 30 {
				_, e := p.store.Filters().Create(bg, fmt.Appendf(nil, "filter %d", i), testkit.SmallFilter())
				err = errors.Join(err, e)
			}
			made <- err
		}()
		select { // they wait for the sweep
		case err := <-made:
			made <- err
		case <-time.After(100 * time.Millisecond):
		}
	})
	pass, _, err := p.store.RewriteSets(bg, nil, 1)
	must(t, err, "sweep")
	if !stop() || !pass.Swapped {
		t.Fatalf("the sweep did nothing: %+v", pass)
	}
	must(t, <-made, "create")
	rep, err := p.store.Verify(bg, engine.VerifyOptions{})
	if must(t, err, "verify"); !rep.OK() || rep.Filters != 30 {
		t.Errorf("%+v", rep)
	}
	p.close(t)
}

// TestFiltersBehindElements: records of filters come right behind elements that a flush and a compaction leave out, and never in a shape
// that Pebble does not survive there (its issue 6168).
func TestFiltersBehindElements(t *testing.T) {
	for _, before := range []bool{true, false} { // the set's slot comes before the filter's, or behind it: then the directory is next
		p := newPair("store")
		p.open(t)
		set, name := "s", ""
		for i := 0; name == ""; i++ {
			n := fmt.Sprint("f", i)
			if slot := keyscheme.SlotOf(keyscheme.PartitionFilter, []byte(n), 0); (slot > keyscheme.SetSlot([]byte(set))) == before {
				name = n
			}
		}
		for round := range 3 {
			p.all(t, set, keyscheme.OpAdd, elementNames(0, 30), bigset.Sync)
			for range 2 {
				f, err := p.store.Filters().Create(bg, []byte(name), testkit.SmallFilter())
				must(t, err, "create")
				for i := range 3 {
					must(t, f.MarkAll(bg, testkit.TaggedKeys("k", i, i+20), make([]bool, 20)), "mark")
					must(t, f.Flush(bg), "flush")
					if round == i {
						must(t, p.store.FlushTables(), "flush")
					}
				}
				if round != 1 {
					must(t, p.store.Filters().Drop(bg, []byte(name)), "drop")
				} else {
					break
				}
			}
			p.all(t, set, keyscheme.OpRemove, elementNames(0, 30), bigset.Sync)
			publish(t, p)
			must(t, p.store.FlushTables(), "flush")
			must(t, p.store.CompactTables(bg), "compact")
			if _, err := p.store.Filters().Get([]byte(name)); err == nil {
				must(t, p.store.Filters().Drop(bg, []byte(name)), "drop")
			}
		}
		p.store.FiltersCut()
		must(t, p.store.FlushTables(), "flush")
		must(t, p.store.CompactTables(bg), "compact")
		p.verify(t)
		p.close(t)
	}
}

// TestDirectoryBehindFiltered: where the merger has left out the last element of a set, an entry of the directory that was taken away comes
// next in the same flush, while the entry itself is at the bottom. Pebble panics where it is taken away by DEL (its issue 6168).
func TestDirectoryBehindFiltered(t *testing.T) {
	p := newPair("store")
	p.opt.Strategy = compaction.Filter()
	p.open(t)
	set, name := "s", ""
	for i := 0; name == ""; i++ { // its slot is before the set's: behind that comes the directory
		n := fmt.Sprint("f", i)
		if keyscheme.SlotOf(keyscheme.PartitionFilter, []byte(n), 0) <= keyscheme.SetSlot([]byte(set)) {
			name = n
		}
	}
	_, err := p.store.Filters().Create(bg, []byte(name), testkit.SmallFilter())
	must(t, err, "create")
	must(t, p.store.FlushTables(), "flush")
	must(t, p.store.CompactTables(bg), "compact")
	p.all(t, set, keyscheme.OpAdd, elementNames(0, 30), bigset.Sync)
	p.all(t, set, keyscheme.OpRemove, elementNames(0, 30), bigset.Sync)
	publish(t, p)
	must(t, p.store.Filters().Drop(bg, []byte(name)), "drop")
	p.store.FiltersCut()
	must(t, p.store.FlushTables(), "flush")
	if p.store.Filtered() == 0 {
		t.Error("nothing was filtered")
	}
	must(t, p.store.CompactTables(bg), "compact")
	p.verify(t)
	p.close(t)
}

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

// TestFiltersOfAStore: what a store does as a whole it does with its filters: a close, a checkpoint, a restore after a crash, a range that
// is cut out, figures.
func TestFiltersOfAStore(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	keys := testkit.TaggedKeys("k", 0, 100)
	for name, d := range map[string]bigset.FilterDurability{"interval": bigset.FilterInterval, "log": bigset.FilterLog} {
		o := testkit.SmallFilter()
		o.Durability = d
		f, err := p.store.Filters().Create(bg, []byte(name), o)
		must(t, err, "create")
		must(t, f.MarkAll(bg, keys, make([]bool, len(keys))), "mark")
	}
	has := func(s *engine.Store, name, what string) {
		t.Helper()
		f, err := s.Filters().Get([]byte(name))
		must(t, err, what)
		present := make([]bool, len(keys))
		if must(t, f.CheckAll(keys, present), what); slices.Contains(present, false) {
			t.Errorf("%s: keys of %q were lost", what, name)
		}
	}
	crashed := p.disk.CrashClone(100, 0)
	must(t, p.store.Checkpoint(bg, "copy"), "checkpoint")
	q := p.openedAt(t, "copy", "copy", p.disk)
	has(q.store, "interval", "a checkpoint")
	has(q.store, "log", "a checkpoint")
	must(t, q.store.Close(), "close the copy")
	_, err := engine.Restore(bg, "store", "restored", &engine.RestoreOptions{FS: crashed})
	must(t, err, "restore")
	q = p.openedAt(t, "restored", "restored", crashed)
	has(q.store, "log", "restored")
	must(t, q.store.Close(), "close what was restored")

	p.close(t)
	p.open(t)
	has(p.store, "interval", "opened again")
	st, err := p.store.Stats()
	if must(t, err, "stats"); st.Filters != 2 || st.FiltersOpen != 1 || st.BytesFilters == 0 || st.FilterPagesRead == 0 {
		t.Errorf("figures: %+v", st)
	}
	rep, err := p.store.Verify(bg, engine.VerifyOptions{})
	if must(t, err, "verify"); !rep.OK() || rep.Filters != 2 || rep.FilterSlices != 2 || rep.FilterPages == 0 {
		t.Errorf("verified: %+v", rep)
	}
	slot := keyscheme.SlotOf(keyscheme.PartitionFilter, []byte("log"), 0)
	must(t, p.store.DropRange(bg, slot, slot), "drop range")
	if _, err := p.store.Filters().Get([]byte("log")); !errors.Is(err, bigset.ErrNoFilter) {
		t.Errorf("a filter whose range was cut out: %v", err)
	}
	if keys, err := p.store.FilterKeys([]byte("log")); err != nil || len(keys) > 0 {
		t.Errorf("it has keys: %v, %v", keys, err)
	}
	has(p.store, "interval", "beside the range")
	p.close(t)
}
