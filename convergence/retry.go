package convergence

import "fmt"

// tried is what a client asked for, once or more, and the results.
type tried struct {
	ops []ScriptOp
	at  []int // by try that was an operation of its own: its first event
}

// retry runs the operations of an earlier step again, like a client that got no answer or lost it.
func (w *world) retry(n *node, first int) (*Violation, error) {
	t := w.at(first).tried
	if t == nil || !w.sys.Retries {
		return nil, fmt.Errorf("%w: no operation to ask for again", errSkip)
	}
	for _, o := range t.ops {
		if n.loose[o.Op.Elem] || o.Op.Kind == "clear" && len(n.loose) > 0 {
			return nil, fmt.Errorf("%w: damaged here", errSkip)
		}
	}
	return w.operate(n, first, t.ops)
}

// settle records an answer: as new events, unless it is the answer to an earlier try.
func (w *world) settle(n *node, first int, list []ScriptOp, ops []Op, from []*seenView, e Effect, failed bool) *Violation {
	t := w.at(first).tried
	if t == nil {
		t = &tried{ops: list}
		w.at(first).tried = t
	}
	unsure := failed
	if len(t.at) > 0 {
		group, v := w.earlier(n, t, e, failed)
		switch {
		case v != nil:
			return v
		case !group.empty() && failed: // it can't have done more than before
			return nil
		case !group.empty():
			w.stats.Sometimes["retry answered as before"]++
			n.maybe.union(&group)
			w.done(n, group, e)
			return nil
		}
		w.stats.Sometimes["retry where the first try was not known"]++
		unsure = unsure || !named(e.Tags) // it may still know of the first try
	}
	at := len(w.h.events)
	if v := w.remember(n, ops, from, e, unsure); v != nil {
		return v
	}
	t.at = append(t.at, at)
	return nil
}

func named(tags []string) bool {
	for _, tag := range tags {
		if tag != "" {
			return true
		}
	}
	return false
}

// earlier returns the events of the try that e answers, if it answers one. A replica that knows a try's id must answer as it did
// then.
func (w *world) earlier(n *node, t *tried, e Effect, failed bool) (group bitset, v *Violation) {
	knew := 0
	for _, at := range t.at {
		var events bitset
		known, same := true, true
		for i := range t.ops {
			events.add(at + i)
			known = known && n.ids.has(at+i)
			same = same && (i >= len(e.Tags) || e.Tags[i] == "" || e.Tags[i] == w.h.events[at+i].Tag)
		}
		if same && (known || named(e.Tags)) {
			return events, nil
		}
		if known {
			knew = w.h.events[at].Step
		}
	}
	if knew > 0 && !failed {
		return group, bad(Repeated, "replica %c repeated, as %v, what it had done or received in step %d", letter(n.id), e.Tags, knew)
	}
	return group, nil
}
