package engine

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// set is what a store keeps in memory of one set while it is used: its clock and tombstone, the queue of its writers
// and the count of its readers.
//
// One goroutine at a time leads (see lead). Only the leader builds batches, and only it changes next and what it
// knows of records. The fields seen and dead are what readers see. They change after the batch is applied, under mu,
// so a view of them is never newer than the keys of an iterator that is opened after the view was taken.
type set struct {
	name   []byte // within prefix
	prefix keyscheme.Prefix

	lead    lockorder.Turn[lockorder.SetLead] // held by the goroutine that writes the set, or holds its writers; the others wait in the queue
	queueMu lockorder.Mutex[lockorder.SetQueue]
	queue   []*request
	led     bool // a goroutine leads
	gathering
	newRuns *deadRuns // becomes runs as soon as no batch is under way

	// The leader's own fields.
	next       *clock.Clock // Seen with what the leader is about to write
	seenRecord pagedRecord
	deadRecord pagedRecord
	deadSize   recordSize  // of the tombstone's own key
	batches    int         // written
	late       *lateWrites // what is written while the rewriter copies a span; nil if it does not

	// viewing is read-locked to take a view and open an iterator after it, or to look something up. It is locked
	// while the set is dropped with its range.
	viewing lockorder.RWMutex[lockorder.SetViewing]
	passes  lockorder.Mutex[lockorder.SetPasses] // held by the rewriter, or by a goroutine that excises the set: one of them at a time

	mu         lockorder.RWMutex[lockorder.SetMu]
	seen       *clock.Clock
	dead       *clock.Clock
	exists     bool  // the set has a clock key
	unresolved int64 // unresolved keys; after a crash too many, never too few: see recountOnce
	flags      keyscheme.ClockFlags
	raises     uint64        // how often FlagSiblings was raised, or would have been
	version    uint64        // counts changes of dead
	shown      *view         // the last view handed out; nil if it is out of date
	awaited    chan struct{} // is closed by the next change of seen or dead; nil while nobody awaits one

	hot       atomic.Pointer[hotSet]   // under which number the set has entries in hotDots; nil: it has none
	runs      atomic.Pointer[deadRuns] // nil until a reader has met a long run; changed between batches only
	readers   readers
	publish   publishing   // the publisher's own, see publish.go
	lastWrite atomic.Int64 // see touch; 0 since it was loaded is never
	lastKeys  atomic.Int64 // see touch; after a load it is no earlier than it was before

	recordBytes atomic.Int64 // memory of seenRecord and deadRecord

	counted struct{ live, dead atomic.Int64 } // the set's shares of the cache's sums

	// The cache's own fields, under its lock.
	pins        int
	bytes       int64
	prev, later *set
	loadOnce    lockorder.Once[lockorder.SetLoad]
	loadErr     error
}

// view is Seen and Dead of one moment. Both are immutable.
type view struct {
	seen, dead *clock.Clock
	single     bool   // no element has two live dots and no key is unresolved: live dots are elements
	raises     uint64 // the set's raises at that moment
	version    uint64 // the version of dead
}

// view returns the Seen and Dead of this moment. Take it before opening the iterator whose keys are compared with it.
func (st *set) view() *view {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.viewLocked()
}

// viewLocked is view for a caller that holds mu.
func (st *set) viewLocked() *view {
	if st.shown == nil {
		st.shown = &view{st.seen.Clone(), st.dead.Clone(), st.flags&keyscheme.FlagSiblings == 0 && st.unresolved == 0, st.raises, st.version}
	}
	return st.shown
}

// lowerSiblings clears FlagSiblings, unless it was raised after the view was taken. The caller has found that every
// element of the view has one dot. The next write of the set stores the flag. Writers are held.
func (st *set) lowerSiblings(v *view) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.raises == v.raises {
		st.flags &^= keyscheme.FlagSiblings
		st.shown = nil
	}
}

// keepSiblings prevents a count that began earlier from clearing FlagSiblings. Writers are held.
func (st *set) keepSiblings() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.raises++
	st.shown = nil
}

// resetNext undoes what the leader was about to write. The leader calls it. Growth that the leader was about to write
// into pages is written again later, with everything else.
func (st *set) resetNext() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.next = st.seen.Clone()
	st.seenRecord, st.deadRecord, st.deadSize = pagedRecord{}, pagedRecord{}, recordSize{}
}

// known reports whether this store knows the set: whether the set has a clock.
func (st *set) known() bool {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.exists
}

// live returns the number of live dots: never less than the number of elements.
func (st *set) live() uint64 {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return liveDots(st.seen, st.dead)
}

