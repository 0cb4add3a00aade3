// Damage needs no race detector, and Pebble asserts other things under it.

//go:build !race

package engine_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/engine/pebbletool"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// mixedStore returns a closed store whose sets and filters lie in one large table, and that table.
func mixedStore(t *testing.T, sets, filters int) (o *engine.Options, table string, data []byte) {
	t.Helper()
	disk := testkit.NewDisk()
	o = &engine.Options{FS: disk, Logger: silent, BackgroundInterval: -1}
	s, err := engine.Open("store", o)
	must(t, err, "open")
	for i := range sets {
		_, err := s.Add(bg, fmt.Appendf(nil, "set-%d", i), hashedNames(200), bigset.WriteOptions{})
		must(t, err, "add")
	}
	for i := range filters {
		f, err := s.Filters().Create(bg, fmt.Appendf(nil, "filter-%d", i), testkit.SmallFilter())
		must(t, err, "create")
		must(t, f.MarkAll(bg, testkit.TaggedKeys("k", 0, 300), make([]bool, 300)), "mark")
	}
	must(t, s.Filters().Flush(bg), "flush filters")
	must(t, s.Flush(bg), "flush")
	must(t, s.CompactTables(bg), "compact")
	must(t, s.Close(), "close")
	for _, name := range tablesOn(t, disk) {
		if b := testkit.ReadFile(t, disk, "store/"+name); len(b) > len(data) {
			table, data = name, b
		}
	}
	return o, table, data
}

// hashedNames are names that no block compresses.
func hashedNames(n int) (names [][]byte) {
	for i := range n {
		sum := sha256.Sum256([]byte{byte(i), byte(i >> 8)})
		names = append(names, sum[:])
	}
	return names
}

// TestVerifyNamesDamage: wherever a table is damaged, Verify goes on after it and names the sets and filters that can't be read in full.
func TestVerifyNamesDamage(t *testing.T) {
	t.Parallel()
	o, table, data := mixedStore(t, 12, 6)
	disk, found := o.FS.(*testkit.Disk), 0
	rates := []int64{0, 1 << 40}
	for at := 9000; at < len(data)*17/20; at += len(data) / 4 { // the store's own keys come first, the directory of filters last
		testkit.WriteFile(t, disk, "store/"+table, testkit.Flipped(data, at))
		s, err := engine.Open("store", o)
		must(t, err, "open")
		slices.Reverse(rates) // all at once, or as a scrub
		for _, rate := range rates[:1] {
			rep, err := s.Verify(bg, engine.VerifyOptions{BytesPerSecond: rate})
			must(t, err, "verify")
			if rep.OK() {
				t.Errorf("at %d: nothing is wrong", at)
			}
			named := map[string]bool{}
			for _, p := range rep.Problems {
				named[string(p.Set)+string(p.Filter)] = true
			}
			known, err := s.Damage()
			must(t, err, "damage")
			for i := range 12 {
				name := fmt.Sprint("set-", i)
				_, err := readAll(s, name, bigset.ReadOptions{})
				damaged := errors.Is(err, bigset.ErrCorrupt)
				if damaged != named[name] || damaged != slices.ContainsFunc(known.Sets, func(b []byte) bool { return string(b) == name }) {
					t.Errorf("at %d: read of %s: %v; problems %+v, known %q", at, name, err, rep.Problems, known.Sets)
				}
				one, err := s.Verify(bg, engine.VerifyOptions{Set: []byte(name)})
				if must(t, err, "verify one"); one.OK() == damaged || one.Sets != 1 {
					t.Errorf("at %d: %s alone: %+v", at, name, one)
				}
			}
			for i := range 6 {
				name := fmt.Sprint("filter-", i)
				f, err := s.Filters().Get([]byte(name))
				must(t, err, "filter")
				err = f.CheckAll(testkit.TaggedKeys("k", 0, 300), make([]bool, 300))
				if damaged := errors.Is(err, bigset.ErrCorrupt); damaged && !named[name] {
					t.Errorf("at %d: check in %s: %v; problems %+v", at, name, err, rep.Problems)
				} else if damaged {
					found++
				}
			}
			if rep.Sets < 11 || rep.Filters != 6 || rep.FilterSlices != 6 {
				t.Errorf("at %d: %d sets, %d filters, %d slices", at, rep.Sets, rep.Filters, rep.FilterSlices)
			}
		}
		must(t, s.Close(), "close")
	}
	if found == 0 {
		t.Error("no filter was damaged")
	}
}

