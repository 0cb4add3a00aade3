package local

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/filters"
	"bigset/keyscheme"
	"bigset/server/peer"
)

var _ peer.SliceReplica = (*Replica)(nil)

// outcomeOfMany adds to the error of a change that is done in parts whether it may have happened. It has not if it can't have begun, or if
// the slice has gone, with all parts.
func (l *Replica) outcomeOfMany(err error) error {
	if errors.Is(err, bigset.ErrClosed) || errors.Is(err, bigset.ErrDiskFull) || errors.Is(err, bigset.ErrSliceAway) {
		return l.outcome(err)
	}
	return err
}

// present adds to the error of a read of a slice that is not here now that other replicas may be asked.
func (l *Replica) present(err error) error {
	if errors.Is(err, bigset.ErrSliceAway) {
		return fmt.Errorf("%w: %v: %w", peer.ErrUnavailable, l.slices(), err)
	}
	return err
}

// Mark implements peer.SliceReplica. New keys go into layers of the seat given by SetSeats.
func (l *Replica) Mark(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) (bigset.Marks, []bool, peer.Member, error) {
	one := [1]filters.SliceMarking{{Spec: spec, Hashes: hashes, Added: make([]bool, len(hashes))}}
	by := l.mark(ctx, one[:])
	if err := one[0].Err; err != nil {
		return bigset.Marks{}, nil, by, err
	}
	return one[0].Marks, one[0].Added, by, nil
}

// mark lets the store decide on marks of slices. Each error says whether keys may be marked.
func (l *Replica) mark(ctx context.Context, all []filters.SliceMarking) (by peer.Member) {
	if err := errors.Join(l.wholeSlices(), l.ready()); err != nil {
		for i := range all {
			all[i].Err = err
		}
		return l.slices()
	}
	l.markFromSeats(ctx, all)
	by = l.slices()
	for i := range all {
		m := &all[i]
		if m.Begun && peer.Refused(m.Err) && !errors.Is(m.Err, bigset.ErrNoFilter) { // the keys before the refused one are marked
			m.Err = fmt.Errorf("peer: %v: some of the keys are marked, and the others refused: %v", by, m.Err)
		} else if m.Err != nil {
			m.Err = l.outcomeOf(m.Begun, m.Err)
		} else if by.State != peer.Normal { // it may have decided on layers that were dropped, with unknown results
			m.Err = fmt.Errorf("peer: %v: it is not normal any more: marks unknown", by)
		}
	}
	return by
}

// markFromSeats marks what the replica has a seat for.
func (l *Replica) markFromSeats(ctx context.Context, all []filters.SliceMarking) {
	whole := true
	for i := range all {
		m := &all[i]
		m.Seat, m.Err = l.seat(&m.Spec)
		whole = whole && m.Err == nil
	}
	if whole {
		l.store.Filters().MarkSlices(ctx, all)
		return
	}
	for i := range all { // some have moved to other replicas
		if m := &all[i]; m.Err == nil {
			l.store.Filters().MarkSlices(ctx, all[i:i+1])
		}
	}
}

// ApplyMarks implements peer.SliceReplica.
func (l *Replica) ApplyMarks(ctx context.Context, m bigset.Marks) ([]bool, peer.Member, error) {
	one := [1]filters.SliceMarks{{Marks: m, Added: make([]bool, len(m.Marks))}}
	l.applyMarks(ctx, one[:])
	if err := one[0].Err; err != nil {
		return nil, l.slices(), err
	}
	return one[0].Added, l.slices(), nil
}

// applyMarks applies another replica's decision. Each error says whether keys may be marked.
func (l *Replica) applyMarks(ctx context.Context, all []filters.SliceMarks) {
	err := l.ready()
	if err == nil {
		l.store.Filters().ApplyMarksOf(ctx, all)
	}
	for i := range all {
		if m := &all[i]; err != nil {
			m.Err = err
		} else {
			m.Err = l.outcomeOf(m.Begun, m.Err)
		}
	}
}

// Check implements peer.SliceReplica.
func (l *Replica) Check(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) ([]bool, peer.Member, error) {
	if err := l.wholeSlices(); err != nil {
		return nil, l.slices(), err
	}
	present := make([]bool, len(hashes))
	if err := l.store.Filters().CheckSlice(ctx, spec, hashes, present); err != nil {
		return nil, l.slices(), l.present(err)
	}
	if err := l.wholeSlices(); err != nil { // what was read may be the remains of a drop of the range
		return nil, l.slices(), err
	}
	return present, l.slices(), nil
}

// DropGeneration implements peer.SliceReplica.
func (l *Replica) DropGeneration(ctx context.Context, name []byte, slices uint32, generation uint64) (peer.Member, error) {
	if err := l.ready(); err != nil {
		return l.slices(), err
	}
	return l.slices(), l.outcome(l.store.Filters().DropGeneration(ctx, name, slices, generation))
}

// SliceDigests implements peer.SliceReplica.
func (l *Replica) SliceDigests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SliceDigest, error] {
	return l.store.Filters().SliceDigests(ctx, first, last)
}

// PageSums implements peer.SliceReplica.
func (l *Replica) PageSums(ctx context.Context, spec bigset.SliceSpec, after *bigset.PagePlace, most int) (bigset.PageSums, peer.Member, error) {
	s, err := l.store.Filters().PageSums(ctx, spec, after, most)
	return s, l.slices(), l.present(err)
}

// Pages implements peer.SliceReplica.
func (l *Replica) Pages(ctx context.Context, spec bigset.SliceSpec, places []bigset.PagePlace) (bigset.SlicePages, peer.Member, error) {
	p, err := l.store.Filters().Pages(ctx, spec, places)
	return p, l.slices(), l.present(err)
}

// MergePages implements peer.SliceReplica.
func (l *Replica) MergePages(ctx context.Context, p bigset.SlicePages) (peer.Member, error) {
	if err := l.ready(); err != nil {
		return l.slices(), err
	}
	return l.slices(), l.outcomeOfMany(l.store.Filters().MergePages(ctx, p))
}

// FlushSlice implements peer.SliceReplica.
func (l *Replica) FlushSlice(ctx context.Context, spec bigset.SliceSpec) (peer.Member, error) {
	if err := l.ready(); err != nil {
		return l.slices(), err
	}
	return l.slices(), l.outcome(l.store.Filters().FlushSlice(ctx, spec))
}
