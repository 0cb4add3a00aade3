package convergence

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// A Spec says what replicas of a data type have to show. After Burckhardt et al., Replicated Data Types (2014), that is a
// function of the operations that a replica knows of and of which operation had observed which. Where the kit doesn't know
// exactly, because a crash or a repair lies between, it knows bounds: what a reading must and what it may reflect.
type Spec interface {
	// Gen proposes the next operation: Kind, Elem (one of elems) and Arg. The kit adds the context.
	Gen(r *rand.Rand, elems []string) Op
	// Judge returns nil, or what is wrong with a reading. Its verdict must hold whatever lies between the bounds.
	Judge(r *Reading) *Violation
}

// AddWins is the observed-remove set: a remove kills the adds that its author had observed, an add that is concurrent with it
// stays. "clear" is a remove of everything its author had observed.
type AddWins struct {
	// Replace: an add kills the older adds of its element that it had observed, as ORSWOT has it, so that a later remove which
	// observed the newer one alone is enough. Without it that is neither asked for nor forbidden.
	Replace bool
	// Clear proposes "clear" as well.
	Clear bool
}

// Gen implements Spec.
func (s AddWins) Gen(r *rand.Rand, elems []string) Op {
	if s.Clear && r.IntN(20) == 0 {
		return Op{Kind: "clear"}
	}
	return addOrRemove(r, elems)
}

func addOrRemove(r *rand.Rand, elems []string) Op {
	kind := "add"
	if r.IntN(100) < 38 {
		kind = "remove"
	}
	return Op{Kind: kind, Elem: elems[r.IntN(len(elems))]}
}

// Judge implements Spec.
func (s AddWins) Judge(r *Reading) *Violation {
	for _, it := range r.View.Items {
		if v := s.allowed(r, it); v != nil {
			return v
		}
	}
	for elem := range r.h.elemsInOrder {
		if v := s.missing(r, elem); v != nil {
			return v
		}
	}
	return nil
}

// killed reports whether an event of set observed and kills the add i.
func (s AddWins) killed(r *Reading, i int, by []bitset, set bitset, adds bool) bool {
	var more bitset
	if adds {
		more = r.h.adds
	}
	elem := r.h.elems[r.h.events[i].Op.Elem]
	for w := range by[i] {
		if w >= len(set) {
			break
		}
		same := word(elem, w) | word(r.h.clears, w)
		if by[i][w]&set[w]&same&(word(r.h.kills, w)|word(more, w)) != 0 {
			return true
		}
	}
	return false
}

func word(b bitset, i int) uint64 {
	if i < len(b) {
		return b[i]
	}
	return 0
}

// allowed checks an element that is shown.
func (s AddWins) allowed(r *Reading, it Item) *Violation {
	if len(it.Tags) == 0 {
		return s.present(r, it.Elem)
	}
	for _, tag := range it.Tags {
		i, ok := r.h.tags[elemTag{it.Elem, tag}]
		switch {
		case ok && s.killed(r, i, r.h.sure, r.must, s.Replace):
			return bad(Resurrected, "%q is shown by add %s of step %d, which was removed or replaced", it.Elem, tag, r.h.events[i].Step)
		case ok && r.may.has(i):
		case !ok && s.unnamed(r, it.Elem):
		default:
			return bad(Phantom, "%q is shown by add %s, of which this replica can't have heard", it.Elem, tag)
		}
	}
	return nil
}

// unnamed reports whether an add of the element has no tag that the kit knows, because it was answered by an error.
func (s AddWins) unnamed(r *Reading, elem string) (found bool) {
	r.h.elems[elem].each(func(i int) bool {
		e := &r.h.events[i]
		found = found || e.Op.Kind == "add" && e.Tag == "" && r.may.has(i)
		return !found
	})
	return found
}

