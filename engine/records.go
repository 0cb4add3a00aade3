package engine

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// A set's Seen and Dead are stored on disk as records. A small one is one record, under its own key. A larger one is
// *paged*: split into the parts of clock.Counters.Parts, each a record of its own. The own key, the *recent part*,
// holds what was added since it was last spilled into the pages. So a write costs its growth, a spill costs the pages
// that it touches, and nothing costs the whole. Seen and Dead are the union of recent part and pages. A page that
// holds less than it could, or something twice, is still right, and nothing is ever taken out of one.

// recordLimits are the sizes, in bytes, at which records are split. Tests make them tiny.
type recordLimits struct {
	clock     int // of an encoded Seen above which it is spilled, and a quarter of that for its recent part: written with each batch
	tombstone int // of an encoded Dead, and of the operands to a paged one's recent part, above which it is spilled
	operands  int // of operands to a record below which the record is not written whole because of them
	page      int // of a page up to which it is written whole: an operand is hardly smaller, and must be merged
}

var defaultRecordLimits = recordLimits{clock: 512, tombstone: 64 << 10, operands: 4 << 10, page: 64}

// pageID names a page of a clock or a tombstone.
type pageID struct {
	actor clock.Actor
	page  uint64
}

// pagedRecord is the leader's account of how Seen or Dead is split.
type pagedRecord struct {
	recent *clock.Clock // the content of the own key; nil while nothing is paged: the own key then holds everything
	pages  map[pageID]recordSize
}

func (r *pagedRecord) paged() bool { return r.recent != nil }

// heapBytes estimates the size of the account in memory.
func (r *pagedRecord) heapBytes() int64 {
	if !r.paged() {
		return 0
	}
	return int64(r.recent.HeapBytes() + 96*len(r.pages))
}

// spill writes the recent part of a record into the pages that it touches, each as an operand or whole, and leaves
// the recent part empty. The argument all is everything that the record holds, including that part.
func (b *builder) spill(r *pagedRecord, appendKey func(dst []byte, a clock.Actor, page uint64) []byte, recent, all *clock.Clock) {
	if !r.paged() {
		r.pages = map[pageID]recordSize{}
	}
	for _, a := range recent.Actors() {
		grown, whole := recent.Counters(a), all.Counters(a)
		rest, moved := grown.HasPart(0), false
		for n := range grown.Parts() {
			if n == 0 {
				continue
			}
			if whole.HasPart(n) {
				b.writePage(r, appendKey, pageID{a, n}, grown, whole, false)
			}
			// A part that has become full, or that the base has reached, is in part 0 from now on.
			moved = moved || !whole.HasPart(n) || whole.Base()>>clock.PageBits == n
		}
		if rest || moved {
			b.writePage(r, appendKey, pageID{a, 0}, grown, whole, moved)
		}
	}
	r.recent = &clock.Clock{}
}

// writePage writes one page of a record: as an operand with its growth, unless it must be written whole.
func (b *builder) writePage(r *pagedRecord, appendKey func([]byte, clock.Actor, uint64) []byte, id pageID, grown, whole *clock.Counters, must bool) {
	size := r.pages[id]
	key := appendKey(nil, id.actor, id.page)
	if !must && size.whole > b.s.limits.page {
		operand := keyscheme.AppendPageValue(nil, grown, id.page)
		if !size.wantsWhole(len(operand), b.s.limits.operands) {
			size.wroteOperand(len(operand))
			r.pages[id] = size
			b.check(b.batch.Merge(key, operand, nil))
			return
		}
	}
	value := keyscheme.AppendPageValue(nil, whole, id.page)
	size.wroteWhole(len(value))
	r.pages[id] = size
	b.check(b.batch.Set(key, value, nil))
}

