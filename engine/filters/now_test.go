package filters_test

import (
	"testing"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/filters"
	"bigset/engine/internal/lsm"
	"bigset/internal/testkit"
)

// TestMarkNow: marks that need not wait are done, and those that would wait are left.
func TestMarkNow(t *testing.T) {
	p := newRoom("store")
	p.open(t)
	defer p.close(t)
	keys := testkit.TaggedKeys("k", 0, 500)
	marked := func(f *filters.Filter, what string, least, most int) {
		t.Helper()
		added := make([]bool, len(keys))
		n, err := f.MarkNow(keys, added)
		must(t, err, what)
		if n < least || n > most {
			t.Errorf("%s: %d of %d keys are marked, want %d to %d", what, n, len(keys), least, most)
		}
		must(t, f.MarkAll(bg, keys[n:], added[n:]), what)
		present := make([]bool, len(keys))
		if n, err := f.CheckNow(keys, present); err != nil || n != len(keys) {
			t.Errorf("%s: %d keys are checked, %v", what, n, err)
		}
		for i, key := range keys {
			if !present[i] {
				t.Fatalf("%s: %q is denied", what, key)
			}
		}
	}
	must(t, p.store.db.Promise(lsm.PromiseFiltersMemory), "promise") // which the first answer since the open would wait for
	for _, c := range []struct {
		durability bigset.FilterDurability
		waits      bool
	}{{bigset.FilterServer, false}, {bigset.FilterInterval, false}, {bigset.FilterLog, true}, {bigset.FilterSync, true}} {
		o := bigset.FilterOptions{Options: bloomslice.DefaultOptions()}
		o.Durability = c.durability
		f, err := p.store.Filters().Create(bg, []byte{'a' + byte(c.durability)}, o)
		must(t, err, "create")
		if f.MarksWait() != c.waits {
			t.Errorf("durability %d: MarksWait is %v", c.durability, !c.waits)
		}
		if c.waits {
			marked(f, "durable", 0, 0)
			continue
		}
		marked(f, "new", len(keys), len(keys))
		marked(f, "again", len(keys), len(keys))
		info, err := f.Info()
		if must(t, err, "info"); info.Size != 500 || info.MarkHits != 500 || info.MarkMisses != 500 || info.CheckHits != 1000 {
			t.Errorf("got %+v", info)
		}
		_, err = f.Close(bg)
		must(t, err, "close")
		if n, err := f.CheckNow(keys, make([]bool, len(keys))); err != nil || n != 0 {
			t.Errorf("a closed filter: %d keys are checked, %v", n, err)
		}
		marked(f, "closed", 0, 0)
		marked(f, "in memory", len(keys), len(keys))
	}
}
