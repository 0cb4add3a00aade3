package remote

import (
	"bigset"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// pass lets groups through the gate, each by its own slot. It returns those that have passed, with their places in the request, and calls fail
// for the others.
func pass[G any](v *visit, c Class, spec bigset.SliceSpec, groups []G, slice func(*G) uint32, fail func(i int, err error)) (in []G, at []int, leave func()) {
	slots := make([]keyscheme.Slot, len(groups))
	for i := range groups {
		spec.Slice = slice(&groups[i])
		slots[i] = spec.Slot()
	}
	leave, errs := v.gate.EnterMany(v.ctx, c, slots, v.r.Epoch)
	for i, err := range errs {
		if err != nil {
			fail(i, unasked(err))
			continue
		}
		in, at = append(in, groups[i]), append(at, i)
	}
	return in, at, leave
}

func keysSlice(g *peer.SliceKeys) uint32   { return g.Slice }
func marksSlice(g *peer.SliceMarks) uint32 { return g.Slice }

func (v *visit) markMany(m peer.MarkMany) ([]byte, error) {
	all := make(peer.MarkedMany, len(m.Groups))
	in, at, leave := pass(v, Mint, m.Spec, m.Groups, keysSlice, func(i int, err error) { all[i].Err = err })
	defer leave()
	by := v.rep.Member()
	if len(in) > 0 {
		done, member, err := v.rep.MarkMany(v.ctx, m.Spec, in)
		if err != nil {
			return nil, v.failed(member, err)
		}
		for i := range done {
			all[at[i]] = done[i]
		}
		by = member
	}
	return v.answer(nil, by, all)
}

func (v *visit) checkMany(m peer.CheckMany) ([]byte, error) {
	all := make(peer.AnswersMany, len(m.Groups))
	in, at, leave := pass(v, Answer, m.Spec, m.Groups, keysSlice, func(i int, err error) { all[i].Err = err })
	defer leave()
	return v.answers(all, at, func() ([]peer.SliceAnswers, peer.Member, error) { return v.rep.CheckMany(v.ctx, m.Spec, in) })
}

func (v *visit) applyMarksMany(m peer.MarksMany) ([]byte, error) {
	all := make(peer.AnswersMany, len(m.Groups))
	in, at, leave := pass(v, Take, m.Spec, m.Groups, marksSlice, func(i int, err error) { all[i].Err = err })
	defer leave()
	return v.answers(all, at, func() ([]peer.SliceAnswers, peer.Member, error) { return v.rep.ApplyMarksMany(v.ctx, m.Spec, in) })
}

// answers has those groups answered that have passed the gate.
func (v *visit) answers(all peer.AnswersMany, at []int, do func() ([]peer.SliceAnswers, peer.Member, error)) ([]byte, error) {
	by := v.rep.Member()
	if len(at) > 0 {
		done, member, err := do()
		if err != nil {
			return nil, v.failed(member, err)
		}
		for i := range done {
			all[at[i]] = done[i]
		}
		by = member
	}
	return v.answer(nil, by, all)
}
