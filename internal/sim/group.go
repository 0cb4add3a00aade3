package sim

import (
	"slices"
	"time"

	"bigset"
)

// writers are those of one set of a process who share a sync, as far as the others that they send to can see: in a schedule one goroutine at a time runs, so
// that stores never have two writers under way by themselves.
type writers struct {
	bigset.Group
	inside int
	closed bool // nobody joins any more
	done   bool // what they have to send is sent
}

// groupsOf is how many schedules have one in which writers share syncs, and groupTime how long a writer waits for others.
const (
	groupsOf  = 4
	groupTime = 20 * time.Millisecond
)

// endings are the kinds of steps that end a process or break its disk.
var endings = []string{"power", "crash", "outage", "wipe", "put-back", "restart", "io-error", "disk-full", "deaf"}

// shares reports whether writers share syncs in a script of members. A writer waits for others inside the gate of its member, and a change
// of the epoch waits for the writers inside without passing the turn on. So no epoch may change in such a script: no process ends.
func (s *script) shares() bool {
	return s.seed%groupsOf == 1 && !slices.ContainsFunc(s.steps, func(t step) bool { return slices.Contains(endings, t.kind) })
}

// join lets a writer of a set wait for others, in some schedules. It returns nil where nobody shares anything.
func (o *own) join(set []byte) *writers {
	if !o.shares {
		return nil
	}
	w := o.groups[string(set)]
	if w == nil || w.closed {
		w = &writers{}
		o.groups[string(set)] = w
	}
	w.inside++
	o.c.turns.Sleep(groupTime)
	w.closed = true
	return w
}

// leave has the last writer of a group send what they have, and returns when that is done.
func (o *own) leave(set []byte, w *writers) {
	if w == nil {
		return
	}
	if w.inside--; w.inside > 0 {
		o.c.turns.Yield(func() bool { return w.done })
		return
	}
	if o.groups[string(set)] == w {
		delete(o.groups, string(set))
	}
	if w.Done != nil {
		w.Done()
	}
	w.done = true
}
