package remote

import (
	"bigset"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// pass lets groups through the gate, each by its own slot. It returns those that have passed, with their indexes in the request, and calls
// fail for the others. A nil at means all groups.
func pass[G any](v *visit, c Class, spec bigset.SliceSpec, groups []G, slice func(*G) uint32, fail func(i int, err error)) (in []G, at []int, leave func()) {
	first := keyscheme.SlotOf(keyscheme.PartitionFilter, spec.Name, 0)
	slots := make([]keyscheme.Slot, len(groups))
	for i := range groups {
		slots[i] = first.OfSlice(slice(&groups[i]))
	}
	leave, errs := v.gate.EnterMany(v.ctx, c, slots, v.r.Epoch)
	if errs == nil {
		return groups, nil, leave
	}
	at = make([]int, 0, len(groups))
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
	var all peer.MarkedMany
	in, at, leave := pass(v, Mint, m.Spec, m.Groups, keysSlice, func(i int, err error) { all = failed(all, len(m.Groups), i, peer.SliceMarked{Err: err}) })
	defer leave()
	return answerMany(v, all, in, at, func() ([]peer.SliceMarked, peer.Member, error) { return v.rep.MarkMany(v.ctx, m.Spec, in) },
		func(a []peer.SliceMarked) peer.Message { return peer.MarkedMany(a) })
}

func (v *visit) checkMany(m peer.CheckMany) ([]byte, error) {
	var all []peer.SliceAnswers
	in, at, leave := pass(v, Answer, m.Spec, m.Groups, keysSlice, func(i int, err error) { all = failed(all, len(m.Groups), i, peer.SliceAnswers{Err: err}) })
	defer leave()
	return answerMany(v, all, in, at, func() ([]peer.SliceAnswers, peer.Member, error) { return v.rep.CheckMany(v.ctx, m.Spec, in) }, answersOf)
}

func (v *visit) applyMarksMany(m peer.MarksMany) ([]byte, error) {
	var all []peer.SliceAnswers
	in, at, leave := pass(v, Take, m.Spec, m.Groups, marksSlice, func(i int, err error) { all = failed(all, len(m.Groups), i, peer.SliceAnswers{Err: err}) })
	defer leave()
	return answerMany(v, all, in, at, func() ([]peer.SliceAnswers, peer.Member, error) { return v.rep.ApplyMarksMany(v.ctx, m.Spec, in) }, answersOf)
}

func answersOf(a []peer.SliceAnswers) peer.Message { return peer.AnswersMany(a) }

// failed records an answer that is an error, among n.
func failed[A any](all []A, n, i int, a A) []A {
	if all == nil {
		all = make([]A, n)
	}
	all[i] = a
	return all
}

// answerMany does the groups that have passed the gate. all has the errors of the others, at their indexes.
func answerMany[G, A any](v *visit, all []A, in []G, at []int, do func() ([]A, peer.Member, error), message func([]A) peer.Message) ([]byte, error) {
	by := v.rep.Member()
	if len(in) > 0 {
		done, member, err := do()
		if err != nil {
			return nil, v.failed(member, err)
		}
		if by = member; all == nil {
			all = done
		} else {
			for i := range done {
				all[at[i]] = done[i]
			}
		}
	}
	return v.answer(nil, by, message(all))
}
