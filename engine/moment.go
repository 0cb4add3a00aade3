package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/comparator"
	"bigset/engine/internal/lsm"
	"bigset/fold"
)

// momentAgeMax is how long a Moment can be read.
const momentAgeMax = time.Minute

// Moment is some sets as they were at one moment: each batch of that time is shown whole or not at all, and no set is shown earlier or later
// than another. One goroutine at a time uses it. As long as it is open, compactions drop no newly dead key of its sets, and the tables and
// memtables that they had then stay. So the caller reads at once, and closes it.
//
// On a store with Options.KeepContexts a batch of that time may be shown in part: the context of a key may hide elements that were there before it.
type Moment struct {
	s       *Store // nil after Close
	readers []*reader
	lookers []*pebble.Iterator // for Contains, of each set; nil until it is needed
	opened  time.Time
}

// Moment returns sets as they are at one moment of the call. A set that the store does not know is empty. A name may occur several times; the
// caller bounds their number, because each has an iterator. The caller must close the Moment, also before it closes the store.
func (s *Store) Moment(ctx context.Context, names [][]byte) (_ *Moment, err error) {
	for _, name := range names {
		if err := bigset.CheckName(name); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.db.Enter(); err != nil {
		return nil, err
	}
	m := &Moment{s: s, opened: time.Now()}
	defer func() {
		if err != nil {
			_ = m.Close()
		}
	}()
	for _, name := range names {
		st, err := s.sets.acquire(name)
		if err != nil {
			return nil, s.metIn(name, err)
		}
		m.readers = append(m.readers, &reader{s: s, st: st, still: true, bounds: st.prefix.Elements()})
	}
	if err := s.openTogether(m.readers); err != nil {
		return nil, fmt.Errorf("engine: open %d sets at one moment: %w", len(names), lsm.DiskError(err))
	}
	return m, nil
}

// Close ends the use of the Moment. A closed Moment has no sets: it can't be read.
func (m *Moment) Close() (err error) {
	if m.s == nil {
		return nil
	}
	for _, it := range m.lookers {
		if it != nil {
			err = errors.Join(err, it.Close())
		}
	}
	for _, r := range m.readers {
		err = errors.Join(err, r.close())
		m.s.sets.release(r.st)
	}
	m.s.db.Leave()
	*m = Moment{}
	return err
}

// Read streams elements of the set at an index, as Store.Read does, but all chunks are of the moment. It may be called again, after the
// earlier stream of that set has ended or was stopped. A minute after the Moment was opened it fails with context.DeadlineExceeded.
func (m *Moment) Read(ctx context.Context, set int, o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) {
		r := m.readers[set]
		if err := r.restart(o); err != nil {
			yield(nil, err)
			return
		}
		for !r.done {
			if err := m.late(r.st); err != nil {
				yield(nil, err)
				return
			}
			chunk, err := r.next(ctx)
			if !yield(chunk, err) || err != nil {
				return
			}
		}
	}
}

func (m *Moment) late(st *set) error {
	if time.Since(m.opened) > momentAgeMax {
		return fmt.Errorf("engine: read %q: sets of one moment are read for %v at most: %w", st.name, momentAgeMax, context.DeadlineExceeded)
	}
	return nil
}

// Contains reports in yes for each element whether the set at an index contains it at the moment. It reads the keys of these elements, which
// bloom filters guard; it is fastest if they are in order. It fails as Read does.
func (m *Moment) Contains(ctx context.Context, set int, elements [][]byte, yes []bool) error {
	r := m.readers[set]
	for i, e := range elements {
		err := bigset.CheckElement(e)
		if err == nil && i%momentLookUps == 0 {
			if err = m.late(r.st); err == nil {
				err = ctx.Err()
			}
			if err == nil && m.s.db.Closed() {
				err = bigset.ErrClosed
			}
		}
		if err != nil {
			return err
		}
		if yes[i], err = m.has(set, e); err != nil {
			return fmt.Errorf("engine: look up in %q: %w", r.st.name, lsm.DiskError(err))
		}
	}
	m.s.counters.lookUps.Add(uint64(len(elements)))
	return nil
}

// momentLookUps is how many elements Contains looks up before it looks at the time.
const momentLookUps = 256

// has reports whether a set contains an element at the moment.
func (m *Moment) has(set int, element []byte) (bool, error) {
	r := m.readers[set]
	it, err := m.looker(set)
	if err != nil {
		return false, err
	}
	buf := keyBuffers.Get().(*[]byte)
	defer keyBuffers.Put(buf)
	*buf = r.st.prefix.AppendElementBound((*buf)[:0], element)
	var few [2]clock.Dot // most elements have one
	dots, err := appendDots(few[:0], it, len(r.st.prefix), *buf, m.s.actorOf(r.st), r.view)
	return len(dots) > 0, err
}

