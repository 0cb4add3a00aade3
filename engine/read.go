package engine

import (
	"context"
	"fmt"
	"iter"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/comparator"
	"bigset/fold"
	"bigset/keyscheme"
)

// iteratorAgeMax is how long a read uses one iterator before it continues after its bound with a new one: an iterator
// pins tables, and delays the garbage collection of its set.
const iteratorAgeMax = time.Second

// Read streams the elements of a set in order, in chunks, each with the clock and the dots to act on. A chunk is of
// one moment of the set, except for writes that are made just then: it may show all adds of such a write, and still
// what the write replaces or removes. Its clock does not contain such adds. The whole stream is not of one moment: every
// chunk is right by itself and no element comes twice. Read returns bigset.ErrNotFound if the store does not know the
// set. The stream ends when the consumer stops, when ctx is done, or when the store is closing.
func (s *Store) Read(ctx context.Context, name []byte, o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) {
		stopped := false
		err := s.reading(ctx, name, o, func(st *set, r *reader) error {
			for !r.done && !stopped {
				chunk, err := r.next(ctx)
				if err != nil {
					return err
				}
				stopped = !yield(chunk, nil)
			}
			return nil
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// Elements streams the elements of a set in order, each with the dots to act on. It is Read without chunks, for
// callers that look at one element at a time. An element's memory belongs to the caller. o.Scrap is not used. A set that the
// store does not know is an error that wraps bigset.ErrNotFound; a set that has become empty is not.
func (s *Store) Elements(ctx context.Context, name []byte, o bigset.ReadOptions) iter.Seq2[fold.Element, error] {
	o.Scrap = nil
	return func(yield func(fold.Element, error) bool) {
		for chunk, err := range s.Read(ctx, name, o) {
			if err != nil {
				yield(fold.Element{}, err)
				return
			}
			for _, e := range chunk.Elements {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// CountOptions select what of a set is counted. The zero value is all of it.
type CountOptions struct {
	// ReadOptions are the options of the read whose elements are counted.
	bigset.ReadOptions
	// Progress is called with the number of elements counted so far, after every thousand elements or fifty thousand
	// keys, but not after the last ones, if it is not nil.
	Progress func(elements uint64)
}

// Count is the result of counting a set or a part of it.
type Count struct {
	// Elements is the number of elements that were present.
	Elements uint64
	// Context is the clock of the whole set as of the count's first moment, also when a part of the set was counted.
	// It does not cover events that were added during the count. It belongs to the caller.
	Context *clock.Clock
	// Scanned is the number of keys that were read; 0 if none had to be.
	Scanned uint64
}

// Count counts elements. Count of a whole set reads no key if no element can have two live dots: that is, if since
// the set was created, or since a count that found none, all adds used PolicyCoordinator and no delta was applied.
// Otherwise it reads the keys, as of several moments if it takes long. An element that is added or removed during the
// count may be counted or not. Count returns bigset.ErrNotFound if the store does not know the set.
func (s *Store) Count(ctx context.Context, name []byte, o CountOptions) (c Count, err error) {
	err = s.reading(ctx, name, o.ReadOptions, func(st *set, r *reader) error {
		began, dots := st.view(), uint64(0)
		if whole(&o.ReadOptions) && began.single {
			c = Count{Elements: liveDots(began.seen, began.dead), Context: began.seen.Clone()}
			return nil
		}
		r.fold.CountOnly = true
		for !r.done {
			chunk, err := r.next(ctx)
			if err != nil {
				return err
			}
			if c.Context == nil {
				c.Context = chunk.Clock.Clone()
			}
			c.Elements += uint64(chunk.Count)
			c.Scanned += uint64(chunk.Scanned)
			dots += uint64(chunk.Dots)
			if o.Progress != nil && !r.done {
				o.Progress(c.Elements)
			}
		}
		if whole(&o.ReadOptions) && dots == c.Elements {
			return s.holding(st, func() error {
				st.lowerSiblings(began)
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return Count{}, err
	}
	return c, nil
}

// Live returns the number of live dots of a set, without a scan. It is never less than the number of elements, and
// equal to it while no element has two live dots and no key is unresolved (Options.KeepContexts). It returns
// bigset.ErrNotFound if the store does not know the set.
func (s *Store) Live(ctx context.Context, name []byte) (n uint64, err error) {
	err = s.withSet(ctx, name, func(st *set) error {
		n = st.live()
		return nil
	})
	return n, err
}

// Seen returns the clock of a whole set: what this store has seen of it. It belongs to the caller. Seen returns bigset.ErrNotFound if the
// store does not know the set.
func (s *Store) Seen(ctx context.Context, name []byte) (c *clock.Clock, err error) {
	err = s.withSet(ctx, name, func(st *set) error {
		st.mu.Lock()
		defer st.mu.Unlock()
		c = st.seen.Clone()
		return nil
	})
	return c, err
}

// withSet runs f with a set that this store knows.
func (s *Store) withSet(ctx context.Context, name []byte, f func(*set) error) error {
	return s.usingSet(ctx, name, func(st *set) error {
		if !st.known() {
			return fmt.Errorf("%w: %q", bigset.ErrNotFound, name)
		}
		return f(st)
	})
}

// usingSet runs f with a set, whether the store knows it or not.
func (s *Store) usingSet(ctx context.Context, name []byte, f func(*set) error) error {
	if err := bigset.CheckName(name); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	st, err := s.sets.acquire(name)
	if err != nil {
		return s.metIn(name, err)
	}
	defer s.sets.release(st)
	return f(st)
}

// reading runs f with a reader of a set.
func (s *Store) reading(ctx context.Context, name []byte, o bigset.ReadOptions, f func(*set, *reader) error) error {
	if err := o.Check(); err != nil {
		return err
	}
	return s.withSet(ctx, name, func(st *set) (err error) {
		r := &reader{s: s, st: st}
		r.ask(o)
		defer func() {
			if e := r.close(); err == nil {
				err = e
			}
		}()
		return f(st, r)
	})
}

// whole reports whether the options ask for all of a set.
func whole(o *bigset.ReadOptions) bool {
	return o.From == nil && o.To == nil && o.After == nil && len(o.Prefix) == 0 && o.Limit == 0
}

// boundsOf returns the keys of a set that the options allow.
func boundsOf(p keyscheme.Prefix, o bigset.ReadOptions) keyscheme.Bounds {
	b := p.Elements()
	if o.From != nil {
		b.Lower = later(b.Lower, p.Range(keyscheme.Before(o.From), keyscheme.Edge{}).Lower)
	}
	if o.To != nil {
		b.Upper = sooner(b.Upper, p.Range(keyscheme.Edge{}, keyscheme.Before(o.To)).Upper)
	}
	if len(o.Prefix) > 0 {
		head := p.Starting(o.Prefix)
		b.Lower, b.Upper = later(b.Lower, head.Lower), sooner(b.Upper, head.Upper)
	}
	if o.After != nil && o.Reverse {
		b.Upper = sooner(b.Upper, p.Range(keyscheme.Edge{}, keyscheme.Before(o.After)).Upper)
	} else if o.After != nil {
		b.Lower = later(b.Lower, p.Range(keyscheme.After(o.After), keyscheme.Edge{}).Lower)
	}
	return b
}

// later returns the greater of two bounds, sooner the lesser.
func later(a, b []byte) []byte {
	if comparator.Compare(a, b) >= 0 {
		return a
	}
	return b
}

func sooner(a, b []byte) []byte {
	if comparator.Compare(a, b) <= 0 {
		return a
	}
	return b
}
