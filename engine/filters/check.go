package filters

import (
	"context"

	"bigset"
	"bigset/bloomslice"
)

// CheckSlice reports which keys are in the slice, by their hashes. A slice that this store does not have contains no keys. Errors
// are those of MarkSlice.
func (fs *Filters) CheckSlice(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash, present []bool) error {
	one := [1]SliceCheck{{Slice: spec.Slice, Hashes: hashes, Present: present}}
	fs.CheckSlices(ctx, spec, one[:])
	return one[0].Err
}

// SliceCheck is a check of keys of one slice, and its result.
type SliceCheck struct {
	Slice   uint32
	Hashes  []bloomslice.Hash
	Present []bool // as long as Hashes; set to which keys are in the slice

	Err error // set to the error that CheckSlice would return

	part *filterSlice
}

// CheckSlices does what CheckSlice does for several slices of a filter, and sets the result of each. It ignores the spec's slice.
func (fs *Filters) CheckSlices(ctx context.Context, spec bigset.SliceSpec, all []SliceCheck) {
	err := fs.db.Enter()
	if err == nil {
		defer fs.db.Leave()
		err = ctx.Err()
	}
	var f *Filter
	if err == nil {
		f, err = fs.knownFilter(&spec)
	}
	for i := range all {
		c := &all[i]
		clear(c.Present[:len(c.Hashes)])
		spec.Slice, c.part = c.Slice, nil
		if c.Err = err; err != nil {
			continue
		}
		if c.Err = spec.CheckHashes(c.Hashes); c.Err == nil && f != nil {
			c.part, c.Err = f.known(&spec)
		}
	}
	var hits, keys uint64
	for i := range all {
		c := &all[i]
		if c.part == nil || c.Err != nil {
			continue
		}
		n, err := c.part.present(c.Hashes, c.Present)
		if err != nil {
			spec.Slice = c.Slice
			c.Err = fs.goneFor(&spec, c.part.readError(err))
			continue
		}
		hits, keys = hits+n, keys+uint64(len(c.Hashes))
	}
	if keys > 0 {
		f.counted().checks.add(hits, keys-hits)
	}
}

// CheckSlicesNow does what CheckSlices does for n slices, if it does not have to wait and nothing is wrong: no page or head has to
// be read. Otherwise it returns false, and present is meaningless. keys returns one of the slices, and its keys. present has room
// for the keys of all slices, one slice after the other.
func (fs *Filters) CheckSlicesNow(spec bigset.SliceSpec, n int, keys func(i int) (slice uint32, hashes []bloomslice.Hash), present []bool) bool {
	if fs.db.Enter() != nil {
		return false
	}
	defer fs.db.Leave()
	f, err := fs.knownFilter(&spec)
	if err != nil {
		return false
	}
	clear(present)
	if f == nil {
		return true
	}
	var hits uint64
	all := uint64(len(present))
	for i := range n {
		var hashes []bloomslice.Hash
		spec.Slice, hashes = keys(i)
		here := present[:len(hashes)]
		present = present[len(hashes):]
		part, known := f.knownNow(&spec, hashes)
		if !known {
			return false
		}
		if part == nil {
			continue
		}
		if part.look(hashes, here) < len(hashes) {
			return false
		}
		n, err := part.hits(here)
		if err != nil {
			return false
		}
		hits += n
	}
	f.counted().checks.add(hits, all-hits)
	return true
}

// knownNow does what known does, for some keys. It reports false if the slice's head is not in memory, and for what known or
// CheckHashes refuses.
func (f *Filter) knownNow(spec *bigset.SliceSpec, hashes []bloomslice.Hash) (part *filterSlice, ok bool) {
	if int(spec.Slice) >= len(f.slices) || spec.CheckHashes(hashes) != nil {
		return nil, false
	}
	if part = f.slices[spec.Slice].Load(); part == nil {
		return nil, true
	}
	if part == &idleSlice || part.opt.Load() == nil {
		return nil, false
	}
	part, err := f.known(spec)
	return part, err == nil
}
