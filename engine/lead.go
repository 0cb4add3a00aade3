package engine

import "sync"

// request is one caller's part of a group.
type request struct {
	ops   []Op
	delta *Delta
	drop  *dropping
	opt   WriteOptions
	alone func() error // run by the leader with no group around it: how the rewriter, drop and eviction hold writers

	result Result
	err    error
	wake   chan struct{}
	leads  bool // woken to lead, not because it is done
}

var requests = sync.Pool{New: func() any { return &request{wake: make(chan struct{}, 1)} }}

// submit hands a request to the set's writers and returns when it is done. The first to come leads: it takes all that have
// queued up, writes them as one batch with one clock key and one sync, and passes the lead on before it waits for the sync.
func (s *Store) submit(st *set, r *request) {
	st.queueMu.Lock()
	st.queue = append(st.queue, r)
	if st.led {
		st.queueMu.Unlock()
		<-r.wake
		if !r.leads {
			return
		}
		r.leads = false
	} else {
		st.led = true
		st.queueMu.Unlock()
	}
	s.lead(st)
}

// lead writes one group, of which the caller's request is the first.
func (s *Store) lead(st *set) {
	group := st.takeGroup()
	if alone := group[0].alone; alone != nil {
		group[0].err = alone()
		st.passLead()
		return
	}
	wait := s.writeGroup(st, group)
	st.passLead()
	if wait != nil {
		if err := wait(); err != nil {
			for _, r := range group {
				r.err = err
			}
		}
	}
	for _, r := range group[1:] {
		r.wake <- struct{}{}
	}
}

// groupOpsMax bounds the operations that one group gathers, so that a batch stays far below a memtable.
const groupOpsMax = 4096

// takeGroup takes the requests of the next group off the queue: one alone, or as many as fit.
func (st *set) takeGroup() []*request {
	st.queueMu.Lock()
	defer st.queueMu.Unlock()
	n, ops := 1, len(st.queue[0].ops)
	if st.queue[0].alone == nil {
		for n < len(st.queue) && st.queue[n].alone == nil && ops+len(st.queue[n].ops) <= groupOpsMax {
			ops += len(st.queue[n].ops)
			n++
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
	s.submit(st, r)
	return r.err
}
