package engine

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/engine/internal/lsm"
	"bigset/fold"
	"bigset/keyscheme"
)

// The fold pass resolves the wide contexts of unresolved keys. It runs inside the rewriter, which reads those keys
// anyway. What a context kills is put into Dead and made durable; then the swap removes the key, or its context.

// endElement keeps the keys of one element, except those that are resolved and dead. It keeps them as they are or, if
// one is unresolved, as the fold pass leaves them.
func (p *pass) endElement() error {
	keys := p.element
	p.element = keys[:0]
	if !p.unresolved {
		for _, k := range keys {
			p.keep(k)
		}
		return nil
	}
	p.unresolved = false
	in := make([]fold.Key, len(keys))
	for i, k := range keys {
		key, err := keyscheme.Decode(k.key)
		if err != nil {
			return fmt.Errorf("%w: %w", bigset.ErrCorrupt, err)
		}
		in[i] = fold.Key{Dot: key.Dot(), Op: key.Op}
		if in[i].Wide, err = keyscheme.DecodeElementValue(k.value); err != nil {
			return fmt.Errorf("%w: element %q: %w", bigset.ErrCorrupt, key.Element, err)
		}
	}
	var fates []fold.Fate
	p.killed, fates = fold.Resolve(in, p.seen, p.dead, p.killed)
	for i, k := range keys {
		switch fates[i] {
		case fold.Close:
			k.value = keyscheme.ResolvedValue
			p.resolved++
		case fold.Leave:
			if in[i].Wide != nil {
				p.resolved++
			}
			continue
		}
		p.keep(k)
	}
	return nil
}

// amend puts dots into Dead, and changes the count of unresolved keys. Writers are held.
func (s *Store) amend(st *set, killed []clock.Dot, unresolved int64) error {
	b := s.newBuilder(st, nil)
	defer b.release()
	for _, d := range killed {
		b.addDead(d)
	}
	if b.unresolved = unresolved; b.empty() {
		return nil
	}
	return b.write()
}

// write finishes and applies a batch that is no group's.
func (b *builder) write() error {
	if b.finish(); b.err != nil {
		b.st.resetNext()
		return b.err
	}
	_, err := b.land(false)
	return err
}

// raiseSiblings records that elements of a set may have several live dots, if that is not recorded yet. Writers are
// held.
func (s *Store) raiseSiblings(st *set) error {
	st.mu.RLock()
	raised := st.flags&keyscheme.FlagSiblings != 0
	st.mu.RUnlock()
	if raised {
		return nil
	}
	b := s.newBuilder(st, nil)
	defer b.release()
	b.sibling = true
	return b.write()
}

// unresolvedKeys returns the count of unresolved keys of a set.
func (st *set) unresolvedKeys() int64 {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.unresolved
}

// recountOnce counts the unresolved keys of a set again if the count may be wrong. A swap and the count of what it
// resolved cannot be one write: a crash between them, or a copy of that moment, leaves the count too high. That
// breaks nothing, but the set would always seem to have something to resolve, and would never be excised. A store
// that is still in its first incarnation has not crashed and is no copy, so its stored counts are trusted. In other
// stores nothing records which sets were being rewritten. Each set is counted once, when it first matters, and that
// count holds until the store is closed.
func (s *Store) recountOnce(ctx context.Context, st *set) error {
	if st.unresolvedKeys() == 0 || s.db.FirstIncarnation() {
		return nil
	}
	if _, done := s.recounted.Load(string(st.prefix)); done {
		return nil
	}
	s.passes.RLock()
	defer s.passes.RUnlock()
	st.passes.Lock() // so that no key is resolved during the count
	defer st.passes.Unlock()
	if err := s.recount(ctx, st); err != nil {
		return fmt.Errorf("engine: count unresolved keys of %q: %w", st.name, lsm.DiskError(err))
	}
	s.recounted.Store(string(st.prefix), struct{}{})
	return nil
}

func (s *Store) recount(ctx context.Context, st *set) (err error) {
	var it *pebble.Iterator
	var before int64
	if err := s.holding(st, func() (err error) {
		b := st.prefix.Elements()
		before = st.unresolvedKeys()
		it, err = s.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
		return err
	}); err != nil {
		return err
	}
	defer lsm.Closing(it, &err)
	n := int64(0)
	for ok, i := it.First(), 1; ok; ok, i = it.Next(), i+1 {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if keyscheme.IsUnresolved(value) {
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
