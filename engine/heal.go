package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/comparator"
	"bigset/fold"
	"bigset/keyscheme"
)

// A dot that was seen, is not dead and has no key is damage: the key is lost. Another replica has it (Locate there). It may not be
// written again as other keys are: a copy of it that no iterator shows may still be in a table, and a second record over that one
// can make a later compaction panic (Pebble issue 6168). So a pass of the rewriter puts it back: the span around it is copied with
// the key in it, and swapped in for all that the span held, whatever that was.

const (
	// healGap is how many keys behind the last one that was put back a pass goes on for the next one, before it ends its span.
	healGap = 1000
	// healTries is how often a span that is being written is tried.
	healTries = 3
)

// Heal puts back keys that were lost, from facts that another replica has told: each whose dot has been seen here and is not dead,
// and that is not stored under its element. All others are left alone, so it takes nothing away, brings nothing dead back, and may
// be repeated. Deaths among the facts are applied first, as by ApplyFacts. All that is stored around such a key is copied, as the
// rewriter does it: a few thousand keys and one swap for each stretch of lost ones. What it has put back is durable when it returns;
// a crash leaves a swap done or not done.
//
// Where damage near a lost key can't be read nothing could be copied: the stretch is replaced whole, provided that the facts name all
// that may be in it, which is every dot that Lost returns. Else the key is left, and the error is bigset.ErrCorrupt, a *CorruptionError
// that names the file; the others are put back all the same. So it is where the damage reaches the set's clock, or another set: such
// a store is replaced by a copy.
//
// Wrong are keys that this store has and should not, for their dots are those of other elements: one is taken away when the facts name
// its dot under another element and that key is stored here, or could be put back. Others are left alone.
func (s *Store) Heal(ctx context.Context, f bigset.Facts, wrong []fold.Element) (res bigset.HealResult, err error) {
	if err := errors.Join(f.Check(), (&bigset.Facts{Set: f.Set, Keys: wrong}).Check()); err != nil {
		return res, err
	}
	if !f.Dead.Empty() {
		if _, err := s.ApplyFacts(ctx, bigset.Facts{Set: f.Set, Dead: f.Dead}, bigset.Sync); err != nil {
			return res, err
		}
	}
	err = s.usingSet(ctx, f.Set, func(st *set) error {
		if err := errors.Join(s.writable(), s.disk.room()); err != nil {
			return err
		}
		keys := maybeLost(st, &f, &res)
		left, err := s.heal(ctx, st, keys, &res)
		if errors.Is(err, bigset.ErrCorrupt) {
			err = s.healHoles(ctx, st, keys, left, &res)
		}
		return errors.Join(err, s.takeWrong(ctx, st, &f, wrong, &res))
	})
	return res, err
}

// healHoles fills the holes of a set, with some keys, as far as these go. Those left had not been put back, for damage around them.
func (s *Store) healHoles(ctx context.Context, st *set, keys, left []keptKey, res *bigset.HealResult) error {
	put, err := s.fillHoles(ctx, st, keys)
	filled := map[string]bool{}
	for _, k := range put {
		filled[string(k.key)] = true
	}
	were := len(left)
	left = slices.DeleteFunc(left, func(k keptKey) bool { return filled[string(k.key)] })
	res.Healed += were - len(left)
	if err != nil {
		res.Left += len(left)
		return err
	}
	left, err = s.heal(ctx, st, left, res)
	res.Left += len(left)
	return err
}

// takeWrong takes keys away whose dots are stored under the elements that the facts say.
func (s *Store) takeWrong(ctx context.Context, st *set, f *bigset.Facts, wrong []fold.Element, res *bigset.HealResult) error {
	of := map[clock.Dot][]byte{}
	for i := range f.Keys {
		for _, d := range f.Keys[i].Dots {
			of[d] = f.Keys[i].Name
		}
	}
	for i := range wrong {
		p := &pass{spanFiles: spanFiles{s: s}, st: st, bounds: st.prefix.Element(wrong[i].Name)}
		for _, d := range wrong[i].Dots {
			right, named := of[d]
			if !named || bytes.Equal(right, wrong[i].Name) {
				continue
			}
			stored, err := s.keysOf(st, right)
			if err != nil {
				return fmt.Errorf("engine: heal %q: %w", st.name, diskError(err))
			}
			if slices.Contains(stored, d) {
				p.wrong = append(p.wrong, st.prefix.AppendElement(nil, wrong[i].Name, d, keyscheme.OpAdd))
			}
		}
		if len(p.wrong) == 0 {
			continue
		}
		did, err := s.runPass(ctx, p, func(compaction.Span) bool { return false })
		if err != nil {
			return fmt.Errorf("engine: heal %q: %w", st.name, err)
		}
		if did.Swapped {
			res.Taken += p.taken
		}
	}
	return nil
}

