package lsm

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"bigset/comparator"
	"bigset/engine/internal/lockorder"
	"bigset/keyscheme"
)

// swapGate keeps readers of a set from opening an iterator in the middle of a swap. Pebble installs a swap in two steps: first the
// version without the old tables of the span, then the sequence number from which the new ones are visible. An iterator opened
// between the two finds the span empty. So while a swap is in progress, readers of the span's sets get clones of an iterator that
// was opened before it. Writers of those sets are held, so that iterator is still up to date.
type swapGate struct {
	one  lockorder.Mutex[lockorder.SwapOne] // held during a swap
	turn atomic.Uint64                      // odd while a swap is in progress
	mu   lockorder.Mutex[lockorder.SwapMu]
	old  *pebble.Iterator // the iterator to clone; nil when no swap is in progress
	span keyscheme.Bounds // of the swap in progress
}

// Swap replaces everything in a span by tables. Writers of the span must be held, and the log must be synced. holed says that the
// span has blocks that can't be read. An error that Pebble treats as fatal here is not recovered: the process ends. A swap that has
// begun does not end early when ctx does.
func (d *DB) Swap(ctx context.Context, bounds keyscheme.Bounds, paths []string, holed bool) error {
	ctx = uncancelled(ctx)
	span := pebble.KeyRange{Start: bounds.Lower, End: bounds.Upper}
	defer d.Unflushed.Blind()()
	return d.exciseChecked(bounds, holed, func() error {
		return d.swaps.swapping(d.pebble, bounds, func() (err error) {
			if len(paths) == 0 {
				return d.pebble.Excise(ctx, span)
			}
			_, err = d.pebble.IngestAndExcise(ctx, paths, nil, nil, span)
			return err
		})
	})
}

// Excise removes a span from all tables. Writers of it must be held, and the log must be synced. An error that Pebble treats as
// fatal here is not recovered: the process ends. An excise that has begun does not end early when ctx does.
func (d *DB) Excise(ctx context.Context, b keyscheme.Bounds) error {
	ctx = uncancelled(ctx)
	defer d.Unflushed.Blind()()
	return d.exciseChecked(b, false, func() error { return d.pebble.Excise(ctx, pebble.KeyRange{Start: b.Lower, End: b.Upper}) })
}