// TestDamageIsKnown: damage that a filter or a set has met is counted, listed, and known after a restart, until it is gone.
func TestDamageIsKnown(t *testing.T) {
	t.Parallel()
	o, table, data := mixedStore(t, 2, 1)
	o.Tune(func(po *pebble.Options) { po.DisableAutomaticCompactions = true }) // one ends what is known of the table that it reads
	disk := o.FS.(*testkit.Disk)
	flip := func() {
		for at := 9000; at < len(data)*2/3; at += 2000 { // the store's own keys come first, the directory of filters last
			data = testkit.Flipped(data, at)
		}
	}
	flip()
	testkit.WriteFile(t, disk, "store/"+table, data)
	var log strings.Builder
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	var s *engine.Store
	state := func(when string, filters, sets int) {
		t.Helper()
		st, err := s.Stats()
		must(t, err, "stats")
		known, err := s.Damage()
		must(t, err, "damage")
		if st.FiltersDamaged != uint64(filters) || st.SetsDamaged != uint64(sets) || len(known.Filters) != filters || len(known.Sets) != sets {
			t.Errorf("%s: %d filters and %d sets damaged, %q, want %d and %d", when, st.FiltersDamaged, st.SetsDamaged, known, filters, sets)
		}
		if filters > 0 { // a list reads heads, and may meet damage there
			if infos, err := s.Filters().List(nil); err != nil || len(infos) != 1 || !infos[0].Damaged {
				t.Errorf("%s: listed as %+v, %v", when, infos, err)
			}
		}
	}
	reopen := func() {
		t.Helper()
		if s != nil {
			must(t, s.Close(), "close")
		}
		log.Reset()
		var err error
		s, err = engine.Open("store", o)
		must(t, err, "open")
	}
	reopen()
	state("before anybody met it", 0, 0)
	if strings.Contains(log.String(), "damage") {
		t.Errorf("logged %q", &log)
	}
	f, err := s.Filters().Get([]byte("filter-0"))
	must(t, err, "filter")
	for range 2 {
		if err := f.CheckAll(testkit.TaggedKeys("k", 0, 300), make([]bool, 300)); !errors.Is(err, bigset.ErrCorrupt) {
			t.Fatalf("check: %v", err)
		}
	}
	if n := strings.Count(log.String(), `a filter is damaged" filter=filter-0`); n != 1 {
		t.Errorf("logged %d times: %s", n, &log)
	}
	state("a check has met it", 1, 0)
	if _, err := s.Add(bg, []byte("set-1"), hashedNames(200), bigset.WriteOptions{}); !errors.Is(err, bigset.ErrCorrupt) {
		t.Fatalf("add: %v", err)
	}
	state("a write has met it", 1, 1)
	reopen()
	state("after a restart", 1, 1)
	if !strings.Contains(log.String(), "filter-0") || !strings.Contains(log.String(), "set-1") {
		t.Errorf("logged %q", &log)
	}
	must(t, s.Filters().Drop(bg, []byte("filter-0")), "drop")
	state("dropped", 0, 1)
	_, err = s.Filters().Create(bg, []byte("filter-0"), testkit.SmallFilter())
	must(t, err, "create")
	state("another of its name", 0, 1)
	must(t, s.Close(), "close")
	s = nil
	testkit.WriteFile(t, disk, "store/DAMAGED", []byte("set \"set-1\" gone.sst\nset \"set-0\" "+table+"\nodd\nfilter 7 \"filter-0\" -\nset \"x\n"))
	reopen()
	state("a file that is gone", 0, 1)
	if _, err := s.Add(bg, []byte("set-1"), hashedNames(200), bigset.WriteOptions{}); !errors.Is(err, bigset.ErrCorrupt) {
		t.Fatalf("add: %v", err)
	}
	state("met in another file", 0, 2)
	_, err = s.Verify(bg, engine.VerifyOptions{})
	must(t, err, "verify")
	state("verified", 0, 2)
	must(t, s.Close(), "close")
	s = nil
	flip()
	testkit.WriteFile(t, disk, "store/"+table, data)
	reopen()
	state("brought back", 0, 2)
	rep, err := s.Verify(bg, engine.VerifyOptions{})
	if must(t, err, "verify"); !rep.OK() {
		t.Errorf("%+v", rep)
	}
	state("verified again", 0, 0)
	if _, err := disk.Stat("store/DAMAGED"); err == nil {
		t.Error("the file is still there")
	}
	must(t, s.Close(), "close")
}

