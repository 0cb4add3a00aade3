package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/engine/internal/lsm"
	"bigset/fold"
	"bigset/keyscheme"
)

// Contains reports whether a set contains an element. An element of an unknown set is absent. Contains reads the keys
// of one element, which bloom filters guard, and waits for no writer.
func (s *Store) Contains(ctx context.Context, name, element []byte) (bool, error) {
	found, err := s.Look(ctx, name, element)
	return found.Present, err
}

// Look reports whether a set contains an element, with the element's context: what a remove or an add must name in order
// to act on exactly what was seen. An element of an unknown set is absent. Look costs what Contains does.
func (s *Store) Look(ctx context.Context, name, element []byte) (bigset.Presence, error) {
	var found [1]bigset.Context
	err := s.lookUp(ctx, name, [][]byte{element}, found[:])
	return bigset.Presence{Present: found[0].Present(), Context: found[0]}, err
}

// Subset reports for each of the elements whether the set contains it, with its context. Each element is looked up at
// a moment of its own.
func (s *Store) Subset(ctx context.Context, name []byte, elements [][]byte) ([]bigset.Presence, error) {
	contexts, err := s.Replica().LookUp(ctx, name, elements)
	if err != nil {
		return nil, err
	}
	found := make([]bigset.Presence, len(contexts))
	for i, c := range contexts {
		found[i] = bigset.Presence{Present: c.Present(), Context: c}
	}
	return found, nil
}

// LookUp returns the context of each of the elements. Each element is looked up at a moment of its own.
func (r Replica) LookUp(ctx context.Context, name []byte, elements [][]byte) ([]bigset.Context, error) {
	found := make([]bigset.Context, len(elements))
	if err := r.s.lookUp(ctx, name, elements, found); err != nil {
		return nil, err
	}
	return found, nil
}

// lookUp looks up elements of a set.
func (s *Store) lookUp(ctx context.Context, name []byte, elements [][]byte, found []bigset.Context) error {
	if err := bigset.CheckName(name); err != nil {
		return err
	}
	for _, e := range elements {
		if err := bigset.CheckElement(e); err != nil {
			return err
		}
	}
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	st, err := s.sets.acquire(name)
	if err != nil {
		return err
	}
	defer s.sets.release(st)
	if !st.known() {
		for i := range found {
			found[i].Given = true
		}
		return nil
	}
	s.counters.lookUps.Add(uint64(len(elements)))
	left := s.fromHot(st, elements, found)
	if left == len(elements) {
		return s.lookUpIn(ctx, st, elements, found)
	}
	if left > 0 {
		return s.lookUpRest(ctx, st, elements, found, left)
	}
	return nil
}

// lookUpRest looks up the elements that are not remembered.
func (s *Store) lookUpRest(ctx context.Context, st *set, elements [][]byte, found []bigset.Context, left int) error {
	rest, foundRest := make([][]byte, 0, left), make([]bigset.Context, left)
	for i := range found {
		if !found[i].Given {
			rest = append(rest, elements[i])
		}
	}
	err := s.lookUpIn(ctx, st, rest, foundRest)
	for i := range found {
		if !found[i].Given {
			found[i], foundRest = foundRest[0], foundRest[1:]
		}
	}
	return err
}

// lookUpTries is how often a look-up that a writer disturbed is repeated before writers of the set are held for it.
const lookUpTries = 4

// lookUpBatch is how many elements are looked up with one iterator.
const lookUpBatch = 1000

// lookUpIn looks elements up with one iterator. The tombstone that decides on a key must be no newer than the
// iterator. Otherwise a key that was replaced a moment ago would be dead and its successor not visible yet: the
// element would vanish. So the set's version is read before, and an absent element counts only if the version is the
// same after.
func (s *Store) lookUpIn(ctx context.Context, st *set, elements [][]byte, found []bigset.Context) error {
	e := st.readers.enter()
	defer st.readers.leave(e)
	if len(elements) >= orderedMin {
		order := keyOrder(len(elements), func(i int) []byte { return elements[i] })
		inOrder, foundInOrder := make([][]byte, len(order)), make([]bigset.Context, len(order))
		for i, at := range order {
			inOrder[i] = elements[at]
		}
		err := s.lookUpEach(ctx, st, inOrder, foundInOrder, true)
		for i, at := range order {
			found[at] = foundInOrder[i]
		}
		return err
	}
	return s.lookUpEach(ctx, st, elements, found, false)
}

