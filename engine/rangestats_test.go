package engine_test

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/keyscheme"
)

// TestRangeStats compares the figures of ranges with what the sets have. Disjoint ranges add up to the whole, a range of nothing is empty, and what
// a range that is dropped had is no longer counted.
func TestRangeStats(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.opt.Tune(func(po *pebble.Options) { // one table, of small blocks, for all sets
		for i := range po.Levels {
			po.Levels[i].BlockSize = 1 << 10
		}
	})
	p.open(t)
	names := slotsOf(40) // many in a table
	stats := func(first, last keyscheme.Slot) (n struct{ bytes, keys, sets uint64 }) {
		t.Helper()
		r, err := p.store.Replica().RangeStats(bg, first, last)
		must(t, err, "range stats")
		n.bytes, n.keys, n.sets = r.Bytes, r.Keys, r.Sets
		return n
	}
	if r := stats(0, keyscheme.SlotMax); r.keys != 0 || r.sets != 0 {
		t.Errorf("an empty store has %+v", r)
	}
	const each = 100
	all := each * len(names)
	for _, name := range names {
		p.all(t, name, keyscheme.OpAdd, elementNames(0, each), bigset.NoSync)
	}
	must(t, p.store.FlushTables(), "flush")
	must(t, p.store.CompactTables(bg), "compact")
	whole := stats(0, keyscheme.SlotMax)
	if whole.keys > uint64(all) || 100*whole.keys < 90*uint64(all) || whole.sets != uint64(len(names)) {
		t.Errorf("the whole has %+v, want %d keys of %d sets", whole, all, len(names))
	}
	st, err := p.store.Stats()
	must(t, err, "stats")
	var tables uint64
	for _, l := range st.Levels {
		tables += l.Bytes
	}
	if 10*whole.bytes < 9*tables || whole.bytes > tables {
		t.Errorf("the whole takes %d bytes, tables have %d", whole.bytes, tables)
	}
	for _, name := range names {
		slot := keyscheme.SetSlot([]byte(name))
		if r := stats(slot, slot); r.keys < each/2 || r.keys > 4*each || r.sets != 1 { // a block more at each end
			t.Errorf("%q of %d keys has %+v", name, each, r)
		}
	}
	middle := keyscheme.SetSlot([]byte(names[20]))
	low, high := stats(0, middle-1), stats(middle, keyscheme.SlotMax)
	for what, n := range map[string][3]uint64{"bytes": {low.bytes, high.bytes, whole.bytes}, "keys": {low.keys, high.keys, whole.keys}} {
		if 10*(n[0]+n[1]) < 9*n[2] || 10*(n[0]+n[1]) > 11*n[2] || 3*n[0] < n[2] || 3*n[1] < n[2] {
			t.Errorf("%s: the halves have %d and %d of %d", what, n[0], n[1], n[2])
		}
	}
	if low.sets+high.sets != whole.sets {
		t.Errorf("the halves have %d and %d sets of %d", low.sets, high.sets, whole.sets)
	}
	first, last := keyscheme.SetSlot([]byte(names[2])), keyscheme.SetSlot([]byte(names[14]))
	if r := stats(first+1, keyscheme.SetSlot([]byte(names[3]))-1); r.sets != 0 || r.keys > uint64(all)/20 {
		t.Errorf("slots of nothing have %+v", r)
	}
	p.dropRange(t, first, last)
	if r := stats(first, last); r.keys != 0 || r.sets != 0 || r.bytes != 0 {
		t.Errorf("a dropped range has %+v", r)
	}
	f, err := p.store.Filters().Create(bg, []byte("f"), bigset.FilterOptions{Options: bloomslice.Options{Capacity: 1_000_000}})
	must(t, err, "create")
	marks := make([][]byte, 2000)
	for i := range marks {
		marks[i] = []byte(bulkName(i))
	}
	err = f.MarkAll(bg, marks, make([]bool, len(marks)))
	must(t, err, "mark")
	must(t, p.store.Sync(bg), "sync")
	must(t, p.store.FlushTables(), "flush")
	at := keyscheme.SlotOf(keyscheme.PartitionFilter, []byte("f"), 0)
	if r := stats(at, at); r.bytes < 1000 || r.sets != 0 { // keys of the table that it shares may be counted for it
		t.Errorf("a filter of 2,000 keys has %+v", r)
	}
	if _, err := p.store.Replica().RangeStats(bg, 2, 1); !errors.Is(err, bigset.ErrRequest) {
		t.Errorf("no range: %v", err)
	}
	p.close(t)
	if _, err := p.store.Replica().RangeStats(bg, 1, 2); !errors.Is(err, bigset.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
