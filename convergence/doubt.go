package convergence

import "slices"

// An operation that was answered by an error may have been done or not, and a batch that was not synced may have survived a crash
// or not. But each was done, or has survived, either wholly or not at all. If a replica shows it while its disk works, the replica
// has it from then on, as if the answer had been a success. If it then disappears without a crash, or after a sync, it was lost.

// doubt is a group of operations of which a replica has either all or none.
type doubt struct {
	group  bitset
	failed bool // they were answered by an error; otherwise they are a batch that was not synced before a crash
}

// doubtBatches records the batches of a replica that a crash may have lost. If the system names its adds, torn detects this by
// itself. A replica that has received something by repairs or copies may have a part of a batch from there.
func (w *world) doubtBatches(n *node) {
	if w.tagged || n.mixed || !w.h.batched {
		return
	}
	for i := 0; i < len(w.h.events); {
		first := i
		var group bitset
		lost := false
		for ; i < len(w.h.events) && w.h.events[i].batch == w.h.events[first].batch && (i == first || w.h.events[i].batch != 0); i++ {
			group.add(i)
			lost = lost || !n.durable.has(i)
		}
		if e := &w.h.events[first]; lost && e.batch != 0 && e.Replica == n.id && !e.Failed {
			n.doubts = append(n.doubts, doubt{group: group})
		}
	}
}

// decide looks for a group in doubt without which a correct reading would be impossible. It returns one of those that it found.
func (w *world) decide(n *node, r *Reading) (found *doubt) {
	n.doubts = slices.DeleteFunc(n.doubts, func(d doubt) bool {
		if d.group.within(&n.sure) { // it has received them from others
			return true
		}
		if !d.failed && n.mixed {
			return true
		}
		without := *r
		without.may = r.may.clone()
		d.group.each(func(i int) bool { without.may.remove(i); return true })
		if w.spec.Judge(&without) == nil {
			return false
		}
		n.sure.union(&d.group)
		found = &d
		return true
	})
	return found
}

// resolve decides which groups in doubt a replica has, and judges the reading again.
func (w *world) resolve(n *node, r *Reading) *Violation {
	d := w.decide(n, r)
	if d == nil {
		return nil
	}
	if d.failed {
		w.stats.Sometimes["failed operation was done"]++
	}
	if r.must = n.sure; w.spec.Judge(r) != nil {
		return d.torn(r.View)
	}
	return nil
}

// torn reports which group a replica shows only in part.
func (d *doubt) torn(view View) *Violation {
	if d.failed {
		return bad(Torn, "it shows a part of operations that were answered by an error: %s", view)
	}
	return bad(Torn, "it shows a part of a batch that a crash could lose only as a whole: %s", view)
}

// dropFailed removes the failed operations from what all replicas must have, because their messages were never sent.
func (h *history) dropFailed(set *bitset) {
	for i := range h.events {
		if h.events[i].Failed {
			set.remove(i)
		}
	}
}
