package engine

import "sync/atomic"

// readers counts who reads a set (or the whole store) in two epochs, so that the publisher can tell when everybody who
// began before some moment is gone: the horizon rule, with two counters instead of a list. Any number of goroutines may
// enter and leave; one publisher turns.
type readers struct {
	epoch  atomic.Uint32
	active [2]atomic.Int64
}

// enter registers a reader. It must be called before the reader takes its view and opens its iterator, and be undone by
// leave, with what it returned, after the iterator is closed.
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

// turn begins a new epoch: those who enter from now on are not waited for. The one before the last must be over.
func (r *readers) turn() { r.epoch.Add(1) }

// over reports whether all who entered before the last turn have left.
func (r *readers) over() bool { return r.active[(r.epoch.Load()-1)&1].Load() == 0 }
