package engine

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// swapGate keeps readers of a set from opening an iterator in the middle of a swap. Pebble installs a swap in two steps:
// first the version in which the old tables of the span are gone, then the sequence number from which on the new ones are
// seen. An iterator opened between the two finds the span empty. So while a swap is under way readers get clones of an
// iterator that was opened before it; writers of the set are held, so that one is as good as new.
type swapGate struct {
	turn atomic.Uint64 // odd while a swap is under way
	mu   sync.Mutex
	old  *pebble.Iterator // what clones are made of; nil when no swap is under way
}

// swapping runs a swap. Writers of the set are held.
func (g *swapGate) swapping(db *pebble.DB, swap func() error) error {
	old, err := db.NewIter(nil)
	if err != nil {
		return err
	}
	g.set(old)
	g.turn.Add(1)
	err = swap()
	g.turn.Add(1)
	g.set(nil)
	return errors.Join(err, old.Close())
}

func (g *swapGate) set(old *pebble.Iterator) {
	g.mu.Lock()
	g.old = old
	g.mu.Unlock()
}

// open opens an iterator that shows a span as it was before a swap or as it is after.
func (g *swapGate) open(db *pebble.DB, o *pebble.IterOptions) (*pebble.Iterator, error) {
	for {
		turn := g.turn.Load()
		if turn&1 == 1 {
			if it, err := g.clone(o); it != nil || err != nil {
				return it, err
			}
			continue // it has just ended
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

func (g *swapGate) clone(o *pebble.IterOptions) (*pebble.Iterator, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.old == nil {
		return nil, nil
	}
	return g.old.Clone(pebble.CloneOptions{IterOptions: o})
}
