package testkit

import (
	"fmt"
	"maps"
	"slices"

	"bigset"
	"bigset/clock"
	"bigset/fold"
)

// Replica is the model of one store: its sets, and the batches that made them, in the order of its log. A crash may take back the
// newest batches, but none that was acknowledged.
type Replica struct {
	Sets          map[string]*Set
	KeepsContexts bool // the store has engine.Options.KeepContexts
	log           []batch
	acknowledged  int // the number of batches of the log that must survive
}

// batch is one atomic batch: a delta, or facts.
type batch struct {
	delta bigset.Delta
	facts *bigset.Facts
}

// on applies the batch to its set.
func (b batch) on(sets map[string]*Set) {
	if b.facts != nil {
		sets[string(b.facts.Set)].ApplyFacts(*b.facts)
	} else {
		sets[string(b.delta.Set)].Apply(b.delta)
	}
}

// NewReplica returns a store without sets.
func NewReplica() *Replica { return &Replica{Sets: map[string]*Set{}} }

// Set returns a set. A set that is not known is empty, and stays unknown until something is applied to it.
func (r *Replica) Set(name string) *Set {
	m, ok := r.Sets[name]
	if !ok {
		m = r.newSet()
		r.Sets[name] = m
	}
	return m
}

func (r *Replica) newSet() *Set {
	m := NewSet()
	m.KeepsContexts = r.KeepsContexts
	return m
}

// Wrote records a delta that was just applied to the model by other means.
func (r *Replica) Wrote(d bigset.Delta) { r.log = append(r.log, batch{delta: d}) }

// ApplyFacts applies facts and returns what they have changed. Facts that change nothing are not written to the log.
func (r *Replica) ApplyFacts(f bigset.Facts) bigset.FactsResult {
	res := r.Set(string(f.Set)).ApplyFacts(f)
	if res != (bigset.FactsResult{}) {
		r.log = append(r.log, batch{facts: &f})
	}
	return res
}

// Apply applies a delta and reports whether that changed anything. A delta that changes nothing is not written to the log.
func (r *Replica) Apply(d bigset.Delta) (changed bool) {
	if changed = r.Set(string(d.Set)).Apply(d); changed {
		r.Wrote(d)
	}
	return changed
}

// Acknowledged records that everything that was applied so far must survive.
func (r *Replica) Acknowledged() { r.acknowledged = len(r.log) }

// AcknowledgedCount returns how many batches must survive.
func (r *Replica) AcknowledgedCount() int { return r.acknowledged }

// AcknowledgedOnly sets how many batches must survive: for a crash in the past.
func (r *Replica) AcknowledgedOnly(n int) { r.acknowledged = n }

// State is what a store has of a set. Elements and Open are needed only if a wide context was ever used.
type State struct {
	Seen, Dead *clock.Clock
	Elements   []fold.Element
	Unresolved Dots // the dots of its unresolved keys
}

// Crashed takes back what did not survive: the state must be the one after some prefix of the log, and no less than what was
// acknowledged. now returns the current state of a set. It returns how many batches were lost.
func (r *Replica) Crashed(now func(name string) (State, error)) (lost int, err error) {
	is, state := map[string]State{}, map[string]*Set{}
	for _, name := range slices.Sorted(maps.Keys(r.Sets)) {
		if is[name], err = now(name); err != nil {
			return 0, err
		}
		state[name] = r.newSet()
	}
	for n := 0; ; n++ {
		if n >= r.acknowledged && matches(state, is) {
			lost = len(r.log) - n
			r.Sets, r.log = state, r.log[:n:n]
			return lost, nil
		}
		if n == len(r.log) {
			return 0, fmt.Errorf("no prefix of %d to %d batches explains %v; after all: %v",
				r.acknowledged, len(r.log), is, describe(r.Sets))
		}
		r.log[n].on(state)
	}
}

func matches(state map[string]*Set, is map[string]State) bool {
	for name, m := range state {
		if !m.matches(is[name]) {
			return false
		}
	}
	return true
}

// matches reports whether a store in this state may look like is. Resolved contexts are recognized by what is present.
func (m *Set) matches(is State) bool {
	if !m.Seen.Equal(is.Seen) || m.Clone().Absorb(is.Dead) != nil {
		return false
	}
	if len(m.Wide) == 0 && len(is.Unresolved) == 0 {
		return true
	}
	for d, w := range m.Wide {
		if !is.Seen.Descends(w.Context) && !is.Unresolved.Has(d) {
			return false
		}
	}
	for d := range is.Unresolved {
		if _, ok := m.Wide[d]; !ok {
			return false
		}
	}
	return SameElements(is.Elements, m.Elements()) == nil
}

func describe(sets map[string]*Set) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		text += fmt.Sprintf("%q{Seen %v Dead %v} ", name, sets[name].Seen.Clock(), sets[name].Dead.Clock())
	}
	return text
}

// Clone returns a copy that can be rolled back by itself.
func (r *Replica) Clone() *Replica {
	c := &Replica{Sets: map[string]*Set{}, KeepsContexts: r.KeepsContexts, log: slices.Clone(r.log), acknowledged: r.acknowledged}
	for name, m := range r.Sets {
		c.Sets[name] = m.Clone()
	}
	return c
}
