package engine

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// The slots are counted in parts: all slots that have their first countBits bits in common.
const (
	countBits  = 12
	countParts = 1 << countBits
)

// setCounts keeps how many sets have a live dot. A part is counted when somebody first asks for it. From then on each write that gives
// a set its first live dot, or takes its last, changes the number.
type setCounts struct {
	turn  chan struct{} // has room for one: the goroutine that counts
	parts [countParts]atomic.Pointer[partCount]
}

// partCount is how many sets of a part have a live dot. Writers change the one that they find; the beginning of a count and a drop put
// another in its place. So the result of a count does not reach a part that was dropped since the count began.
type partCount struct {
	known       atomic.Bool
	sets, apart atomic.Int64 // if the part is not known, what has changed since its count began
}

// isKnown reports whether the part was counted. A part that nobody has asked for is nil.
func (p *partCount) isKnown() bool { return p != nil && p.known.Load() }

func (p *partCount) add(sets, apart int64) {
	p.sets.Add(sets)
	p.apart.Add(apart)
}

func countPart(s keyscheme.Slot) int { return int(s >> (32 - countBits)) }

func firstOfPart(part int) keyscheme.Slot { return keyscheme.Slot(part) << (32 - countBits) }

func lastOfPart(part int) keyscheme.Slot { return firstOfPart(part) | (1<<(32-countBits) - 1) }

// CountSets returns how many sets with hash slots from first to last, both included, have a live dot; CountSets(ctx, 0, math.MaxUint32)
// counts all sets. The first call after an open reads the clocks of the sets, as Sets does; later ones read nothing if first is a multiple
// of 2^20 and last is one less than such a multiple. Each part of 2^20 slots is counted as of a moment during the call; a write that is
// under way may be counted or not.
func (s *Store) CountSets(ctx context.Context, first, last keyscheme.Slot) (bigset.SetCount, error) {
	if first > last {
		return bigset.SetCount{}, fmt.Errorf("%w: slots %08x to %08x", bigset.ErrRequest, first, last)
	}
	if err := s.db.Enter(); err != nil {
		return bigset.SetCount{}, err
	}
	defer s.db.Leave()
	from, to := countPart(first), countPart(last)
	if first == firstOfPart(from) && last == lastOfPart(to) {
		if n, ok, err := s.countKept(ctx, from, to); ok || err != nil {
			return n, err
		}
	}
	var n bigset.SetCount
	err := s.eachRecordIn(ctx, keyscheme.SlotRange(first, last), func(r setRecord) bool {
		s.countInto(&n, &r)
		return true
	})
	return n, err
}

// keptCount adds up parts. ok is false if one of them is not known.
func (s *Store) keptCount(from, to int) (n bigset.SetCount, ok bool) {
	for i := from; i <= to; i++ {
		p := s.setCounts.parts[i].Load()
		if !p.isKnown() {
			return bigset.SetCount{}, false
		}
		n.Sets += uint64(max(0, p.sets.Load()))
		n.Apart += uint64(max(0, p.apart.Load()))
	}
	n.Apart = min(n.Apart, n.Sets) // the two change one after the other
	return n, true
}

// countKept adds up parts, after it has counted those that are not known. While one goroutine counts, the others wait for it. ok is false
// if a range that ends within a part was dropped during the count.
func (s *Store) countKept(ctx context.Context, from, to int) (n bigset.SetCount, ok bool, err error) {
	if n, ok = s.keptCount(from, to); ok {
		return n, true, nil
	}
	select {
	case s.setCounts.turn <- struct{}{}:
	case <-ctx.Done():
		return n, false, ctx.Err()
	}
	defer func() { <-s.setCounts.turn }()
	if n, ok = s.keptCount(from, to); ok { // the goroutine before has counted them
		return n, true, nil
	}
	if err := s.countUnknown(ctx, from, to); err != nil {
		return n, false, err
	}
	n, ok = s.keptCount(from, to)
	return n, ok, nil
}

// countUnknown counts those of the parts that are not known. Each is known as soon as its last set was read, so a count that is cut
// goes on there the next time. The caller has the turn.
func (s *Store) countUnknown(ctx context.Context, from, to int) (err error) {
	parts := &s.setCounts.parts
	for from < to && parts[from].Load().isKnown() {
		from++
	}
	for from < to && parts[to].Load().isKnown() {
		to--
	}
	fresh := make([]partCount, to-from+1)
	var it *pebble.Iterator
	// Nobody is between the commit of a batch and the change of the numbers: what the iterator shows is what they leave out. A range that
	// is being dropped is gone from both when the iterator opens, or is replaced afterwards.
	if err := s.gate.alone(func() (err error) {
		for i := range fresh {
			if p := &parts[from+i]; !p.Load().isKnown() {
				p.Store(&fresh[i])
			}
		}
		it, err = s.recordIter(keyscheme.SlotRange(firstOfPart(from), lastOfPart(to)))
		return err
	}); err != nil {
		return err
	}
	defer lsm.Closing(it, &err)
	var n bigset.SetCount
	part := from // n is what was read of it
	passed := func(next int) {
		for ; part < next; part++ {
			p := &fresh[part-from] // is in no place if the part was known, or was dropped since
			p.add(int64(n.Sets), int64(n.Apart))
			p.known.Store(true)
			n = bigset.SetCount{}
		}
	}
	if err := s.eachRecordOf(ctx, it, func(r setRecord) bool {
		passed(countPart(keyscheme.SetSlot(r.Name)))
		s.countInto(&n, &r)
		return true
	}); err != nil {
		return err
	}
	passed(to + 1)
	return nil
}

// countInto counts a set if it has a live dot.
func (s *Store) countInto(n *bigset.SetCount, r *setRecord) {
	if r.Live == 0 {
		return
	}
	n.Sets++
	if s.opt.CountApart(r.Name) {
		n.Apart++
	}
}

// countChange counts that a set has its first live dot, or has lost its last. The caller is inside the gate.
func (s *Store) countChange(st *set, by int64) {
	p := s.setCounts.parts[countPart(st.prefix.Slot())].Load()
	switch {
	case p == nil:
	case s.opt.CountApart(st.name):
		p.add(by, by)
	default:
		p.add(by, 0)
	}
}

// dropped is called after all sets of the slots are gone, and before an iterator over many sets can be opened. The caller holds the writers
// of the slots.
func (c *setCounts) dropped(slots slotRange) {
	for i := countPart(slots.first); i <= countPart(slots.last); i++ {
		p := &c.parts[i]
		if firstOfPart(i) < slots.first || lastOfPart(i) > slots.last {
			p.Store(nil) // some of its sets stay
			continue
		}
		none := &partCount{}
		none.known.Store(true)
		p.Store(none)
	}
}
