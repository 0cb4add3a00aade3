package readcore

import (
	"slices"

	"bigset"
	"bigset/clock"
)

// Answer is what one replica says of an element, all of one moment.
type Answer struct {
	// Live are all dots by which the element is present there, ascending: also those that nobody asked for, or an element that
	// was just added again would pass for removed.
	Live []clock.Dot
	// Asked are the dots that Decision.Ask wanted to know about, ascending, and Statuses what is known of each. The first
	// time nothing is asked.
	Asked    []clock.Dot
	Statuses []bigset.DotStatus
}

// status returns what the replica knows of a dot, and whether it said so.
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
	// Ask, when it is not empty, are dots of which not enough is known. All replicas are asked about all of them, and what they
	// then answer takes the place of what they answered before. While an element is written without a break that may go on: the
	// caller sets a limit.
	Ask []clock.Dot
	// Dots are those by which the element is present, ascending: its narrow context. None: it is absent. Only with an empty
	// Ask.
	Dots []clock.Dot
	// Repairs are what replicas lack, by the index of their answer. Only with an empty Ask, and only where replicas differ.
	Repairs []Repair
}

// Repair is what one replica lacks of an element.
type Repair struct {
	Replica int
	Missing []clock.Dot // not seen, and present: it is sent key and dot together
	Dead    []clock.Dot // live there, and dead by the Dead of another replica: it is sent that
	Lost    []clock.Dot // its key is damaged there
}

// Decide answers whether an element is in a set, of what R replicas, at least one, said of it. While they agree on the dots, that
// is the answer. Where they differ it takes the status of each dot: a dot survives when some replica has it live and none has it dead.
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

// add records what a replica lacks of a dot.
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
