package engine

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
)

// EventKind says what happened.
type EventKind string

// What a store tells about.
const (
	EventFlush       EventKind = "flush"        // a memtable became tables
	EventCompaction  EventKind = "compaction"   // Pebble rewrote tables
	EventRewrite     EventKind = "rewrite"      // the rewriter swapped a span
	EventRewriteLeft EventKind = "rewrite-left" // the rewriter left a span for later: it was being written
	EventHeal        EventKind = "heal"         // lost keys of a set were put back: Keys of them
	EventExcise      EventKind = "excise"       // an emptied set's element range was cut out
	EventPublish     EventKind = "publish"      // the filter may drop more keys of a set: one event for each set, at most every 20 ms
	EventIncarnation EventKind = "incarnation"  // the store took a new actor
	EventStall       EventKind = "stall"        // writes wait for flushes or compactions
	EventFailed      EventKind = "failed"       // the store takes no more writes
	EventCorruption  EventKind = "corruption"   // damaged bytes were read: once for each file
	EventDiskSpace   EventKind = "disk-space"   // free space fell below a level, or the disk is full
	EventSlowDisk    EventKind = "slow-disk"    // an operation on the disk takes long
	EventBackground  EventKind = "background"   // a background task failed and will be tried again
)

// Event is one thing that a store did by itself. Fields that do not apply are zero.
type Event struct {
	Kind     EventKind
	Set      []byte // rewrite: nil for many small sets
	Actor    clock.Actor
	Keys     int    // rewrite: keys read
	Dropped  int    // rewrite: keys left out
	Closed   int    // rewrite: open keys that were resolved
	Dots     uint64 // publish: dead dots that the filter has now and had not before, those without a key included
	BytesIn  int64  // bytes of tables read
	BytesOut int64  // bytes of tables written
	Took     time.Duration
	Held     time.Duration // rewrite: how long writers of the span were held
	Err      error
}

func (s *Store) event(e Event) { s.opt.Events(e) }

// counters are what a store has done since it was opened.
type counters struct {
	added     atomic.Uint64 // element keys written by operations
	filtered  atomic.Uint64 // times that the filter left a record out, for a reader or for a table
	tabled    atomic.Uint64 // element keys written to tables, as often as each was
	published atomic.Uint64 // tombstones handed to the filter

	lookUps       atomic.Uint64 // elements looked up, by queries and by policy coordinator
	ingests       atomic.Uint64 // spans of other stores that came in as tables
	ingestBytes   atomic.Uint64
	locatedInLog  atomic.Uint64 // keys that Locate found in the log of recent writes
	locatedByScan atomic.Uint64 // and by scans
	locateScans   atomic.Uint64
	locateSkips   atomic.Uint64 // blocks of tables, index blocks and tables that they did not read
	runsPassed    atomic.Uint64 // dead runs that readers seeked over
	rewrites      atomic.Uint64 // spans swapped
	rewritesLeft  atomic.Uint64
	rewriteKeys   atomic.Uint64 // element keys read by the rewriter
	rewriteDrops  atomic.Uint64 // of them those left out
	rewriteClosed atomic.Uint64 // open keys that were resolved
	rewriteBytes  atomic.Uint64 // bytes of tables that the rewriter wrote
	excises       atomic.Uint64
	spanFiles     atomic.Uint64 // names for the rewriter's files
	flushes       atomic.Uint64
	compactions   atomic.Uint64
	backgroundErr atomic.Uint64
	slowDisk      atomic.Uint64
	fullDisk      atomic.Uint64 // times that the disk was found full
	corruptions   atomic.Uint64 // times that damaged bytes were met
	stalls        atomic.Uint64
	rewriting     atomic.Int64 // spans that passes are at

	synced, queued, held timing
}

// emptyFlush is what Pebble calls the error of a flush that left everything out, which is none.
const emptyFlush = "pebble: empty table"

// listener turns Pebble's events into ours. Pebble calls it with its locks held: no lock is taken here that is ever held in a call of Pebble's.
func (s *Store) listener() *pebble.EventListener {
	l := &pebble.EventListener{
		FlushEnd: func(i pebble.FlushInfo) {
			s.pebble.Take()
			defer s.pebble.Leave()
			if i.Err != nil && i.Err.Error() != emptyFlush {
				s.flushRetry.ended(i.Err)
			} else {
				s.flushRetry.ended(nil)
			}
			if s.counters.flushes.Add(1) > 1 { // the first may be that of what the log held at the open
				s.scheduler.endRest()
			}
			s.flushBegan.Store(time.Now().Add(-i.TotalDuration).UnixNano())
			s.event(Event{Kind: EventFlush, BytesOut: tableBytes(i.Output), Took: i.TotalDuration, Err: i.Err})
		},
		CompactionEnd: func(i pebble.CompactionInfo) {
			s.pebble.Take()
			defer s.pebble.Leave()
			s.compactionRetry.ended(i.Err)
			s.counters.compactions.Add(1)
			in := int64(0)
			for _, level := range i.Input {
				in += tableBytes(level.Tables)
			}
			s.event(Event{Kind: EventCompaction, BytesIn: in, BytesOut: tableBytes(i.Output.Tables), Took: i.TotalDuration, Err: i.Err})
		},
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			s.pebble.Take()
			defer s.pebble.Leave()
			s.counters.stalls.Add(1)
			s.event(Event{Kind: EventStall, Err: fmt.Errorf("engine: writes wait: %s", i.Reason)})
		},
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			s.pebble.Take()
			defer s.pebble.Leave()
			s.corrupt(corruptionOf(i))
		},
		BackgroundError: func(err error) {
			s.pebble.Take()
			defer s.pebble.Leave()
			if s.counters.backgroundErr.Add(1) == 1 {
				s.event(Event{Kind: EventBackground, Err: diskError(err)})
			}
		},
	}
	l.EnsureDefaults(logger{s.opt.Logger})
	return l
}

// corrupt counts damage that was met, and tells of each file once: a damaged table is met again by every read, and by every
// compaction, which Pebble repeats.
func (s *Store) corrupt(e *CorruptionError) {
	s.counters.corruptions.Add(1)
	if _, known := s.damaged.LoadOrStore(e.Path, e); !known {
		s.opt.Logger.Error("bigset: damaged file", "dir", s.dir, "error", e)
		s.event(Event{Kind: EventCorruption, Set: e.Set, Err: e})
	}
}

func tableBytes(tables []pebble.TableInfo) int64 {
	n := int64(0)
	for _, t := range tables {
		n += int64(t.Size)
	}
	return n
}

// fatalError is what the store's logger panics with when Pebble calls an error fatal.
type fatalError struct{ err error }

// Error implements error, so that an unrecovered one prints well.
func (f fatalError) Error() string { return f.err.Error() }

// logger takes what Pebble logs. Fatalf must never return: Pebble would acknowledge a write whose log failed. It panics
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