// maybeLost returns the keys, in order, that may be lost, and counts the others.
func maybeLost(st *set, f *bigset.Facts, res *bigset.HealResult) (keys []keptKey) {
	v := st.view()
	for i := range f.Keys {
		for _, d := range f.Keys[i].Dots {
			switch {
			case !v.seen.Contains(d):
				res.NotSeen++
			case v.dead.Contains(d):
				res.Dead++
			default:
				keys = append(keys, keptKey{st.prefix.AppendElement(nil, f.Keys[i].Name, d, keyscheme.OpAdd), keyscheme.ClosedValue})
			}
		}
	}
	slices.SortFunc(keys, func(a, b keptKey) int { return comparator.Compare(a.key, b.key) })
	return keys
}

// heal puts back those of some keys that are lost, span after span. Where one has damage that can't be read its first element is
// tried alone, and left if that fails, too. It returns those that were left so.
func (s *Store) heal(ctx context.Context, st *set, keys []keptKey, res *bigset.HealResult) (left []keptKey, unreadable error) {
	alone := false
	for tries := 1; len(keys) > 0; {
		if err := ctx.Err(); err != nil {
			return left, err
		}
		first := elementOf(st, keys[0].key)
		bounds := st.prefix.Range(keyscheme.Before(first), keyscheme.After(elementOf(st, keys[len(keys)-1].key)))
		if alone {
			bounds = st.prefix.Element(first)
		}
		within := keysBelow(keys, bounds.Upper)
		p := &pass{spanFiles: spanFiles{s: s}, st: st, bounds: bounds, heals: true, lost: within}
		did, err := s.runPass(ctx, p, func(compaction.Span) bool { return false })
		switch {
		case err != nil && !errors.Is(err, bigset.ErrCorrupt):
			return left, fmt.Errorf("engine: heal %q: %w", st.name, err)
		case err != nil && !alone:
			alone = true
			continue
		case err != nil:
			unreadable = err
			left = append(left, within...)
		case did.Left && tries < healTries:
			tries++
			continue
		default:
			within = keysBelow(keys, p.bounds.Upper)
			did.countIn(res, p, len(within))
			if did.Swapped && len(p.put) > 0 {
				s.event(Event{Kind: EventHeal, Set: st.name, Keys: len(p.put)})
			}
		}
		keys, alone, tries = keys[len(within):], false, 1
	}
	return left, unreadable
}

// countIn counts what a pass has done with so many keys.
func (did *passResult) countIn(res *bigset.HealResult, p *pass, keys int) {
	if did.Left {
		res.Left += len(p.put)
	} else {
		res.Healed += len(p.put)
	}
	res.Dead += p.died
	res.NotSeen += p.unseen
	res.Present += keys - len(p.put) - p.died - p.unseen
}

func elementOf(st *set, key []byte) []byte {
	element, _, _, _, _ := keyscheme.DecodeElement(len(st.prefix), key)
	return element
}

// keysBelow returns those of some keys, in order, that are below a bound.
func keysBelow(keys []keptKey, bound []byte) []keptKey {
	n, _ := slices.BinarySearchFunc(keys, bound, func(k keptKey, bound []byte) int { return comparator.Compare(k.key, bound) })
	return keys[:n]
}

// strays reports whether a pass that puts keys back has read on for long since it came by one of them.
func (p *pass) strays() bool { return p.heals && p.read-p.lostAt > healGap }

// putBack puts those of the lost keys that come before a stored key, or a bound, among what is to be kept, but for the stored key itself.
func (p *pass) putBack(before []byte) error {
	for len(p.lost) > 0 {
		k := p.lost[0]
		stored := sameEvent(k.key, before)
		if !stored && comparator.Compare(k.key, before) >= 0 {
			return nil
		}
		p.lost, p.lostAt = p.lost[1:], p.read
		if stored {
			continue
		}
		element, actor, counter, _, _ := keyscheme.DecodeElement(len(p.st.prefix), k.key)
		v := p.st.view() // younger than the iterator: it knows of the death of a key that the filter has hidden since
		if !v.seen.ContainsBytes(actor, counter) {
			p.unseen++ // its range was dropped since it was judged
			continue
		}
		if v.dead.ContainsBytes(actor, counter) {
			p.died++
			continue
		}
		if err := p.beginElement(element); err != nil {
			return err
		}
		p.gather(k.key, k.value)
		p.put = append(p.put, k)
	}
	return nil
}

// sameEvent reports whether two keys of a set are of one dot of one element.
func sameEvent(a, b []byte) bool {
	return len(a) == len(b) && bytes.Equal(a[:len(a)-keyscheme.OpBytes], b[:len(b)-keyscheme.OpBytes])
}
