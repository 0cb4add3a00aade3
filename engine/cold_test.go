package engine_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
)

// slowReads makes each read of a table take a millisecond. It returns the number of such reads, and how many of them there were at one time at most.
func slowReads(d *testkit.Disk) (reads, together *atomic.Int64) {
	var now atomic.Int64
	reads, together = new(atomic.Int64), new(atomic.Int64)
	d.SetHook("slow", func(op errorfs.Op) error {
		if op.Kind != errorfs.OpFileReadAt || !strings.HasSuffix(op.Path, ".sst") {
			return nil
		}
		reads.Add(1)
		n := now.Add(1)
		defer now.Add(-1)
		for most := together.Load(); n > most && !together.CompareAndSwap(most, n); most = together.Load() {
		}
		time.Sleep(time.Millisecond)
		return nil
	})
	return reads, together
}

// coldElements are elements of which each has a block of its own.
func coldElements(from, to int) (list [][]byte) {
	for i := from; i < to; i++ {
		list = append(list, fmt.Appendf(nil, "%04d%0500d", i, i))
	}
	return list
}

// openCold opens a store with the elements 6 to 69, of which 10 to 19 were removed. They are in tables, and no block is in the store's cache.
func openCold(t *testing.T, set []byte) (*engine.Store, *testkit.Disk) {
	t.Helper()
	disk := testkit.NewDisk()
	s, err := engine.Open("store", &engine.Options{FS: disk, BackgroundInterval: -1, HotBytes: -1, LSM: engine.LSM{BlockBytes: 256}})
	must(t, err, "open")
	t.Cleanup(func() { must(t, s.Close(), "close") })
	_, err = s.Add(bg, set, coldElements(6, 70), bigset.WriteOptions{})
	must(t, err, "add")
	_, err = s.Remove(bg, set, coldElements(10, 20), bigset.WriteOptions{Policy: bigset.PolicyCoordinator})
	must(t, err, "remove")
	must(t, s.FlushTables(), "flush")
	return s, disk
}

func coldPresent(i int) bool { return i >= 6 && i < 10 || i >= 20 }

// TestColdLookUpsShareTheDisk: look-ups of one call that wait for the disk are done several at a time. Their answers are the same.
func TestColdLookUpsShareTheDisk(t *testing.T) {
	set := []byte("set")
	t.Run("question", func(t *testing.T) {
		s, disk := openCold(t, set)
		reads, together := slowReads(disk)
		found, err := s.Subset(bg, set, coldElements(0, 70))
		must(t, err, "subset")
		for i, f := range found {
			if f.Present != coldPresent(i) {
				t.Errorf("element %d is present: %v", i, f.Present)
			}
		}
		if together.Load() < 4 { // a compaction may read, too
			t.Errorf("%d reads, at most %d at a time", reads.Load(), together.Load())
		}
	})
	t.Run("add", func(t *testing.T) {
		s, disk := openCold(t, set)
		reads, together := slowReads(disk)
		res, err := s.Add(bg, set, coldElements(0, 70), bigset.WriteOptions{Policy: bigset.PolicyCoordinator})
		must(t, err, "add")
		if together.Load() < 4 { // a compaction may read, too
			t.Errorf("%d reads, at most %d at a time", reads.Load(), together.Load())
		}
		if len(res.Delta.Items) != 70 {
			t.Fatalf("%d operations", len(res.Delta.Items))
		}
		for i, item := range res.Delta.Items {
			if (len(item.Context) == 1) != coldPresent(i) {
				t.Errorf("the add of element %d replaces %v", i, item.Context)
			}
		}
		if n, err := s.Count(bg, set, engine.CountOptions{}); err != nil || n.Elements != 70 {
			t.Errorf("%d elements, %v", n.Elements, err)
		}
	})
}

// TestColdLookUpsReportTheDisk: an error of the disk in one of several look-ups at a time is the error of the call.
func TestColdLookUpsReportTheDisk(t *testing.T) {
	set := []byte("set")
	s, disk := openCold(t, set)
	reads, _ := slowReads(disk)
	disk.SetHook("fail", func(op errorfs.Op) error {
		if reads.Load() > 30 && op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
			return errorfs.ErrInjected
		}
		return nil
	})
	if _, err := s.Subset(bg, set, coldElements(0, 64)); err == nil {
		t.Errorf("%d reads, and no error", reads.Load())
	}
	if _, err := s.Add(bg, set, coldElements(0, 64), bigset.WriteOptions{Policy: bigset.PolicyCoordinator}); err == nil {
		t.Error("an add that could not look up reports no error")
	}
	disk.SetHook("fail", nil)
	disk.SetHook("slow", nil)
	if found, err := s.Subset(bg, set, coldElements(0, 64)); err != nil || !found[63].Present {
		t.Errorf("after the errors: %v", err)
	}
}
