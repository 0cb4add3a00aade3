package lsm

import (
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset/keyscheme"
)

// spareAge is how long an iterator over tables is used. As long as it is open, tables that were compacted since and memtables that were flushed
// since stay.
const spareAge = 100 * time.Millisecond

// Tables is an iterator over tables alone, for SeekPrefixGE of elements of any set that Unflushed does not know. It shows what tables held at its moment.
// Opening an iterator, with its tables, takes longer than looking up one element. So the store keeps one for the next look-up, until memtables
// have been flushed, a set is swapped, or the iterator is older than spareAge. It shows all that a new one would show of such elements: what was
// written since is in memtables, which Unflushed knows. A look-up that finds it in use opens an iterator of its own.
//
//	opened ─► used ─► spare ─► used ─► … ─► closed, after a flush, a swap, or at the end of its time
type Tables struct {
	*pebble.Iterator
	moment uint64    // of Unflushed, before it was opened
	turn   uint64    // of the swap gate, before it was opened
	until  time.Time // when it must be closed
	kept   bool      // it is the one that the store keeps, in use or spare; a timer closes it at its time if it is spare
}

// OpenTables returns an iterator over tables for look-ups in a set. moment is that by which Unflushed is asked. The caller passes the iterator to CloseTables.
func (d *DB) OpenTables(set keyscheme.Prefix, moment uint64) (*Tables, error) {
	if t := d.spare.Load(); t != nil && !d.wedged.Load() && d.spare.CompareAndSwap(t, nil) {
		if d.current(t, moment) {
			t.ResetStats() // its user compares how long its own look-ups wait for the disk
			return t, nil
		}
		_ = d.closeNow(t)
	}
	turn := d.swaps.turn.Load()
	it, err := d.OpenSet(set, &pebble.IterOptions{UseL6Filters: true, OnlyReadGuaranteedDurable: true})
	if err != nil {
		return nil, err
	}
	return &Tables{Iterator: it, moment: moment, turn: turn, until: time.Now().Add(spareAge)}, nil
}

// current reports whether an iterator shows what a new one would show to look-ups that go by a moment. One that was opened during a swap may show another set as it never was:
// without the tables of the span.
func (d *DB) current(t *Tables, moment uint64) bool {
	return t.moment == moment && t.turn&1 == 0 && t.turn == d.swaps.turn.Load() && time.Now().Before(t.until)
}

// CloseTables ends a use of an iterator. The caller must be in a call, between Enter and Leave.
func (d *DB) CloseTables(t *Tables) error {
	if d.wedged.Load() || t.Error() != nil || !d.current(t, d.Unflushed.Moment()) {
		return d.closeNow(t)
	}
	if !t.kept {
		if d.keeps.Load() || !d.keeps.CompareAndSwap(false, true) {
			return d.closeNow(t)
		}
		t.kept = true
		time.AfterFunc(time.Until(t.until), func() { d.expire(t) })
	}
	d.spare.Store(t)
	if !time.Now().Before(t.until) { // the timer may have found no spare one
		d.closeSpare(t)
	}
	return nil
}

// expire closes an iterator whose time has passed, unless it is in use.
func (d *DB) expire(t *Tables) {
	if d.Enter() != nil {
		return // Close closes it
	}
	defer d.Leave()
	d.closeSpare(t)
}

// closeSpare closes an iterator if it is the spare one. An error of its reads was reported where they were made.
func (d *DB) closeSpare(t *Tables) {
	if t != nil && d.spare.CompareAndSwap(t, nil) {
		_ = d.closeNow(t)
	}
}

// closeNow closes an iterator. In a wedged store it leaves the kept one open: if that is the last that shows what tables held at its moment, Pebble's Close waits for locks that are
// never released.
func (d *DB) closeNow(t *Tables) error {
	if !t.kept {
		return t.Iterator.Close()
	}
	if d.wedged.Load() {
		return nil
	}
	err := t.Iterator.Close()
	d.keeps.Store(false)
	return err
}
