package model

import (
	"slices"

	"bigset/convergence"
)

// remember stores an operation with its id, in the batch that it belongs to.
func (r *replica) remember(it item) {
	if r.o.IDs && it.id != "" && r.find(it.id) == nil {
		r.done = append(slices.Clip(r.done), it)
	}
}

func (r *replica) find(id string) *item {
	for i := range r.done {
		if r.done[i].id == id {
			return &r.done[i]
		}
	}
	return nil
}

// again answers operations that were done before, or that a delta brought: with the earlier answer, and acknowledged if they are
// durable. An operation that had no effect was in no delta, so one known operation is enough to recognize a batch.
func (r *replica) again(ops []convergence.Op) (e convergence.Effect, ok bool) {
	if !r.o.IDs || r.bug == "retry-mints-again" {
		return e, false
	}
	d := delta{stamp: r.env.Now()}
	e = convergence.Effect{Tags: make([]string, len(ops)), Durable: len(r.log) == 0 || r.bug == "retry-acked-early"}
	for i, op := range ops {
		it := r.find(op.ID)
		if it == nil {
			continue
		}
		ok = true
		if it.dot.ctr > 0 {
			e.Tags[i] = it.dot.tag()
		}
		if it.kind == opClear || it.dot.ctr > 0 {
			d.items = append(d.items, *it)
		}
	}
	if len(ops) == 1 {
		e.Tag = e.Tags[0]
	}
	if len(d.items) > 0 {
		e.Out = [][]byte{d.append(nil)}
	}
	return e, ok
}
