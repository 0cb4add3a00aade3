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
	"bigset/comparator"
	"bigset/engine/internal/lsm"
	"bigset/fold"
)

// momentAgeMax is how long a Moment can be read.
const momentAgeMax = time.Minute

// Moment is some sets as they were at one moment: each batch of that time is shown whole or not at all, and no set is shown earlier or later
// than another. One goroutine at a time uses it. As long as it is open, compactions drop no newly dead key of its sets, and the disk keeps the
// tables that they had, and the memory their memtables. So whoever opens it reads at once, and closes it.
type Moment struct {
	s       *Store
	readers []*reader
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
	for {
		if err := s.openTogether(m.readers); err != nil {
			return nil, fmt.Errorf("engine: open %d sets at one moment: %w", len(names), lsm.DiskError(err))
		}
		if !m.emptied() {
			return m, nil
		}
		for _, r := range m.readers {
			if err := r.close(); err != nil {
				return nil, err
			}
		}
	}
}

// emptied reports whether a set whose view has elements has none any more: the keys of a set that was emptied are cut out of the tables, maybe
// before its iterator was opened.
func (m *Moment) emptied() bool {
	return slices.ContainsFunc(m.readers, func(r *reader) bool { return liveDots(r.view.seen, r.view.dead) > 0 && r.st.live() == 0 })
}

// Close ends the use of the Moment.
func (m *Moment) Close() (err error) {
	for _, r := range m.readers {
		err = errors.Join(err, r.close())
		m.s.sets.release(r.st)
	}
	m.readers = nil
	m.s.db.Leave()
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
			if time.Since(m.opened) > momentAgeMax {
				yield(nil, fmt.Errorf("engine: read %q: sets of one moment are read for %v at most: %w", r.st.name, momentAgeMax, context.DeadlineExceeded))
				return
			}
			chunk, err := r.next(ctx)
			if !yield(chunk, err) || err != nil {
				return
			}
		}
	}
}

// openTogether opens readers at one moment. The rules of reader.open hold for each of them. They find no dead runs: a finder that stays for a
// minute would take the place of others.
func (s *Store) openTogether(readers []*reader) error {
	defer shareViewing(readers)()
	sets := make([]lsm.SetIter, len(readers))
	for i, r := range readers {
		r.epoch = r.st.readers.enter()
		sets[i] = lsm.SetIter{Set: r.st.prefix, Options: pebble.IterOptions{LowerBound: r.bounds.Lower, UpperBound: r.bounds.Upper}}
	}
	iters, err := s.db.OpenSetsAfter(sets, func() {
		if s.viewTogether(readers); s.viewed != nil {
			s.viewed()
		}
	})
	for i, r := range readers {
		if err != nil {
			r.leave()
		} else {
			r.it = iters[i]
		}
	}
	return err
}

// viewTogether takes the views of all readers. No set changes after its view was taken and before the last one is.
func (s *Store) viewTogether(readers []*reader) {
	s.moments.Lock()
	defer s.moments.Unlock()
	var held []*set
	for _, r := range readers {
		if !slices.Contains(held, r.st) {
			held = append(held, r.st)
			r.st.mu.Lock()
			defer r.st.mu.Unlock()
		}
		if r.view = r.st.viewLocked(); s.viewing != nil {
			s.viewing()
		}
	}
}

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
	if r.done = comparator.Compare(r.bounds.Lower, r.bounds.Upper) >= 0; r.done {
		return nil
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
