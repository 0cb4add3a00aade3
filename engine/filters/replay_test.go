// Pebble asserts other things under the race detector.

//go:build !race

package filters_test

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lsm"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// TestReplayMeetsDamage: if the log of marks can't be replayed, because a page is damaged, the filter denies nothing, and the log
// stays until the filter is dropped. Another filter is as it was.
func TestReplayMeetsDamage(t *testing.T) {
	m := newMarking("store")
	m.open(t)
	o := testkit.SmallFilter()
	o.Durability, o.Capacity = bigset.FilterSync, 1_000_000 // few keys have bits in a page
	f, err := m.store.Filters().Create(bg, []byte("f"), o)
	must(t, err, "create")
	m.create(t, "other", bigset.FilterSync, false)
	keys := testkit.TaggedKeys("k", 0, 500)
	must(t, f.MarkAll(bg, keys[:200], make([]bool, 200)), "mark")
	must(t, m.store.Filters().Flush(bg), "flush")
	must(t, f.MarkAll(bg, keys[200:], make([]bool, 300)), "mark more")
	m.mark(t, "other", 0, 50)
	info, err := f.Info()
	must(t, err, "info")
	left := m.disk.CrashClone(0, 1)
	must(t, m.store.Close(), "close")
	m.disk = left
	po := lsm.BaselineOptions(1<<20, bigset.LSM{})
	po.FS, po.Logger = m.disk, pebbleSilent{}
	db, err := pebble.Open("store", po)
	must(t, err, "open with Pebble")
	page := keyscheme.NewFilterPrefix([]byte("f"), 0).AppendPage(nil, info.Generation, bloomslice.LayerID{}, 0)
	must(t, db.Set(page, []byte("garbage"), pebble.Sync), "damage")
	must(t, db.Close(), "close Pebble")
	for range 2 {
		m.open(t)
		f, err := m.store.Filters().Get([]byte("f"))
		must(t, err, "filter")
		for _, key := range keys {
			if yes, err := f.Check(key); !errors.Is(err, bigset.ErrCorrupt) {
				t.Fatalf("check of %q: %v, %v", key, yes, err)
			}
		}
		if _, err := f.Mark(bg, []byte("more")); !errors.Is(err, bigset.ErrCorrupt) {
			t.Errorf("mark: %v", err)
		}
		if err := m.store.Filters().Clear([]byte("f")); !errors.Is(err, bigset.ErrCorrupt) {
			t.Errorf("clear, after which it would come back without what the log has: %v", err)
		}
		if r, err := f.Read(bg); !errors.Is(err, bigset.ErrCorrupt) {
			t.Errorf("read: %v, %v", r, err)
		}
		if err := m.store.Checkpoint(bg, "copy"); !errors.Is(err, bigset.ErrCorrupt) {
			t.Errorf("checkpoint: %v", err)
		}
		m.mark(t, "other", 50, 60)
		// A segment was begun after the one that is kept. After a crash both are read.
		crashed := m.openedAt(t, "crashed", "store", m.disk.CrashClone(0, 1))
		must(t, crashed.store.Close(), "close after a crash")
		m.has(t, m.filters, func(bigset.FilterDurability) bool { return true })
		must(t, m.store.Filters().Flush(bg), "flush")
		must(t, m.store.Close(), "close")
		if len(segments(t, m.disk, "store")) == 0 {
			t.Fatal("the log of marks is gone")
		}
	}
	m.open(t)
	must(t, m.store.Filters().Drop(bg, []byte("f")), "drop")
	must(t, m.store.Close(), "close")
	m.open(t)
	if names := segments(t, m.disk, "store"); len(names) > 0 {
		t.Errorf("nobody needs %v", names)
	}
	m.has(t, m.filters, func(bigset.FilterDurability) bool { return true })
	must(t, m.store.Close(), "close")
}

// TestReplayLeavesDropped: marks of a dropped filter are not replayed into a filter that has its name.
func TestReplayLeavesDropped(t *testing.T) {
	m := newMarking("store")
	m.open(t)
	m.create(t, "f", bigset.FilterSync, false)
	m.mark(t, "f", 0, 50)
	m.drop(t, "f")
	m.create(t, "f", bigset.FilterSync, false)
	m.mark(t, "f", 50, 60)
	left := m.disk.CrashClone(0, 1)
	must(t, m.store.Close(), "close")
	m.disk = left
	m.open(t)
	f, err := m.store.Filters().Get([]byte("f"))
	must(t, err, "filter")
	keys, present := markKeys(0, 60), make([]bool, 60)
	must(t, f.CheckAll(keys, present), "check")
	for i, yes := range present {
		if yes != (i >= 50) {
			t.Errorf("%s: %v", keys[i], yes)
		}
	}
	must(t, m.store.Close(), "close")
}