// TestVerifyKeepsBadRecords: a set whose clock can be read and does not decode is damaged before Verify has seen it and after.
func TestVerifyKeepsBadRecords(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 10), bigset.Sync)
	p.close(t)
	po := pebbletool.BaselineOptions(1<<20, engine.LSM{})
	po.FS, po.Logger = p.disk, pebbleSilent{}
	db, err := pebble.Open("store", po)
	must(t, err, "open with Pebble")
	must(t, db.Set(keyscheme.NewPrefix([]byte("s")).AppendClock(nil), []byte("garbage"), pebble.Sync), "damage")
	must(t, db.Close(), "close Pebble")
	p.open(t)
	for _, when := range []string{"read", "verified"} {
		if _, err := readAll(p.store, "s", bigset.ReadOptions{}); !errors.Is(err, bigset.ErrCorrupt) {
			t.Fatalf("read: %v", err)
		}
		if when == "verified" {
			_, err := p.store.Verify(bg, engine.VerifyOptions{})
			must(t, err, "verify")
		}
		if known, err := p.store.Damage(); err != nil || len(known.Sets) != 1 || string(known.Sets[0]) != "s" {
			t.Errorf("%s: damaged are %q, %v", when, known.Sets, err)
		}
	}
	p.close(t)
}

// TestDamageNamesFilters: the error of a damaged table says which filters it holds.
func TestDamageNamesFilters(t *testing.T) {
	t.Parallel()
	info := pebble.DataCorruptionInfo{Path: "store/000007.sst", Details: errors.New("odd")}
	info.Bounds.Start = keyscheme.NewPrefix([]byte("s")).AppendClock(nil)
	info.Bounds.End.Key = keyscheme.NewFilterPrefix([]byte("f"), 0).AppendPage(nil, 7, bloomslice.LayerID{}, 3)
	want := `engine: store is damaged: store/000007.sst, which holds the clock of set "s" to filter "f": odd`
	if err := engine.CorruptionOf(info); err.Error() != want || string(err.LastFilter) != "f" || err.Filter != nil {
		t.Errorf("got %v", err)
	}
}

// TestSpaceIsWatched: a store that nobody uses looks at its disk, counts that it was found full, and says how much is free.
func TestSpaceIsWatched(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	var told eventLog
	p.opt.Events = told.of(engine.EventDiskSpace)
	p.open(t)
	state := func(percent, level int, full bool, counted uint64, times int) {
		t.Helper()
		p.disk.SetUsage(vfs.DiskUsage{AvailBytes: uint64(percent) << 20, TotalBytes: 100 << 20})
		p.store.ForgetSpace()
		must(t, p.store.RunnerTick(bg), "tick")
		if told.len() != times {
			t.Errorf("at %d %%: told %d times, want %d", percent, told.len(), times)
		}
		space, err := p.store.DiskSpace()
		if space != (engine.DiskSpace{Free: uint64(percent) << 20, Reserve: 2 << 20, Level: level}) || errors.Is(err, bigset.ErrDiskFull) != full {
			t.Errorf("at %d %%: %+v, %v", percent, space, err)
		}
		st, err := p.store.Stats()
		must(t, err, "stats")
		if st.FullDisk != counted || st.DiskFreeBytes != space.Free || st.DiskReserveBytes != space.Reserve || st.DiskSpaceLevel != uint64(level) {
			t.Errorf("at %d %%: %+v", percent, st)
		}
	}
	state(50, 0, false, 0, 0)
	state(9, 1, false, 0, 1)
	state(4, 2, false, 0, 2)
	state(2, 4, true, 1, 3)
	state(1, 4, true, 1, 3)
	state(50, 0, false, 1, 3)
	state(0, 4, true, 2, 4)
	for i, times := range []int{5, 6} { // a write finds the disk full, in each of two times
		state(50, 0, false, uint64(2+i), times-1)
		p.disk.Fill(0)
		if err := p.store.Checkpoint(bg, "copy"); !errors.Is(err, bigset.ErrDiskFull) {
			t.Errorf("checkpoint: %v", err)
		}
		p.disk.Heal()
		if told.len() != times {
			t.Errorf("told %d times, want %d", told.len(), times)
		}
	}
	p.close(t)
}
