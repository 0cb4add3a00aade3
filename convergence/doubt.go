package convergence

import "slices"

// An operation that was answered by an error may have been done or not. But it was done wholly or not at all, and a replica that shows it
// when its disk works again has it from then on, as if it had been answered by a success: what goes away then without a crash, or after a
// sync, was lost.

// doubts remembers a failed operation, until its replica ends.
func (n *node) doubts(group bitset) { n.doubt = append(n.doubt, group) }

// decide looks whether a reading, which is as it must be, can't be without one of the replica's failed operations. It reports whether
// it found one.
func (w *world) decide(n *node, r *Reading) (found bool) {
	n.doubt = slices.DeleteFunc(n.doubt, func(group bitset) bool {
		without := *r
		without.may = r.may.clone()
		group.each(func(i int) bool { without.may.remove(i); return true })
		if w.spec.Judge(&without) == nil {
			return false
		}
		n.sure.union(&group)
		found = true
		return true
	})
	return found
}

// dropFailed takes the failed operations out of what all replicas must have: nobody was told of them.
func (h *history) dropFailed(set *bitset) {
	for i := range h.events {
		if h.events[i].Failed {
			set.remove(i)
		}
	}
}
