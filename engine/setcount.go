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
// a set its first live dot, or takes its last, changes the number. It needs no lock of its own: DropRange, which clears parts, holds
// Store.passes, which a count shares.
type setCounts struct {
	busy  atomic.Bool // parts are being counted
	parts [countParts]struct {
		known       atomic.Bool
		sets, apart atomic.Int64 // if the part is not known, what has changed since its count began
	}
}

func countPart(s keyscheme.Slot) int { return int(s >> (32 - countBits)) }

func firstOfPart(part int) keyscheme.Slot { return keyscheme.Slot(part) << (32 - countBits) }

func lastOfPart(part int) keyscheme.Slot { return firstOfPart(part) | (1<<(32-countBits) - 1) }

// CountSets returns how many sets with hash slots from first to last, both included, have a live dot. The first call after an open reads
// the clocks of the sets, as Sets does; later ones read nothing, if the range is of whole parts of 2^20 slots. What is counted was true at
// some moment of the call, but for writes that are under way.
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
		if n, ok := s.keptCount(from, to); ok {
			return n, nil
		}
		if ok, err := s.countKept(ctx, from, to); err != nil {
			return bigset.SetCount{}, err
		} else if ok {
			if n, ok := s.keptCount(from, to); ok {
				return n, nil
			}
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
		p := &s.setCounts.parts[i]
		if !p.known.Load() {
			return bigset.SetCount{}, false
		}
		n.Sets += uint64(max(0, p.sets.Load()))
		n.Apart += uint64(max(0, p.apart.Load()))
	}
	n.Apart = min(n.Apart, n.Sets) // the two change one after the other
	return n, true
}

// countKept counts those of the parts that are not known. ok is false if another goroutine is counting.
func (s *Store) countKept(ctx context.Context, from, to int) (ok bool, err error) {
	c := &s.setCounts
	if !c.busy.CompareAndSwap(false, true) {
		return false, nil
	}
	defer c.busy.Store(false)
	s.passes.RLock() // no range is dropped, and no sweep swaps clocks
	defer s.passes.RUnlock()
	unknown := map[int]*bigset.SetCount{}
	for i := from; i <= to; i++ {
		if !c.parts[i].known.Load() {
			unknown[i] = &bigset.SetCount{}
		}
	}
	var it *pebble.Iterator
	b := keyscheme.SlotRange(firstOfPart(from), lastOfPart(to))
	// Nobody is between the commit of a batch and the change of the numbers: what the iterator shows is what they leave out.
	if err := s.gate.alone(func() (err error) {
		for i := range unknown {
			c.parts[i].sets.Store(0)
			c.parts[i].apart.Store(0)
		}
		it, err = s.recordIter(b)
		return err
	}); err != nil {
		return false, err
	}
	defer lsm.Closing(it, &err)
	if err := s.eachRecordOf(ctx, it, func(r setRecord) bool {
		if n := unknown[countPart(keyscheme.SetSlot(r.Name))]; n != nil {
			s.countInto(n, &r)
		}
		return true
	}); err != nil {
		return false, err
	}
	for i, n := range unknown {
		c.parts[i].sets.Add(int64(n.Sets))
		c.parts[i].apart.Add(int64(n.Apart))
		c.parts[i].known.Store(true)
	}
	return true, nil
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
	p := &s.setCounts.parts[countPart(st.prefix.Slot())]
	p.sets.Add(by)
	if s.opt.CountApart(st.name) {
		p.apart.Add(by)
	}
}

// dropped is called after all sets of the slots are gone. The caller holds Store.passes and the writers of the slots.
func (c *setCounts) dropped(slots slotRange) {
	for i := countPart(slots.first); i <= countPart(slots.last); i++ {
		p := &c.parts[i]
		if firstOfPart(i) < slots.first || lastOfPart(i) > slots.last {
			p.known.Store(false) // some of its sets stay
			continue
		}
		p.sets.Store(0)
		p.apart.Store(0)
		p.known.Store(true)
	}
}
