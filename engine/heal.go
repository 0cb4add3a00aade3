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
	"bigset/engine/internal/lsm"
	"bigset/fold"
	"bigset/keyscheme"
)

// A dot that was seen, is not dead and has no key is damage: the key is lost. Another replica has it (its Locate
// finds it). It must not be written again like other keys: a copy that no iterator shows may still be in a table, and
// a second record over that copy can make a later compaction panic (Pebble issue 6168). So a pass of the rewriter
// restores it: the span around it is copied with the key in it, and swapped in for everything that the span held.

const (
	// healGap is how many keys a pass reads after the last restored one in search of another, before it ends its
	// span.
	healGap = 1000
	// healTries is how often a pass over a span is tried while the span is being written.
	healTries = 3
)

// Heal restores lost keys from another replica's facts. A key is restored if its dot is live here and no key with
// that dot is stored under the element. All other keys are left alone, so Heal takes nothing away, brings nothing
// dead back, and may be repeated. Deaths among the facts are applied first, as by ApplyFacts. Everything stored
// around a restored key is copied, as the rewriter does it: a few thousand keys and one swap for each stretch of lost
// keys. What Heal has restored is durable when it returns; a crash leaves a swap done or not done.
//
// If damage near a lost key cannot be read, Heal replaces the whole stretch, provided that the facts name every dot
// that Lost returns. Otherwise it leaves the key, restores the others, and returns bigset.ErrCorrupt, a
// *CorruptionError that names the file. Damage of the set's clock, or that reaches into another set, cannot be
// healed: replace the store by a copy.
//
// The argument wrong lists keys stored under the wrong element. Heal removes one if the facts name its dot under
// another element and that key exists or can be restored. Others are left alone.
func (r Replica) Heal(ctx context.Context, f bigset.Facts, wrong []fold.Element) (res bigset.HealResult, err error) {
	if err := errors.Join(f.Check(), (&bigset.Facts{Set: f.Set, Keys: wrong}).Check()); err != nil {
		return res, err
	}
	if !f.Dead.Empty() {
		if _, err := r.ApplyFacts(ctx, bigset.Facts{Set: f.Set, Dead: f.Dead}, bigset.ApplyOptions{Durability: bigset.Sync}); err != nil {
			return res, err
		}
	}
	err = r.s.usingSet(ctx, f.Set, func(st *set) error {
		if err := errors.Join(r.s.db.Writable(), r.s.db.Room()); err != nil {
			return err
		}
		keys := maybeLost(st, &f, &res)
		left, err := r.s.heal(ctx, st, keys, &res)
		if errors.Is(err, bigset.ErrCorrupt) {
			err = r.s.healHoles(ctx, st, keys, left, &res)
		}
		return errors.Join(err, r.s.takeWrong(ctx, st, &f, wrong, &res))
	})
	return res, err
}

// healHoles fills the holes of a set with keys as far as they suffice. The keys in left could not be restored because
// of damage around them.
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

// takeWrong removes keys whose dots are stored under the elements that the facts name.
func (s *Store) takeWrong(ctx context.Context, st *set, f *bigset.Facts, wrong []fold.Element, res *bigset.HealResult) error {
	of := map[clock.Dot][]byte{}
	for i := range f.Keys {
		for _, d := range f.Keys[i].Dots {
			of[d] = f.Keys[i].Name
		}
	}
	for i := range wrong {
		h := &healing{}
		for _, d := range wrong[i].Dots {
			right, named := of[d]
			if !named || bytes.Equal(right, wrong[i].Name) {
				continue
			}
			stored, err := s.keysOf(st, right)
			if err != nil {
				return fmt.Errorf("engine: heal %q: %w", st.name, lsm.DiskError(err))
			}
			if slices.Contains(stored, d) {
				h.wrong = append(h.wrong, st.prefix.AppendElement(nil, wrong[i].Name, d, keyscheme.OpAdd))
			}
		}
		if len(h.wrong) == 0 {
			continue
		}
		did, err := s.newPass(st, st.prefix.Element(wrong[i].Name), h).run(ctx, never)
		if err != nil {
			return fmt.Errorf("engine: heal %q: %w", st.name, err)
		}
		if did.Swapped {
			res.Taken += h.taken
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
				keys = append(keys, keptKey{st.prefix.AppendElement(nil, f.Keys[i].Name, d, keyscheme.OpAdd), keyscheme.ResolvedValue})
			}
		}
	}
	slices.SortFunc(keys, func(a, b keptKey) int { return comparator.Compare(a.key, b.key) })
	return keys
}

