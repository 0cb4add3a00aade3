package sim

import (
	"time"

	"bigset"
)

// writers are writers of one set of a process that share a sync, as far as the replicas that they send to can see: in a schedule one
// goroutine at a time runs, so stores never have two concurrent writers by themselves.
type writers struct {
	bigset.Group
	inside int
	closed bool // nobody joins any more
	done   bool // what they have to send is sent
}

// groupsOf is how many schedules have one in which writers share syncs, and groupTime how long a writer waits for others.
const (
	groupsOf  = 3
	groupTime = 300 * time.Millisecond
)

// shares reports whether writers share syncs in a script of members.
func (s *script) shares() bool { return s.seed%groupsOf == 1 }

// alone calls f, which may change the epoch of the process's member. A change of the epoch waits for the writers inside the gate of the
// member without ending the turn. So the writers that wait for each other leave before the call, and until it returns none waits.
func (o *own) alone(f func()) {
	o.changing++
	defer func() { o.changing-- }()
	if o.waiting > 0 {
		o.c.turns.Yield(func() bool { return o.waiting == 0 })
	}
	f()
}

// join lets a writer of a set wait for others, in some schedules. It returns nil if the writer shares nothing.
func (o *own) join(set []byte) *writers {
	if !o.shares || o.changing > 0 || o.c.crashing {
		return nil
	}
	w := o.groups[string(set)]
	if w == nil || w.closed {
		w = &writers{}
		o.groups[string(set)] = w
	}
	w.inside++
	o.waiting++
	o.c.turns.Sleep(groupTime)
	w.closed = true
	return w
}

// leave lets the last writer of a group send what the group has to send, and returns when that is done.
func (o *own) leave(set []byte, w *writers) {
	if w == nil {
		return
	}
	defer func() { o.waiting-- }()
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
