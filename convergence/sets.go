package convergence

import "math/rand/v2"

// verdict turns the rules for which elements must and may be shown into a violation.
func (r *Reading) verdict(must, may func(elem string) bool) *Violation {
	for _, it := range r.View.Items {
		if !may(it.Elem) {
			return bad(Resurrected, "%q is shown, although the operations do not allow it", it.Elem)
		}
	}
	for _, elem := range r.h.order {
		if _, shown := r.shown(elem); !shown && !r.loose[elem] && must(elem) {
			return bad(Lost, "%q is not shown, although the operations require it", elem)
		}
	}
	return nil
}

// any reports whether an operation on the element is of the kind, in the set, and passes the test.
func (r *Reading) any(elem, kind string, set *bitset, test func(i int) bool) (found bool) {
	r.h.on(elem).each(func(i int) bool {
		found = r.h.events[i].Op.Kind == kind && set.has(i) && (test == nil || test(i))
		return !found
	})
	return found
}

// GrowOnly is the set without removes.
type GrowOnly struct{}

// Gen implements Spec.
func (GrowOnly) Gen(r *rand.Rand, elems []string) Op {
	return Op{Kind: "add", Elem: elems[r.IntN(len(elems))]}
}

// Judge implements Spec.
func (GrowOnly) Judge(r *Reading) *Violation {
	return r.verdict(
		func(e string) bool { return r.any(e, "add", &r.must, nil) },
		func(e string) bool { return r.any(e, "add", &r.may, nil) })
}

// TwoPhase is the 2P-set: what was removed once never comes back, even if it is added again.
type TwoPhase struct{}

// Gen implements Spec.
func (TwoPhase) Gen(r *rand.Rand, elems []string) Op { return addOrRemove(r, elems) }

// Judge implements Spec.
func (TwoPhase) Judge(r *Reading) *Violation {
	return r.verdict(
		func(e string) bool { return r.any(e, "add", &r.must, nil) && !r.any(e, "remove", &r.may, nil) },
		func(e string) bool { return r.any(e, "add", &r.may, nil) && !r.any(e, "remove", &r.must, nil) })
}

// RemoveWins is the set in which an element is present if it was added and every remove of it was observed by an add.
type RemoveWins struct{}

// Gen implements Spec.
func (RemoveWins) Gen(r *rand.Rand, elems []string) Op { return addOrRemove(r, elems) }

// Judge implements Spec.
func (RemoveWins) Judge(r *Reading) *Violation {
	present := func(e string, adds, removes *bitset, observed []bitset) bool {
		return r.any(e, "add", adds, nil) && !r.any(e, "remove", removes, func(k int) bool {
			return !r.any(e, "add", adds, func(a int) bool { return observed[a].has(k) })
		})
	}
	return r.verdict(
		func(e string) bool { return present(e, &r.must, &r.may, r.h.seen) },
		func(e string) bool { return present(e, &r.may, &r.must, r.h.guess) })
}
