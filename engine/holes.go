package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/comparator"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// A hole is a part of a set that cannot be read because a block of a table is damaged. It is filled from another
// replica's facts: it is excised, and tables with its keys replace it. Its keys are known only by subtraction: Seen
// minus Dead, minus the dots of readable keys. So it is filled only if the facts name each of those dots: then
// nothing is lost that was not lost before.
//
//	readable keys   … a b c │ d ▓▓▓▓▓▓▓ m │ n o …       the ends lie an element away from what cannot be read, so that Pebble,
//	                        └ lower       └ upper       which cuts the table there, need not read that
//
// What other tables hold within a hole cannot be read either: a merging iterator stops at an error of any table. So
// the facts must name that, too. The keys at both ends (d, m) are copied. Writes into the hole during that time are
// logged, as for any pass.

// hole is a part of a set that cannot be read.
type hole struct {
	bounds keyscheme.Bounds
	edge   []keptKey // the readable keys within the bounds
	cause  error
}

// readable finds out which keys of a set can be read. Each iterator lives for a short while; later writes may be
// found or not.
type readable struct {
	s     *Store
	st    *set
	seen  *clock.Clock // dots that are searched for
	found *clock.Clock // those of seen that have a key
	holes []hole

	last []byte    // the last element read since the set began, or since the last hole; may be nil
	edge []keptKey // its keys
}

// Lost returns the dots of a set that were seen, are not dead, and have no readable key. That is damage, which Heal
// repairs. Lost reads the whole set, with short iterators, also after blocks that cannot be read. A key next to such
// a block may be named, too. It returns bigset.ErrNotFound if the store does not know the set, and
// bigset.ErrUnresolved for an unresolved key.
func (r Replica) Lost(ctx context.Context, name []byte) (lost *clock.Clock, err error) {
	err = r.s.withSet(ctx, name, func(st *set) error {
		v := readable{s: r.s, st: st, seen: st.view().seen}
		if err := v.run(ctx); err != nil {
			return fmt.Errorf("engine: look for lost keys of %q: %w", st.name, err)
		}
		lost = v.lost()
		return nil
	})
	return lost, err
}

// lost returns the dots without a key that are not dead by now. Dots of a range that was dropped since are not lost.
func (v *readable) lost() *clock.Clock {
	now, lost := v.st.view(), v.seen.Clone()
	lost.Subtract(v.found)
	lost.Subtract(now.dead)
	lost.Intersect(now.seen)
	return lost
}

func (v *readable) run(ctx context.Context) error {
	v.found, v.holes, v.last = &clock.Clock{}, nil, nil
	whole := v.st.prefix.Elements()
	for b := whole; b.Lower != nil; {
		next, err := v.forward(ctx, b)
		if err = lsm.DiskError(err); errors.Is(err, bigset.ErrCorrupt) {
			next, err = v.enterHole(ctx, b.Lower, err)
		}
		if err != nil {
			return err
		}
		b.Lower = next
	}
	return nil
}

// forward reads until its iterator has become old. It returns the bound to continue from, nil at the end.
func (v *readable) forward(ctx context.Context, b keyscheme.Bounds) (next []byte, err error) {
	began, old := time.Now(), false
	err = v.each(ctx, b, (*pebble.Iterator).First, (*pebble.Iterator).Next, func(n int, element []byte, k keptKey) bool {
		old = old || n%4096 == 0 && time.Since(began) > iteratorAgeMax
		if v.last == nil || string(element) != string(v.last) {
			if old {
				next = v.st.prefix.AppendElementBound(nil, element)
				return false
			}
			v.last, v.edge = append([]byte{}, element...), nil
		}
		v.take(k)
		return true
	})
	return next, err
}

// take records a key whose dot is searched for.
func (v *readable) take(k keptKey) {
	_, actor, counter, _, _ := keyscheme.DecodeElement(len(v.st.prefix), k.key)
	if v.seen.ContainsBytes(actor, counter) {
		v.found.Add(clock.Dot{Actor: clock.Actor(actor), Counter: counter})
		v.edge = append(v.edge, k)
	}
}