// uncancelled returns a context for calls of Pebble that cut tables. If the context of such a call ends while another goroutine
// reads the block at a cut, Pebble treats that as the end of the table, as it does any error there: see exciseChecked.
func uncancelled(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// OpenSet opens an iterator that shows a set as it was before a swap or as it is after it. It may show other sets without the tables of a
// span that is being swapped.
func (d *DB) OpenSet(set keyscheme.Prefix, o *pebble.IterOptions) (*pebble.Iterator, error) {
	return d.OpenSetAfter(set, o, func() {})
}

// OpenSetAfter calls first and then opens an iterator as OpenSet does. No swap takes effect between the two: if one does, first is
// called again. So if first takes a set's Dead, the iterator shows all keys that this Dead does not contain: a rewriter that leaves
// out a key takes its own Dead before its swap begins, and a Dead that was taken after that contains the key's dot. It also shows keys
// that were written in between, whose batches this Dead does not know.
func (d *DB) OpenSetAfter(set keyscheme.Prefix, o *pebble.IterOptions, first func()) (*pebble.Iterator, error) {
	return d.swaps.open(d.pebble, set, o, first)
}

// SetIter is an iterator that OpenSetsAfter opens.
type SetIter struct {
	Set     keyscheme.Prefix
	Options pebble.IterOptions
}

// OpenSetsAfter is OpenSetAfter for several iterators: no swap takes effect between first and the opening of the last one. If one can't be
// opened, none is open. After a few swaps that came in between it returns ErrSwaps: the caller holds swaps back and calls again, or one
// swap after another could delay it for ever.
func (d *DB) OpenSetsAfter(sets []SetIter, first func()) ([]*pebble.Iterator, error) {
	return d.swaps.openAll(d.pebble, sets, first)
}

// ErrSwaps means that swaps came between a view and its iterators again and again: see OpenSetsAfter.
var ErrSwaps = errors.New("engine: swaps in progress")

// OpenTries is how often OpenSetsAfter calls its function before it returns ErrSwaps.
const OpenTries = 4

// Overtake makes readers begin again that have called the function of OpenSetAfter or OpenSetsAfter and have not yet opened all their
// iterators, as a swap does. It is called before an excise of keys that have died since. Unlike a swap it does not wait, and
// holds up no reader if the excise takes long: an excise of keys in a memtable waits until that is flushed.
func (d *DB) Overtake() { d.swaps.turn.Add(2) } // it stays odd in the middle of a swap

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

// open calls first and opens an iterator, with no swap between the two. A swap that begins or ends in between makes it start again.
func (g *swapGate) open(db *pebble.DB, set keyscheme.Prefix, o *pebble.IterOptions, first func()) (*pebble.Iterator, error) {
	for {
		turn := g.turn.Load()
		first()
		it, err := g.openIn(turn, db, set, o)
		if err != nil || g.turn.Load() == turn {
			return it, err
		}
		if err := it.Close(); err != nil {
			return nil, err
		}
	}
}

// openAll is open for several iterators. It starts again a few times only.
func (g *swapGate) openAll(db *pebble.DB, sets []SetIter, first func()) ([]*pebble.Iterator, error) {
	for range OpenTries {
		turn := g.turn.Load()
		first()
		iters, err := make([]*pebble.Iterator, 0, len(sets)), error(nil)
		for i := 0; i < len(sets) && err == nil; i++ {
			var it *pebble.Iterator
			if it, err = g.openIn(turn, db, sets[i].Set, &sets[i].Options); err == nil {
				iters = append(iters, it)
			}
		}
		if err == nil && g.turn.Load() == turn {
			return iters, nil
		}
		for _, it := range iters {
			err = errors.Join(err, it.Close())
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, ErrSwaps
}

// openIn opens an iterator in a turn: a clone of the old one if a swap that touches the set is in progress.
func (g *swapGate) openIn(turn uint64, db *pebble.DB, set keyscheme.Prefix, o *pebble.IterOptions) (*pebble.Iterator, error) {
	if turn&1 == 1 {
		if it, err := g.clone(set, o); it != nil || err != nil {
			return it, err
		}
	}
	return db.NewIter(o)
}

// clone returns a clone of the old iterator, or nil if no swap that touches the set is in progress.
func (g *swapGate) clone(set keyscheme.Prefix, o *pebble.IterOptions) (*pebble.Iterator, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.old == nil || comparator.Compare(set, g.span.Upper) >= 0 || comparator.Compare(set.AppendEnd(nil), g.span.Lower) <= 0 {
		return nil, nil
	}
	all := *o
	all.OnlyReadGuaranteedDurable = false // what the iterator has in memtables may be in tables that it does not know
	return g.old.Clone(pebble.CloneOptions{IterOptions: &all})
}

// exciseChecked runs an excise of a span after reading the blocks at both of its ends in every level. Pebble cuts the tables that
// extend over an end, and there it treats an error of reading a block as the end of the table: what lies after it would be silently
// lost (excise.go, determineRightTableBounds, v2.1.7). Reading before the cut finds the damage. A block that can't be read the
// second time ends the process, as does a MANIFEST that can't be written. For a span with a hole only what stays is read, as by Pebble: what lies
// before the span and after it.
func (d *DB) exciseChecked(span keyscheme.Bounds, holed bool, excise func() error) (err error) {
	at := ends{db: d.pebble}
	defer Closing(&at, &err)
	if err := at.read(span, holed); err != nil {
		return err
	}
	return apart(excise)
}

// ends are iterators at the ends of spans. They keep the blocks there in memory.
type ends struct {
	db  *pebble.DB
	its []*pebble.Iterator
}

// read reads the blocks at both ends of a span in every level: those outside of it, and those inside if it is not holed.
func (e *ends) read(span keyscheme.Bounds, holed bool) error {
	seeks := []func(*pebble.Iterator){
		func(it *pebble.Iterator) { it.SeekLT(span.Lower) },
		func(it *pebble.Iterator) { it.SeekGE(span.Upper) },
	}
	if !holed {
		seeks = append(seeks, func(it *pebble.Iterator) { it.SeekGE(span.Lower) }, func(it *pebble.Iterator) { it.SeekLT(span.Upper) })
	}
	for _, seek := range seeks {
		it, err := e.db.NewIter(nil)
		if err != nil {
			return err
		}
		e.its = append(e.its, it)
		if seek(it); it.Error() != nil {
			return it.Error()
		}
	}
	return nil
}

// Close implements io.Closer. Its error may be the one that read has returned.
func (e *ends) Close() (err error) {
	for _, it := range e.its {
		err = errors.Join(err, it.Close())
	}
	return err
}

// apart runs a function of Pebble's that cuts tables in a goroutine of its own, so that a panic is not stopped by a function that the caller has
// deferred and that may wait for the caller.
func apart(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return <-done
}

// Closing closes an iterator at the end of its use, and sets err if it is nil.
func Closing(it io.Closer, err *error) {
	if e := it.Close(); *err == nil {
		*err = e
	}
}