// present checks, without tags, that some add of a shown element may be alive.
func (s AddWins) present(r *Reading, elem string) *Violation {
	alive, heard := false, false
	r.h.elems[elem].each(func(i int) bool {
		if r.h.adds.has(i) && r.may.has(i) {
			heard = true
			alive = alive || !s.killed(r, i, r.h.sure, r.must, s.Replace)
		}
		return !alive
	})
	switch {
	case alive:
		return nil
	case heard:
		return bad(Resurrected, "%q is shown, although all its adds were removed", elem)
	}
	return bad(Phantom, "%q is shown, which nobody added", elem)
}

// missing checks that the adds of an element are shown which nothing can have killed.
func (s AddWins) missing(r *Reading, elem string) (v *Violation) {
	if r.loose[elem] {
		return nil
	}
	it, shown := r.shown(elem)
	r.h.elems[elem].each(func(i int) bool {
		e := &r.h.events[i]
		if e.Op.Kind != "add" || !r.must.has(i) {
			return true
		}
		switch {
		case !shown && s.lives(r, i):
			v = bad(Lost, "%q is not shown, although its add of step %d was acknowledged and nobody removed it", elem, e.Step)
		case shown && e.Tag != "" && len(it.Tags) > 0 && !slices.Contains(it.Tags, e.Tag) && !s.killed(r, i, r.h.maybe, r.may, true):
			v = bad(Lost, "%q is not shown by add %s of step %d, which was acknowledged and not removed or replaced", elem, e.Tag, e.Step)
		}
		return v == nil
	})
	return v
}

// lives reports whether an add, or an add that replaced it and so on, can't have been killed: then its element was present at
// every moment of the read. Where a repair or a copy may have brought an add's death without the add that replaced it, only
// the add itself counts.
func (s AddWins) lives(r *Reading, i int) bool {
	if s.killed(r, i, r.h.maybe, r.may, r.mixed) {
		return false
	}
	ok := true
	r.h.maybe[i].each(func(j int) bool {
		if r.h.adds.has(j) && r.may.has(j) && r.h.events[j].Op.Elem == r.h.events[i].Op.Elem {
			ok = s.lives(r, j)
		}
		return ok
	})
	return ok
}

// elemsInOrder yields the elements that operations named, in the order of their first one.
func (h *history) elemsInOrder(yield func(string) bool) {
	for i := range h.events {
		e := &h.events[i]
		if e.Op.Kind == "clear" {
			continue
		}
		first := true
		h.elems[e.Op.Elem].each(func(j int) bool { first = j == i; return false })
		if first && !yield(e.Op.Elem) {
			return
		}
	}
}

// verdict turns what an element must and may be into a violation.
func (r *Reading) verdict(must, may func(elem string) bool) *Violation {
	for _, it := range r.View.Items {
		if !may(it.Elem) {
			return bad(Resurrected, "%q is shown, which the operations do not allow", it.Elem)
		}
	}
	for elem := range r.h.elemsInOrder {
		if _, shown := r.shown(elem); !shown && !r.loose[elem] && must(elem) {
			return bad(Lost, "%q is not shown, which the operations demand", elem)
		}
	}
	return nil
}

// any reports whether an operation on the element is of the kind, in the set, and passes the test.
func (r *Reading) any(elem, kind string, set bitset, test func(i int) bool) (found bool) {
	r.h.elems[elem].each(func(i int) bool {
		found = r.h.events[i].Op.Kind == kind && set.has(i) && (test == nil || test(i))
		return !found
	})
	return found
}

// GrowOnly is the set that is only added to.
type GrowOnly struct{}

// Gen implements Spec.
func (GrowOnly) Gen(r *rand.Rand, elems []string) Op {
	return Op{Kind: "add", Elem: elems[r.IntN(len(elems))]}
}

// Judge implements Spec.
func (GrowOnly) Judge(r *Reading) *Violation {
	return r.verdict(
		func(e string) bool { return r.any(e, "add", r.must, nil) },
		func(e string) bool { return r.any(e, "add", r.may, nil) })
}

