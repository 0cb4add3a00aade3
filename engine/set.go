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

// set is what a store keeps in memory of one set while it is used: its clock and tombstone, the queue of its writers and
// the count of its readers.
//
// One goroutine at a time leads (see lead): it alone builds batches, and alone changes next and what it knows of records.
// seen and dead are what readers see. They change after the batch is applied, under mu, so a view of them is never newer
// than the keys of an iterator that is opened after it was taken.
type set struct {
	name   []byte // within prefix
	prefix keyscheme.Prefix

	lead    lockorder.Turn[lockorder.SetLead] // of those who write the set, or hold its writers: the others wait in the queue
	queueMu lockorder.Mutex[lockorder.SetQueue]
	queue   []*request
	led     bool // somebody leads
	gathering
	newRuns *deadRuns // become runs as soon as no batch is under way

	// The leader's own.
	next       *clock.Clock // Seen with what the leader is about to write
	seenRecord pagedRecord
	deadRecord pagedRecord
	deadSize   recordSize  // of the tombstone's own key
	batches    int         // written
	late       *lateWrites // what is written while the rewriter copies a span; nil when it does not

	// viewing is read-locked to take a view and open an iterator after it, or to look something up; it is locked while the set is
	// dropped with its range.
	viewing lockorder.RWMutex[lockorder.SetViewing]
	passes  lockorder.Mutex[lockorder.SetPasses] // held by the rewriter, and by what excises the set: one of them at a time

	mu         lockorder.RWMutex[lockorder.SetMu]
	seen       *clock.Clock
	dead       *clock.Clock
	exists     bool  // it has a clock key
	unresolved int64 // unresolved keys; after a crash it may be too many, never too few, see recountOnce
	flags      keyscheme.ClockFlags
	raises     uint64 // how often FlagSiblings was raised, or would have been
	version    uint64 // counts changes of dead
	shown      *view  // the last view handed out, nil when it is out of date

	runs      atomic.Pointer[deadRuns] // nil until a reader has met a long one; set between batches
	readers   readers
	publish   publishing // the publisher's own, see publish.go
	lastWrite atomic.Int64

	recordBytes atomic.Int64 // of memory that seenRecord and deadRecord take

	counted struct{ live, dead atomic.Int64 } // its shares of the cache's sums

	// The cache's own, under its lock.
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
	raises     uint64 // of that moment
	version    uint64 // of dead
}

// view returns the Seen and Dead of this moment. Take it before opening the iterator whose keys it judges.
func (st *set) view() *view {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.viewLocked()
}

// viewLocked is view for whoever holds mu.
func (st *set) viewLocked() *view {
	if st.shown == nil {
		st.shown = &view{st.seen.Clone(), st.dead.Clone(), st.flags&keyscheme.FlagSiblings == 0 && st.unresolved == 0, st.raises, st.version}
	}
	return st.shown
}

// lowerSiblings takes FlagSiblings down, unless it was raised since a view was taken from which on every element was found to
// have one dot. The next write of the set writes it down. Writers are held.
func (st *set) lowerSiblings(v *view) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.raises == v.raises {
		st.flags &^= keyscheme.FlagSiblings
		st.shown = nil
	}
}

// keepSiblings has FlagSiblings stay for whoever takes it down by what was read before. Writers are held.
func (st *set) keepSiblings() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.raises++
	st.shown = nil
}

// resetNext takes back what the leader was about to write. It is called by the leader. What it was going to write into
// pages it writes again, with all the rest.
func (st *set) resetNext() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.next = st.seen.Clone()
	st.seenRecord, st.deadRecord, st.deadSize = pagedRecord{}, pagedRecord{}, recordSize{}
}

// known reports whether this store has ever heard of the set.
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

// liveDots returns the number of dots in seen and not in dead, which is within seen. Len stops at 2^64-1, and a clock from
// outside can reach that: then it is counted the long way.
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

// loadPaged reads clock and tombstone of a set of which one has pages.
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

// setHeapBytes is about what a small set was measured to cost in memory beside its name and clocks: itself, its place in the
// cache, and the view of its last reader.
const setHeapBytes = 704

// heapBytes estimates what the set costs in memory.
func (st *set) heapBytes() int64 {
	n := int64(setHeapBytes+3*len(st.name)+2*st.seen.HeapBytes()+st.dead.HeapBytes()) + st.recordBytes.Load()
	if runs := st.runs.Load(); runs != nil {
		n += runs.heapBytes()
	}
	return n
}

// recordSize decides when a growing record is written whole, and when as an operand of what it grew by: whole as soon as
// the operands since the last whole one outweigh it some times over. So writing it whole costs a fraction of the growth,
// and the operands that a load, a flush or Pebble's iterators have to unite stay few.
type recordSize struct {
	whole, operands int // bytes: of the last whole record, of the operands since
	count           int // operands since
}

const (
	operandsShareMax = 4 // bytes of operands, of the whole record
	operandsCountMax = 20_000
)

// wantsWhole reports whether a growth of n bytes should be written as a whole record. Below least bytes of operands it is
// not: that keeps small records from being folded at every write for nothing.
func (r *recordSize) wantsWhole(n, least int) bool {
	return r.whole == 0 || r.count >= operandsCountMax || r.operands+n > max(operandsShareMax*r.whole, least)
}

func (r *recordSize) wroteWhole(n int) { *r = recordSize{whole: n} }

func (r *recordSize) wroteOperand(n int) {
	r.operands += n
	r.count++
}

// touch remembers when the set was last written, for the policy.
func (st *set) touch() { st.lastWrite.Store(time.Now().UnixNano()) }
