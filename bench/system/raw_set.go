package system

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
	"bigset/keyscheme"
)

// RestFully implements System. Pebble has no background work other than compactions.
func (r *Raw) RestFully(ctx context.Context) error {
	_, err := r.Settle(ctx)
	return err
}

// Bottom implements System.
func (r *Raw) Bottom(ctx context.Context) error {
	return errors.Join(r.db.Flush(), r.db.Compact(ctx, []byte{0}, []byte{0xff, 0xff, 0xff, 0xff, 0xff}, false))
}

// Checkpoint implements System.
func (r *Raw) Checkpoint(_ context.Context, dir string) error {
	return r.db.Checkpoint(dir, pebble.WithFlushedWAL())
}

// See implements Set. Raw Pebble has no clock.
func (s *RawSet) See() error { return nil }

// Change implements Set. It records replaced and removed elements and, with Options.Deletes, deletes them.
func (s *RawSet) Change(c *Change) error {
	s.last.Add(uint64(len(c.Gone)))
	return s.commit(func(b *pebble.Batch) error {
		if err := s.add(b, c.Fresh, c.FreshDots); err != nil {
			return err
		}
		if err := errors.Join(s.kill(b, c.Again, c.AgainDots), s.kill(b, c.Gone, c.GoneDots)); err != nil {
			return err
		}
		if err := s.add(b, c.Again, c.AgainDots); err != nil {
			return err
		}
		if n := len(c.Again) + len(c.Gone); n > 0 {
			return b.Set(s.tombstoneKey, s.tombstone(n), nil)
		}
		return nil
	})
}

// kill deletes the keys of elements, if the system deletes.
func (s *RawSet) kill(b *pebble.Batch, elements [][]byte, dots []uint64) error {
	for i := 0; s.sys.deletes && i < len(elements); i++ {
		s.buf = s.prefix.AppendElement(s.buf[:0], elements[i], clock.Dot{Actor: RawActor, Counter: dots[i]}, keyscheme.OpAdd)
		if err := b.Delete(s.buf, nil); err != nil {
			return err
		}
	}
	return nil
}

// Scan implements Set.
func (s *RawSet) Scan(q Query, dst []byte) (n int, first []byte, err error) {
	b := s.prefix.Elements()
	switch {
	case q.Prefix != nil:
		b = s.prefix.Starting(q.Prefix)
	case q.From != nil && q.To != nil:
		b = s.prefix.Range(keyscheme.Before(q.From), keyscheme.Before(q.To))
	case q.From != nil:
		b.Lower = s.prefix.AppendElementBound(nil, q.From)
	}
	it, err := s.sys.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return 0, dst, err
	}
	for ok := it.First(); ok && (q.Limit == 0 || n < q.Limit); ok = it.Next() {
		element, _, _, _, ok := keyscheme.DecodeElement(len(s.prefix), it.Key())
		if !ok {
			return n, dst, errors.Join(ErrWrong, it.Close())
		}
		if n++; n == 1 {
			dst = append(dst, element...)
		}
	}
	return n, dst, it.Close()
}

// Count implements Set.
func (s *RawSet) Count() (n int, err error) {
	err = s.Read(0, func(k int) { n += k })
	return n, err
}

// Look implements Set. It gets one key, which requires the dot.
func (s *RawSet) Look(element []byte, dot uint64) (bool, error) { return s.Get(element, dot) }