// heal restores those of the keys that are lost, span after span. If a span has damage that cannot be read, heal
// tries its first element alone, and leaves that element's keys if this fails, too. It returns the keys that it left.
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
		h := &healing{lost: within}
		did, err := s.newPass(st, bounds, h).run(ctx, never)
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
			within = keysBelow(keys, did.Upper)
			h.countIn(res, &did, len(within))
			if did.Swapped && len(h.put) > 0 {
				s.event(Event{Kind: EventHeal, Set: st.name, Keys: len(h.put)})
			}
		}
		keys, alone, tries = keys[len(within):], false, 1
	}
	return left, unreadable
}

// never is for passes that are worthwhile only if they heal something.
func never(compaction.Span) bool { return false }

// countIn counts what a pass has done with the given number of keys.
func (h *healing) countIn(res *bigset.HealResult, did *passResult, keys int) {
	if did.Left {
		res.Left += len(h.put)
	} else {
		res.Healed += len(h.put)
	}
	res.Dead += h.died
	res.NotSeen += h.unseen
	res.Present += keys - len(h.put) - h.died - h.unseen
}

func elementOf(st *set, key []byte) []byte {
	element, _, _, _, _ := keyscheme.DecodeElement(len(st.prefix), key)
	return element
}

// keysBelow returns the keys that are below a bound. The keys are in order.
func keysBelow(keys []keptKey, bound []byte) []keptKey {
	n, _ := slices.BinarySearchFunc(keys, bound, func(k keptKey, bound []byte) int { return comparator.Compare(k.key, bound) })
	return keys[:n]
}

// healing is what a pass restores in its span, and which live keys it leaves out. A nil one heals nothing.
type healing struct {
	lost   []keptKey // keys to restore if they are not found, ascending: those still to come
	lostAt int       // keys read when the last of lost was reached
	put    []keptKey // restored keys
	died   int       // keys whose dots have died since they were looked up
	unseen int       // keys whose dots have not been seen
	wrong  [][]byte  // keys to be left out
	taken  int       // how many of wrong were left out
}

// puts returns the restored keys.
func (h *healing) puts() []keptKey {
	if h == nil {
		return nil
	}
	return h.put
}

// some reports whether a key was restored or left out.
func (h *healing) some() bool { return h != nil && len(h.put)+h.taken > 0 }

// strays reports whether a pass has read many keys since it last reached a lost key.
func (h *healing) strays(read int) bool { return h != nil && read-h.lostAt > healGap }

// takes reports whether a key is to be left out.
func (h *healing) takes(key []byte) bool {
	if h == nil || !slices.ContainsFunc(h.wrong, func(k []byte) bool { return bytes.Equal(k, key) }) {
		return false
	}
	h.taken++
	return true
}

// inject keeps the lost keys that come before a stored key, or a bound, but not the stored key itself.
func (p *pass) inject(before []byte) error {
	h := p.heals
	for h != nil && len(h.lost) > 0 {
		k := h.lost[0]
		stored := sameEvent(k.key, before)
		if !stored && comparator.Compare(k.key, before) >= 0 {
			return nil
		}
		h.lost, h.lostAt = h.lost[1:], p.read
		if stored {
			continue
		}
		element, actor, counter, _, _ := keyscheme.DecodeElement(len(p.st.prefix), k.key)
		v := p.st.view() // younger than the iterator: it contains the death of a key that the drop filter has hidden since
		if !v.seen.ContainsBytes(actor, counter) {
			h.unseen++ // its range was dropped since it was looked up
			continue
		}
		if v.dead.ContainsBytes(actor, counter) {
			h.died++
			continue
		}
		if err := p.beginElement(element); err != nil {
			return err
		}
		p.gather(k.key, k.value)
		h.put = append(h.put, k)
	}
	return nil
}

// sameEvent reports whether two keys of a set are of one dot of one element.
func sameEvent(a, b []byte) bool {
	return len(a) == len(b) && bytes.Equal(a[:len(a)-keyscheme.OpBytes], b[:len(b)-keyscheme.OpBytes])
}
