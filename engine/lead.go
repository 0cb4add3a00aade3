package engine

import (
	"sync"
	"time"
)

// request is one caller's part of a group.
type request struct {
	ops   []Op
	delta *Delta
	facts *facts
	drop  *dropping
	opt   WriteOptions
	alone func() error // run by the leader with no group around it: how the rewriter, drop and eviction hold writers

	result Result
	err    error
	queued time.Time // since when it waits behind others; zero when it does not
	wake   chan struct{}
	leads  bool        // woken to lead, not because it is done
	self   [1]*request // the group of a request that nobody else is with
}

var requests = sync.Pool{New: func() any { return &request{wake: make(chan struct{}, 1)} }}

// submit hands a request to the set's writers and returns when it is done. The first to come leads: it takes all that have
// queued up, writes them as one batch with one clock key and one sync, and passes the lead on before it waits for the sync.
func (s *Store) submit(st *set, r *request) {
	st.queueMu.Lock()
	if !st.led {
		st.led = true
		st.beginRuns()
		st.queueMu.Unlock()
		r.self[0] = r
		s.lead(st, r.self[:])
		return
	}
	st.queue = append(st.queue, r)
	r.queued = time.Now()
	st.queueMu.Unlock()
	<-r.wake
	if !r.leads {
		return
	}
	r.leads = false
	s.lead(st, st.takeGroup())
}

// lead writes one group, of which the caller's request is the first.
func (s *Store) lead(st *set, group []*request) {
	s.noteQueued(group)
	if alone := group[0].alone; alone != nil {
		s.gate.enter(st.prefix, true)
		group[0].err = alone()
		s.gate.leave()
		st.passLead()
		return
	}
	s.gate.enter(st.prefix, true)
	wait := s.writeGroup(st, group)
	s.gate.leave()
	if wait == nil {
		st.passLead()
	} else {
		if len(group) == 1 { // nobody shares the sync: let the next group gather behind it
			st.passLead()
		}
		if err := wait(); err != nil {
			for _, r := range group {
				r.err = err
			}
		}
		if len(group) > 1 {
			st.passLead()
		}
	}
	for _, r := range group[1:] {
		r.wake <- struct{}{}
	}
}

// noteQueued notes how long the requests of a group have waited.
func (s *Store) noteQueued(group []*request) {
	var now time.Time
	for _, r := range group {
		if r.queued.IsZero() {
			continue
		}
		if now.IsZero() {
			now = time.Now()
		}
		s.counters.queued.add(now.Sub(r.queued))
		r.queued = time.Time{}
	}
}

// A group gathers no more operations and bytes than these, so that its batch stays far below a memtable. A single request
// may be larger: its own limits bound it.
const (
	groupOpsMax   = 4096
	groupBytesMax = 4 << 20
)

// size returns how many operations a request holds, and about how many bytes they are.
func (r *request) size(nameBytes int) (ops, bytes int) {
	nameBytes += keyBytes
	for i := range r.ops {
		bytes += nameBytes + len(r.ops[i].Element) + dotBytes*len(r.ops[i].Context.Dots) + wideBytes(r.ops[i].Context.Wide)
	}
	if r.facts != nil {
		return r.facts.size(nameBytes)
	}
	if r.delta == nil {
		return len(r.ops), bytes
	}
	for i := range r.delta.Items {
		bytes += nameBytes + len(r.delta.Items[i].Element) + dotBytes*len(r.delta.Items[i].Context) + wideBytes(r.delta.Items[i].Wide)
	}
	return len(r.delta.Items), bytes
}

// dotBytes and keyBytes are about what a dot of a context, and a key beside its names, cost in a batch.
const (
	dotBytes = 16
	keyBytes = 48
)

// takeGroup takes the requests of the next group off the queue: one alone, or as many as fit.
func (st *set) takeGroup() []*request {
	st.queueMu.Lock()
	defer st.queueMu.Unlock()
	st.beginRuns()
	n := 1
	if len(st.queue) > 1 && st.queue[0].alone == nil {
		ops, bytes := st.queue[0].size(len(st.name))
		for ; n < len(st.queue) && st.queue[n].alone == nil; n++ {
			o, b := st.queue[n].size(len(st.name))
			if ops, bytes = ops+o, bytes+b; ops > groupOpsMax || bytes > groupBytesMax {
				break
			}
		}
	}
	group := st.queue[:n:n]
	if st.queue = st.queue[n:]; len(st.queue) == 0 {
		st.queue = nil
	}
	return group
}

// passLead lets the next in the queue lead, if there is one.
func (st *set) passLead() {
	st.queueMu.Lock()
	defer st.queueMu.Unlock()
	if len(st.queue) == 0 {
		st.led = false
		return
	}
	next := st.queue[0]
	next.leads = true
	next.wake <- struct{}{}
}

// holding runs f while nobody writes the set.
func (s *Store) holding(st *set, f func() error) error {
	r := &request{alone: f, wake: make(chan struct{}, 1)}
	st.lead.Take()
	s.submit(st, r)
	st.lead.Leave()
	return r.err
}
