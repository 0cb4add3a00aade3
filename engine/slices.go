package engine

import (
	"context"
	"errors"
	"iter"

	"bigset/bloomslice"
	"bigset/keyscheme"
)

var errNotYet = errors.New("engine: not yet")

// MarkSlice marks keys, by their hashes, in layers of an owner, and returns the marks for the other replicas: those of keys that were
// there already, too, which name the layer where they were found. added, as long as hashes, is told which were new. When it returns they
// are as durable as the filter promises.
func (s *Store) MarkSlice(ctx context.Context, spec SliceSpec, owner string, hashes []bloomslice.Hash, added []bool) (Marks, error) {
	return Marks{}, errNotYet
}

// ApplyMarks does what another replica has decided: each key's bits are set in the layer that the mark names, whatever is here of the key.
// added, as long as m.Marks, is told which keys were not here before. When it returns the marks are as durable as the filter promises.
func (s *Store) ApplyMarks(ctx context.Context, m Marks, added []bool) error { return errNotYet }

// CheckSlice reports which keys are in the slice, by their hashes. In one that is not here is none.
func (s *Store) CheckSlice(ctx context.Context, spec SliceSpec, hashes []bloomslice.Hash, present []bool) error {
	return errNotYet
}

// DropGeneration takes all slices of a filter away, of the generation and of those before, and sees to it that none comes back from
// another replica. When it returns that is on disk. To do it twice changes nothing. Slices is how many the filter has.
func (s *Store) DropGeneration(ctx context.Context, name []byte, slices uint32, generation uint64) error {
	return errNotYet
}

// SliceDigests lists the slices in a range of slots, both ends included, and those that were dropped, by slot, then by name.
func (s *Store) SliceDigests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[SliceDigest, error] {
	return nil
}

// PageSums returns hashes of stored pages of a slice behind a place, nil is the start: so many at most, 0 is PageSumsMax. What was marked
// before the call is in them. ErrNoFilter is a slice that is not here.
func (s *Store) PageSums(ctx context.Context, spec SliceSpec, after *PagePlace, most int) (PageSums, error) {
	return PageSums{}, errNotYet
}

// Pages returns the pages of a slice at some places, at most PagesMax, in order, with all layers. Those that are not stored are left out.
func (s *Store) Pages(ctx context.Context, spec SliceSpec, places []PagePlace) (SlicePages, error) {
	return SlicePages{}, errNotYet
}

// MergePages joins what another replica has of a slice: pages by OR, counts by the larger, layers by union. They are durable after
// FlushSlice, or at the next flush.
func (s *Store) MergePages(ctx context.Context, p SlicePages) error { return errNotYet }

// FlushSlice makes durable what has come to a slice so far. One that is not here is nothing.
func (s *Store) FlushSlice(ctx context.Context, spec SliceSpec) error { return errNotYet }
