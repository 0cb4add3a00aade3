package engine

import (
	"context"
	"fmt"

	"bigset"
	"bigset/compaction"
	"bigset/comparator"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// CompactOptions say what Compact does.
type CompactOptions struct {
	// Set is the set to work on; nil is all of them.
	Set []byte
	// Progress is called after each span or set, if it is not nil.
	Progress func(CompactReport)
}

// CompactReport reports what Compact has done.
type CompactReport struct {
	Sets         int    // sets looked at
	Spans        int    // spans swapped
	SpansLeft    int    // spans left because they were being written
	KeysRead     uint64 // element keys read by the rewriter
	KeysDropped  uint64 // of these, the keys left out
	KeysResolved uint64 // unresolved keys resolved
	BytesOut     uint64 // bytes of tables that the rewriter wrote
	DiskBefore   uint64 // bytes in tables before; DiskAfter: after
	DiskAfter    uint64
}

// Compact takes dead keys off the disk now, the way the store's strategy does: by rewriting every span that has one,
// or by compacting everything through the drop filter. It returns when that has finished; writers continue during the
// call. When ctx is done Compact returns, but a compaction that it asked Pebble for continues until it has finished or
// the store is closed.
func (s *Store) Compact(ctx context.Context, o CompactOptions) (rep CompactReport, err error) {
	if err := s.db.Enter(); err != nil {
		return rep, err
	}
	defer s.db.Leave()
	if err := s.db.Writable(); err != nil {
		return rep, err
	}
	s.db.EndRest()
	rep.DiskBefore = s.tableBytes()
	progress := o.Progress
	if progress == nil {
		progress = func(CompactReport) {}
	}
	names, err := s.namesToCompact(ctx, o.Set)
	if err != nil {
		return rep, err
	}
	if err := s.settle(ctx); err != nil {
		return rep, err
	}
	if o.Set == nil && s.strategy.Rewrites() {
		if err := s.sweepAll(ctx, &rep, progress); err != nil {
			return rep, err
		}
	}
	for _, name := range names {
		if s.db.Closed() {
			return rep, bigset.ErrClosed
		}
		if err := s.compactSet(ctx, name, &rep, progress); err != nil {
			return rep, err
		}
		rep.Sets++
	}
	rep.DiskAfter = s.tableBytes()
	return rep, nil
}

// sweepAll compacts all sets: small ones many at a time, the others one by one.
func (s *Store) sweepAll(ctx context.Context, rep *CompactReport, progress func(CompactReport)) error {
	for b := keyscheme.SlotRange(0, keyscheme.SlotMax); comparator.Compare(b.Lower, b.Upper) < 0; {
		if s.db.Closed() {
			return bigset.ErrClosed
		}
		res, err := s.rewriteSets(ctx, b, func(compaction.Span) bool { return true })
		if err != nil {
			return err
		}
		rep.Sets += res.Sets
		rep.add(&res.passResult)
		progress(*rep)
		if res.Own != nil {
			if err := s.compactSet(ctx, res.Own, rep, progress); err != nil {
				return err
			}
			rep.Sets++
		}
		b.Lower = res.Upper
	}
	return nil
}

// add counts a pass.
func (r *CompactReport) add(res *passResult) {
	r.KeysRead += uint64(res.Keys)
	switch {
	case res.Left:
		r.SpansLeft++
	case res.Swapped:
		r.Spans++
		r.KeysDropped += uint64(res.Dropped)
		r.KeysResolved += uint64(res.Resolved)
		r.BytesOut += uint64(res.Bytes)
	}
}

// namesToCompact lists the sets that are compacted one by one.
func (s *Store) namesToCompact(ctx context.Context, only []byte) (names [][]byte, err error) {
	if only != nil {
		return [][]byte{only}, s.withSet(ctx, only, func(*set) error { return nil })
	}
	if s.strategy.Rewrites() {
		return nil, nil
	}
	err = s.eachSet(ctx, func(i bigset.SetInfo) bool {
		names = append(names, i.Name)
		return true
	})
	return names, err
}

// settle makes everything durable, hands to the drop filter all tombstones that may go there, and flushes through it.
func (s *Store) settle(ctx context.Context) error {
	for range 3 { // a candidate may be waiting already; then the newest one, then what was put back
		if err := s.publisher.round(); err != nil {
			return err
		}
	}
	if err := s.db.SyncLog(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.db.FlushTables(ctx)
}

// compactSet compacts one set by the strategy's means.
func (s *Store) compactSet(ctx context.Context, name []byte, rep *CompactReport, progress func(CompactReport)) error {
	st, err := s.sets.acquire(name)
	if err != nil {
		return err
	}
	defer s.sets.release(st)
	if err := s.recountOnce(ctx, st); err != nil {
		return err
	}
	if st.live() == 0 && st.unresolvedKeys() == 0 && s.reclaims() {
		if err := s.exciseEmptied(ctx, st); err != nil {
			return err
		}
		progress(*rep)
		return nil
	}
	if !s.strategy.Rewrites() {
		b := st.prefix.All()
		if err := s.db.Compact(ctx, b); err != nil {
			return fmt.Errorf("engine: compact %q: %w", name, lsm.DiskError(err))
		}
		progress(*rep)
		return nil
	}
	return s.rewriteAll(ctx, st, rep, progress)
}

// rewriteAll passes over all spans of a set.
func (s *Store) rewriteAll(ctx context.Context, st *set, rep *CompactReport, progress func(CompactReport)) error {
	for bounds := st.prefix.Elements(); ; {
		res, err := s.rewriteSpan(ctx, st, bounds, func(compaction.Span) bool { return true })
		if err != nil {
			return err
		}
		rep.add(&res)
		progress(*rep)
		if string(res.Upper) == string(bounds.Upper) {
			return nil
		}
		bounds = keyscheme.Bounds{Lower: res.Upper, Upper: bounds.Upper}
	}
}

// tableBytes returns the bytes in tables that are in use.
func (s *Store) tableBytes() uint64 {
	m := s.db.Metrics()
	total := m.Total()
	return uint64(total.TablesSize)
}
