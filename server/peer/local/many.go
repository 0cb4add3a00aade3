package local

import (
	"context"
	"errors"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/filters"
	"bigset/server/peer"
)

var _ peer.SlicesNow = (*Replica)(nil)

// manyChecked checks the sizes of a request about many slices.
func manyChecked[G any](groups []G, keys func(*G) int) error {
	if len(groups) > bloomslice.SlicesMax {
		return &bigset.LimitError{What: "slices at once", Got: len(groups), Max: bloomslice.SlicesMax}
	}
	total := 0
	for i := range groups {
		total += keys(&groups[i])
	}
	if total > peer.ManyKeysMax {
		return &bigset.LimitError{What: "keys of many slices at once", Got: total, Max: peer.ManyKeysMax}
	}
	return nil
}

// outcomeOf adds to the error of one group whether its change may have happened: begun says whether any of it was tried.
func (l *Replica) outcomeOf(begun bool, err error) error {
	if begun {
		return l.outcomeOfMany(err)
	}
	return l.outcome(err)
}

// MarkMany implements peer.ManySlices.
func (l *Replica) MarkMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceKeys) ([]peer.SliceMarked, peer.Member, error) {
	if err := manyChecked(groups, func(g *peer.SliceKeys) int { return len(g.Hashes) }); err != nil {
		return nil, l.slices(), err
	}
	requests, n := make([]filters.SliceMarking, len(groups)), 0
	for i := range groups {
		n += len(groups[i].Hashes)
	}
	added := make([]bool, n)
	for i := range groups {
		spec.Slice, n = groups[i].Slice, len(groups[i].Hashes)
		requests[i] = filters.SliceMarking{Spec: spec, Hashes: groups[i].Hashes, Added: added[:n:n]}
		added = added[n:]
	}
	all := make([]peer.SliceMarked, len(groups))
	by := l.mark(ctx, requests)
	for i := range requests {
		r := &requests[i]
		all[i] = peer.SliceMarked{SliceMarks: peer.SliceMarks{Slice: r.Spec.Slice, Layers: r.Marks.Layers, Marks: r.Marks.Marks}, Added: r.Added, Err: r.Err}
		if r.Err != nil {
			all[i] = peer.SliceMarked{SliceMarks: peer.SliceMarks{Slice: r.Spec.Slice}, Err: r.Err}
		}
	}
	return all, by, nil
}

// CheckMany implements peer.ManySlices.
func (l *Replica) CheckMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceKeys) ([]peer.SliceAnswers, peer.Member, error) {
	if err := manyChecked(groups, func(g *peer.SliceKeys) int { return len(g.Hashes) }); err != nil {
		return nil, l.slices(), err
	}
	if err := errors.Join(l.wholeSlices(), ctx.Err()); err != nil {
		return nil, l.slices(), err
	}
	n := 0
	for i := range groups {
		n += len(groups[i].Hashes)
	}
	all, present := make([]peer.SliceAnswers, len(groups)), make([]bool, n)
	known := l.CheckManyNow(spec, groups, present)
	rest := present
	for i := range groups {
		n := len(groups[i].Hashes)
		all[i].Answers, rest = rest[:n:n], rest[n:]
	}
	if !known {
		l.checkWaiting(ctx, spec, groups, all)
	}
	if err := l.wholeSlices(); err != nil { // what was read may be the remains of a drop of the range
		return nil, l.slices(), err
	}
	return all, l.slices(), nil
}

// checkWaiting checks keys when pages may have to be read. The answers have room for the results.
func (l *Replica) checkWaiting(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceKeys, all []peer.SliceAnswers) {
	checks := make([]filters.SliceCheck, len(groups))
	for i := range groups {
		checks[i] = filters.SliceCheck{Slice: groups[i].Slice, Hashes: groups[i].Hashes, Present: all[i].Answers}
	}
	l.store.Filters().CheckSlices(ctx, spec, checks)
	for i := range checks {
		if err := checks[i].Err; err != nil {
			all[i] = peer.SliceAnswers{Err: l.present(err)}
		}
	}
}

// CheckManyNow implements peer.SlicesNow.
func (l *Replica) CheckManyNow(spec bigset.SliceSpec, groups []peer.SliceKeys, present []bool) bool {
	if l.wholeSlices() != nil || manyChecked(groups, func(g *peer.SliceKeys) int { return len(g.Hashes) }) != nil {
		return false
	}
	known := l.store.Filters().CheckSlicesNow(spec, len(groups), func(i int) (uint32, []bloomslice.Hash) { return groups[i].Slice, groups[i].Hashes }, present)
	return known && l.wholeSlices() == nil // what was read may be the remains of a drop of the range
}

// StampNow implements peer.SlicesNow.
func (l *Replica) StampNow(spec bigset.SliceSpec) (number uint64, ok bool) {
	return l.store.Filters().StampNow(&spec)
}

// Stamp implements peer.Stamper.
func (l *Replica) Stamp(ctx context.Context, spec bigset.SliceSpec, digest bool) (s peer.Stamp, _ peer.Member, err error) {
	if err := l.wholeSlices(); err != nil {
		return s, l.slices(), err
	}
	if digest {
		s.Number, s.Digest, err = l.store.Filters().FilterDigest(ctx, spec)
	} else {
		s.Number, err = l.store.Filters().Stamp(ctx, spec)
	}
	if err == nil {
		err = l.wholeSlices() // what was read may be the remains of a drop of the range
	}
	if err != nil {
		return peer.Stamp{}, l.slices(), l.present(err)
	}
	return s, l.slices(), nil
}

// ApplyMarksMany implements peer.ManySlices.
func (l *Replica) ApplyMarksMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceMarks) ([]peer.SliceAnswers, peer.Member, error) {
	if err := manyChecked(groups, func(g *peer.SliceMarks) int { return len(g.Marks) }); err != nil {
		return nil, l.slices(), err
	}
	requests, n := make([]filters.SliceMarks, len(groups)), 0
	for i := range groups {
		n += len(groups[i].Marks)
	}
	added := make([]bool, n)
	for i := range groups {
		n = len(groups[i].Marks)
		requests[i] = filters.SliceMarks{Marks: groups[i].Of(spec), Added: added[:n:n]}
		added = added[n:]
	}
	l.applyMarks(ctx, requests)
	all := make([]peer.SliceAnswers, len(groups))
	for i := range requests {
		if all[i].Err = requests[i].Err; all[i].Err == nil {
			all[i].Answers = requests[i].Added
		}
	}
	return all, l.slices(), nil
}
