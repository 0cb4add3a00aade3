package cluster

import (
	"context"
	"iter"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// gated is the replica in this process under one epoch. It answers as a remote replica does. Two values with the same epoch are equal in
// effect.
type gated struct {
	to    Local
	gate  *gate
	epoch uint64
}

var (
	_ peer.Replica    = (*gated)(nil)
	_ peer.SlicesNow  = (*gated)(nil)
	_ peer.ManyWrites = (*gated)(nil)
)

// change runs f inside the gate; f changes the replica.
func change[T any](g *gated, f func() (T, peer.Member, error)) (T, peer.Member, error) {
	leave, err := g.gate.enter(g.epoch)
	if err != nil {
		var none T
		return none, g.to.Member(), err
	}
	defer leave()
	return f()
}

// look runs f, which only reads, if the epoch is the current one.
func look[T any](g *gated, f func() (T, peer.Member, error)) (T, peer.Member, error) {
	if err := g.gate.check(g.epoch); err != nil {
		var none T
		return none, g.to.Member(), err
	}
	return f()
}

// looks is look for a stream: it checks the epoch at each part.
func looks[T any](g *gated, parts iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err := g.gate.check(g.epoch); err != nil {
			yield(none, err)
			return
		}
		for part, err := range parts {
			if gone := g.gate.check(g.epoch); gone != nil {
				part, err = none, gone
			}
			if !yield(part, err) || err != nil {
				return
			}
		}
	}
}

type nothing struct{}

func member(m peer.Member, err error) (nothing, peer.Member, error) { return nothing{}, m, err }

func (g *gated) Member() peer.Member { return g.to.Member() }

func (g *gated) Write(ctx context.Context, set []byte, ops []bigset.Op, o bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	return change(g, func() (bigset.Result, peer.Member, error) { return g.to.Write(ctx, set, ops, o) })
}

// WriteMany implements peer.ManyWrites.
func (g *gated) WriteMany(ctx context.Context, set []byte, all []bigset.WriteRequest) ([]bigset.WriteOutcome, peer.Member, error) {
	return change(g, func() ([]bigset.WriteOutcome, peer.Member, error) { return g.to.WriteMany(ctx, set, all) })
}

func (g *gated) Knows(ctx context.Context, set, request []byte, try uint64) (bool, peer.Member, error) {
	return look(g, func() (bool, peer.Member, error) { return g.to.Knows(ctx, set, request, try) })
}

func (g *gated) Apply(ctx context.Context, d bigset.Delta, durability bigset.Durability) (peer.Member, error) {
	_, m, err := change(g, func() (nothing, peer.Member, error) { return member(g.to.Apply(ctx, d, durability)) })
	return m, err
}

func (g *gated) ApplyMany(ctx context.Context, all []bigset.Delta, durability bigset.Durability) ([]error, peer.Member, error) {
	return change(g, func() ([]error, peer.Member, error) { return g.to.ApplyMany(ctx, all, durability) })
}

func (g *gated) ApplyFacts(ctx context.Context, f bigset.Facts, durability bigset.Durability) (bigset.FactsResult, peer.Member, error) {
	return change(g, func() (bigset.FactsResult, peer.Member, error) { return g.to.ApplyFacts(ctx, f, durability) })
}

func (g *gated) Heal(ctx context.Context, f bigset.Facts, wrong []fold.Element) (bigset.HealResult, peer.Member, error) {
	return change(g, func() (bigset.HealResult, peer.Member, error) { return g.to.Heal(ctx, f, wrong) })
}

func (g *gated) Lost(ctx context.Context, set []byte) (*clock.Clock, peer.Member, error) {
	return look(g, func() (*clock.Clock, peer.Member, error) { return g.to.Lost(ctx, set) })
}

func (g *gated) ElementDigests(ctx context.Context, set []byte, r bigset.ElementRange) (bigset.ElementDigests, peer.Member, error) {
	return look(g, func() (bigset.ElementDigests, peer.Member, error) { return g.to.ElementDigests(ctx, set, r) })
}

func (g *gated) State(ctx context.Context, set []byte) (bigset.State, peer.Member, error) {
	return look(g, func() (bigset.State, peer.Member, error) { return g.to.State(ctx, set) })
}

func (g *gated) Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	return looks(g, g.to.Locate(ctx, set, dots))
}

func (g *gated) Read(ctx context.Context, set []byte, o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return looks(g, g.to.Read(ctx, set, o))
}

func (g *gated) Lookup(ctx context.Context, set []byte, elements [][]byte) ([]bigset.Context, peer.Member, error) {
	return look(g, func() ([]bigset.Context, peer.Member, error) { return g.to.Lookup(ctx, set, elements) })
}

func (g *gated) CountParts(ctx context.Context, set []byte, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
	return look(g, func() (bigset.PartCounts, peer.Member, error) { return g.to.CountParts(ctx, set, r) })
}

