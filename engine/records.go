package engine

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// How a set's Seen and Dead lie on disk. A small one is one record, under its own key. What is too large for that is
// *paged*: split into the parts of clock.Counters.Parts, each a record of its own; the own key, the *recent part*, holds what came
// since it was last spilled into them. So a write costs its growth, a spill the pages that it touches, and nothing the
// whole. Seen and Dead are the union of recent part and pages. A page that holds less than it could, or something twice, is
// right all the same, and nothing is ever taken out of one.

// recordLimits say when records are split, in bytes. Tests make them tiny.
type recordLimits struct {
	clock     int // of an encoded Seen above which it is spilled, and a quarter of that for its recent part: written with each batch
	tombstone int // of an encoded Dead, and of the operands to a paged one's recent part, above which it is spilled
	operands  int // of operands to a record below which it is never written whole for their sake
	page      int // of a page up to which it is written whole: an operand is hardly smaller, and has to be merged
}

var defaultRecordLimits = recordLimits{clock: 512, tombstone: 64 << 10, operands: 4 << 10, page: 64}

// pageID names a page of a clock or a tombstone.
type pageID struct {
	actor clock.Actor
	page  uint64
}

// pagedRecord is the leader's account of how Seen or Dead is split.
type pagedRecord struct {
	recent *clock.Clock // what the own key holds; nil while nothing is paged, then it is everything
	pages  map[pageID]recordSize
}

func (r *pagedRecord) paged() bool { return r.recent != nil }

// heapBytes estimates what the account costs in memory.
func (r *pagedRecord) heapBytes() int64 {
	if !r.paged() {
		return 0
	}
	return int64(r.recent.HeapBytes() + 96*len(r.pages))
}

// spill writes what is in the recent part of a record into the pages that it touches, each as an operand or whole, and leaves the
// recent part empty. all is what the record holds, that part included.
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
			// What has become full, or was reached by the base, is in part 0 from now on.
			moved = moved || !whole.HasPart(n) || whole.Base()>>clock.PageBits == n
		}
		if rest || moved {
			b.writePage(r, appendKey, pageID{a, 0}, grown, whole, moved)
		}
	}
	r.recent = &clock.Clock{}
}

// writePage writes one page of a record: as an operand of what it grew by, unless it must be whole.
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

// writeTombstone writes what enters Dead: as an operand, or whole when operands have piled up, or into pages when it is
// too large.
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
	// What compresses well is quick to write and still slow to encode: let its size in memory count.
	st.deadSize.wroteWhole(max(len(b.buf)-at, recent.HeapBytes()/2))
	b.check(b.batch.Set(b.buf[:at], b.buf[at:], nil))
}

// limit returns the bytes of operands below which a tombstone's own key is not written whole: the recent part of a paged one is
// spilled before.
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

// tooLarge reports whether a tombstone is to be split. That it may compress well does not count: that costs time at each write.
func (b *builder) tooLarge(c *clock.Clock, most int) bool {
	b.scratch = c.Append(b.scratch[:0])
	return len(b.scratch) > most
}

// writeClock writes the clock's own key, as a record and never as an operand. In the order of keys it comes right behind the
// elements of another set. Where the drop filter has left out the last of those, Pebble's compaction iterator has forgotten where it
// stands, and panics if the next key is a merge over a set (Pebble issue 6168). It holds all of Seen, or of a paged one what is
// not in pages, which are written when they are due.
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

// encodeClock puts the clock's own key into buf, and its value behind it. It returns where that begins, and where in it Seen
// does. It is not compressed: that costs time at each write, and what is large enough for it goes into pages.
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

// records are a set's clock and tombstone as they lie on disk.
type records struct {
	value      keyscheme.ClockValue // of the clock's own key
	seen, dead *clock.Clock         // with pages
	seenPages  pagedRecord
	deadPages  pagedRecord
}

// readRecords reads the records of the set at whose clock key the iterator is, and stays within what is no element.
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
			break // the limit is kept only roughly
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

// tombstoneError says that a set's clock tells of another tombstone than there is. One lets keys come back to life without the
// other.
func tombstoneError(prefix keyscheme.Prefix, there bool) error {
	if there {
		return fmt.Errorf("%w: the clock of %q does not tell of its tombstone", bigset.ErrCorrupt, prefix.Set())
	}
	return fmt.Errorf("%w: the tombstone of %q is gone", bigset.ErrCorrupt, prefix.Set())
}

// add takes one more record.
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

// add adds a page to what the record holds. The first one parts the recent part from the whole.
func (r *pagedRecord) add(all *clock.Clock, key *keyscheme.Key, value []byte) (*clock.Clock, error) {
	if !r.paged() {
		r.recent, all, r.pages = all, all.Clone(), map[pageID]recordSize{}
	}
	r.pages[pageID{clock.Actor(key.Actor), key.Page}] = recordSize{whole: len(value)}
	return all, keyscheme.AddPageValue(all, value)
}
