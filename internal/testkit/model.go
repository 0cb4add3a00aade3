package testkit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
)

// Dots is a plain set of dots.
type Dots map[clock.Dot]struct{}

// Add puts dots into the set and reports whether one of them is new.
func (d Dots) Add(dots ...clock.Dot) (grew bool) {
	for _, dot := range dots {
		if _, ok := d[dot]; !ok {
			d[dot], grew = struct{}{}, true
		}
	}
	return grew
}

// Has reports whether a dot is in the set.
func (d Dots) Has(dot clock.Dot) bool {
	_, ok := d[dot]
	return ok
}

// Equal reports whether a clock holds exactly these dots.
func (d Dots) Equal(c *clock.Clock) bool {
	if c.Len() != uint64(len(d)) {
		return false
	}
	for dot := range d {
		if !c.Contains(dot) {
			return false
		}
	}
	return true
}

// Clock returns the set as a clock.
func (d Dots) Clock() *clock.Clock {
	c := &clock.Clock{}
	for dot := range d {
		c.Add(dot)
	}
	return c
}

// Set is the model of one replica's state of one set. Keys holds only the live dots: those that are seen and not in Dead. What a
// wide context supersedes is not in Dead until the store resolves it (see Absorb), but is not present either.
type Set struct {
	Seen, Dead    Dots
	Keys          map[clock.Dot]string
	Wide          map[clock.Dot]Wide // the wide contexts of operations, resolved or not
	KeepsContexts bool               // the store has engine.Options.KeepContexts
}

// Wide is the wide context of an operation on an element.
type Wide struct {
	Element string
	Context *clock.Clock
}

// NewSet returns an empty set that the store does not know.
func NewSet() *Set {
	return &Set{Seen: Dots{}, Dead: Dots{}, Keys: map[clock.Dot]string{}, Wide: map[clock.Dot]Wide{}}
}

// Clone returns a copy.
func (m *Set) Clone() *Set {
	return &Set{maps.Clone(m.Seen), maps.Clone(m.Dead), maps.Clone(m.Keys), maps.Clone(m.Wide), m.KeepsContexts}
}

// superseded reports whether the wide context of an operation on the element covers a dot.
func (m *Set) superseded(d clock.Dot, element string) bool {
	for _, w := range m.Wide {
		if w.Element == element && w.Context.Contains(d) {
			return true
		}
	}
	return false
}

// Absorb adds what a store has put into Dead by resolving wide contexts. It returns an error if its Dead is missing something, or
// contains what nothing has superseded.
func (m *Set) Absorb(dead *clock.Clock) error {
	n := 0
	for d := range dead.Dots() {
		if !m.Dead.Has(d) && !m.superseded(d, m.Keys[d]) {
			return fmt.Errorf("dead %v, of which %v should live; want %v", dead, d, m.Dead.Clock())
		}
		if m.Dead.Has(d) {
			n++
		}
	}
	if n != len(m.Dead) {
		return fmt.Errorf("dead %v, want %v", dead, m.Dead.Clock())
	}
	for d := range dead.Dots() {
		m.Kill(d)
	}
	return nil
}

// resolve puts everything that wide contexts supersede into Dead.
func (m *Set) resolve() *Set {
	m = m.Clone()
	for d, e := range m.Keys {
		if m.superseded(d, e) {
			m.Kill(d)
		}
	}
	return m
}

// Known reports whether the replica knows the set.
func (m *Set) Known() bool { return len(m.Seen) > 0 }

// Kill puts dots into Seen and Dead. It reports whether that changed anything.
func (m *Set) Kill(dots ...clock.Dot) bool {
	changed := m.Seen.Add(dots...)
	changed = m.Dead.Add(dots...) || changed
	for _, d := range dots {
		delete(m.Keys, d)
	}
	return changed
}

// Apply applies a delta. It reports whether that changed anything.
func (m *Set) Apply(d bigset.Delta) (changed bool) {
	for i, it := range d.Items {
		dot := clock.Dot{Actor: d.Actor, Counter: d.First + uint64(i)}
		if it.Wide != nil {
			if _, ok := m.Wide[dot]; !ok {
				m.Wide[dot], changed = Wide{string(it.Element), it.Wide}, true
			}
		} else {
			changed = m.Kill(it.Context...) || changed
		}
		switch {
		case it.Kind == keyscheme.OpRemove:
			changed = m.Kill(dot) || changed
		case m.Seen.Add(dot):
			m.Keys[dot] = string(it.Element)
			changed = true
		}
	}
	if d.Clear != nil {
		changed = m.Kill(slices.Collect(d.Clear.Dots())...) || changed
	}
	return changed
}

// ApplyFacts applies facts and returns what they have changed.
func (m *Set) ApplyFacts(f bigset.Facts) (res bigset.FactsResult) {
	for d := range f.Dead.Dots() {
		if !m.Dead.Has(d) {
			res.Dead++
			m.Kill(d)
		}
	}
	for _, e := range f.Keys {
		for _, d := range e.Dots {
			if m.Seen.Add(d) {
				m.Keys[d] = string(e.Name)
				res.Keys++
			}
		}
	}
	return res
}

