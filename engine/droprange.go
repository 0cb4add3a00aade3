package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"bigset"
	"bigset/clock"
	"bigset/comparator"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// slotRange is the slots from first to last, both included.
type slotRange struct{ first, last keyscheme.Slot }

// DropRange takes everything in the slots from first to last, both included, out of the store: sets with their
// clocks, and the slots' own keys. It is for a range that this store no longer holds because other replicas do.
// Afterwards the store does not know the sets of the range. They can be copied into it again. So that no counter is
// issued twice, sets of the range mint under another actor from then on (ActorOf); all other sets keep theirs. In a
// store of an older format (Format), and after every few thousand drops, the whole store takes a new incarnation
// instead. A crash leaves the whole range or nothing of it; when DropRange returns the range is gone for good.
// Writers and new readers of the range wait for some milliseconds. A stream continues with what its iterator shows,
// then with an empty set.
func (r Replica) DropRange(ctx context.Context, first, last keyscheme.Slot) error {
	if first > last {
		return fmt.Errorf("%w: slots %08x to %08x", bigset.ErrRequest, first, last)
	}
	if err := r.s.db.Enter(); err != nil {
		return err
	}
	defer r.s.db.Leave()
	if err := errors.Join(ctx.Err(), r.s.db.Writable()); err != nil {
		return err
	}
	if err := r.s.dropRange(ctx, slotRange{first, last}); err != nil {
		return fmt.Errorf("engine: drop slots %08x to %08x: %w", first, last, lsm.DiskError(err))
	}
	return nil
}

func (s *Store) dropRange(ctx context.Context, slots slotRange) error {
	b := keyscheme.SlotRange(slots.first, slots.last)
	s.passes.Lock() // no pass brings back what it has copied
	defer s.passes.Unlock()
	if err := s.db.FlushTables(ctx); err != nil { // otherwise the excise flushes while writers are held
		return err
	}
	if err := s.gate.begin(&sweep{bounds: b}, func() error { return nil }); err != nil {
		return err
	}
	defer s.gate.end()
	return s.gate.holding(b.Upper, func() error { return s.excise(ctx, slots) })
}

// excise takes a range out, on disk and in memory. Nobody writes or loads a set of the range.
func (s *Store) excise(ctx context.Context, slots slotRange) error {
	if err := errors.Join(s.renewActor(slots), s.db.SyncLog()); err != nil {
		return err
	}
	b := keyscheme.SlotRange(slots.first, slots.last)
	sets := s.sets.within(b)
	for _, st := range sets {
		st.viewing.Lock()
		defer st.viewing.Unlock()
	}
	s.swapping.RLock() // readers of many sets wait
	defer s.swapping.RUnlock()
	excised := false
	err := s.filters.ExciseRange(b, func() error {
		err := s.db.Excise(ctx, b)
		excised = err == nil
		return err
	})
	if !excised {
		return err
	}
	s.sets.forgetState(sets) // also if what filters have to write after the excise has failed
	s.setCounts.dropped(slots)
	s.publisher.forget(sets)
	s.counters.excises.Add(1)
	return err
}

// within returns the loaded sets within the bounds. Nobody is loading one.
func (c *setCache) within(b keyscheme.Bounds) (sets []*set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, st := range c.byName {
		in := comparator.Compare(st.prefix, b.Lower) >= 0 && comparator.Compare(st.prefix, b.Upper) < 0
		if in && st.seen != nil {
			sets = append(sets, st)
		}
	}
	return sets
}

// forgetState resets sets to the state of a set that this store has never seen. Nobody writes them, and viewing is
// locked.
func (c *setCache) forgetState(sets []*set) {
	c.mu.Lock() // trim looks at them
	for _, st := range sets {
		st.forget()
	}
	c.mu.Unlock()
	for _, st := range sets {
		c.account(st)
	}
}

// renewActor gives the slots an actor that has minted nothing, and stores it. The same batch deletes all notes of any
// part of the range.
func (s *Store) renewActor(slots slotRange) error {
	if err := errors.Join(s.db.Writable(), s.db.Mark()); err != nil {
		return err
	}
	batch := s.db.NewBatch()
	defer batch.Close()
	return s.db.RenewActor(batch, slots.first, slots.last, func(commit func() error) error { return s.dropNotes(slots, batch, commit) })
}

// forget resets the set to the state of an unknown one.
func (st *set) forget() {
	st.mu.Lock()
	st.seen, st.dead, st.shown = &clock.Clock{}, &clock.Clock{}, nil
	st.exists, st.unresolved, st.flags = false, 0, 0
	st.raises++
	st.version++
	st.forgetHot()
	st.changed()
	st.mu.Unlock()
	st.next = &clock.Clock{}
	st.seenRecord, st.deadRecord, st.deadSize = pagedRecord{}, pagedRecord{}, recordSize{}
	st.recordBytes.Store(0)
	st.queueMu.Lock()
	st.newRuns = nil
	st.queueMu.Unlock()
	st.runs.Store(nil)
}

// forget takes sets out of the registry, and out of the publisher's queues. Nobody writes them.
func (p *publisher) forget(sets []*set) {
	gone, none := map[*set]bool{}, map[string]*clock.Clock{}
	for _, st := range sets {
		gone[st], none[string(st.prefix)] = true, nil
	}
	p.rounds.Lock()
	defer p.rounds.Unlock()
	p.mu.Lock()
	var pinned []*set
	for st := range p.dirty {
		if gone[st] {
			delete(p.dirty, st)
			pinned = append(pinned, st)
		}
	}
	p.mu.Unlock()
	p.waits = slices.DeleteFunc(p.waits, func(st *set) bool {
		if gone[st] {
			st.publish.candidate = nil
			pinned = append(pinned, st)
		}
		return gone[st]
	})
	if r := p.s.registry.Load(); r.Len() > 0 {
		p.s.registry.Store(r.With(none))
	}
	for _, st := range pinned {
		p.s.sets.release(st)
	}
}
