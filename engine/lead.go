package engine

import (
	"sync"
	"time"

	"bigset"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// The writers of a set queue up, and one goroutine at a time leads them. Only the leader builds a batch of the set, and only it changes the
// set's next (Seen with what is about to be written). A group goes through these steps, in this order:
//
//	gather      wait a little for requests that are on their way (gather.go)
//	takeGroup   take requests off the head of the queue, in the order of arrival
//	takeIn      each request adds its part to one batch. A request that is refused adds nothing
//	commit      the batch is in the log and the memtable: iterators that are opened from now on show its keys
//	publish     Seen and Dead change in memory. Not earlier: a reader would find an element's old key dead and not yet find its new one
//	sync        the log, if a request asked for it. Applied is called while the sync is in progress
//	passLead    the next group begins: before the sync if the writer is alone, otherwise after it
//	wake        the other callers of the group return

// work is what a request does to its set.
type work interface {
	// adds reports whether there are adds: for these there must be room on the disk.
	adds() bool
	// size returns how many keys there are, and about how many bytes they take up in a batch, with prefixes of that many.
	size(prefixBytes int) (keys, bytes int)
	// looksUp reports whether it asks for the keys that an element has, so that it must see those of others in its group.
	looksUp(policy bigset.Policy) bool
	// into takes it into a batch. With an error, nothing of it is in the batch, or b.spoiled is set and the batch is built again without
	// it. So into may be called several times: it sets results, and does not add to those of the last call.
	into(b *builder, r *request) error
}

// request is one caller's part of a group.
type request struct {
	work
	ops   operations // the work of a Write
	opt   bigset.WriteOptions
	alone func() error // run by the leader with no group around it: how the rewriter, drop and eviction hold writers

	result bigset.Result
	err    error
	queued time.Time     // since when it has waited for others; zero if it does not wait
	wake   chan struct{} // receives once, when a request that waits is done or is to lead; has room for one, so that its leader never blocks
	leads  bool          // woken to lead, not because it is done
	self   [1]*request   // the group of a request that is alone, so that it needs no memory of its own
}

// requests are those of Write, which are used again.
var requests = sync.Pool{New: func() any {
	r := newRequest(nil, bigset.DefaultDurability)
	r.work = &r.ops
	return r
}}

func newRequest(w work, d bigset.Durability) *request {
	return &request{work: w, opt: bigset.WriteOptions{Durability: d}, wake: make(chan struct{}, 1)}
}

// submit hands a request to the set's writers and returns when it is done. If no goroutine leads, the caller does: it writes the requests
// that have queued up as one batch with one clock key and one sync, and passes the lead on. A caller that finds itself alone, and has no
// reason to expect others, does not use the queue.
func (s *Store) submit(st *set, r *request) {
	st.queueMu.Lock()
	if !st.led {
		st.led = true
		if _, more := st.gathering.crowd(1, 0); !more {
			st.beginRuns()
			st.queueMu.Unlock()
			r.self[0] = r
			s.lead(st, r.self[:])
			return
		}
		st.queue = append(st.queue, r)
		st.queueMu.Unlock()
	} else {
		st.queue = append(st.queue, r)
		r.queued = time.Now()
		st.gathering.joined(len(st.queue))
		st.queueMu.Unlock()
		<-r.wake
		if !r.leads {
			return
		}
		r.leads = false
	}
	s.gather(st)
	s.lead(st, st.takeGroup())
}

// submitAll is submit for several requests, in one group if they fit. It returns when all are done. The caller leads each group that begins
// with one of them. So it looks at each request in turn: it is done already, or it is the next to lead.
func (s *Store) submitAll(st *set, all []*request) {
	st.queueMu.Lock()
	leads := !st.led
	st.led = true
	if !leads {
		now := time.Now()
		for _, r := range all {
			r.queued = now
		}
	}
	st.queue = append(st.queue, all...)
	if !leads {
		st.gathering.joined(len(st.queue))
	}
	st.queueMu.Unlock()
	for _, r := range all {
		if !leads {
			<-r.wake
			if leads = r.leads; !leads {
				continue
			}
		}
		r.leads, leads = false, false
		s.gather(st)
		s.lead(st, st.takeGroup())
	}
}

// lead writes one group. The caller's request is the first of it.
func (s *Store) lead(st *set, group []*request) {
	s.observeQueued(group)
	s.gate.enter(st.prefix, true)
	var wait func() error
	if alone := group[0].alone; alone != nil { // takeGroup gives it a group of its own
		group[0].err = alone()
	} else {
		wait = s.writeGroup(st, group)
	}
	s.gate.leave()
	if wait == nil {
		st.passLead()
	} else {
		s.awaitSync(st, group, wait)
	}
	for _, r := range group[1:] {
		r.wake <- struct{}{}
	}
}

// awaitSync waits until a group is on disk, and passes the lead on. A writer that seems to be alone passes it on before it waits: one that
// comes during the sync could not share that sync anyway. Otherwise the lead stays until the sync has ended, and the next group grows in
// the queue.
func (s *Store) awaitSync(st *set, group []*request, wait func() error) {
	early := st.beginSync(len(group))
	if early {
		st.passLead()
	}
	reportApplied(group)
	began := time.Now()
	err := wait()
	s.syncTime.observe(time.Since(began))
	if err != nil {
		failAll(group, err)
	}
	st.endSync(len(group)) // before the lead goes on: the next leader gathers by its numbers
	if !early {
		st.passLead()
	}
}

// takeIn builds the batch of a group from the requests that are not refused. If one is refused after some of it was taken in, takeIn
// builds the batch again without it. Errors are left in the requests.
func (s *Store) takeIn(st *set, group []*request) *builder {
	for {
		b := s.newBuilder(st, group)
		for _, r := range group {
			if r.err == nil {
				r.err = r.into(b, r)
			}
			if b.spoiled {
				break
			}
		}
		if !b.spoiled {
			return b
		}
		b.release() // its dots were never shown
		st.resetNext()
		for _, r := range group {
			r.result = bigset.Result{}
		}
	}
}

// writeGroup builds and applies one batch for the group, and returns how to wait for it to be durable, or nil if no
// request asked for that. The set's leader calls it. Errors are left in the requests: one that was refused has its own,
// and if the batch can't be written all others have that error.
func (s *Store) writeGroup(st *set, group []*request) (wait func() error) {
	b := s.takeIn(st, group)
	defer b.release()
	sync, promised := false, false
	for _, r := range group {
		if r.err != nil {
			continue
		}
		sync = sync || r.opt.Durability == bigset.Sync
		switch r.work.(type) {
		case *facts, *keeping: // what another replica has: nobody counts it as acknowledged here
		default:
			promised = true
		}
	}
	if b.err == nil && !b.empty() {
		b.finish()
	}
	if b.err != nil { // the disk failed in the middle: nothing of the group is written, its dots were never shown
		st.resetNext()
		failAll(group, b.err)
		return nil
	}
	if b.empty() {
		if err := s.db.Writable(); err != nil {
			failAll(group, err)
			return nil
		}
		if sync { // what was found must be durable before it is acknowledged
			return s.db.WaitDurable(s.db.Applied())
		}
		if promised { // nothing promised what was found, if it came as facts
			if err := s.db.Promise(lsm.PromiseSets); err != nil {
				failAll(group, err)
			}
		}
		return nil
	}
	if b.runs != nil { // before the commit: a reader that finds a new key must not skip it as part of a dead run
		b.runs.split(len(st.prefix), b.puts)
	}
	if !sync && promised { // before the commit: after a crash the store has to know that it may lack what it acknowledged
		if err := s.db.Promise(lsm.PromiseSets); err != nil {
			st.resetNext()
			failAll(group, err)
			return nil
		}
	}
	keys := b.entered != nil || b.flags&keyscheme.FlagTombstonePages != 0
	wait, err := b.land(sync)
	if err != nil {
		failAll(group, err)
		return nil
	}
	st.touch(keys)
	return wait
}

// reportApplied calls Applied of the requests that asked for it, while the sync of their group is in progress. The Group lets them send what
// belongs together in one piece: the first one finds an empty Value, and Done comes after the last one.
func reportApplied(group []*request) {
	var g *bigset.Group
	if len(group) > 1 {
		g = &bigset.Group{}
	}
	for _, r := range group {
		if r.opt.Applied != nil && r.err == nil && !r.result.Delta.Empty() {
			r.opt.Applied(r.result, g)
		}
	}
	if g != nil && g.Done != nil {
		g.Done()
	}
}

func failAll(group []*request, err error) {
	for _, r := range group {
		if r.err == nil {
			r.err = err
		}
	}
}

// observeQueued counts how long the requests of a group have waited in the queue, without those that only hold the writers.
func (s *Store) observeQueued(group []*request) {
	var now time.Time
	for _, r := range group {
		if r.queued.IsZero() || r.alone != nil {
			continue
		}
		if now.IsZero() {
			now = time.Now()
		}
		s.counters.queued.Add(now.Sub(r.queued))
		r.queued = time.Time{}
	}
}

// A group gathers no more operations and bytes than these, so that its batch stays far below a memtable. A single request
// may be larger: its own limits bound it.
const (
	groupOpsMax   = 4096
	groupBytesMax = 4 << 20
)

// takeGroup takes the requests of the next group off the queue, in their order: one that holds the writers alone, otherwise as many as fit.
func (st *set) takeGroup() []*request {
	st.queueMu.Lock()
	defer st.queueMu.Unlock()
	st.beginRuns()
	n, prefixBytes := 1, len(st.name)+bigset.BatchKeyBytes
	if len(st.queue) > 1 && st.queue[0].alone == nil {
		keys, bytes := st.queue[0].size(prefixBytes)
		for ; n < len(st.queue) && st.queue[n].alone == nil; n++ {
			k, b := st.queue[n].size(prefixBytes)
			if keys, bytes = keys+k, bytes+b; keys > groupOpsMax || bytes > groupBytesMax {
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

// passLead lets the first request in the queue lead, or ends the lead if the queue is empty.
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

// holding runs f while no request writes the set. It waits in the queue as a writer does, so f sees everything that was queued before it.
func (s *Store) holding(st *set, f func() error) error {
	r := newRequest(nil, bigset.DefaultDurability)
	r.alone = f
	st.lead.Take()
	s.submit(st, r)
	st.lead.Leave()
	return r.err
}