// Live returns the live dots of an element, ascending.
func (m *Set) Live(element string) []clock.Dot {
	var dots []clock.Dot
	for d, e := range m.Keys {
		if e == element && !m.superseded(d, e) {
			dots = append(dots, d)
		}
	}
	slices.SortFunc(dots, clock.Dot.Compare)
	return dots
}

// Elements returns what is present, in order.
func (m *Set) Elements() []fold.Element {
	at := map[string]int{}
	var all []fold.Element
	for d, e := range m.Keys {
		if m.superseded(d, e) {
			continue
		}
		i, ok := at[e]
		if !ok {
			i = len(all)
			at[e], all = i, append(all, fold.Element{Name: []byte(e)})
		}
		all[i].Dots = append(all[i].Dots, d)
	}
	slices.SortFunc(all, func(a, b fold.Element) int { return strings.Compare(string(a.Name), string(b.Name)) })
	for i := range all {
		slices.SortFunc(all[i].Dots, clock.Dot.Compare)
	}
	return all
}

// Last returns the highest counter of an actor.
func (m *Set) Last(a clock.Actor) (n uint64) {
	for d := range m.Seen {
		if d.Actor == a {
			n = max(n, d.Counter)
		}
	}
	return n
}

// Changes returns which operations change what the set contains, for operations of policy coordinator without contexts: adds of
// what is absent, and removes of what is present, each after those before it. For others it is nil.
func (m *Set) Changes(ops []bigset.Op, policy bigset.Policy) []bool {
	if policy != bigset.PolicyCoordinator || slices.ContainsFunc(ops, func(op bigset.Op) bool { return op.Context.Given }) {
		return nil
	}
	changes, present := make([]bool, len(ops)), map[string]bool{}
	for _, op := range ops {
		present[string(op.Element)] = false
	}
	for d, e := range m.Keys {
		if _, asked := present[e]; asked && !m.Dead.Has(d) && !m.superseded(d, e) {
			present[e] = true
		}
	}
	for i, op := range ops {
		adds := op.Kind == keyscheme.OpAdd
		changes[i] = present[string(op.Element)] != adds
		present[string(op.Element)] = adds
	}
	return changes
}

// Coordinate does operations as a store must that mints dots under actor, and returns what the store must answer. If there is an
// error, nothing has changed.
func (m *Set) Coordinate(name []byte, actor clock.Actor, ops []bigset.Op, policy bigset.Policy) (bigset.Result, error) {
	last := m.Last(actor)
	for _, op := range ops {
		if !op.Context.Given && policy == bigset.PolicyRequired {
			return bigset.Result{}, bigset.ErrContextRequired
		}
		for _, d := range op.Context.Dots {
			if d.Actor == actor && d.Counter > last {
				return bigset.Result{}, bigset.ErrContext
			}
		}
		if op.Context.Wide == nil {
			continue
		}
		if op.Context.Wide.Max(actor) > last {
			return bigset.Result{}, bigset.ErrContext
		}
		if !m.KeepsContexts && !m.Seen.Clock().Descends(op.Context.Wide) {
			return bigset.Result{}, bigset.ErrBehind
		}
	}
	live, lives := m.Live, func(string, ...clock.Dot) {}
	if policy == bigset.PolicyCoordinator && m.onlyLooksUp(ops) {
		live, lives = m.lookUps()
	}
	r := bigset.Result{Dots: make([]clock.Dot, len(ops))}
	for i, op := range ops {
		seen, wide := op.Context.Dots, op.Context.Wide
		switch {
		case wide != nil && m.KeepsContexts:
			seen = nil
		case wide != nil:
			seen = slices.DeleteFunc(m.Live(string(op.Element)), func(d clock.Dot) bool { return !wide.Contains(d) })
			wide = nil
		case !op.Context.Given && policy == bigset.PolicyCoordinator:
			seen = live(string(op.Element))
		}
		alive := func(d clock.Dot) bool { return !m.Dead.Has(d) }
		finds := !wide.Empty() || slices.ContainsFunc(seen, alive)
		if op.Kind == keyscheme.OpRemove && wide.Empty() && len(seen) == 0 {
			continue
		}
		last++
		if r.Delta.First == 0 {
			r.Delta = bigset.Delta{Set: name, Actor: actor, First: last}
		}
		item := bigset.Item{Kind: op.Kind, Element: op.Element, Context: seen, Wide: wide}
		r.Delta.Items = append(r.Delta.Items, item)
		r.Dots[i] = clock.Dot{Actor: actor, Counter: last}
		if op.Kind == keyscheme.OpRemove && finds {
			r.Removed++
		}
		m.Apply(bigset.Delta{Actor: actor, First: last, Items: []bigset.Item{item}})
		if op.Kind == keyscheme.OpAdd {
			lives(string(op.Element), r.Dots[i])
		} else {
			lives(string(op.Element))
		}
	}
	return r, nil
}