// writeTombstone writes what enters Dead: as an operand, or whole if operands have accumulated, or into pages if it
// is too large.
func (b *builder) writeTombstone() {
	st, r, most := b.st, &b.st.deadRecord, b.s.limits.tombstone
	b.flags |= keyscheme.FlagTombstone
	b.buf = st.prefix.AppendTombstone(b.buf[:0])
	at := len(b.buf)
	b.buf = keyscheme.AppendTombstoneDots(b.buf, b.killed.dots)
	n := len(b.buf) - at
	full := r.paged() && st.deadSize.operands+n > most
	if r.paged() {
		b.addDeadTo(r.recent)
	}
	if b.cleared == nil && !full && !st.deadSize.wantsWhole(n, b.limit(r)) {
		st.deadSize.wroteOperand(n)
		b.check(b.batch.Merge(b.buf[:at], b.buf[at:], nil))
		return
	}
	recent := r.recent
	if !r.paged() {
		recent = b.grownDead()
	}
	if full || b.tooLarge(recent, most) {
		all := recent
		if r.paged() {
			all = b.grownDead()
		}
		b.spill(r, st.prefix.AppendTombstonePage, recent, all)
		recent, b.flags = r.recent, b.flags|keyscheme.FlagTombstonePages
	}
	b.buf = keyscheme.AppendTombstoneValue(b.buf[:at], recent)
	// A record that compresses well is quick to write but still slow to encode: count its size in memory.
	st.deadSize.wroteWhole(max(len(b.buf)-at, recent.HeapBytes()/2))
	b.check(b.batch.Set(b.buf[:at], b.buf[at:], nil))
}

// limit returns the bytes of operands below which a tombstone's own key is not written whole. The recent part of a
// paged one is spilled before it reaches them.
func (b *builder) limit(r *pagedRecord) int {
	if r.paged() {
		return b.s.limits.tombstone
	}
	return b.s.limits.operands
}

// grownDead returns Dead with what this batch adds.
func (b *builder) grownDead() *clock.Clock {
	b.st.mu.Lock() // cloning is a write
	dead := b.st.dead.Clone()
	b.st.mu.Unlock()
	b.addDeadTo(dead)
	return dead
}

// addDeadTo adds what enters Dead to a clock.
func (b *builder) addDeadTo(dead *clock.Clock) {
	for _, d := range b.killed.dots {
		dead.Add(d)
	}
	if b.cleared != nil {
		dead.Union(b.cleared)
	}
}

// tooLarge reports whether a tombstone must be split. It ignores compression, which would cost time at each write.
func (b *builder) tooLarge(c *clock.Clock, most int) bool {
	b.scratch = c.Append(b.scratch[:0])
	return len(b.scratch) > most
}

// writeClock writes the clock's own key, as a record and never as an operand. In the order of keys it comes right
// after the elements of another set. If the drop filter has left out the last of those, Pebble's compaction iterator
// has lost its position, and panics if the next key is a merge over a set (Pebble issue 6168). The key holds all of
// Seen or, if Seen is paged, the part that is not in pages. Pages are written when they are due.
func (b *builder) writeClock() {
	st, r, most := b.st, &b.st.seenRecord, b.s.limits.clock
	recent := st.next
	if r.paged() {
		recent, most = b.grownRecent(), most/4
	}
	value, seen := b.encodeClock(recent)
	if len(b.buf)-seen > most {
		b.spill(r, st.prefix.AppendClockPage, recent, st.next)
		b.flags |= keyscheme.FlagClockPages
		value, _ = b.encodeClock(r.recent)
	}
	b.check(b.batch.Set(b.buf[:value], b.buf[value:], nil))
}

// encodeClock puts the clock's own key into buf, followed by its value. It returns the offset of the value, and that
// of Seen in it. The value is not compressed: that costs time at each write, and a clock large enough for compression
// is paged.
func (b *builder) encodeClock(recent *clock.Clock) (value, seen int) {
	b.buf = b.st.prefix.AppendClock(b.buf[:0])
	value = len(b.buf)
	flags := b.st.flags | b.flags
	if b.sibling {
		flags |= keyscheme.FlagSiblings
	}
	b.buf = keyscheme.AppendClockHead(b.buf, keyscheme.ClockValue{Unresolved: b.st.unresolved + b.unresolved, Flags: flags})
	seen = len(b.buf)
	b.buf = recent.Append(b.buf)
	return value, seen
}

