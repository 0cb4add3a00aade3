package convergence

import "math/rand/v2"

// ORMap is the map in which a delete removes the puts that its author had observed, and the put with the highest time decides among
// the others: Automerge's maps, Akka's LWWMap, Riak's maps of registers. "put" gives Elem the value in Arg, "delete" removes it. A view
// shows a key as an Item with its value in Values. As long as one put keeps a key, the key may show the value of a put that was deleted:
// Akka does so, Automerge does not.
type ORMap struct {
	Tie  Tie
	Time Time
}

// Gen implements Spec.
func (m ORMap) Gen(r *rand.Rand, elems []string) Op { return LWWMap(m).Gen(r, elems) }

// Judge implements Spec.
func (m ORMap) Judge(r *Reading) *Violation {
	for _, it := range r.View.Items {
		switch {
		case len(it.Values) != 1:
			return bad(Failed, "%q shows %q, want one value", it.Elem, it.Values)
		case !r.any(it.Elem, "put", &r.may, func(i int) bool { return !m.removed(r, i) }):
			return bad(Resurrected, "%q is shown, although all its puts were deleted", it.Elem)
		case !r.any(it.Elem, "put", &r.may, func(i int) bool { return string(r.h.events[i].Op.Arg) == it.Values[0] && !m.beaten(r, i) }):
			return bad(Resurrected, "%q shows %q, which was never put, or is not the last", it.Elem, it.Values[0])
		}
	}
	var known answers // of lives
	for _, elem := range r.h.order {
		if _, shown := r.shown(elem); !shown && !r.loose[elem] && r.any(elem, "put", &r.must, func(i int) bool { return m.lives(r, i, &known) }) {
			return bad(Lost, "%q is not shown, although it has a put that was not deleted", elem)
		}
	}
	return nil
}

// removed reports whether a put was surely deleted. A delete without a context removes all puts that its replica has, but it need not
// name one that an earlier operation has undone: then that operation must have come, too.
func (m ORMap) removed(r *Reading, i int) bool {
	elem := r.h.events[i].Op.Elem
	return r.any(elem, "delete", &r.must, func(j int) bool {
		if r.h.seen[j].has(i) {
			return true
		}
		return r.h.events[j].Op.Context == nil && r.h.heard[j].has(i) && !among(r.h.on(elem), &r.h.guess[j], func(k int) bool {
			return r.h.guess[k].has(i) && !r.must.has(k)
		})
	})
}

// lives reports whether a put, or one that replaced it and so on, can't have been deleted. Of two clients at once, the delete may have
// observed the put that follows it.
func (m ORMap) lives(r *Reading, i int, known *answers) bool {
	return known.of(i, func() bool {
		return !among(r.h.on(r.h.events[i].Op.Elem), &r.may, func(j int) bool {
			put := r.h.events[j].Op.Kind == "put"
			return r.h.guess[j].has(i) && (!put || j > i && !m.lives(r, j, known))
		})
	})
}

// beaten reports whether the value of a put must not be shown, because a put that no operation can have undone is surely later. One
// that another put has replaced does not count: its value may be gone, even if its time was later.
func (m ORMap) beaten(r *Reading, i int) bool {
	s, elem := LastWriterWins(m), r.h.events[i].Op.Elem
	return r.any(elem, "put", &r.must, func(j int) bool {
		return j != i && s.after(r.h, j, i) && !among(r.h.on(elem), &r.may, func(k int) bool { return r.h.guess[k].has(j) })
	})
}

// forgets reports whether a replica may have forgotten the times of the operations on an element, because it may have deleted it.
func (w *world) forgets(n *node, op Op) bool {
	if _, ok := w.spec.(ORMap); !ok {
		return false
	}
	return among(w.h.on(op.Elem), &n.maybe, func(i int) bool { return w.h.events[i].Op.Kind == "delete" })
}
