package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/comparator"
	"bigset/engine/filters"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// A damaged block hides the keys between the last one that was read and the first one after it. Verify tries slots
// until one can be read. It then reads everything before that slot by name, so that the report names what cannot be
// read and nothing else: the set or filter that was being read, the filters that the store lists, and the sets that
// are in memory or that the tables name. The names of other sets are unknown.

// unit is a set, or a slice of a filter, that may lie in a damaged block.
type unit struct {
	bounds keyscheme.Bounds
	slot   keyscheme.Slot
	set    []byte       // the set's name; nil for a slice of a filter
	slice  filters.Unit // the slice, if it is one
}

// pass reports what cannot be read from the bound at which damage was met, and returns where to continue, nil at the
// end.
func (v *verifier) pass(ctx context.Context, b keyscheme.Bounds, damage error) (next []byte, err error) {
	at := b.Lower
	if v.last != nil && comparator.Compare(v.last, at) > 0 {
		at = bytes.Clone(v.last)
	}
	first := slotAt(at)
	upTo, end := uint64(first)+1, b.Upper
	if v.only == nil {
		if upTo, err = v.readableSlot(ctx, first, b.Upper); err != nil {
			return nil, err
		}
		if upTo <= uint64(keyscheme.SlotMax) {
			next = keyscheme.AppendSlot(nil, keyscheme.Slot(upTo))
			end = next
		}
	}
	named := false
	for _, u := range v.units(first, end) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		lower := u.bounds.Lower
		if comparator.Compare(lower, at) < 0 { // everything before was read
			lower = at
		}
		damaged, err := v.unit(&u, keyscheme.Bounds{Lower: lower, Upper: u.bounds.Upper})
		if err != nil {
			return nil, err
		}
		named = named || damaged
	}
	if !named || upTo > uint64(first)+1 {
		v.rep.problem(nil, nil, "keys in slots %08x to %08x can't be read: %v", uint32(first), uint32(upTo-1), damage)
	}
	if err := v.over(); err != nil {
		return nil, err
	}
	return next, nil
}

// slotAt returns the slot that a bound is in.
func slotAt(bound []byte) keyscheme.Slot {
	var slot [keyscheme.SlotBytes]byte
	copy(slot[:], bound)
	return keyscheme.Slot(slot[0])<<24 | keyscheme.Slot(slot[1])<<16 | keyscheme.Slot(slot[2])<<8 | keyscheme.Slot(slot[3])
}

// readableSlot returns a slot after the given one that can be read from its beginning, the first such slot or one not
// far after it. It returns SlotMax+1 if no such slot exists. It tries few slots: when Pebble meets a damaged block,
// its work takes a hundredth of a second.
func (v *verifier) readableSlot(ctx context.Context, slot keyscheme.Slot, upper []byte) (uint64, error) {
	const end = uint64(keyscheme.SlotMax) + 1
	bad, good := uint64(slot), uint64(slot)+1
	for step := uint64(1); good < end; step *= 16 {
		ok, err := v.readable(ctx, keyscheme.Slot(good), upper)
		if err != nil {
			return 0, err
		}
		if ok {
			break
		}
		bad, good = good, min(good+step, end)
	}
	for good-bad > max(1, (bad-uint64(slot))/8) {
		middle := bad + (good-bad)/2
		ok, err := v.readable(ctx, keyscheme.Slot(middle), upper)
		if err != nil {
			return 0, err
		}
		if ok {
			good = middle
		} else {
			bad = middle
		}
	}
	return good, nil
}

// readable reports whether the first key from a slot on can be read.
func (v *verifier) readable(ctx context.Context, slot keyscheme.Slot, upper []byte) (ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	lower := keyscheme.AppendSlot(nil, slot)
	err = v.each(keyscheme.Bounds{Lower: lower, Upper: upper}, func(_, _ []byte) (bool, error) { return false, nil })
	if errors.Is(err, bigset.ErrCorrupt) {
		return false, nil
	}
	return err == nil, err
}

// each calls f for keys in order until it returns false or an error.
func (v *verifier) each(b keyscheme.Bounds, f func(key, value []byte) (bool, error)) (err error) {
	s := v.s
	e := s.readers.enter()
	defer s.readers.leave(e)
	s.swapping.Lock()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	s.swapping.Unlock()
	if err != nil {
		return lsm.DiskError(err)
	}
	defer func() { err = lsm.DiskError(err) }()
	defer lsm.Closing(it, &err)
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if more, err := f(it.Key(), value); !more || err != nil {
			return err
		}
	}
	return it.Error()
}

// units returns what may lie between a slot and a bound, in the order of keys.
func (v *verifier) units(first keyscheme.Slot, end []byte) (units []unit) {
	within := func(u unit) {
		if u.slot >= first && comparator.Compare(u.bounds.Lower, end) < 0 {
			units = append(units, u)
		}
	}
	sets := map[string]bool{}
	if v.set != nil {
		sets[string(v.prefix)] = true
	}
	if v.only != nil {
		sets[string(keyscheme.NewPrefix(v.only))] = true
	}
	if v.filters != nil {
		for _, u := range v.filters.Units() {
			within(unit{u.Bounds, u.Slot, nil, u})
		}
		v.s.knownSets(sets)
	}
	for prefix := range sets {
		p := keyscheme.Prefix(prefix)
		within(unit{p.All(), p.Slot(), bytes.Clone(p.Set()), filters.Unit{}})
	}
	slices.SortFunc(units, func(a, b unit) int { return comparator.Compare(a.bounds.Lower, b.bounds.Lower) })
	return units
}

// knownSets adds the prefixes of sets that are in memory or that tables name. Tables whose properties cannot be read
// name none.
func (s *Store) knownSets(prefixes map[string]bool) {
	s.sets.mu.Lock()
	for name := range s.sets.byName {
		prefixes[string(keyscheme.NewPrefix([]byte(name)))] = true
	}
	s.sets.mu.Unlock()
	tables, err := s.db.ReadTables()
	if err != nil {
		return
	}
	for _, t := range tables {
		for _, set := range t.Sets {
			prefixes[set.Prefix] = true
		}
	}
}

// unit verifies what can be read of a set or a slice from a bound on, and reports whether part of it cannot be read.
func (v *verifier) unit(u *unit, b keyscheme.Bounds) (torn bool, err error) {
	damage := v.each(b, func(key, value []byte) (bool, error) {
		if v.last != nil && comparator.Compare(v.last, key) >= 0 {
			return true, nil
		}
		return true, v.key(key, value)
	})
	if !errors.Is(damage, bigset.ErrCorrupt) {
		return false, damage
	}
	if u.set == nil {
		return true, v.filters.Unreadable(u.slice, damage)
	}
	if !bytes.Equal(v.set, u.set) {
		v.endSet()
		v.beginSet(u.set, keyscheme.NewPrefix(u.set))
	}
	v.bad("can't be read: %v", damage)
	return true, nil
}

// over ends what was being read: the next key belongs to something else.
func (v *verifier) over() error {
	v.endSet()
	v.set = nil
	if v.filters == nil {
		return nil
	}
	return v.filters.Over()
}
