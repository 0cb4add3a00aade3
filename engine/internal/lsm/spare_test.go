package lsm

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset/keyscheme"
)

// tables opens an iterator over tables.
func (r *rig) tables(t *testing.T) *Tables {
	t.Helper()
	tables, err := r.db.OpenTables(keyscheme.NewPrefix([]byte("s")), r.db.Unflushed.Moment())
	must(t, err, "open tables")
	return tables
}

// TestSpare: an iterator over tables is used again until memtables are flushed or its time has ended, then it is closed, used or not; and a store closes with one.
func TestSpare(t *testing.T) {
	t.Parallel()
	r := newRig("spare")
	r.open(t)
	open := func() *Tables { return r.tables(t) }
	end := func(tables *Tables) {
		t.Helper()
		must(t, r.db.CloseTables(tables), "close tables")
	}
	first := open()
	first.until = time.Now().Add(time.Hour)
	first.SeekPrefixGE([]byte("n#"))
	end(first)
	again, beside := open(), open()
	if again.Stats() != (pebble.IteratorStats{}) {
		t.Errorf("an iterator that is used again has counted %v", again.Stats())
	}
	if again != first || beside == first {
		t.Error("the spare iterator is not used again, or twice at the same time")
	}
	if end(beside); r.db.spare.Load() != nil {
		t.Error("two iterators are kept")
	}
	end(again)
	if r.db.spare.Load() != again {
		t.Error("the kept iterator is not the spare one after its use")
	}
	r.db.Unflushed.drops.Add(1) // as a flush does
	flushed := open()
	if flushed == first {
		t.Error("an iterator from before a flush is used again")
	}
	r.db.Unflushed.drops.Add(1)
	if end(flushed); r.db.spare.Load() != nil {
		t.Error("an iterator from before a flush is kept")
	}
	old := open()
	old.until = time.Now()
	if end(old); r.db.spare.Load() != nil {
		t.Error("an old iterator is kept")
	}
	end(open())
	for deadline := time.Now().Add(time.Minute); r.db.spare.Load() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("an iterator that nobody uses stays open")
		}
	}
	late := open()
	late.until = time.Now().Add(time.Hour)
	end(late)
	r.close(t)
}

// TestSpareExpires: an iterator in use when its time ends is closed at the end of the use, or by the timer that comes after that.
func TestSpareExpires(t *testing.T) {
	t.Parallel()
	r := newRig("expires")
	r.open(t)
	tables := r.tables(t)
	tables.until, tables.kept = time.Now().Add(time.Hour), true
	r.db.keeps.Store(true)
	r.db.expire(tables)
	if tables.SeekPrefixGE([]byte("n#")); tables.Error() != nil {
		t.Errorf("in use after its time: %v", tables.Error())
	}
	must(t, r.db.CloseTables(tables), "close tables")
	r.db.expire(tables)
	if r.db.spare.Load() != nil {
		t.Error("the spare iterator stays open after its time")
	}
	r.close(t)
}

// TestSpareAndSwaps: an iterator that was opened before the end of a swap is neither kept nor used again.
func TestSpareAndSwaps(t *testing.T) {
	t.Parallel()
	r := newRig("swaps")
	r.open(t)
	open := func() *Tables {
		t.Helper()
		tables := r.tables(t)
		tables.until = time.Now().Add(time.Hour)
		return tables
	}
	end := func(tables *Tables, when string) {
		t.Helper()
		if must(t, r.db.CloseTables(tables), when); r.db.spare.Load() != nil {
			t.Errorf("an iterator from %s is kept", when)
		}
	}
	before := open()
	r.db.swaps.turn.Add(1)
	end(before, "before a swap")
	end(open(), "the middle of a swap that goes on")
	during := open()
	r.db.swaps.turn.Add(1)
	end(during, "the middle of a swap")
	spare := open()
	must(t, r.db.CloseTables(spare), "close tables")
	r.db.swaps.turn.Add(2)
	after := open()
	if after == spare {
		t.Error("an iterator from before a swap is used after it")
	}
	must(t, r.db.CloseTables(after), "close tables")
	r.close(t)
}

// TestSpareWedged: in a store whose log has failed look-ups leave no iterators open, and do not touch the one that was kept.
func TestSpareWedged(t *testing.T) {
	t.Parallel()
	r := newRig("wedged")
	r.open(t)
	open := func() *Tables { return r.tables(t) }
	kept := open()
	kept.until = time.Now().Add(time.Hour)
	must(t, r.db.CloseTables(kept), "close tables")
	r.db.wedged.Store(true)
	one, other := open(), open()
	if one == kept || other == kept {
		t.Error("an iterator from before the failure is used after it")
	}
	must(t, r.db.CloseTables(one), "close tables")
	must(t, r.db.CloseTables(other), "close tables")
	if r.db.spare.Load() != kept {
		t.Error("an iterator is kept after the failure")
	}
	r.db.wedged.Store(false) // so that the store can be closed, which reports iterators that are open
	r.close(t)
}
