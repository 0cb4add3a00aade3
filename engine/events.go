package engine

import (
	"sync/atomic"
	"time"

	"bigset/clock"
	"bigset/engine/internal/lsm"
)

// EventKind is the kind of an event.
type EventKind string

// Kinds of events.
const (
	EventFlush       EventKind = EventKind(lsm.EventFlush)       // a memtable became tables
	EventCompaction  EventKind = EventKind(lsm.EventCompaction)  // Pebble rewrote tables
	EventRewrite     EventKind = "rewrite"                       // the rewriter swapped a span
	EventRewriteLeft EventKind = "rewrite-left"                  // the rewriter left a span for later: it was being written
	EventHeal        EventKind = "heal"                          // lost keys of a set were restored: Keys is their number
	EventExcise      EventKind = "excise"                        // an emptied set's element range was excised
	EventPublish     EventKind = "publish"                       // the drop filter may drop more keys of a set; at most every 20 ms for each set
	EventIncarnation EventKind = EventKind(lsm.EventIncarnation) // the store took a new actor, of all sets or of those of a dropped range
	EventStall       EventKind = EventKind(lsm.EventStall)       // writes wait for flushes or compactions
	EventFailed      EventKind = EventKind(lsm.EventFailed)      // the store takes no more writes
	EventCorruption  EventKind = EventKind(lsm.EventCorruption)  // damaged bytes were read: once for each file
	EventDiskSpace   EventKind = EventKind(lsm.EventDiskSpace)   // free space fell below a level, or the disk is full
	EventSlowDisk    EventKind = EventKind(lsm.EventSlowDisk)    // an operation on the disk takes long
	EventBackground  EventKind = EventKind(lsm.EventBackground)  // a background task failed and will be tried again
)

// Event is one thing that a store did by itself. Fields that do not apply are zero.
type Event struct {
	Kind     EventKind
	Set      []byte // rewrite: nil for many small sets
	Actor    clock.Actor
	Keys     int    // rewrite: keys read
	Dropped  int    // rewrite: keys left out
	Resolved int    // rewrite: unresolved keys that were resolved
	Dots     uint64 // publish: dead dots that are new to the drop filter, including those without a key
	BytesIn  int64  // bytes of tables read
	BytesOut int64  // bytes of tables written
	Took     time.Duration
	Held     time.Duration // rewrite: how long writers of the span were held
	Err      error
}

func (s *Store) event(e Event) { s.opt.Events(e) }

// passOn passes on the events of the Pebble store below.
func (s *Store) passOn(e lsm.Event) {
	s.event(Event{Kind: EventKind(e.Kind), Set: e.Set, Actor: e.Actor, BytesIn: e.BytesIn, BytesOut: e.BytesOut, Took: e.Took, Err: e.Err})
}

// counters are what a store has done since it was opened.
type counters struct {
	added     atomic.Uint64 // element keys written by operations
	published atomic.Uint64 // tombstones handed to the drop filter

	lookUps         atomic.Uint64 // elements looked up, by queries and by policy coordinator
	ingests         atomic.Uint64 // portions of sets from other stores that were ingested as tables
	ingestBytes     atomic.Uint64
	locatedInLog    atomic.Uint64 // keys that Locate found in the log of recent writes
	locatedByScan   atomic.Uint64 // and keys that it found by scans
	locateScans     atomic.Uint64
	locateSkips     atomic.Uint64 // blocks of tables, index blocks and tables that they did not read
	runsPassed      atomic.Uint64 // dead runs that readers seeked over
	rewrites        atomic.Uint64 // spans swapped
	rewritesLeft    atomic.Uint64
	rewriteKeys     atomic.Uint64 // element keys read by the rewriter
	rewriteDrops    atomic.Uint64 // of these, keys left out
	rewriteResolved atomic.Uint64 // unresolved keys that were resolved
	rewriteBytes    atomic.Uint64 // bytes of tables that the rewriter wrote
	sweepBytes      atomic.Uint64 // of these, bytes of sweeps
	excises         atomic.Uint64
	rewriting       atomic.Int64 // spans that passes are working on

	queued, held lsm.Timing
}
