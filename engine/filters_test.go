package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"bigset"
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

// TestFiltersBehindElements: records of filters come right after elements that a flush and a compaction leave out, and never in a shape
// that Pebble does not survive there (its issue 6168).
func TestFiltersBehindElements(t *testing.T) {
	for _, before := range []bool{true, false} { // the set's slot comes before the filter's, or after it: then the directory is next
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
		p.store.FiltersExcised()
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
	for i := 0; name == ""; i++ { // its slot is before the set's: after that comes the directory
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
	p.store.FiltersExcised()
	must(t, p.store.FlushTables(), "flush")
	if p.store.Filtered() == 0 {
		t.Error("nothing was filtered")
	}
	must(t, p.store.CompactTables(bg), "compact")
	p.verify(t)
	p.close(t)
}

// TestFiltersOfAStore: what a store does as a whole it does with its filters: a close, a checkpoint, a restore after a crash, a range that
// is excised, figures.
func TestFiltersOfAStore(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	keys := testkit.TaggedKeys("k", 0, 2000)
	for name, d := range map[string]bigset.FilterDurability{"interval": bigset.FilterInterval, "log": bigset.FilterLog} {
		o := testkit.SmallFilter()
		o.Durability = d
		if o.Capacity = 10_001; name == "interval" {
			o.Capacity = 500_000 // with that many, pages are ingested
		}
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
	if st, err := p.store.Stats(); err != nil || st.BytesIngested == 0 {
		t.Errorf("no bytes were ingested: %+v, %v", st, err)
	}
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
	must(t, p.store.Replica().DropRange(bg, slot, slot), "drop range")
	if _, err := p.store.Filters().Get([]byte("log")); !errors.Is(err, bigset.ErrNoFilter) {
		t.Errorf("a filter whose range was excised: %v", err)
	}
	if keys, err := p.store.FilterKeys([]byte("log")); err != nil || len(keys) > 0 {
		t.Errorf("it has keys: %v, %v", keys, err)
	}
	has(p.store, "interval", "beside the range")
	p.close(t)
}
