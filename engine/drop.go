package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/clock"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// Drop deletes a whole set: everything that the caller has seen (bigset.DropOptions.Seen), or without that everything
// that this store has, including writes that were queued before. The cost does not depend on the set's size. Adds
// concurrent with it live. The set stays known, empty, with its clock, so that no counter starts again and no old
// delta is applied again; its space is freed in the background. The other replicas must apply the delta.
func (s *Store) Drop(ctx context.Context, name []byte, o bigset.DropOptions) (bigset.Delta, error) {
	if err := bigset.CheckName(name); err != nil {
		return bigset.Delta{}, err
	}
	if err := bigset.CheckClock(o.Seen); err != nil {
		return bigset.Delta{}, err
	}
	r := newRequest(&dropping{context: o.Seen}, o.Durability)
	if err := s.writeTo(ctx, name, r); err != nil {
		return bigset.Delta{}, err
	}
	return r.result.Delta, nil
}

// dropping is a whole-set delete as work.
type dropping struct{ context *clock.Clock }

func (*dropping) adds() bool { return false }

func (*dropping) size(int) (keys, bytes int) { return 0, 0 }

func (*dropping) looksUp(bigset.Policy) bool { return false }

func (w *dropping) into(b *builder, r *request) error {
	k := w.context
	switch {
	case k == nil && !b.st.exists && b.empty():
		return fmt.Errorf("%w: %q", bigset.ErrNotFound, b.st.name)
	case k == nil:
		k = b.st.next
	case k.Max(b.actor) > b.counter:
		return fmt.Errorf("%w: dot %d of this store was never issued, the last is %d", bigset.ErrContext, k.Max(b.actor), b.counter)
	}
	k = k.Clone()
	r.result.Delta = bigset.Delta{Set: bytes.Clone(b.st.name), Clear: k}
	b.clear(k)
	return nil
}

// exciseEmptied excises the element range of a set that has no live dot and no unresolved key; the rewriter must
// resolve such a key first. Writers are held, and the log is synced first: the excise is durable, so what it relies
// on must be. Keys in a memtable are flushed before that: an excise that waits for their flush delays the writers of
// all sets.
func (s *Store) exciseEmptied(ctx context.Context, st *set) error {
	if err := s.recountOnce(ctx, st); err != nil {
		return err
	}
	s.passes.RLock()
	defer s.passes.RUnlock()
	st.passes.Lock()
	defer st.passes.Unlock()
	if st.live() == 0 {
		if err := s.flushFor(ctx, st.lastKeys.Load()); err != nil {
			return err
		}
	}
	return s.holding(st, func() error {
		if st.live() > 0 || st.unresolvedKeys() > 0 {
			return nil
		}
		bounds := st.prefix.Elements()
		if unpaged, err := s.unpage(st); err != nil {
			return err
		} else if unpaged {
			bounds.Lower = st.prefix.TombstonePages().Lower
		}
		if err := s.db.SyncLog(); err != nil {
			return err
		}
		s.swapping.RLock() // a reader of many sets that has held swaps back is not overtaken
		s.db.Overtake()    // a reader whose view is from before the drop takes another one
		s.swapping.RUnlock()
		if err := s.db.Excise(ctx, bounds); err != nil {
			return fmt.Errorf("engine: excise %q: %w", st.name, lsm.DiskError(err))
		}
		s.counters.excises.Add(1)
		s.event(Event{Kind: EventExcise, Set: st.name})
		return nil
	})
}

// unpage writes a paged tombstone whole if it has become small enough: the tombstone of an emptied set mostly is a
// few runs. It reports whether the pages are no longer needed. Nobody else may be writing the set.
func (s *Store) unpage(st *set) (bool, error) {
	if st.flags&keyscheme.FlagTombstonePages == 0 || len(st.dead.Append(nil)) > s.limits.tombstone {
		return false, nil
	}
	recent, flags := st.next, st.flags&^keyscheme.FlagTombstonePages
	if st.seenRecord.paged() {
		recent = st.seenRecord.recent
	}
	batch := s.db.NewBatch()
	value := keyscheme.AppendTombstoneValue(nil, st.dead)
	if err := errors.Join(
		batch.Set(st.prefix.AppendClock(nil), keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: recent, Unresolved: st.unresolved, Flags: flags}), nil),
		batch.Set(st.prefix.AppendTombstone(nil), value, nil),
	); err != nil {
		return false, errors.Join(err, batch.Close())
	}
	if _, err := s.db.Commit(batch, false); err != nil {
		return false, err
	}
	st.mu.Lock() // readers look at flags
	st.flags = flags
	st.mu.Unlock()
	st.deadRecord = pagedRecord{}
	st.deadSize.wroteWhole(len(value))
	return true, nil
}