// orderedMin is the number of elements from which on they are looked up in the order of their keys: iterators then
// move forward within a table and a block.
const orderedMin = 4

// lookUpEach looks elements up one after another. If share is set and they wait for the disk, the rest is shared among
// goroutines.
func (s *Store) lookUpEach(ctx context.Context, st *set, elements [][]byte, found []bigset.Context, share bool) error {
	done := 0
	for try := 1; done < len(elements); try++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		hold, upTo := try > lookUpTries, min(len(elements), done+lookUpBatch)
		if hold { // for one element only: writers wait
			upTo = done + 1
		}
		n, cold, err := s.lookUpOnce(st, elements[done:upTo], found[done:upTo], hold, share)
		if err != nil {
			return fmt.Errorf("engine: look up in %q: %w", st.name, lsm.DiskError(err))
		}
		if n > 0 {
			try = 0
		}
		done += n
		if cold {
			elements, found = elements[done:], found[done:]
			return shared(len(elements), func(from, to int) error {
				return s.lookUpEach(ctx, st, elements[from:to], found[from:to], false)
			})
		}
	}
	return nil
}

// lookUpOnce answers elements in order until a writer disturbs one, or, if share is set, until they have waited for the
// disk and enough are left to share them. It returns how many it answered, and whether they are cold.
func (s *Store) lookUpOnce(st *set, elements [][]byte, found []bigset.Context, hold, share bool) (done int, cold bool, err error) {
	st.viewing.RLock()
	defer st.viewing.RUnlock()
	st.mu.RLock()
	version, hot, puts := st.version, s.hotOf(st), s.hot.puts.Load()
	if hold {
		defer st.mu.RUnlock()
	} else {
		st.mu.RUnlock()
	}
	iters := s.elementIters(st)
	defer lsm.Closing(&iters, &err)
	actor := s.actorOf(st)
	for i, element := range elements {
		if share && iters.cold(i, len(elements)-i, 0) {
			return i, true, nil
		}
		dots, err := iters.appendDots(nil, element, actor)
		if err != nil {
			return i, false, err
		}
		if s.looked != nil {
			s.looked()
		}
		if !hold {
			st.mu.RLock()
		}
		live, same := dots[:0], st.version == version
		for _, d := range dots {
			if !st.dead.Contains(d) {
				live = append(live, d)
			}
		}
		if st.unresolved == 0 {
			s.hot.keep(hot, element, live, puts, &iters)
		}
		if !hold {
			st.mu.RUnlock()
		}
		if len(live) == 0 && len(dots) > 0 && !same {
			return i, false, nil
		}
		found[i] = bigset.Saw(live...)
	}
	return len(elements), false, nil
}

// elementIter opens an iterator over the element keys of a set, for look-ups of single elements.
func (s *Store) elementIter(st *set) (*pebble.Iterator, error) {
	return s.db.OpenSet(st.prefix, &pebble.IterOptions{UseL6Filters: true})
}

// elementIters are iterators over the element keys of a set, for look-ups of single elements: one over memtables and
// tables, and one over tables alone for elements that no memtable holds. Each is opened when it is needed.
type elementIters struct {
	s      *Store
	st     *set
	moment uint64 // before tables was opened
	all    *pebble.Iterator
	tables *lsm.Tables
	steps  int // of both, at the last call of stepped
}

func (s *Store) elementIters(st *set) elementIters {
	return elementIters{s: s, st: st, moment: s.db.Unflushed.Moment()}
}

// of returns the iterator for the element whose keys have that bound.
func (e *elementIters) of(bound []byte) (it *pebble.Iterator, err error) {
	u := &e.s.db.Unflushed
	if u.MayHold(bound, e.moment) {
		if e.all == nil {
			e.all, err = e.s.elementIter(e.st)
		}
		return e.all, err
	}
	u.Skipped.Add(1)
	if e.tables == nil {
		if e.tables, err = e.s.db.OpenTables(e.st.prefix, e.moment); err != nil {
			return nil, err
		}
	}
	return e.tables.Iterator, nil
}

// Close closes the iterators.
func (e *elementIters) Close() (err error) {
	if e.all != nil {
		err = e.all.Close()
	}
	if e.tables != nil {
		err = errors.Join(err, e.s.db.CloseTables(e.tables))
	}
	return err
}

