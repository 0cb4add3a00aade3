package engine_test

import (
	"fmt"
	"testing"
	"time"

	"bigset"
	"bigset/compaction"
	"bigset/engine"
	"bigset/keyscheme"
)

// TestStatsOfSets: live dots and bytes of tombstones are those of the sets in memory, after every write, a drop, a set that is
// forgotten, and an open.
func TestStatsOfSets(t *testing.T) {
	p := newPair("store")
	p.open(t)
	want := func(live uint64) engine.Stats {
		t.Helper()
		st, err := p.store.Stats()
		must(t, err, "stats")
		if st.DotsLive != live {
			t.Errorf("%d live dots, want %d", st.DotsLive, live)
		}
		return st
	}
	want(0)
	for i := range 3 {
		p.all(t, fmt.Sprint("s", i), keyscheme.OpAdd, elementNames(0, 100), bigset.Sync)
		want(uint64(100 * (i + 1)))
	}
	small := want(300).BytesTombstones
	for i := range 30 { // each other one: a tombstone of many runs
		p.all(t, "s1", keyscheme.OpRemove, elementNames(2*i, 2*i+1), bigset.Sync)
	}
	for want(270).BytesTombstones <= small { // it is brought up to date a moment after a write
		time.Sleep(time.Millisecond)
	}
	_, err := p.store.Drop(bg, []byte("s1"), bigset.DropOptions{Durability: bigset.Sync})
	must(t, err, "drop")
	want(200)
	p.close(t)
	p.open(t)
	if st := want(0); st.SetsInMemory != 0 {
		t.Errorf("%d sets in memory after an open", st.SetsInMemory)
	}
	p.all(t, "s2", keyscheme.OpAdd, elementNames(100, 101), bigset.Sync)
	if st := want(101); st.SetsForgotten != 0 {
		t.Errorf("%d sets were forgotten", st.SetsForgotten)
	}
	p.close(t)

	p.opt.SetCacheBytes = 1
	p.opt.Strategy = compaction.Filter()
	p.open(t)
	for i := range 50 {
		p.all(t, fmt.Sprint("t", i), keyscheme.OpAdd, elementNames(0, 1), bigset.Sync)
	}
	must(t, p.store.TrimSets(), "trim")
	if st := want(0); st.SetsForgotten != 50 || st.SetsInMemory != 0 || st.BytesTombstones != 0 {
		t.Errorf("%d sets were forgotten, %d are in memory, with %d bytes of tombstones", st.SetsForgotten, st.SetsInMemory, st.BytesTombstones)
	}
	p.close(t)
}
