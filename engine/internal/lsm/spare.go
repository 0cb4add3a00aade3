package lsm

import (
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset/keyscheme"
)

// spareAge is how long an iterator over tables is used. It keeps tables that have been compacted since, and memtables that have been flushed since, from going.
const spareAge = 100 * time.Millisecond

// Tables is an iterator over tables alone, for SeekPrefixGE of elements of any set that Unflushed does not know. It shows what tables held at its moment.
//
// To open an iterator, with the tables in it, takes longer than to look up one element. So the store keeps the one that was used last for the next look-up, until memtables have
// been flushed or it is older than spareAge. It shows all that a new one would show of such elements: what was written since is in memtables, which Unflushed knows.
//
//	opened ─► used ─► spare ─► used ─► … ─► closed, after a flush or at the end of its time
type Tables struct {
	*pebble.Iterator
	moment uint64    // of Unflushed, before it was opened
	until  time.Time // when it must be closed
	timed  bool      // a timer closes it then, if it is the spare one
}

// OpenTables returns an iterator over tables for look-ups in a set. moment is that by which Unflushed is asked. The caller passes the iterator to CloseTables.
func (d *DB) OpenTables(set keyscheme.Prefix, moment uint64) (*Tables, error) {
	if t := d.spare.Swap(nil); t != nil {
		if t.moment == moment && time.Now().Before(t.until) {
			return t, nil
		}
		if err := d.closeNow(t); err != nil {
			return nil, err
		}
	}
	it, err := d.OpenSet(set, &pebble.IterOptions{UseL6Filters: true, OnlyReadGuaranteedDurable: true})
	if err != nil {
		return nil, err
	}
	return &Tables{Iterator: it, moment: moment, until: time.Now().Add(spareAge)}, nil
}

// CloseTables ends a use of an iterator. The caller must be in a call, between Enter and Leave.
func (d *DB) CloseTables(t *Tables) error {
	left := time.Until(t.until)
	if t.Error() != nil || left <= 0 || t.moment != d.Unflushed.Moment() {
		return d.closeNow(t)
	}
	if !t.timed {
		t.timed = true
		time.AfterFunc(left, func() { d.expire(t) })
	}
	var err error
	if old := d.spare.Swap(t); old != nil {
		err = d.closeNow(old)
	}
	if !time.Now().Before(t.until) { // the timer may have found no spare one
		d.closeSpare(t)
	}
	return err
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

// closeNow closes an iterator, unless Pebble can't: it would wait for its own locks.
func (d *DB) closeNow(t *Tables) error {
	if d.wedged.Load() {
		return nil
	}
	return t.Iterator.Close()
}