// looker returns the iterator for look-ups in a set. It shows what the reader's does.
func (m *Moment) looker(set int) (_ *pebble.Iterator, err error) {
	if m.lookers == nil {
		m.lookers = make([]*pebble.Iterator, len(m.readers))
	}
	if m.lookers[set] == nil {
		m.lookers[set], err = m.readers[set].it.Clone(pebble.CloneOptions{IterOptions: &pebble.IterOptions{UseL6Filters: true}})
	}
	return m.lookers[set], err
}

// openTogether opens readers at one moment. The rules of reader.open hold for each of them. They find no dead runs: a finder that stays for a
// minute would take the place of others. If swaps make it begin again several times, it holds them back.
func (s *Store) openTogether(readers []*reader) error {
	defer shareViewing(readers)()
	sets := make([]lsm.SetIter, len(readers))
	for i, r := range readers {
		r.epoch = r.st.readers.enter()
		sets[i] = lsm.SetIter{Set: r.st.prefix, Options: pebble.IterOptions{LowerBound: r.bounds.Lower, UpperBound: r.bounds.Upper}}
	}
	view := func() {
		if s.viewTogether(readers); s.viewed != nil {
			s.viewed()
		}
	}
	iters, err := s.openSets(sets, view)
	if errors.Is(err, lsm.ErrSwaps) {
		s.swapping.Lock()
		defer s.swapping.Unlock()
		iters, err = s.openSets(sets, view)
	}
	for i, r := range readers {
		if err != nil {
			r.leave()
		} else {
			r.it = iters[i]
		}
	}
	return err
}

// openSets is OpenSetsAfter. An iterator that is opened after a batch does not show the keys that the batch has deleted, if the store's strategy
// deletes keys. What replaced them is newer than the view, so their elements would be in neither. So on such a store no batch is applied between
// the views and the iterators.
func (s *Store) openSets(sets []lsm.SetIter, view func()) ([]*pebble.Iterator, error) {
	if s.deletes {
		s.deleting.Lock()
		defer s.deleting.Unlock()
	}
	return s.db.OpenSetsAfter(sets, view)
}

// viewTogether takes the views of all readers. No set changes after its view was taken and before the last one is.
func (s *Store) viewTogether(readers []*reader) {
	var sets []*set
	for _, r := range readers {
		if !slices.Contains(sets, r.st) {
			sets = append(sets, r.st)
		}
	}
	unlock := s.lockTogether(sets)
	defer unlock()
	for _, r := range readers {
		if r.view = r.st.viewLocked(); s.viewing != nil {
			s.viewing()
		}
	}
}

// lockTogether locks sets and returns what unlocks them. While it waits for one, it holds no other: a look-up may hold a set while it reads
// the disk. If others take the sets again and again, it locks them one after another, for one caller at a time.
func (s *Store) lockTogether(sets []*set) (unlock func()) {
	if len(sets) == 0 {
		return func() {}
	}
	unlock = func() {
		for _, st := range sets {
			st.mu.Unlock()
		}
	}
	for try, busy := 0, 0; try < lockTries; try++ {
		sets[0], sets[busy] = sets[busy], sets[0]
		sets[0].mu.Lock()
		for busy = 1; busy < len(sets) && sets[busy].mu.TryLock(); busy++ {
		}
		if busy == len(sets) {
			return unlock
		}
		for _, st := range sets[:busy] {
			st.mu.Unlock()
		}
	}
	s.moments.Lock()
	for _, st := range sets {
		st.mu.Lock()
	}
	return func() {
		unlock()
		s.moments.Unlock()
	}
}

// lockTries is how often lockTogether tries to lock all sets without waiting for the second one.
const lockTries = 16

// shareViewing read-locks viewing of all readers' sets and returns what undoes it. A drop of a range locks several of them, so it waits for
// none while it holds another.
func shareViewing(readers []*reader) (undo func()) {
	for {
		got := 0
		for got < len(readers) && readers[got].st.viewing.TryRLock() {
			got++
		}
		undo = func() {
			for _, r := range readers[:got] {
				r.st.viewing.RUnlock()
			}
		}
		if got == len(readers) {
			return undo
		}
		undo()
		v := &readers[got].st.viewing
		v.RLock()
		//lint:ignore SA2001 it waits until the drop has ended
		v.RUnlock()
	}
}

// restart begins another read of a still reader.
func (r *reader) restart(o bigset.ReadOptions) error {
	if err := o.Check(); err != nil {
		return err
	}
	r.ask(o)
	if r.done = false; comparator.Compare(r.bounds.Lower, r.bounds.Upper) >= 0 {
		return nil // next answers without the iterator
	}
	r.it.SetBounds(r.bounds.Lower, r.bounds.Upper)
	r.it.ResetStats()
	r.runs = r.st.runs.Load()
	r.begin()
	return nil
}

// newer reports whether a key was written after the view of a still reader was taken: an iterator may show more than its view.
func (r *reader) newer(actor []byte, counter uint64) bool {
	return r.still && !r.view.seen.ContainsBytes(actor, counter)
}