// grownRecent returns the recent part of a paged Seen with what this batch adds.
func (b *builder) grownRecent() *clock.Clock {
	recent := b.st.seenRecord.recent
	recent.AddRange(b.actor, b.first+1, b.counter)
	for _, d := range b.learned {
		recent.Add(d)
	}
	if b.cleared != nil {
		recent.Union(b.cleared)
	}
	recent.Union(b.brought)
	return recent
}

// records are a set's clock and tombstone as stored on disk.
type records struct {
	value      keyscheme.ClockValue // of the clock's own key
	seen, dead *clock.Clock         // including pages
	seenPages  pagedRecord
	deadPages  pagedRecord
}

// readRecords reads the records of the set whose clock key the iterator is at. It does not move past the set's first
// element.
func readRecords(it *pebble.Iterator, prefix keyscheme.Prefix) (*records, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return nil, lsm.DiskError(err)
	}
	r := &records{dead: &clock.Clock{}}
	if r.value, err = keyscheme.DecodeClockValue(value); err != nil {
		return nil, fmt.Errorf("%w: clock of %q: %w", bigset.ErrCorrupt, prefix.Set(), err)
	}
	r.seen = r.value.Seen
	tombstone := false
	bound := prefix.Causal().Upper
	for it.NextWithLimit(bound) == pebble.IterValid {
		key, err := keyscheme.Decode(it.Key())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", bigset.ErrCorrupt, err)
		}
		if key.Kind == keyscheme.KindElement || string(key.Set) != string(prefix.Set()) {
			break // the limit is only approximate
		}
		if value, err = it.ValueAndErr(); err != nil {
			return nil, lsm.DiskError(err)
		}
		if err := r.add(&key, value); err != nil {
			return nil, fmt.Errorf("%w: %v of %q: %w", bigset.ErrCorrupt, key.Kind, prefix.Set(), err)
		}
		tombstone = tombstone || key.Kind == keyscheme.KindTombstone
	}
	if err := it.Error(); err != nil {
		return nil, lsm.DiskError(err)
	}
	if tombstone != (r.value.Flags&keyscheme.FlagTombstone != 0) {
		return nil, tombstoneError(prefix, tombstone)
	}
	return r, nil
}

// tombstoneError returns an error for a set whose clock and tombstone contradict each other. Without its tombstone, a
// set's dead keys would become live again.
func tombstoneError(prefix keyscheme.Prefix, there bool) error {
	if there {
		return fmt.Errorf("%w: the clock of %q does not record its tombstone", bigset.ErrCorrupt, prefix.Set())
	}
	return fmt.Errorf("%w: the tombstone of %q is gone", bigset.ErrCorrupt, prefix.Set())
}

// add adds one more record.
func (r *records) add(key *keyscheme.Key, value []byte) (err error) {
	switch key.Kind {
	case keyscheme.KindTombstone:
		r.dead, err = keyscheme.DecodeTombstoneValue(value)
	case keyscheme.KindClockPage:
		r.seen, err = r.seenPages.add(r.seen, key, value)
	case keyscheme.KindTombstonePage:
		r.dead, err = r.deadPages.add(r.dead, key, value)
	}
	return err
}

// add adds a page to the record's content. The first page separates the recent part from the whole.
func (r *pagedRecord) add(all *clock.Clock, key *keyscheme.Key, value []byte) (*clock.Clock, error) {
	if !r.paged() {
		r.recent, all, r.pages = all, all.Clone(), map[pageID]recordSize{}
	}
	r.pages[pageID{clock.Actor(key.Actor), key.Page}] = recordSize{whole: len(value)}
	return all, keyscheme.AddPageValue(all, value)
}
