package lsm

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
)

// EventKind says what happened.
type EventKind string

// Kinds of events.
const (
	EventFlush       EventKind = "flush"       // a memtable became tables
	EventCompaction  EventKind = "compaction"  // Pebble rewrote tables
	EventIncarnation EventKind = "incarnation" // the store took a new actor, of all sets or of those of a dropped range
	EventStall       EventKind = "stall"       // writes wait for flushes or compactions
	EventFailed      EventKind = "failed"      // the store takes no more writes
	EventCorruption  EventKind = "corruption"  // damaged bytes were read: once for each file
	EventDiskSpace   EventKind = "disk-space"  // free space fell below a level, or the disk is full
	EventSlowDisk    EventKind = "slow-disk"   // an operation on the disk takes long
	EventBackground  EventKind = "background"  // a background task failed and will be tried again
)

// Event is something that a store did by itself. Fields that do not apply are zero.
type Event struct {
	Kind     EventKind
	Set      []byte      // corruption: the set of the first key that the damaged file holds
	Actor    clock.Actor // incarnation
	BytesIn  int64       // bytes of tables read
	BytesOut int64       // bytes of tables written
	Took     time.Duration
	Err      error
}

// Counters count what a store has done since it was opened. Any number of goroutines may add to them.
type Counters struct {
	Filtered         atomic.Uint64 // how often the merger left a record out, for a reader or for a table
	Tabled           atomic.Uint64 // element keys written to tables, each as often as it was written
	Flushes          atomic.Uint64
	Compactions      atomic.Uint64
	BackgroundErrors atomic.Uint64
	SlowDisk         atomic.Uint64 // reports of operations that take long
	FullDisk         atomic.Uint64 // how often the disk was found full
	Corruptions      atomic.Uint64 // how often damaged bytes were found
	Stalls           atomic.Uint64
	Stalled          Stopwatch // how long writes had to wait for flushes or compactions
	Synced           Timing    // from a batch's commit until it was on disk, if a sync was requested

	spanFiles atomic.Uint64 // names for span files
}

// emptyFlush is the text of Pebble's error for a flush that left everything out, which is not a failure.
const emptyFlush = "pebble: empty table"

// listener turns Pebble's events into ours. Pebble calls it with its locks held, so it must not take a lock that is ever held
// during a call to Pebble.
func (d *DB) listener() *pebble.EventListener {
	l := &pebble.EventListener{
		FlushEnd: func(i pebble.FlushInfo) {
			d.calls.Take()
			defer d.calls.Leave()
			if i.Err != nil && i.Err.Error() != emptyFlush {
				d.flushRetry.ended(i.Err)
			} else {
				d.flushRetry.ended(nil)
			}
			if i.Err == nil {
				d.Unflushed.flushedTo(largestSeq(i.Output))
			}
			if d.Counters.Flushes.Add(1) > 1 { // the first may be that of the log's content at the open
				d.scheduler.endRest()
			}
			d.flushBegan.Store(time.Now().Add(-i.TotalDuration).UnixNano())
			d.event(Event{Kind: EventFlush, BytesOut: tableBytes(i.Output), Took: i.TotalDuration, Err: i.Err})
		},
		CompactionEnd: func(i pebble.CompactionInfo) {
			d.calls.Take()
			defer d.calls.Leave()
			if !errors.Is(i.Err, pebble.ErrCancelledCompaction) { // a table that came in has cut its input: it has neither failed nor succeeded
				d.compactionRetry.ended(i.Err)
			}
			d.Counters.Compactions.Add(1)
			in := int64(0)
			for _, level := range i.Input {
				in += tableBytes(level.Tables)
			}
			d.event(Event{Kind: EventCompaction, BytesIn: in, BytesOut: tableBytes(i.Output.Tables), Took: i.TotalDuration, Err: i.Err})
		},
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			d.calls.Take()
			defer d.calls.Leave()
			d.Counters.Stalls.Add(1)
			d.Counters.Stalled.Start()
			d.event(Event{Kind: EventStall, Err: fmt.Errorf("engine: writes wait: %s", i.Reason)})
		},
		WriteStallEnd: d.Counters.Stalled.Stop,
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			d.calls.Take()
			defer d.calls.Leave()
			d.corrupt(CorruptionOf(i))
		},
		BackgroundError: func(err error) {
			d.calls.Take()
			defer d.calls.Leave()
			if d.Counters.BackgroundErrors.Add(1) == 1 {
				d.event(Event{Kind: EventBackground, Err: DiskError(err)})
			}
		},
	}
	l.EnsureDefaults(logger{d.opt.Logger})
	return l
}

// corrupt counts damage that was found, and reports each file once: every read of a damaged table finds it again, and so does every
// compaction, which Pebble repeats.
func (d *DB) corrupt(e *CorruptionError) {
	d.Counters.Corruptions.Add(1)
	if _, known := d.damaged.LoadOrStore(e.Path, e); !known {
		d.opt.Logger.Error("bigset: damaged file", "dir", d.dir, "error", e)
		d.event(Event{Kind: EventCorruption, Set: e.Set, Err: e})
	}
}

// largestSeq returns the largest sequence number in some tables.
func largestSeq(tables []pebble.TableInfo) (seq uint64) {
	for i := range tables {
		seq = max(seq, uint64(tables[i].LargestSeqNum))
	}
	return seq
}

func tableBytes(tables []pebble.TableInfo) int64 {
	n := int64(0)
	for _, t := range tables {
		n += int64(t.Size)
	}
	return n
}

// fatalError is the value with which the store's logger panics when Pebble calls an error fatal.
type fatalError struct{ err error }

// Error implements error, so that an unrecovered one prints well.
func (f fatalError) Error() string { return f.err.Error() }

// logger handles what Pebble logs. Fatalf must never return, because Pebble would acknowledge a write whose log failed. It panics
// instead; a committer recovers and fails the store, elsewhere the process ends.
type logger struct{ to *slog.Logger }

func (l logger) Infof(format string, args ...any)  { l.to.Debug(fmt.Sprintf(format, args...)) }
func (l logger) Errorf(format string, args ...any) { l.to.Warn(fmt.Sprintf(format, args...)) }
func (l logger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	for _, a := range args {
		if cause, ok := a.(error); ok {
			err = cause
		}
	}
	panic(fatalError{err})
}
