package follow

import (
	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/server/door"
)

// died returns the dots that the follower may hold and that are dead.
func (r *run) died() *clock.Clock {
	dots := difference(r.state.Dead, r.dead)
	dots.Intersect(r.seen)
	return dots
}

// diedUnseen takes dots that are dead out of those that are to be given. Their deaths enter the position: if the replicas lose them, so that the dots are live again, the
// position is void.
func (r *run) diedUnseen(dead, dots *clock.Clock) {
	died := dead.Clone()
	died.Intersect(dots)
	dots.Subtract(died)
	died.Subtract(r.seen) // reportDead reports the others
	r.dead.Union(died)
	r.unseen.Union(died)
}

// reportDead reports what is dead.
func (r *run) reportDead() error {
	gone := r.died()
	seen, dead := union(r.seen, r.state.Seen), union(r.dead, r.state.Dead)
	reported := &clock.Clock{} // taken out of gone at once in the end: one by one is quadratic
	// What was not reported stays out of the position, also if the answer is full.
	defer func() {
		r.seen, r.dead = seen, dead
		r.dead.Subtract(difference(gone, reported))
	}()
	if gone.Empty() {
		return nil
	}
	names, err := r.src.Names(r.ctx, union(gone, r.unseen))
	if err != nil {
		return err
	}
	names, nameless := r.settled(names)
	for i := range names {
		e := &names[i]
		if err := r.room(1, len(e.Name)); err != nil {
			return err
		}
		r.part.Removed = append(r.part.Removed, door.Dotted{Name: e.Name, Dots: e.Dots})
		for _, d := range e.Dots {
			reported.Add(d)
		}
		if err := r.grew(len(e.Name) + bigset.BatchDotBytes*len(e.Dots)); err != nil {
			return err
		}
	}
	if nameless {
		if err := r.reportNameless(difference(gone, reported), reported); err != nil {
			return err
		}
	}
	if !reported.Descends(gone) {
		return errFull
	}
	return nil
}

// settled returns the names of dots that are gone, and whether those without names can be reported as well. An element that was added again while the answer is made may have a dot that died
// before it could be given, and one more that comes with the next answer. The death of the dot that the follower holds has to wait for that one: without it the element would be missing in
// between, though it was in the set all the time. Dots without names may be of such an element.
func (r *run) settled(names []fold.Element) (settled []fold.Element, nameless bool) {
	unnamed, again := r.unseen.Clone(), map[string]bool{}
	for i := range names {
		for _, d := range names[i].Dots {
			if r.unseen.Contains(d) {
				unnamed.Subtract(clock.Of(d))
				again[string(names[i].Name)] = true
			}
		}
	}
	if !unnamed.Empty() {
		return nil, false
	}
	for i := range names {
		if !again[string(names[i].Name)] {
			settled = append(settled, names[i])
		}
	}
	return settled, r.unseen.Empty()
}

// reportNameless reports dead dots whose elements are not known, and adds them to reported.
func (r *run) reportNameless(dots, reported *clock.Clock) error {
	runs := 0
	for run := range dots.Runs() {
		if err := r.room(1, 0); err != nil {
			return err
		}
		if r.part.Dead == nil {
			r.part.Dead, runs = &clock.Clock{}, 0
		}
		r.part.Dead.AddRange(run.Actor, run.First, run.Last)
		reported.AddRange(run.Actor, run.First, run.Last)
		if runs++; runs >= partRuns {
			if err := r.give(); err != nil {
				return err
			}
		}
	}
	return nil
}
