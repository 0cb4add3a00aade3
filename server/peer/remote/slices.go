package remote

import (
	"bytes"
	"context"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/peer"
)

// same reports whether two specs are of the same slice of the same filter.
func same(a, b *bigset.SliceSpec) bool {
	return bytes.Equal(a.Name, b.Name) && a.Slice == b.Slice && a.Generation == b.Generation && a.Options == b.Options
}

// Mark implements peer.SliceReplica.
func (r *Replica) Mark(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) (bigset.Marks, []bool, peer.Member, error) {
	a, by, err := ask[peer.Marked](ctx, r, VerbMark, peer.Mark{Spec: spec, Hashes: hashes})
	a, by, err = fit(r, a, by, err, len(a.Added) == len(hashes) && same(&a.Marks.SliceSpec, &spec), "marks of a slice")
	return a.Marks, a.Added, by, err
}

// ApplyMarks implements peer.SliceReplica.
func (r *Replica) ApplyMarks(ctx context.Context, m bigset.Marks) ([]bool, peer.Member, error) {
	a, by, err := ask[peer.KeyAnswers](ctx, r, VerbApplyMarks, peer.Marks(m))
	return fit(r, []bool(a), by, err, len(a) == len(m.Marks), "answers")
}

// Check implements peer.SliceReplica.
func (r *Replica) Check(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) ([]bool, peer.Member, error) {
	a, by, err := ask[peer.KeyAnswers](ctx, r, VerbCheck, peer.Check{Spec: spec, Hashes: hashes})
	return fit(r, []bool(a), by, err, len(a) == len(hashes), "answers")
}

// DropGeneration implements peer.SliceReplica.
func (r *Replica) DropGeneration(ctx context.Context, name []byte, slices uint32, generation uint64) (peer.Member, error) {
	_, by, err := ask[peer.Done](ctx, r, VerbDropGeneration, peer.DropGeneration{Name: name, Slices: slices, Generation: generation})
	return by, err
}

// PageSums implements peer.SliceReplica.
func (r *Replica) PageSums(ctx context.Context, spec bigset.SliceSpec, after *bigset.PagePlace, most int) (bigset.PageSums, peer.Member, error) {
	a, by, err := ask[peer.PageSums](ctx, r, VerbPageSums, peer.AskPageSums{Spec: spec, After: after, Most: most})
	return bigset.PageSums(a), by, err
}

// Pages implements peer.SliceReplica.
func (r *Replica) Pages(ctx context.Context, spec bigset.SliceSpec, places []bigset.PagePlace) (bigset.SlicePages, peer.Member, error) {
	a, by, err := ask[peer.SlicePages](ctx, r, VerbPages, peer.AskPages{Spec: spec, Places: places})
	return fit(r, bigset.SlicePages(a), by, err, same(&a.SliceSpec, &spec), "pages of a slice")
}

// MergePages implements peer.SliceReplica.
func (r *Replica) MergePages(ctx context.Context, p bigset.SlicePages) (peer.Member, error) {
	_, by, err := ask[peer.Done](ctx, r, VerbMergePages, peer.SlicePages(p))
	return by, err
}

// FlushSlice implements peer.SliceReplica.
func (r *Replica) FlushSlice(ctx context.Context, spec bigset.SliceSpec) (peer.Member, error) {
	_, by, err := ask[peer.Done](ctx, r, VerbFlushSlice, peer.FlushSlice{Spec: spec})
	return by, err
}

// MarkMany implements peer.ManySlices.
func (r *Replica) MarkMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceKeys) ([]peer.SliceMarked, peer.Member, error) {
	spec.Slice = 0
	a, by, err := ask[peer.MarkedMany](ctx, r, VerbMarkMany, peer.MarkMany{Spec: spec, Groups: groups})
	a, by, err = fit(r, a, by, err, peer.CheckMarked(a, groups) == nil, "marks of slices")
	for i := range a {
		a[i].Err = r.ofGroup(a[i].Err)
	}
	return a, by, err
}

// CheckMany implements peer.ManySlices.
func (r *Replica) CheckMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceKeys) ([]peer.SliceAnswers, peer.Member, error) {
	spec.Slice = 0
	a, by, err := ask[peer.AnswersMany](ctx, r, VerbCheckMany, peer.CheckMany{Spec: spec, Groups: groups})
	return r.answers(a, by, err, len(groups), func(i int) int { return len(groups[i].Hashes) })
}

// Stamp implements peer.Stamper.
func (r *Replica) Stamp(ctx context.Context, spec bigset.SliceSpec, digest bool) (peer.Stamp, peer.Member, error) {
	spec.Slice = 0
	verb := VerbStamp
	if digest {
		verb = VerbFilterDigest
	}
	a, by, err := ask[peer.Stamp](ctx, r, verb, peer.AskStamp{Spec: spec, Digest: digest})
	return fit(r, a, by, err, (a.Digest != [16]byte{}) == digest, "a digest, or none,")
}

// ApplyMarksMany implements peer.ManySlices.
func (r *Replica) ApplyMarksMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceMarks) ([]peer.SliceAnswers, peer.Member, error) {
	spec.Slice = 0
	a, by, err := ask[peer.AnswersMany](ctx, r, VerbApplyMarksMany, peer.MarksMany{Spec: spec, Groups: groups})
	return r.answers(a, by, err, len(groups), func(i int) int { return len(groups[i].Marks) })
}

// answers checks that answers are about the keys of each group.
func (r *Replica) answers(a peer.AnswersMany, by peer.Member, err error, groups int, keys func(int) int) ([]peer.SliceAnswers, peer.Member, error) {
	fits := len(a) == groups
	for i := 0; i < len(a) && fits; i++ {
		a[i].Err = r.ofGroup(a[i].Err)
		fits = a[i].Err != nil || len(a[i].Answers) == keys(i)
	}
	return fit(r, []peer.SliceAnswers(a), by, err, fits, "answers")
}

// ofGroup returns the meaning of one group's error.
func (r *Replica) ofGroup(err error) error {
	if err != nil {
		_, err = r.failed(err)
	}
	return err
}
