package convergence

import (
	"math/rand/v2"
	"slices"
)

// AddWins is the observed-remove set: a remove kills the adds that its author had observed; an add that is concurrent with it
// stays. "clear" is a remove of everything its author had observed.
type AddWins struct {
	// Replace: an add kills the older adds of its element that it had observed, as in ORSWOT. A later remove then only has to
	// observe the newer add. If Replace is false, this is neither required nor forbidden.
	Replace bool
	// ReplaceOwn: an add kills the older adds of its element by the same replica, whatever its client had observed, and no others.
	// This is how Riak's ORSWOT works, where an element has one dot per actor.
	ReplaceOwn bool
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
	for _, elem := range r.h.order {
		if v := s.missing(r, elem); v != nil {
			return v
		}
	}
	return nil
}

// killed reports whether an event of set surely observed and kills the add i; with adds, an add that replaces it counts as well.
func (s AddWins) killed(r *Reading, i int, set *bitset, adds bool) bool {
	return s.ends(r, i, set, adds, r.h.seen) || s.ReplaceOwn && r.h.replaced(i, set, false)
}

// mayBeKilled reports whether an event of set may have observed add i and kills it; with adds, an add that replaces it counts as
// well.
func (s AddWins) mayBeKilled(r *Reading, i int, set *bitset, adds bool) bool {
	return s.ends(r, i, set, adds, r.h.guess) || s.ReplaceOwn && adds && r.h.replaced(i, set, true)
}

func (s AddWins) ends(r *Reading, i int, set *bitset, adds bool, observed []bitset) bool {
	test := func(j int) bool { return (adds || r.h.kills.has(j)) && observed[j].has(i) }
	return amongFrom(first(i), r.h.on(r.h.events[i].Op.Elem), set, test) || amongFrom(first(i), &r.h.clears, set, test)
}

// replaced reports whether a later add of its own replica is in the set. That add surely replaced add i; with maybe, it is enough
// that it may have done so, because the replica may have lost add i, or its counter, in a crash.
func (h *history) replaced(i int, set *bitset, maybe bool) bool {
	e := &h.events[i]
	return among(h.on(e.Op.Elem), set, func(j int) bool {
		later := &h.events[j]
		return j > i && later.Op.Kind == "add" && later.Replica == e.Replica && (maybe || later.life == e.life && h.heard[j].has(i))
	})
}

// allowed checks an element that is shown.
func (s AddWins) allowed(r *Reading, it Item) *Violation {
	if len(it.Tags) == 0 {
		return s.present(r, it.Elem)
	}
	for _, tag := range it.Tags {
		i, ok := r.h.tagged(it.Elem, tag)
		switch {
		case ok && s.killed(r, i, &r.must, s.Replace):
			return bad(Resurrected, "%q is shown by add %s of step %d, which was removed or replaced", it.Elem, tag, r.h.events[i].Step)
		case ok && r.may.has(i):
		case !ok && s.unnamed(r, it.Elem):
		default:
			return bad(Phantom, "%q is shown by add %s, which this replica can't know", it.Elem, tag)
		}
	}
	return nil
}

// unnamed reports whether an add of the element has no tag known to the kit, because it was answered by an error.
func (s AddWins) unnamed(r *Reading, elem string) (found bool) {
	r.h.on(elem).each(func(i int) bool {
		e := &r.h.events[i]
		found = found || e.Op.Kind == "add" && e.Tag == "" && r.may.has(i)
		return !found
	})
	return found
}

// present checks, without tags, that some add of a shown element may be alive.
func (s AddWins) present(r *Reading, elem string) *Violation {
	alive, heard := false, false
	r.h.on(elem).each(func(i int) bool {
		if r.h.adds.has(i) && r.may.has(i) {
			heard = true
			alive = alive || !s.killed(r, i, &r.must, s.Replace)
		}
		return !alive
	})
	switch {
	case alive:
		return nil
	case heard:
		return bad(Resurrected, "%q is shown, although all its adds were removed", elem)
	}
	return bad(Phantom, "%q is shown, but was never added", elem)
}

// missing checks that those adds of an element are shown that nothing can have killed.
func (s AddWins) missing(r *Reading, elem string) (v *Violation) {
	if r.loose[elem] {
		return nil
	}
	it, shown := r.shown(elem)
	var known answers // of lives
	r.h.on(elem).each(func(i int) bool {
		e := &r.h.events[i]
		if e.Op.Kind != "add" || !r.must.has(i) {
			return true
		}
		switch {
		case !shown && s.lives(r, i, &known):
			v = bad(Lost, "%q is not shown, although its add of step %d was acknowledged and not removed", elem, e.Step)
		case shown && e.Tag != "" && len(it.Tags) > 0 && !slices.Contains(it.Tags, e.Tag) && !s.mayBeKilled(r, i, &r.may, true):
			v = bad(Lost, "%q is not shown by add %s of step %d, which was acknowledged and not removed or replaced", elem, e.Tag, e.Step)
		}
		return v == nil
	})
	return v
}

// lives reports whether an add, or an add that replaced it and so on, can't have been killed: then its element was present at every
// moment of the read. If a repair or a copy may have brought an add's death without the add that replaced it, only the add itself
// counts.
func (s AddWins) lives(r *Reading, i int, known *answers) bool {
	if s.mayBeKilled(r, i, &r.may, r.mixed) {
		return false
	}
	return known.of(i, func() bool {
		e := &r.h.events[i]
		return !among(r.h.on(e.Op.Elem), &r.may, func(j int) bool {
			// If two adds may have replaced each other, only the later one in the history counts.
			replaces := r.h.guess[j].has(i) || s.ReplaceOwn && r.h.events[j].Replica == e.Replica
			return j > i && r.h.adds.has(j) && replaces && !s.lives(r, j, known)
		})
	})
}

// answers has what lives has found in one reading: many events may have replaced each other, so the same event is asked about
// again and again.
type answers map[int]bool

// of returns the answer for an event. It calls find only if the answer is not known.
func (a *answers) of(i int, find func() bool) bool {
	if answer, ok := (*a)[i]; ok {
		return answer
	}
	answer := find()
	if *a == nil {
		*a = answers{}
	}
	(*a)[i] = answer
	return answer
}
