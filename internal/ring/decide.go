package ring

import "fmt"

// Kind says what a step of the manager does.
type Kind byte

const (
	Start   Kind = iota // a stable bucket begins to copy
	CutOver             // its joiners are whole: reads go to Next
	Finish              // it is stable at its new owners
	Abort               // its joiner is lost: it stays with the old owners
	Reorder             // another owner is the primary
	kinds
)

// String returns the kind in one word.
func (k Kind) String() string {
	if k < kinds {
		return [...]string{"start", "cut over", "finish", "abort", "reorder"}[k]
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// Step is one change of one bucket that a manager wants.
type Step struct {
	Kind       Kind
	Old        *Assignment // as in the map from which it was planned
	Assignment Assignment
}

// Decide returns what a manager does next, given a map and what members have reported: first the moves in flight, then as many new
// ones as the limits allow. It is pure: a manager keeps nothing in memory, and its successor decides the same.
func Decide(m *Map, p Progress, by Strategy, l Limits, c Constraints) (steps []Step) {
	all, in := 0, map[string]int{}
	busy := map[Bucket]bool{}
	for a := range m.All() {
		if a.State == Stable {
			continue
		}
		all++
		for _, who := range a.Joining() {
			in[who.Node]++
		}
		if s, ok := m.inFlight(a, p); ok {
			steps = append(steps, s)
		}
	}
	for _, mv := range by.Plan(m, c) {
		a := m.Lookup(mv.Bucket.First())
		if busy[a.Bucket] || a.State != Stable {
			continue // it was planned for the list that an earlier move leaves
		}
		busy[a.Bucket] = true
		if mv.Why == Primary {
			if b, err := a.Reorder(mv.Owners); err == nil {
				steps = append(steps, Step{Reorder, a, b})
			}
			continue
		}
		if l.Moves > 0 && all >= l.Moves || l.In > 0 && mv.In.Node != "" && in[mv.In.Node] >= l.In {
			continue
		}
		if b, err := a.Begin(mv.Owners); err == nil {
			all++
			in[mv.In.Node]++
			steps = append(steps, Step{Start, a, b})
		}
	}
	return steps
}

// inFlight returns the step of a bucket in motion; ok is false if it has none.
func (m *Map) inFlight(a *Assignment, p Progress) (s Step, ok bool) {
	if b, ok := m.advanced(a, p); ok {
		if b.State == Settling {
			return Step{CutOver, a, b}, true
		}
		return Step{Finish, a, b}, true
	}
	if a.State != Copying {
		return s, false // once it settles it only goes forward
	}
	for _, who := range a.Joining() {
		if !m.Current(who) {
			b, err := a.Abort()
			return Step{Abort, a, b}, err == nil
		}
	}
	return s, false
}

// Take returns the map after a step that was planned from an earlier version, if nothing it depends on has changed since (R7): the
// bucket is unchanged, the manager's term has not ended, and the limits of moves hold.
func (m *Map) Take(s Step, term uint64, l Limits) (*Map, error) {
	now := m.Lookup(s.Old.Bucket.First())
	if now.Bucket != s.Old.Bucket || now.Epoch != s.Old.Epoch {
		return nil, fmt.Errorf("%w: bucket %v is at epoch %d, the step is from %d", ErrVersion, now.Bucket, now.Epoch, s.Old.Epoch)
	}
	out, err := m.Apply(&Delta{Generation: m.Generation, From: m.Version, Term: term, Assignments: []Assignment{s.Assignment}})
	if err == nil && s.Kind == Start {
		err = out.checkMoves(l)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}
