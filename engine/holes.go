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

// A hole is a stretch of a set that can't be read, for a block of a table is damaged. It is filled from what another replica tells of it:
// the hole is excised, and tables with all that must be in it are put in its place. Nobody can tell which keys it held but by
// (Seen minus Dead) minus the keys that can be read elsewhere. So it is filled only when each of those dots is named by the facts:
// then nothing is lost that was not lost before.
//
//	readable keys   … a b c │ d ▓▓▓▓▓▓▓ m │ n o …       the ends lie an element away from what can't be read, so that Pebble,
//	                        └ lower       └ upper       which cuts the table there, need not read that
//
// What other tables hold within a hole can't be read either: a merging iterator stops at an error of any of them. So it must be named, too.
// The keys at both ends (d, m) are copied. What is written into the hole meanwhile is logged, as for any pass.

// hole is a stretch of a set that can't be read.
type hole struct {
	bounds keyscheme.Bounds
	edge   []keptKey // what can be read within the bounds
	cause  error
}

// readable finds out which keys of a set can be read. One iterator lives for a short while; what is written meanwhile may be found or not.
type readable struct {
	s     *Store
	st    *set
	seen  *clock.Clock // dots that are looked for
	found *clock.Clock // those of them that have a key
	holes []hole

	last []byte    // the last element read since the set began, or since the last hole; nil is none
	edge []keptKey // its keys
}

// Lost returns the dots of a set that were seen, are not dead, and have no key that can be read: damage, to be put back by Heal. It
// reads the whole set, with short iterators, also behind blocks that can't be read; a key right beside such a block may be named, too.
// A set of which this store has never heard is bigset.ErrNotFound, an unresolved key bigset.ErrUnresolved.
func (s *Store) Lost(ctx context.Context, name []byte) (lost *clock.Clock, err error) {
	err = s.withSet(ctx, name, func(st *set) error {
		v := readable{s: s, st: st, seen: st.view().seen}
		if err := v.run(ctx); err != nil {
			return fmt.Errorf("engine: look for lost keys of %q: %w", st.name, err)
		}
		lost = v.lost()
		return nil
	})
	return lost, err
}

// lost returns the dots without a key that are not dead by now. Those of a range that was dropped meanwhile are not lost.
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

// forward reads on until it has taken long. It returns the bound to go on from, nil at the end.
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

// take takes a key of a dot that is looked for.
func (v *readable) take(k keptKey) {
	_, actor, counter, _, _ := keyscheme.DecodeElement(len(v.st.prefix), k.key)
	if v.seen.ContainsBytes(actor, counter) {
		v.found.Add(clock.Dot{Actor: clock.Actor(actor), Counter: counter})
		v.edge = append(v.edge, k)
	}
}

// each reads keys within some bounds until yield reports false.
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

// enterHole finds the other end of a hole, where the reading goes on.
func (v *readable) enterHole(ctx context.Context, at []byte, cause error) (next []byte, err error) {
	whole := v.st.prefix.Elements()
	h := hole{bounds: keyscheme.Bounds{Lower: at}, edge: v.edge, cause: cause}
	if v.last != nil {
		h.bounds.Lower = v.st.prefix.AppendElementBound(nil, v.last)
	} else if n := len(v.holes); n > 0 { // nothing could be read in between
		h.bounds.Lower, h.edge = v.holes[n-1].bounds.Lower, v.holes[n-1].edge
		v.holes = v.holes[:n-1]
	}
	end := whole.Upper // of the damaged table, or of the set
	var damage *CorruptionError
	if errors.As(cause, &damage) && string(damage.LastSet) == string(v.st.name) && damage.To != nil {
		end = v.st.prefix.AppendElementAfter(nil, damage.To)
	}
	v.last, v.edge = nil, nil
	var seconds []byte // the last element but one that was read backwards: the hole ends before it
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
		return nil, errors.Join(err, cause) // or what could not be read can be read the other way round
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

// firstFrom returns the bound before the first element within some bounds, or their end.
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

// fillHoles fills the holes of a set with some keys, in order. It returns those that were put in; the error is that of the first
// hole that had to be left.
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

// fillHole fills the first hole that a readable has found, and returns what it has put in. What is written into the hole is logged before
// a second one begins, which is of what was there until then.
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
			return nil // it has moved: once more
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
		s.damages.Forget(lsm.Damaged{Name: string(v.st.name)}) // what is damaged still is met again
		s.event(Event{Kind: EventHeal, Set: v.st.name, Keys: len(put)})
		return nil
	})
	return put, err
}

// fits returns those of some keys that are to be put into a hole. Its error is the hole's, when there is a lost dot that none of
// the keys is of: its key may be in there.
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
