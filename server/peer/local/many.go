package local

import (
	"context"
	"fmt"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/peer"
)

var _ peer.ManySlices = (*Replica)(nil)

// manyChecked returns what is wrong with the sizes of a request about many slices.
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

// ended returns the error of a group that was not begun because the context had ended.
func (l *Replica) ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%w: %v: %w", peer.ErrUnavailable, l.slices(), context.Cause(ctx))
}

// MarkMany implements peer.ManySlices.
func (l *Replica) MarkMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceKeys) ([]peer.SliceMarked, peer.Member, error) {
	if err := manyChecked(groups, func(g *peer.SliceKeys) int { return len(g.Hashes) }); err != nil {
		return nil, l.slices(), err
	}
	all := make([]peer.SliceMarked, len(groups))
	for i := range groups {
		g := &all[i]
		if g.Err = l.ended(ctx); g.Err != nil {
			continue
		}
		spec.Slice = groups[i].Slice
		var m bigset.Marks
		m, g.Added, _, g.Err = l.Mark(ctx, spec, groups[i].Hashes)
		g.SliceMarks = peer.SliceMarks{Slice: spec.Slice, Layers: m.Layers, Marks: m.Marks}
	}
	return all, l.slices(), nil
}

// CheckMany implements peer.ManySlices.
func (l *Replica) CheckMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceKeys) ([]peer.SliceAnswers, peer.Member, error) {
	if err := manyChecked(groups, func(g *peer.SliceKeys) int { return len(g.Hashes) }); err != nil {
		return nil, l.slices(), err
	}
	all := make([]peer.SliceAnswers, len(groups))
	for i := range groups {
		spec.Slice = groups[i].Slice
		all[i].Answers, _, all[i].Err = l.Check(ctx, spec, groups[i].Hashes)
	}
	return all, l.slices(), nil
}

// ApplyMarksMany implements peer.ManySlices.
func (l *Replica) ApplyMarksMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceMarks) ([]peer.SliceAnswers, peer.Member, error) {
	if err := manyChecked(groups, func(g *peer.SliceMarks) int { return len(g.Marks) }); err != nil {
		return nil, l.slices(), err
	}
	all := make([]peer.SliceAnswers, len(groups))
	for i := range groups {
		g := &all[i]
		if g.Err = l.ended(ctx); g.Err == nil {
			g.Answers, _, g.Err = l.ApplyMarks(ctx, groups[i].Of(spec))
		}
	}
	return all, l.slices(), nil
}