// TwoPhase is the 2P-set: what was removed once never comes back, whoever adds it.
type TwoPhase struct{}

// Gen implements Spec.
func (TwoPhase) Gen(r *rand.Rand, elems []string) Op { return addOrRemove(r, elems) }

// Judge implements Spec.
func (TwoPhase) Judge(r *Reading) *Violation {
	return r.verdict(
		func(e string) bool { return r.any(e, "add", r.must, nil) && !r.any(e, "remove", r.may, nil) },
		func(e string) bool { return r.any(e, "add", r.may, nil) && !r.any(e, "remove", r.must, nil) })
}

// LastWriterWins is the set in which the operation with the highest time on an element decides; of equal times, the replica
// with the higher number. Replicas take the time from Env.Now.
type LastWriterWins struct{}

// Gen implements Spec.
func (LastWriterWins) Gen(r *rand.Rand, elems []string) Op { return addOrRemove(r, elems) }

// Judge implements Spec.
func (LastWriterWins) Judge(r *Reading) *Violation {
	// A clock that was set back may give one replica the same time twice. Which of the two is last is then open: tie.
	after := func(i int, tie bool) func(j int) bool {
		a := &r.h.events[i]
		return func(j int) bool {
			b := &r.h.events[j]
			return b.Stamp > a.Stamp || b.Stamp == a.Stamp && (b.Replica > a.Replica || tie && b.Replica == a.Replica)
		}
	}
	last := func(e string, adds, removes bitset, tie bool) bool {
		return r.any(e, "add", adds, func(i int) bool { return !r.any(e, "remove", removes, after(i, tie)) })
	}
	return r.verdict(
		func(e string) bool { return last(e, r.must, r.may, true) },
		func(e string) bool { return last(e, r.may, r.must, false) })
}

// RemoveWins is the set in which an element is present if it was added and every remove of it was observed by an add.
type RemoveWins struct{}

// Gen implements Spec.
func (RemoveWins) Gen(r *rand.Rand, elems []string) Op { return addOrRemove(r, elems) }

// Judge implements Spec.
func (RemoveWins) Judge(r *Reading) *Violation {
	present := func(e string, adds, removes bitset, observed []bitset) bool {
		return r.any(e, "add", adds, nil) && !r.any(e, "remove", removes, func(k int) bool {
			return !r.any(e, "add", adds, func(a int) bool { return observed[k].has(a) })
		})
	}
	return r.verdict(
		func(e string) bool { return present(e, r.must, r.may, r.h.sure) },
		func(e string) bool { return present(e, r.may, r.must, r.h.maybe) })
}

// A Violation is what a schedule showed to be wrong.
type Violation struct {
	Kind string // one of the constants below: shrinking keeps it
	Step int    // the number of the step at which it showed
	Text string
}

// Kinds of violations.
const (
	Lost         = "lost"         // an add that was acknowledged and not removed is not shown
	Resurrected  = "resurrected"  // what was removed is shown
	Phantom      = "phantom"      // what nobody added, or nobody told this replica, is shown
	Disorder     = "disorder"     // a view is not in order, or shows an element twice
	Torn         = "torn"         // a part of a batch is shown
	Repeated     = "repeated"     // an operation was done again by a replica that knew its id
	TagReused    = "tag-reused"   // two operations have one tag
	Diverged     = "diverged"     // replicas differ after everything was exchanged
	Failed       = "failed"       // an error where there must be none
	Panicked     = "panicked"     // the replica panicked
	Unverifiable = "unverifiable" // a replica's own check failed
	NeverReady   = "never-ready"  // a replica does not become ready although everything was copied to it
)

// String names the violation for people.
func (v *Violation) String() string { return fmt.Sprintf("%s at step %d: %s", v.Kind, v.Step, v.Text) }

func bad(kind, format string, args ...any) *Violation {
	return &Violation{Kind: kind, Text: fmt.Sprintf(format, args...)}
}
