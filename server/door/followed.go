package door

import (
	"iter"
	"maps"

	"bigset/clock"
)

// Followed is what a follower of a set keeps: its elements with their dots, and the token with which to continue. It takes the parts of the answers of Backend.Changes in
// their order. The zero value is a follower that has nothing. It belongs to one goroutine, and has all elements in memory.
type Followed struct {
	since    Token
	begun    bool                 // parts of an answer were taken, and not its last one
	dots     map[clock.Dot]string // each live dot, with its element
	elements map[string]int       // how many dots it has
	stale    map[string]struct{}  // what was there before a reset, and was not given again since
}

// Apply takes a part. It calls f, if that is not nil, with each element that has come into the set or has left it, in no order. After a reset an element that was
// there and was not given again leaves with the last part of the first answer that has not ended at its limit.
func (w *Followed) Apply(c *Changed, f func(element string, present bool)) {
	if f == nil {
		f = func(string, bool) {}
	}
	if c.Reset != "" || w.dots == nil {
		w.reset()
	}
	for i := range c.Added {
		e := &c.Added[i]
		for _, d := range e.Dots {
			w.add(string(e.Name), d, f)
		}
	}
	for i := range c.Removed {
		for _, d := range c.Removed[i].Dots {
			w.remove(d, f)
		}
	}
	w.removeDots(c.Dead, f)
	if w.begun = !c.Done; c.Done {
		w.since = c.Next
	}
	if c.Done && !c.More {
		for e := range w.stale {
			f(e, false)
		}
		clear(w.stale)
	}
}

// Since returns the token of the last answer: Changes.Since of the next question. It is empty after an answer that broke off: then the next answer has everything. A caller that applies
// the parts only when all have come loses nothing when an answer breaks off.
func (w *Followed) Since() Token {
	if w.begun {
		return nil
	}
	return w.since
}

func (w *Followed) reset() {
	if w.stale == nil {
		w.stale = map[string]struct{}{}
	}
	for e := range w.elements {
		w.stale[e] = struct{}{}
	}
	w.dots, w.elements = map[clock.Dot]string{}, map[string]int{}
}

func (w *Followed) add(element string, d clock.Dot, f func(string, bool)) {
	if _, ok := w.dots[d]; ok {
		return
	}
	w.dots[d] = element
	if w.elements[element]++; w.elements[element] > 1 {
		return
	}
	if _, ok := w.stale[element]; ok {
		delete(w.stale, element)
		return
	}
	f(element, true)
}

func (w *Followed) remove(d clock.Dot, f func(string, bool)) {
	element, ok := w.dots[d]
	if !ok {
		return
	}
	delete(w.dots, d)
	if w.elements[element]--; w.elements[element] == 0 {
		delete(w.elements, element)
		f(element, false)
	}
}

// removeDots takes dots away. It looks at each of them, or at each that is kept, whichever are fewer.
func (w *Followed) removeDots(dead *clock.Clock, f func(string, bool)) {
	if dead.Len() <= uint64(len(w.dots)) {
		for d := range dead.Dots() {
			w.remove(d, f)
		}
		return
	}
	for d := range w.dots {
		if dead.Contains(d) {
			w.remove(d, f)
		}
	}
}

// Len returns the number of elements.
func (w *Followed) Len() int { return len(w.elements) }

// Contains reports whether an element is in the set.
func (w *Followed) Contains(element string) bool { return w.elements[element] > 0 }

// Elements lists the elements, in no order.
func (w *Followed) Elements() iter.Seq[string] { return maps.Keys(w.elements) }
