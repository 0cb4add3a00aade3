package lsm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset/keyscheme"
)

// wideTable opens a store whose last level is one table of many blocks, with runs of the elements 0 to 249 of a set, and gaps between them. No block is
// cached. The end of the test closes the store.
func wideTable(t *testing.T, run, gap int) *rig {
	t.Helper()
	r := newRig("store")
	r.opt.BlockCacheBytes = -2 * int64(r.opt.MemTableBytes)
	r.opt.Tune = func(po *pebble.Options) {
		for i := range po.Levels {
			po.Levels[i].BlockSize = 512
		}
		po.DisableAutomaticCompactions = true
		po.DisableTableStats = true // which would read the table at any time
	}
	r.open(t)
	t.Cleanup(func() { r.close(t) })
	for from := 0; from < 250; from += run + gap {
		r.add(t, "s", from, from+run, false)
	}
	r.flush(t)
	must(t, r.db.pebble.Compact(bg, []byte{0}, []byte{255}, false), "compact")
	r.levels(t, 0, 1)
	return r
}

// levels fails the test unless the first level has first tables, and the last one last.
func (r *rig) levels(t *testing.T, first, last int64) {
	t.Helper()
	if l := r.db.pebble.Metrics().Levels; l[0].TablesCount != first || l[len(l)-1].TablesCount != last {
		t.Fatalf("%d tables in the first level and %d in the last, want %d and %d", l[0].TablesCount, l[len(l)-1].TablesCount, first, last)
	}
}

// table writes new keys of elements to a table that is to be ingested.
func (r *rig) table(t *testing.T, from, to int) (files SpanFiles, paths []string) {
	t.Helper()
	changes := r.elements("s", from, to)
	r.log = append(r.log, changes)
	files = r.db.SpanFiles()
	path, err := files.WriteTable(func(yield func(key, value []byte) error) error {
		for _, key := range slices.Sorted(maps.Keys(changes)) {
			if err := yield([]byte(key), changes[key]); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err, "write a table")
	return files, []string{path}
}

// elementsOf returns the keys of elements.
func elementsOf(keys map[string]string) map[string]string {
	found := maps.Clone(keys)
	maps.DeleteFunc(found, func(key, _ string) bool {
		k, err := keyscheme.Decode([]byte(key))
		return err != nil || k.Kind != keyscheme.KindElement
	})
	return found
}

// whole fails the test unless the store has all elements.
func (r *rig) whole(t *testing.T) {
	t.Helper()
	if got, want := elementsOf(r.stored(t)), elementsOf(r.state(len(r.log))); !maps.Equal(got, want) {
		t.Errorf("%d elements, want %d", len(got), len(want))
	}
}

// TestIngestIntoGap: tables that lie in a gap of an old one get a place in its level, and stay out of level 0. The second one
// lies in a gap of what is left of it, and the third one in what is left of the first gap.
func TestIngestIntoGap(t *testing.T) {
	t.Parallel()
	r := wideTable(t, 50, 50)
	for _, c := range []struct {
		at     int
		tables int64
	}{{60, 3}, {160, 5}, {80, 6}} {
		files, paths := r.table(t, c.at, c.at+10)
		must(t, r.db.Ingest(bg, &files, paths), "ingest")
		r.levels(t, 0, c.tables)
		files.RemoveFiles()
		r.whole(t)
	}
}

// TestIngestOtherCutsNothing: an ingest whose surroundings were not read cuts no table, although one that has begun may cut.
func TestIngestOtherCutsNothing(t *testing.T) {
	t.Parallel()
	r := wideTable(t, 50, 50)
	files, paths := r.table(t, 60, 70)
	others, otherPaths := r.table(t, 160, 170)
	var within atomic.Bool
	r.disk.SetHook("within", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && op.Path == paths[0] && within.CompareAndSwap(false, true) {
			return apart(func() error { return r.db.IngestOther(bg, otherPaths) })
		}
		return nil
	})
	must(t, r.db.Ingest(bg, &files, paths), "ingest")
	r.disk.SetHook("within", nil)
	if !within.Load() {
		t.Fatal("the ingest has not read its table")
	}
	r.levels(t, 1, 3)
	files.RemoveFiles()
	others.RemoveFiles()
	r.whole(t)
}

// TestIngestBesideDamage: the block before the gap can't be read. The old table is not cut there, because Pebble would take the damage for its
// beginning, and nothing of it is lost.
func TestIngestBesideDamage(t *testing.T) {
	t.Parallel()
	r := wideTable(t, 1, 1)
	var read []int64 // where blocks were read since the last look
	bad := int64(-1) // where a block can't be read
	r.disk.SetHook("reads", func(op errorfs.Op) error {
		if op.Kind != errorfs.OpFileReadAt || !strings.HasSuffix(op.Path, tableSuffix) {
			return nil
		}
		if read = append(read, op.Offset); op.Offset == bad {
			return syscall.EIO
		}
		return nil
	})
	blocks := func(seek func(it *pebble.Iterator)) []int64 {
		it, err := r.db.NewIter(nil)
		must(t, err, "open an iterator")
		read = nil
		seek(it)
		must(t, it.Error(), "seek")
		must(t, it.Close(), "close an iterator")
		return read
	}
	at := -1
	for bad < 0 { // until the block before a gap is read only if the keys before it are asked for
		at += 2
		key := slices.Collect(maps.Keys(r.elements("s", at, at+1)))[0]
		before := blocks(func(it *pebble.Iterator) { it.SeekLT([]byte(key)) })
		if last := before[len(before)-1]; !slices.Contains(blocks(func(it *pebble.Iterator) { it.SeekGE([]byte(key)) }), last) {
			bad = last
		}
	}
	files, paths := r.table(t, at, at+1)
	must(t, r.db.Ingest(bg, &files, paths), "ingest")
	bad = -1
	r.levels(t, 1, 1)
	r.disk.SetHook("reads", nil)
	files.RemoveFiles()
	r.whole(t)
}

// TestCancelledCompaction: a compaction that a table which came in has cut has not failed: the next one does not wait, and it says nothing of the
// room on the disk.
func TestCancelledCompaction(t *testing.T) {
	t.Parallel()
	r := newRig("store")
	r.opt.Tune = func(po *pebble.Options) { po.DisableAutomaticCompactions = true }
	r.open(t)
	defer r.close(t)
	end := r.db.listener().CompactionEnd
	for range 20 {
		end(pebble.CompactionInfo{Err: fmt.Errorf("table 7: %w", pebble.ErrCancelledCompaction)})
	}
	if tries, err := r.db.compactionRetry.failing(); tries != 0 || err != nil || r.db.compactionRetry.pause() != 0 {
		t.Errorf("after those that were cancelled: %d tries, %v", tries, err)
	}
	end(pebble.CompactionInfo{Err: syscall.ENOSPC})
	end(pebble.CompactionInfo{Err: pebble.ErrCancelledCompaction})
	if tries, err := r.db.compactionRetry.failing(); tries != 1 || err == nil || !r.db.compactionRetry.full() {
		t.Errorf("after one without room and one that was cancelled: %d tries, %v, full is %v", tries, err, r.db.compactionRetry.full())
	}
	end(pebble.CompactionInfo{})
	if r.db.compactionRetry.full() || r.db.compactionRetry.pause() != 0 {
		t.Error("after one that ended well the disk is full")
	}
}
