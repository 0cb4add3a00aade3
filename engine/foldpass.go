package engine

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
)

// The fold pass resolves the wide contexts of open keys. It runs inside the rewriter, which reads those keys anyway: what a
// context kills is put into Dead and made durable, and then the swap takes the key away, or its context.

// keepOpen notes that the next key to be kept is open.
func (p *pass) keepOpen(value []byte) {
	if p.values == nil {
		p.values = map[int][]byte{}
	}
	p.values[len(p.ends)] = append([]byte(nil), value...)
	p.open++
}

// endElement resolves the open keys of the element whose keys were kept last, if it has any.
func (p *pass) endElement() error {
	from, open := p.from, p.open
	p.from, p.open = len(p.ends), 0
	if open == 0 {
		return nil
	}
	keys, values := make([]fold.Key, 0, len(p.ends)-from), make([][]byte, 0, len(p.ends)-from)
	for i := from; i < len(p.ends); i++ {
		k, err := keyscheme.Decode(p.key(i))
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		wide, err := keyscheme.DecodeElementValue(p.value(i))
		if err != nil {
			return fmt.Errorf("%w: element %q: %w", ErrCorrupt, k.Element, err)
		}
		keys, values = append(keys, fold.Key{Dot: k.Dot(), Op: k.Op, Wide: wide}), append(values, p.value(i))
		delete(p.values, i)
	}
	var fates []fold.Fate
	p.killed, fates = fold.Resolve(keys, p.seen, p.dead, p.killed)
	start := 0
	if from > 0 {
		start = p.ends[from-1]
	}
	old, ends := append([]byte(nil), p.arena[start:]...), append([]int(nil), p.ends[from:]...)
	p.arena, p.ends = p.arena[:start], p.ends[:from]
	for i, fate := range fates {
		key := old[:ends[i]-start]
		old, start = old[ends[i]-start:], ends[i]
		switch {
		case fate != fold.Keep && keys[i].Wide != nil:
			p.closed++
		case keys[i].Wide != nil:
			p.values[len(p.ends)] = values[i]
		}
		if fate != fold.Drop {
			p.arena = append(p.arena, key...)
			p.ends = append(p.ends, len(p.arena))
		}
	}
	p.from = len(p.ends)
	return nil
}

// amend puts dots into Dead, and changes the count of open keys. Writers are held.
func (s *Store) amend(st *set, killed []clock.Dot, opened int64) error {
	b := s.newBuilder(st, nil)
	defer b.release()
	for _, d := range killed {
		b.bury(d)
	}
	if b.opened = opened; b.empty() {
		return nil
	}
	b.finish()
	if b.err != nil {
		return b.err
	}
	if _, err := s.commit(b.batch, false); err != nil {
		return err
	}
	b.publish()
	return nil
}

// openKeys returns the count of open keys of a set.
func (st *set) openKeys() int64 {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.open
}

// recountOnce counts the open keys of a set anew, once after it was loaded. The count on disk is too high after a crash
// between a swap and the record of it; nothing goes wrong then, but the set would be taken for ever for one with something
// to resolve.
func (s *Store) recountOnce(ctx context.Context, st *set) error {
	if st.openKeys() == 0 || st.recounted.Load() {
		return nil
	}
	st.passes.Lock() // no key closes meanwhile
	defer st.passes.Unlock()
	if err := s.recount(ctx, st); err != nil {
		return fmt.Errorf("engine: count open keys of %q: %w", st.name, diskError(err))
	}
	st.recounted.Store(true)
	return nil
}

func (s *Store) recount(ctx context.Context, st *set) (err error) {
	var it *pebble.Iterator
	var before int64
	if err := s.holding(st, func() (err error) {
		b := st.prefix.Elements()
		before = st.openKeys()
		it, err = s.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
		return err
	}); err != nil {
		return err
	}
	defer closing(it, &err)
	n := int64(0)
	for ok, i := it.First(), 1; ok; ok, i = it.Next(), i+1 {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if keyscheme.IsOpen(value) {
			n++
		}
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := it.Error(); err != nil || n == before {
		return err
	}
	return s.holding(st, func() error { return s.amend(st, nil, n-before) })
}
