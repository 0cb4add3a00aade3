package lsm

import (
	"testing"
	"time"

	"bigset/keyscheme"
)

// TestSpare: an iterator over tables is used again until memtables are flushed or its time is over, then it is closed, used or not; and a store closes with one.
func TestSpare(t *testing.T) {
	t.Parallel()
	r := newRig("spare")
	r.open(t)
	set := keyscheme.NewPrefix([]byte("s"))
	open := func() *Tables {
		t.Helper()
		tables, err := r.db.OpenTables(set, r.db.Unflushed.Moment())
		must(t, err, "open tables")
		return tables
	}
	end := func(tables *Tables) {
		t.Helper()
		must(t, r.db.CloseTables(tables), "close tables")
	}
	first := open()
	first.until = time.Now().Add(time.Hour)
	end(first)
	again, beside := open(), open()
	if again != first || beside == first {
		t.Error("the spare iterator is not used again, or twice at the same time")
	}
	end(beside)
	end(again)
	if r.db.spare.Load() != again {
		t.Error("the iterator that was used last is not the spare one")
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

// TestSpareExpires: an iterator in use when its time is over is closed at the end of the use, or by the timer that comes after that.
func TestSpareExpires(t *testing.T) {
	t.Parallel()
	r := newRig("expires")
	r.open(t)
	tables, err := r.db.OpenTables(keyscheme.NewPrefix([]byte("s")), r.db.Unflushed.Moment())
	must(t, err, "open tables")
	tables.until, tables.timed = time.Now().Add(time.Hour), true
	r.db.expire(tables)
	if tables.SeekPrefixGE([]byte("n#")); tables.Error() != nil {
		t.Errorf("in use when its time is over: %v", tables.Error())
	}
	must(t, r.db.CloseTables(tables), "close tables")
	r.db.expire(tables)
	if r.db.spare.Load() != nil {
		t.Error("the spare iterator stays open when its time is over")
	}
	r.close(t)
}