// liveDots returns the number of dots that are in seen but not in dead, which is within seen. Len stops at 2^64-1,
// which a clock from outside can reach: the dots are then counted the long way.
func liveDots(seen, dead *clock.Clock) uint64 {
	if n := seen.Len(); n < math.MaxUint64 {
		return n - dead.Len()
	}
	live := seen.Clone()
	live.Subtract(dead)
	return live.Len()
}

// load reads clock and tombstone from disk.
func (st *set) load(db *lsm.DB) error {
	buf := keyBuffers.Get().(*[]byte)
	defer keyBuffers.Put(buf)
	*buf = st.prefix.AppendClock((*buf)[:0])
	value, ok, err := db.GetBehind(buf)
	if err != nil {
		return fmt.Errorf("engine: clock of %q: %w", st.name, lsm.DiskError(err))
	}
	if !ok {
		empty := new(struct{ seen, dead, next clock.Clock })
		st.seen, st.dead, st.next = &empty.seen, &empty.dead, &empty.next
		return nil
	}
	cv, err := keyscheme.DecodeClockValue(value)
	if err != nil {
		return fmt.Errorf("%w: clock of %q: %w", bigset.ErrCorrupt, st.name, err)
	}
	st.exists, st.unresolved, st.flags = true, cv.Unresolved, cv.Flags
	if cv.Flags&(keyscheme.FlagClockPages|keyscheme.FlagTombstonePages) != 0 {
		return st.loadPaged(db)
	}
	st.seen, st.next, st.dead = cv.Seen, cv.Seen.Clone(), &clock.Clock{}
	if cv.Flags&keyscheme.FlagTombstone == 0 {
		return nil
	}
	*buf = st.prefix.AppendTombstone((*buf)[:0])
	if value, ok, err = db.GetBehind(buf); err != nil {
		return fmt.Errorf("engine: tombstone of %q: %w", st.name, lsm.DiskError(err))
	}
	if !ok {
		return tombstoneError(st.prefix, false)
	}
	if st.dead, err = keyscheme.DecodeTombstoneValue(value); err != nil {
		return fmt.Errorf("%w: tombstone of %q: %w", bigset.ErrCorrupt, st.name, err)
	}
	return nil
}

// loadPaged reads clock and tombstone of a set if one of them has pages.
func (st *set) loadPaged(db *lsm.DB) (err error) {
	bounds := st.prefix.Causal()
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: bounds.Lower, UpperBound: bounds.Upper})
	if err != nil {
		return lsm.DiskError(err)
	}
	defer lsm.Closing(it, &err)
	if !it.First() {
		return errors.Join(fmt.Errorf("%w: the clock of %q is gone", bigset.ErrCorrupt, st.name), it.Error())
	}
	r, err := readRecords(it, st.prefix)
	if err != nil {
		return err
	}
	st.seen, st.dead, st.next = r.seen, r.dead, r.seen.Clone()
	st.seenRecord, st.deadRecord = r.seenPages, r.deadPages
	st.recordBytes.Store(st.seenRecord.heapBytes() + st.deadRecord.heapBytes())
	return nil
}

// setHeapBytes is about what a small set was measured to cost in memory, apart from its name and clocks: the set
// itself, its place in the cache, and the view of its last reader.
const setHeapBytes = 704

// heapBytes estimates what the set costs in memory.
func (st *set) heapBytes() int64 {
	n := int64(setHeapBytes+3*len(st.name)+2*st.seen.HeapBytes()+st.dead.HeapBytes()) + st.recordBytes.Load()
	if runs := st.runs.Load(); runs != nil {
		n += runs.heapBytes()
	}
	return n
}

// recordSize decides whether a growing record is written whole or as an operand with its growth: whole as soon as the
// operands since the last whole one outweigh it several times. So writing it whole costs a fraction of the growth,
// and a load, a flush or an iterator of Pebble has few operands to unite.
type recordSize struct {
	whole, operands int // bytes: of the last whole record, of the operands since
	count           int // operands since
}

const (
	operandsShareMax = 4 // bytes of operands, of the whole record
	operandsCountMax = 20_000
)

// wantsWhole reports whether a growth of n bytes should be written as a whole record. Below least bytes of operands
// it should not: that avoids folding small records at every write.
func (r *recordSize) wantsWhole(n, least int) bool {
	return r.whole == 0 || r.count >= operandsCountMax || r.operands+n > max(operandsShareMax*r.whole, least)
}

func (r *recordSize) wroteWhole(n int) { *r = recordSize{whole: n} }

func (r *recordSize) wroteOperand(n int) {
	r.operands += n
	r.count++
}

// touch records when the set was last written, for the policy and for flushFor; keys says that a memtable got keys of elements or pages of
// the tombstone, not only records.
func (st *set) touch(keys bool) {
	now := time.Now().UnixNano()
	if st.lastWrite.Store(now); keys {
		st.lastKeys.Store(now)
	}
}
