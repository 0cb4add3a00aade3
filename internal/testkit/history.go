package testkit

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
)

// History records what concurrent writers of one store did, in the order that they could observe. Its moments are a count that
// every beginning and every answer increments.
type History struct {
	mu  sync.Mutex
	now int
	all []*Operation
}

// Operation is one call of a writer.
type Operation struct {
	Set       string
	Delta     bigset.Delta
	Began     int
	Answered  int  // 0 until then
	Durable   bool // it was acknowledged as synced
	Unchanged bool // it was no event
}

// Begin records that a call begins.
func (h *History) Begin(set string) *Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now++
	op := &Operation{Set: set, Began: h.now}
	h.all = append(h.all, op)
	return op
}

// End records the answer of a call.
func (h *History) End(op *Operation, d bigset.Delta, durable bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now++
	op.Answered, op.Delta, op.Durable, op.Unchanged = h.now, d, durable, d.Empty()
}

// Now returns the current moment.
func (h *History) Now() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// Operations returns all calls of a set, or of all sets for "".
func (h *History) Operations(set string) []*Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.all), func(o *Operation) bool { return set != "" && o.Set != set })
}

// dots returns the dots of a delta's own events.
func dots(d bigset.Delta) (all []clock.Dot) {
	for i := range d.Items {
		all = append(all, clock.Dot{Actor: d.Actor, Counter: d.First + uint64(i)})
	}
	return all
}

// CheckUnique returns an error if two operations have the same dot.
func (h *History) CheckUnique() error {
	seen := map[string]string{}
	for _, op := range h.Operations("") {
		for i, d := range dots(op.Delta) {
			id, what := fmt.Sprintf("%q %v", op.Set, d), fmt.Sprintf("%v %q", op.Delta.Items[i].Kind, op.Delta.Items[i].Element)
			if was, ok := seen[id]; ok {
				return fmt.Errorf("dot %s was issued for %s and for %s", id, was, what)
			}
			seen[id] = what
		}
	}
	return nil
}

// Survived checks what a crash has left of the named sets. All calls must have been answered by now; the crash came after the
// moment from and before the moment to. What is left must be the exact result of some operations, each whole. These must include
// everything that was acknowledged as durable, and everything that was answered before one of them began.
func (h *History) Survived(from, to int, left map[string]*Set) error {
	var errs []error
	latest := 0
	var lost []*Operation
	for name, have := range left {
		var survived []bigset.Delta
		for _, op := range h.Operations(name) {
			n := 0
			own := dots(op.Delta)
			for _, d := range own {
				if have.Seen.Has(d) {
					n++
				}
			}
			switch {
			case op.Unchanged:
			case n == 0 && len(own) > 0:
				lost = append(lost, op)
			case n < len(own):
				errs = append(errs, fmt.Errorf("%q: %d of the %d dots of %+v", name, n, len(own), op))
			case op.Began > to:
				errs = append(errs, fmt.Errorf("%q: %+v began after the crash", name, op))
			default:
				survived = append(survived, op.Delta)
				latest = max(latest, op.Began)
			}
		}
		want := Specified(survived)
		if err := want.Diff(have.resolvedAs(want)); err != nil {
			errs = append(errs, fmt.Errorf("%q: %d operations survived: %w", name, len(survived), err))
		}
	}
	for _, op := range lost {
		if op.Durable && op.Answered <= from {
			errs = append(errs, fmt.Errorf("acknowledged and lost: %+v", op))
		} else if op.Answered < latest {
			errs = append(errs, fmt.Errorf("lost: %+v, but an operation that began later, at %d, survived", op, latest))
		}
	}
	return errors.Join(errs...)
}

// resolvedAs returns what is left of a set with everything in Dead that wide contexts have superseded, which a store may not have
// found out yet. The elements that are present show whether the store takes these contexts into account.
func (m *Set) resolvedAs(want *Set) *Set {
	if len(want.Wide) == 0 {
		return m
	}
	m = m.Clone()
	for d := range want.Dead {
		if _, present := m.Keys[d]; !present && m.Seen.Has(d) {
			m.Dead.Add(d)
		}
	}
	return m
}

// MustAndMay returns the elements of a set that must be present at a replica that has everything, because an add of them was
// answered and they were not killed; and those that may be present.
func (h *History) MustAndMay(set string) (must, may map[string]bool) {
	must, may = map[string]bool{}, map[string]bool{}
	killed := Dots{}
	for _, op := range h.Operations(set) {
		for _, it := range op.Delta.Items {
			killed.Add(it.Context...)
		}
		for d := range op.Delta.Clear.Dots() {
			killed.Add(d)
		}
	}
	for _, op := range h.Operations(set) {
		for i, d := range dots(op.Delta) {
			if it := op.Delta.Items[i]; it.Kind == keyscheme.OpAdd && !killed.Has(d) {
				may[string(it.Element)] = true
				must[string(it.Element)] = must[string(it.Element)] || op.Answered > 0
			}
		}
	}
	return must, may
}

// Answer forgets calls that were never answered because the store had been closed: they are not events.
func (h *History) Answer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = slices.DeleteFunc(h.all, func(o *Operation) bool { return o.Answered == 0 })
}
