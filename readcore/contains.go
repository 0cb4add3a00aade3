package readcore

import (
	"slices"

	"bigset"
	"bigset/clock"
)

// Answer is what one replica says of an element, all at one moment.
type Answer struct {
	// Live are all dots by which the element is present there, ascending, including dots that were not asked about. Without those,
	// an element that was just added again would appear to be removed.
	Live []clock.Dot
	// Asked are the dots that Decision.Ask listed, ascending, and Statuses says what is known of each. In the first round no dots
	// are asked about.
	Asked    []clock.Dot
	Statuses []bigset.DotStatus
}

// status returns what the replica knows of a dot, and whether its answer covers the dot.
func (a Answer) status(dot clock.Dot) (bigset.DotStatus, bool) {
	if has(a.Live, dot) {
		return bigset.Live, true
	}
	k, ok := slices.BinarySearchFunc(a.Asked, dot, clock.Dot.Compare)
	if !ok || k >= len(a.Statuses) {
		return bigset.NotSeen, false
	}
	return a.Statuses[k], true
}

func has(dots []clock.Dot, dot clock.Dot) bool {
	_, ok := slices.BinarySearchFunc(dots, dot, clock.Dot.Compare)
	return ok
}

// Decision is what R answers about an element mean together.
type Decision struct {
	// Ask lists dots about which not enough is known. If it is not empty, all replicas are asked about all of them, and the new
	// answers replace those before. While an element is written continuously this may go on, so the caller sets a limit.
	Ask []clock.Dot
	// Dots are those by which the element is present, ascending: its narrow context. If there are none, the element is absent. They
	// are set only if Ask is empty.
	Dots []clock.Dot
	// Repairs say what is missing at replicas, by the index of their answer. They are set only if Ask is empty and the replicas
	// differ.
	Repairs []Repair
}

// Repair says what is missing at one replica for an element.
type Repair struct {
	Replica int
	Missing []clock.Dot // not seen, but present: key and dot are sent together
	Dead    []clock.Dot // live there, but in the Dead of another replica: that death is sent
	Lost    []clock.Dot // its key is damaged there
}

// Decide answers whether an element is in a set, from the answers of R replicas, at least one. If they agree on the dots, those are
// the answer. If they differ, Decide uses statuses: a dot survives when it is live at some replica and dead at none.
func Decide(answers []Answer) Decision {
	if agree(answers) {
		return Decision{Dots: answers[0].Live}
	}
	all := shown(answers)
	var d Decision
	repairs := make([]Repair, len(answers))
	for _, dot := range all {
		dead := false
		for _, a := range answers {
			v, known := a.status(dot)
			if !known {
				return Decision{Ask: all}
			}
			dead = dead || v == bigset.Dead
		}
		if !dead {
			d.Dots = append(d.Dots, dot)
		}
		for i, a := range answers {
			v, _ := a.status(dot)
			repairs[i].add(dot, v, dead)
		}
	}
	for i, r := range repairs {
		if r.Replica = i; len(r.Missing)+len(r.Dead)+len(r.Lost) > 0 {
			d.Repairs = append(d.Repairs, r)
		}
	}
	return d
}

func agree(answers []Answer) bool {
	for _, a := range answers[1:] {
		if !slices.Equal(a.Live, answers[0].Live) {
			return false
		}
	}
	return true
}

// shown returns the dots by which the element is present anywhere, ascending.
func shown(answers []Answer) (all []clock.Dot) {
	for _, a := range answers {
		all = append(all, a.Live...)
	}
	slices.SortFunc(all, clock.Dot.Compare)
	return slices.Compact(all)
}

// add records what is missing at a replica for a dot.
func (r *Repair) add(dot clock.Dot, v bigset.DotStatus, dead bool) {
	switch {
	case dead && v == bigset.Live:
		r.Dead = append(r.Dead, dot)
	case !dead && v == bigset.NotSeen:
		r.Missing = append(r.Missing, dot)
	case !dead && v == bigset.Lost:
		r.Lost = append(r.Lost, dot)
	}
}
