package engine

import "sync/atomic"

// readers counts the readers of a set, or of the whole store, in two epochs, so that the publisher knows when all
// readers that began before a moment have ended. It uses two counters instead of a list. Any number of goroutines may
// enter and leave; one publisher turns.
type readers struct {
	epoch  atomic.Uint32
	active [2]atomic.Int64
}

// enter registers a reader. It must be called before the reader takes its view and opens its iterator. The caller
// passes the result to leave after the iterator is closed. The iterator over tables that the store keeps is older than
// the reader and may outlive it: a reader uses it only for elements that Unflushed does not know, and Unflushed knows
// those whose keys were replaced since it was opened.
func (r *readers) enter() uint32 {
	for {
		e := r.epoch.Load()
		r.active[e&1].Add(1)
		if r.epoch.Load() == e {
			return e
		}
		r.active[e&1].Add(-1) // the publisher turned in between: it may not have counted us
	}
}

// leave undoes enter.
func (r *readers) leave(e uint32) { r.active[e&1].Add(-1) }

// turn begins a new epoch: readers that enter from now on are not waited for. Before the call, over must report true.
func (r *readers) turn() { r.epoch.Add(1) }

// over reports whether all readers that entered before the last turn have left.
func (r *readers) over() bool { return r.active[(r.epoch.Load()-1)&1].Load() == 0 }