// Look-ups whose blocks are in no cache wait for the disk. One after another they have a small part of its rate, because
// it serves several reads at a time. So a call that waits shares the look-ups that are left among coldReaders goroutines.
const (
	coldReaders = 8
	coldStep    = 4                     // a call compares its waits after each coldStep look-ups
	coldWait    = 40 * time.Microsecond // for the disk, per look-up; a block from the page cache takes less
)

// cold reports whether the first done look-ups waited for the disk, and whether those that are left are worth sharing.
// It looks after every coldStep of them. The iterators had waited for before when these began.
func (e *elementIters) cold(done, left int, before time.Duration) bool {
	return done > 0 && done%coldStep == 0 && left >= 2*coldStep && e.waited()-before > time.Duration(done)*coldWait
}

// waited returns how long the iterators have waited for blocks that are not in the store's cache.
func (e *elementIters) waited() (d time.Duration) {
	if e.all != nil {
		d = e.all.Stats().InternalStats.BlockReadDuration
	}
	if e.tables != nil {
		d += e.tables.Stats().InternalStats.BlockReadDuration
	}
	return d
}

// stepped returns over how many keys the iterators have stepped since the last call, shown or not.
func (e *elementIters) stepped() int {
	before := e.steps
	e.steps = 0
	if e.all != nil {
		e.steps = forwardSteps(e.all)
	}
	if e.tables != nil {
		e.steps += forwardSteps(e.tables.Iterator)
	}
	return e.steps - before
}

func forwardSteps(it *pebble.Iterator) int {
	stats := it.Stats()
	return stats.ForwardStepCount[pebble.InternalIterCall]
}

// shared calls look for the parts of n look-ups, each in a goroutine, and waits for all.
func shared(n int, look func(from, to int) error) error {
	parts := min(coldReaders, n/coldStep)
	errs := make([]error, parts)
	var done sync.WaitGroup
	for i := range parts {
		done.Go(func() { errs[i] = look(i*n/parts, (i+1)*n/parts) })
	}
	done.Wait()
	return cmp.Or(errs...)
}

var keyBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 256); return &b }}

// appendDots appends the dots of an element's add keys, dead or not, except those that the context of an unresolved
// key supersedes. If a dot has the actor likely, no string is allocated for it.
func (e *elementIters) appendDots(dst []clock.Dot, element []byte, likely clock.Actor) ([]clock.Dot, error) {
	buf := keyBuffers.Get().(*[]byte)
	defer keyBuffers.Put(buf)
	*buf = e.st.prefix.AppendElementBound((*buf)[:0], element)
	it, err := e.of(*buf)
	if err != nil {
		return dst, err
	}
	return appendDots(dst, it, len(e.st.prefix), *buf, likely, nil)
}

// appendDots is elementIters.appendDots with one iterator, for the element whose keys have that bound. If at is not nil, only keys that it has seen
// count, and dots that are dead in it are left out.
func appendDots(dst []clock.Dot, it *pebble.Iterator, prefixLen int, bound []byte, likely clock.Actor, at *view) ([]clock.Dot, error) {
	from := len(dst)
	var wide *clock.Clock
	for ok := it.SeekPrefixGE(bound); ok; ok = it.Next() {
		element, actor, counter, op, ok := keyscheme.DecodeElement(prefixLen, it.Key())
		if !ok {
			return dst, fmt.Errorf("%w: key %x under the bound %x", bigset.ErrCorrupt, it.Key(), bound)
		}
		if at != nil && !at.seen.ContainsBytes(actor, counter) {
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return dst, err
		}
		if keyscheme.IsUnresolved(value) {
			if wide, err = fold.Widen(wide, value); err != nil {
				return dst, fmt.Errorf("%w: element %q: %w", bigset.ErrCorrupt, element, err)
			}
		}
		if op != keyscheme.OpAdd || at != nil && at.dead.ContainsBytes(actor, counter) {
			continue
		}
		if likely != clock.Actor(actor) {
			likely = clock.Actor(actor)
		}
		dst = append(dst, clock.Dot{Actor: likely, Counter: counter})
	}
	if wide != nil {
		dst = append(dst[:from], slices.DeleteFunc(dst[from:], wide.Contains)...)
	}
	return dst, it.Error()
}
