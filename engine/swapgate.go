package engine

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"bigset/comparator"
	"bigset/engine/internal/lockorder"
	"bigset/keyscheme"
)

// swapGate keeps readers of a set from opening an iterator in the middle of a swap. Pebble installs a swap in two steps:
// first the version in which the old tables of the span are gone, then the sequence number from which on the new ones are
// seen. An iterator opened between the two finds the span empty. So while a swap is under way readers of the span's sets get
// clones of an iterator that was opened before it; writers of those sets are held, so that one is as good as new.
type swapGate struct {
	one  lockorder.Mutex[lockorder.SwapOne] // one swap at a time
	turn atomic.Uint64                      // odd while a swap is under way
	mu   lockorder.Mutex[lockorder.SwapMu]
	old  *pebble.Iterator // what clones are made of; nil when no swap is under way
	span keyscheme.Bounds // of the swap under way
}

// swapIn puts tables in place of everything that a span holds, which resolves so many open keys. Writers of the span are
// held, and the log is synced. One that is holed has blocks that can't be read.
func (s *Store) swapIn(ctx context.Context, bounds keyscheme.Bounds, paths []string, resolved int, holed bool) error {
	span := pebble.KeyRange{Start: bounds.Lower, End: bounds.Upper}
	s.swapping.RLock() // who reads many sets waits
	defer s.swapping.RUnlock()
	err := s.cut(bounds, holed, func() error {
		return s.swaps.swapping(s.db, bounds, func() (err error) {
			if len(paths) == 0 {
				return s.db.Excise(ctx, span)
			}
			_, err = s.db.IngestAndExcise(ctx, paths, nil, nil, span)
			return err
		})
	})
	if err == nil {
		s.counters.rewriteClosed.Add(uint64(resolved)) // while Verify, which counts open keys, waits
	}
	return err
}

// swapping runs a swap. Writers of the span are held.
func (g *swapGate) swapping(db *pebble.DB, span keyscheme.Bounds, swap func() error) error {
	g.one.Lock()
	defer g.one.Unlock()
	old, err := db.NewIter(nil)
	if err != nil {
		return err
	}
	g.set(old, span)
	g.turn.Add(1)
	err = swap()
	g.turn.Add(1)
	g.set(nil, keyscheme.Bounds{})
	return errors.Join(err, old.Close())
}

func (g *swapGate) set(old *pebble.Iterator, span keyscheme.Bounds) {
	g.mu.Lock()
	g.old, g.span = old, span
	g.mu.Unlock()
}

// open opens an iterator that shows a set as it was before a swap or as it is after.
func (g *swapGate) open(db *pebble.DB, set keyscheme.Prefix, o *pebble.IterOptions) (*pebble.Iterator, error) {
	for {
		turn := g.turn.Load()
		if turn&1 == 1 {
			if it, err := g.clone(set, o); it != nil || err != nil {
				return it, err
			}
		}
		it, err := db.NewIter(o)
		if err != nil || g.turn.Load() == turn {
			return it, err
		}
		if err := it.Close(); err != nil {
			return nil, err
		}
	}
}

// clone returns a clone of the old iterator, nil when no swap that touches the set is under way.
func (g *swapGate) clone(set keyscheme.Prefix, o *pebble.IterOptions) (*pebble.Iterator, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.old == nil || comparator.Compare(set, g.span.Upper) >= 0 || comparator.Compare(set.AppendEnd(nil), g.span.Lower) <= 0 {
		return nil, nil
	}
	return g.old.Clone(pebble.CloneOptions{IterOptions: o})
}