// each reads the keys within the bounds until yield reports false.
func (v *readable) each(
	ctx context.Context, b keyscheme.Bounds, first, next func(*pebble.Iterator) bool, yield func(n int, element []byte, k keptKey) bool,
) (err error) {
	if v.s.db.Closed() {
		return bigset.ErrClosed
	}
	e := v.st.readers.enter()
	defer v.st.readers.leave(e)
	it, err := v.s.db.OpenSet(v.st.prefix, &pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return err
	}
	defer lsm.Closing(it, &err)
	for ok, n := first(it), 1; ok; ok, n = next(it), n+1 {
		if n%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		element, _, _, _, ok := keyscheme.DecodeElement(len(v.st.prefix), it.Key())
		if !ok {
			return fmt.Errorf("%w: key %x", bigset.ErrCorrupt, it.Key())
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if keyscheme.IsUnresolved(value) {
			return fmt.Errorf("%w: element %.64q", bigset.ErrUnresolved, element)
		}
		if !yield(n, element, newKept(it.Key(), value)) {
			return nil
		}
	}
	return it.Error()
}

// enterHole finds the other end of a hole, where reading continues.
func (v *readable) enterHole(ctx context.Context, at []byte, cause error) (next []byte, err error) {
	whole := v.st.prefix.Elements()
	h := hole{bounds: keyscheme.Bounds{Lower: at}, edge: v.edge, cause: cause}
	if v.last != nil {
		h.bounds.Lower = v.st.prefix.AppendElementBound(nil, v.last)
	} else if n := len(v.holes); n > 0 { // nothing was readable in between
		h.bounds.Lower, h.edge = v.holes[n-1].bounds.Lower, v.holes[n-1].edge
		v.holes = v.holes[:n-1]
	}
	end := whole.Upper // of the damaged table, or of the set
	var damage *CorruptionError
	if errors.As(cause, &damage) && string(damage.LastSet) == string(v.st.name) && damage.To != nil {
		end = v.st.prefix.AppendElementAfter(nil, damage.To)
	}
	v.last, v.edge = nil, nil
	var seconds []byte // the second to last element that was read backwards: the hole ends before it
	n := 0
	err = v.each(ctx, keyscheme.Bounds{Lower: h.bounds.Lower, Upper: end}, (*pebble.Iterator).Last, (*pebble.Iterator).Prev,
		func(_ int, element []byte, k keptKey) bool {
			if n == 0 || string(element) != string(v.last) {
				n++
				seconds, v.last, v.edge = v.last, append([]byte{}, element...), nil
			}
			v.take(k)
			return true
		})
	if err = lsm.DiskError(err); !errors.Is(err, bigset.ErrCorrupt) {
		return nil, errors.Join(err, cause) // or the unreadable part can be read backwards
	}
	h.edge = append(h.edge, v.edge...)
	v.last, v.edge = nil, nil
	if n >= 2 {
		h.bounds.Upper = v.st.prefix.AppendElementBound(nil, seconds)
	} else if h.bounds.Upper, err = v.firstFrom(ctx, keyscheme.Bounds{Lower: end, Upper: whole.Upper}); err != nil {
		return nil, err
	}
	v.holes = append(v.holes, h)
	if comparator.Compare(h.bounds.Upper, whole.Upper) == 0 {
		return nil, nil
	}
	return h.bounds.Upper, nil
}

// firstFrom returns the bound before the first element within the bounds, or their end.
func (v *readable) firstFrom(ctx context.Context, b keyscheme.Bounds) (at []byte, err error) {
	at = b.Upper
	if comparator.Compare(b.Lower, b.Upper) == 0 {
		return at, nil
	}
	err = v.each(ctx, b, (*pebble.Iterator).First, (*pebble.Iterator).Next, func(_ int, element []byte, _ keptKey) bool {
		at = v.st.prefix.AppendElementBound(nil, element)
		return false
	})
	return at, lsm.DiskError(err)
}

// holesMax is how many holes of a set one Heal fills.
const holesMax = 64

// fillHoles fills the holes of a set with the given keys, which are in order. It returns the keys that it put in. The
// error is that of the first hole that had to be left.
func (s *Store) fillHoles(ctx context.Context, st *set, keys []keptKey) (put []keptKey, err error) {
	s.passes.RLock()
	defer s.passes.RUnlock()
	st.passes.Lock()
	defer st.passes.Unlock()
	for range holesMax {
		v := readable{s: s, st: st, seen: st.view().seen}
		if err := v.run(ctx); err != nil || len(v.holes) == 0 {
			return put, err
		}
		filled, err := v.fillHole(ctx, keys)
		if put = append(put, filled...); err != nil {
			return put, err
		}
	}
	return put, nil
}

// fillHole fills the first hole that was found, and returns the keys that it put in. It first begins to log writes
// into the hole, then reads the set again for the dots that were seen at that moment.
func (v *readable) fillHole(ctx context.Context, keys []keptKey) (put []keptKey, err error) {
	s, bounds := v.s, v.holes[0].bounds
	p := s.newPass(v.st, bounds, &healing{})
	p.holed = true
	err = p.logging(func() error {
		if err := p.it.Close(); err != nil {
			return lsm.DiskError(err)
		}
		v.seen = p.seen
		if err := v.run(ctx); err != nil {
			return err
		}
		if len(v.holes) == 0 || comparator.Compare(v.holes[0].bounds.Lower, bounds.Lower) != 0 ||
			comparator.Compare(v.holes[0].bounds.Upper, bounds.Upper) != 0 {
			return nil // the hole has moved: try again
		}
		h := v.holes[0]
		if p.heals.put, err = v.fits(&h, keys); err != nil {
			return err
		}
		kept := append(slices.Clone(h.edge), p.heals.put...)
		slices.SortFunc(kept, func(a, b keptKey) int { return comparator.Compare(a.key, b.key) })
		for _, k := range kept {
			p.keep(k)
		}
		var res passResult
		if err = p.install(ctx, &res); err == nil && res.Left {
			err = h.cause
		}
		if err != nil {
			return fmt.Errorf("engine: fill a hole of %q: %w", v.st.name, lsm.DiskError(err))
		}
		put = p.heals.put
		s.damages.Forget(lsm.Damaged{Name: string(v.st.name)}) // damage that remains will be met again
		s.event(Event{Kind: EventHeal, Set: v.st.name, Keys: len(put)})
		return nil
	})
	return put, err
}

// fits returns those of the keys that go into a hole. It returns the hole's error if some lost dot belongs to none of
// the keys: that dot's key may be in the hole.
func (v *readable) fits(h *hole, keys []keptKey) (put []keptKey, err error) {
	lost := v.lost()
	left := lost.Clone()
	for _, k := range keys {
		_, actor, counter, _, _ := keyscheme.DecodeElement(len(v.st.prefix), k.key)
		d := clock.Dot{Actor: clock.Actor(actor), Counter: counter}
		if !lost.Contains(d) {
			continue
		}
		left.Subtract(clock.Of(d))
		if comparator.Compare(k.key, h.bounds.Lower) >= 0 && comparator.Compare(k.key, h.bounds.Upper) < 0 {
			put = append(put, k)
		}
	}
	if !left.Empty() {
		return nil, h.cause
	}
	return put, nil
}