func (g *gated) DotStatus(ctx context.Context, set, element []byte, dots []clock.Dot) (bigset.DotStatuses, peer.Member, error) {
	return look(g, func() (bigset.DotStatuses, peer.Member, error) { return g.to.DotStatus(ctx, set, element, dots) })
}

func (g *gated) Export(ctx context.Context, set, after []byte, bytesMax int) (*bigset.Portion, peer.Member, error) {
	return look(g, func() (*bigset.Portion, peer.Member, error) { return g.to.Export(ctx, set, after, bytesMax) })
}

func (g *gated) Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SetDigest, error] {
	return looks(g, g.to.Digests(ctx, first, last))
}

func (g *gated) RangeDigests(ctx context.Context, first, last keyscheme.Slot, parts int) ([]bigset.RangeDigest, peer.Member, error) {
	return look(g, func() ([]bigset.RangeDigest, peer.Member, error) { return g.to.RangeDigests(ctx, first, last, parts) })
}

func (g *gated) Requests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.KeptRequest, error] {
	return looks(g, g.to.Requests(ctx, first, last))
}

// marked is the answer to Mark.
type marked struct {
	marks bigset.Marks
	added []bool
}

func (g *gated) Mark(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) (bigset.Marks, []bool, peer.Member, error) {
	r, m, err := change(g, func() (marked, peer.Member, error) {
		marks, added, m, err := g.to.Mark(ctx, spec, hashes)
		return marked{marks, added}, m, err
	})
	return r.marks, r.added, m, err
}

func (g *gated) ApplyMarks(ctx context.Context, marks bigset.Marks) ([]bool, peer.Member, error) {
	return change(g, func() ([]bool, peer.Member, error) { return g.to.ApplyMarks(ctx, marks) })
}

func (g *gated) Check(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) ([]bool, peer.Member, error) {
	return look(g, func() ([]bool, peer.Member, error) { return g.to.Check(ctx, spec, hashes) })
}

func (g *gated) DropGeneration(ctx context.Context, name []byte, slices uint32, generation uint64) (peer.Member, error) {
	_, m, err := change(g, func() (nothing, peer.Member, error) {
		return member(g.to.DropGeneration(ctx, name, slices, generation))
	})
	return m, err
}

func (g *gated) SliceDigests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SliceDigest, error] {
	return looks(g, g.to.SliceDigests(ctx, first, last))
}

func (g *gated) PageSums(ctx context.Context, spec bigset.SliceSpec, after *bigset.PagePlace, most int) (bigset.PageSums, peer.Member, error) {
	return look(g, func() (bigset.PageSums, peer.Member, error) { return g.to.PageSums(ctx, spec, after, most) })
}

func (g *gated) Pages(ctx context.Context, spec bigset.SliceSpec, places []bigset.PagePlace) (bigset.SlicePages, peer.Member, error) {
	return look(g, func() (bigset.SlicePages, peer.Member, error) { return g.to.Pages(ctx, spec, places) })
}

func (g *gated) MergePages(ctx context.Context, p bigset.SlicePages) (peer.Member, error) {
	_, m, err := change(g, func() (nothing, peer.Member, error) { return member(g.to.MergePages(ctx, p)) })
	return m, err
}

func (g *gated) FlushSlice(ctx context.Context, spec bigset.SliceSpec) (peer.Member, error) {
	_, m, err := change(g, func() (nothing, peer.Member, error) { return member(g.to.FlushSlice(ctx, spec)) })
	return m, err
}

func (g *gated) MarkMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceKeys) ([]peer.SliceMarked, peer.Member, error) {
	return change(g, func() ([]peer.SliceMarked, peer.Member, error) { return g.to.MarkMany(ctx, spec, groups) })
}

func (g *gated) CheckMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceKeys) ([]peer.SliceAnswers, peer.Member, error) {
	return look(g, func() ([]peer.SliceAnswers, peer.Member, error) { return g.to.CheckMany(ctx, spec, groups) })
}

// CheckManyNow implements peer.SlicesNow.
func (g *gated) CheckManyNow(spec bigset.SliceSpec, groups []peer.SliceKeys, present []bool) bool {
	return g.gate.check(g.epoch) == nil && g.to.CheckManyNow(spec, groups, present)
}

// StampNow implements peer.SlicesNow.
func (g *gated) StampNow(spec bigset.SliceSpec) (number uint64, ok bool) { return g.to.StampNow(spec) }

func (g *gated) Stamp(ctx context.Context, spec bigset.SliceSpec, digest bool) (peer.Stamp, peer.Member, error) {
	return look(g, func() (peer.Stamp, peer.Member, error) { return g.to.Stamp(ctx, spec, digest) })
}

func (g *gated) ApplyMarksMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceMarks) ([]peer.SliceAnswers, peer.Member, error) {
	return change(g, func() ([]peer.SliceAnswers, peer.Member, error) { return g.to.ApplyMarksMany(ctx, spec, groups) })
}
