package engine_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
)

// TestPagesWithoutRoom: while a flush finds no room, pages of filters that would be stored as a table are refused at once: Pebble would
// have that table, and all writers after it, wait for the flush.
func TestPagesWithoutRoom(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	f, err := p.store.Filters().Create(bg, []byte("f"), bigset.FilterOptions{Options: bloomslice.Options{Capacity: 2_000_000}})
	must(t, err, "create")
	_, err = f.Mark(bg, []byte("k"))
	must(t, err, "mark")
	must(t, p.store.Filters().Flush(bg), "flush filters") // to the log and to memory
	must(t, f.MarkAll(bg, testkit.TaggedKeys("k", 0, 2000), make([]bool, 2000)), "mark")
	p.disk.SetHook("full", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			return &os.PathError{Op: "inject", Path: op.Path, Err: syscall.ENOSPC}
		}
		return nil
	})
	if err := p.store.Flush(bg); !errors.Is(err, bigset.ErrDiskFull) {
		t.Errorf("flush: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- p.store.Filters().Flush(bg) }()
	select {
	case err = <-done:
	case <-time.After(time.Minute):
		t.Error("pages wait for a flush")
		p.disk.SetHook("full", nil)
		err = <-done
	}
	if !errors.Is(err, bigset.ErrDiskFull) {
		t.Errorf("flush of filters: %v", err)
	}
	p.disk.SetHook("full", nil)
	must(t, p.store.Flush(bg), "flush when there is room")
	must(t, p.store.Filters().Flush(bg), "flush filters when there is room")
	must(t, p.store.Close(), "close")
}

// TestMarksOnFullDisk opens stores with a log of marks while the disk becomes full at each operation: all keys are found, and marks are
// refused until the log of marks is in pages. Nothing is lost by crashes, on the full disk and after.
func TestMarksOnFullDisk(t *testing.T) {
	t.Parallel()
	base := newPair("base")
	base.open(t)
	f, err := base.store.Filters().Create(bg, []byte("f"), bigset.FilterOptions{Durability: bigset.FilterSync})
	must(t, err, "create")
	keys := func(from, to int) (all [][]byte) {
		for i := from; i < to; i++ {
			all = append(all, []byte(bulkName(i)))
		}
		return all
	}
	must(t, f.MarkAll(bg, keys(0, 200), make([]bool, 200)), "mark")
	left := base.disk.CrashClone(0, 0)
	must(t, base.store.Close(), "close")
	has := func(label string, disk *testkit.Disk, s *engine.Store, n int) {
		t.Helper()
		if s == nil {
			o := base.opt
			o.FS = disk
			s, err = engine.Open("store", &o)
			must(t, err, label)
			defer s.Close()
		}
		f, err := s.Filters().Get([]byte("f"))
		must(t, err, label)
		there := make([]bool, n)
		must(t, f.CheckAll(keys(0, n), there), label)
		if slices.Contains(there, false) {
			t.Errorf("%s: a key is missing", label)
		}
	}
	over, refused, share := 0, 0, tier.ShareOf(t, 5, 3)
	for n := int64(share.First); ; n += int64(share.Every) {
		p := &pair{label: fmt.Sprintf("full from operation %d on", n), disk: left.CrashClone(100, 0), opt: base.opt}
		failed := p.disk.FillFor(n, testkit.NotCompacting)
		must(t, p.openIn(t), p.label)
		has(p.label, nil, p.store, 200)
		if failed.Load() == 0 {
			p.disk.Heal()
			must(t, p.store.Close(), "close")
			break
		}
		f, err := p.store.Filters().Get([]byte("f"))
		must(t, err, "filter")
		if _, err := f.Mark(bg, []byte("refused")); !errors.Is(err, bigset.ErrDiskFull) {
			t.Errorf("%s: mark: %v", p.label, err)
		}
		has(p.label+", crashed", p.disk.CrashClone(int(n%3)*50, uint64(n)), nil, 200)
		if p.store.Failed() != nil { // the log was hit
			over++
			closeWithin(t, p.store, p.label)
			p.disk.Heal()
			p.open(t)
		} else if refused++; n%2 == 0 {
			held := p.store.Held()
			if err := p.store.Close(); held && err != nil || err != nil && !errors.Is(err, bigset.ErrDiskFull) && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s: close: %v", p.label, err)
			}
			p.disk.Heal()
			p.open(t)
		}
		p.disk.Heal()
		has(p.label+", opened again", nil, p.store, 200)
		p.store.CheckSpace()
		must(t, p.store.RunnerTick(bg), "tick")
		p.store.CheckSpace()
		f, err = p.store.Filters().Get([]byte("f"))
		must(t, err, "filter")
		must(t, f.MarkAll(bg, keys(200, 300), make([]bool, 100)), p.label)
		has(p.label+", crashed after", p.disk.CrashClone(0, 0), nil, 300)
		must(t, p.store.Close(), "close")
		has(p.label+", again", p.disk, nil, 300)
	}
	t.Logf("%d opens on a full disk, %d that the store failed by", refused+over, over)
	if refused < tier.Pick(1, 6, 20) {
		t.Error("too few")
	}
}