// onlyLooksUp reports whether operations are many and supersede only what is live of their own elements.
func (m *Set) onlyLooksUp(ops []bigset.Op) bool {
	return len(ops) >= 100 && len(m.Wide) == 0 && !slices.ContainsFunc(ops, func(op bigset.Op) bool { return op.Context.Given || op.Context.Wide != nil })
}

// lookUps returns Live by an index, so that a batch of thousands need not go over all keys for each operation, and a function that
// updates the index with the dots of an element that live now.
func (m *Set) lookUps() (live func(string) []clock.Dot, lives func(string, ...clock.Dot)) {
	index := map[string][]clock.Dot{}
	for d, e := range m.Keys {
		index[e] = append(index[e], d)
	}
	for _, dots := range index {
		slices.SortFunc(dots, clock.Dot.Compare)
	}
	return func(e string) []clock.Dot { return index[e] }, func(e string, dots ...clock.Dot) { index[e] = dots }
}

// Drop deletes the whole set as a store must, and returns the delta that it must answer.
func (m *Set) Drop(name []byte, seen *clock.Clock) (bigset.Delta, error) {
	if seen == nil && !m.Known() {
		return bigset.Delta{}, bigset.ErrNotFound
	}
	if seen == nil {
		seen = m.Seen.Clock()
	}
	d := bigset.Delta{Set: name, Clear: seen}
	m.Apply(d)
	return d, nil
}

// Specified returns the state of a replica that applied these deltas of a set, whatever their order: the specification, against
// which the model itself is checked.
func Specified(deltas []bigset.Delta) *Set {
	m := NewSet()
	for _, d := range deltas {
		for i, it := range d.Items {
			dot := clock.Dot{Actor: d.Actor, Counter: d.First + uint64(i)}
			m.Seen.Add(dot)
			if it.Wide != nil {
				m.Wide[dot] = Wide{string(it.Element), it.Wide}
			} else {
				m.Seen.Add(it.Context...)
				m.Dead.Add(it.Context...)
			}
			if it.Kind == keyscheme.OpRemove {
				m.Dead.Add(dot)
			} else {
				m.Keys[dot] = string(it.Element)
			}
		}
		for dot := range d.Clear.Dots() {
			m.Seen.Add(dot)
			m.Dead.Add(dot)
		}
	}
	maps.DeleteFunc(m.Keys, func(d clock.Dot, _ string) bool { return m.Dead.Has(d) })
	return m.resolve()
}

// Diff returns how two states differ after their unresolved contexts are resolved, or nil.
func (m *Set) Diff(o *Set) error {
	m, o = m.resolve(), o.resolve()
	var errs []error
	if !maps.Equal(m.Seen, o.Seen) {
		errs = append(errs, fmt.Errorf("seen %v, want %v", o.Seen.Clock(), m.Seen.Clock()))
	}
	if !maps.Equal(m.Dead, o.Dead) {
		errs = append(errs, fmt.Errorf("dead %v, want %v", o.Dead.Clock(), m.Dead.Clock()))
	}
	if !maps.Equal(m.Keys, o.Keys) {
		errs = append(errs, fmt.Errorf("keys %v, want %v", o.Keys, m.Keys))
	}
	return errors.Join(errs...)
}

// SameDelta returns how a delta differs from the wanted one, or nil. The order of dots in a context does not matter.
func SameDelta(got, want bigset.Delta) error {
	if got.Actor != want.Actor || got.First != want.First || len(got.Items) != len(want.Items) || !got.Clear.Equal(want.Clear) {
		return fmt.Errorf("delta %+v, want %+v", got, want)
	}
	if !got.Empty() && string(got.Set) != string(want.Set) {
		return fmt.Errorf("delta of set %q, want %q", got.Set, want.Set)
	}
	for i, g := range got.Items {
		w := want.Items[i]
		if g.Kind != w.Kind || string(g.Element) != string(w.Element) || !SameDots(g.Context, w.Context) ||
			(g.Wide == nil) != (w.Wide == nil) || !g.Wide.Equal(w.Wide) {
			return fmt.Errorf("item %d of delta: %+v, want %+v", i, g, w)
		}
	}
	return nil
}

// SameDots reports whether two slices hold the same dots, in whatever order.
func SameDots(a, b []clock.Dot) bool {
	sorted := func(d []clock.Dot) []clock.Dot { return slices.SortedFunc(slices.Values(d), clock.Dot.Compare) }
	return slices.Equal(sorted(a), sorted(b))
}

// SameElements returns where two lists of elements first differ, or nil.
func SameElements(got, want []fold.Element) error {
	for i := range min(len(got), len(want)) {
		if string(got[i].Name) != string(want[i].Name) || !slices.Equal(got[i].Dots, want[i].Dots) {
			return fmt.Errorf("element %d is %q %v, want %q %v", i, got[i].Name, got[i].Dots, want[i].Name, want[i].Dots)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d elements, want %d: %q, want %q", len(got), len(want), Names(got), Names(want))
	}
	return nil
}

// Names returns the names of elements.
func Names(all []fold.Element) []string {
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = string(e.Name)
	}
	return names
}
