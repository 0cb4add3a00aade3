package wire

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"time"
)

// job is one request.
type job struct {
	c      *serverConn
	id     uint64
	req    Request
	bytes  int64
	ctx    context.Context
	cancel context.CancelFunc
	credit chan struct{} // parts that may be sent; nil for a request without a stream
	task   Task          // for a function of ServerOptions.Together
	turn   turn          // of a client's request
}

// work is what a goroutine has to do: a request, or the requests of one verb that have arrived together.
type work struct {
	alone    *job
	together []*Task
}

// some reports whether there is anything to do.
func (w work) some() bool { return w.alone != nil || len(w.together) > 0 }

// jobs lists the requests.
func (w work) jobs() iter.Seq[*job] {
	return func(yield func(*job) bool) {
		if w.alone != nil && !yield(w.alone) {
			return
		}
		for _, t := range w.together {
			if !yield(t.j) {
				return
			}
		}
	}
}

// first returns the first request. All are of one connection.
func (w work) first() *job {
	if w.alone != nil {
		return w.alone
	}
	return w.together[0].j
}

// turn returns the turn of the work.
func (w work) turn() *turn { return &w.first().turn }

// begin starts a complete request. It fails with errTakenOver if another goroutine reads the connection from now on.
func (c *serverConn) begin(id uint64, a *assembly) error {
	j := &job{c: c, id: id, bytes: int64(a.env.length),
		req: Request{Verb: a.env.verb, Epoch: a.env.epoch, Priority: a.env.priority, Body: a.body, From: &c.from}}
	j.req.j = j
	if a.env.deadline > 0 {
		j.ctx, j.cancel = context.WithTimeout(c.ctx, time.Duration(a.env.deadline)*time.Millisecond)
	} else {
		j.ctx, j.cancel = context.WithCancel(c.ctx)
	}
	if a.env.credit > 0 {
		j.credit = make(chan struct{}, creditMax)
		for range a.env.credit {
			j.credit <- struct{}{}
		}
	}
	c.mu.Lock()
	c.came(len(c.open))
	c.open[id] = j
	c.mu.Unlock()
	c.s.running.Add(1)
	if c.s.opt.Together[j.req.Verb] == nil || j.credit != nil {
		return c.start(work{alone: j})
	}
	if len(c.arrived) > 0 && c.arrived[0].Request.Verb != j.req.Verb {
		_ = c.together() // by other goroutines: this request has come as well
	}
	j.task = Task{Context: j.ctx, Request: &j.req, j: j}
	c.arrived = append(c.arrived, &j.task)
	return nil
}

// together begins the requests that have arrived together. Its errors are those of begin.
func (c *serverConn) together() error {
	if len(c.arrived) == 0 {
		return nil
	}
	w := work{together: c.arrived}
	c.arrived = nil
	return c.start(w)
}

// start does some work as soon as it may run. Its errors are those of begin.
func (c *serverConn) start(w work) error {
	if c.own != nil && !c.s.opt.Free[w.first().req.Verb] && !c.s.turns.begin(&c.row, w) {
		return nil
	}
	if c.here(w) {
		return c.performHere(w)
	}
	c.s.do(w)
	return nil
}

// do lets an idle goroutine do some work, or a new one.
func (s *Server) do(w work) {
	select {
	case s.work <- w:
	default:
		go s.worker(w)
	}
}

// idleTime is how long a goroutine waits for another request: its stack has already grown.
const idleTime = 10 * time.Second

// worker runs requests, one after another.
func (s *Server) worker(w work) {
	idle := time.NewTimer(idleTime)
	defer idle.Stop()
	for {
		for w = s.perform(w); w.some(); w = s.perform(w) {
			runtime.Gosched() // requests of nodes go first
		}
		idle.Reset(idleTime)
		select {
		case w = <-s.work:
		case <-idle.C:
			return
		}
	}
}

// perform does some work, and returns the work whose turn comes next, if any.
func (s *Server) perform(w work) work {
	j := w.first()
	w.unread()
	if w.alone != nil {
		j.run()
	} else {
		s.runTogether(w.together)
	}
	if j.c.own == nil { // a node's has no turn, and should not wait for the lock
		return work{}
	}
	return s.turns.end(&j.turn)
}

// unread waits, without a turn, until the client of some work has taken most of the answers that were made for it, or all the work's requests
// have ended. What has waited looks again when it has its turn: others may have waited for the same.
func (w work) unread() {
	j := w.first()
	for j.c.own != nil && !w.ended() {
		read := j.c.answers.full(j.c.s.opt.UnreadMax)
		if read == nil {
			return
		}
		again := j.rest()
		for each := range w.jobs() {
			select {
			case <-read:
			case <-each.ctx.Done():
			}
		}
		again()
	}
}

// ended reports whether all requests of the work have ended.
func (w work) ended() bool {
	for each := range w.jobs() {
		if each.ctx.Err() == nil {
			return false
		}
	}
	return true
}

// errGone reports that no caller waits for a stream any more.
var errGone = errors.New("wire: the caller has stopped waiting for the answer")

// run runs one request and sends the answer.
func (j *job) run() {
	c := j.c
	if j.late() {
		return
	}
	defer c.s.running.Add(-1)
	defer j.cancel()
	p := parts{j: j}
	last, err := c.s.opt.Handler(j.ctx, &j.req, p.send)
	if p.sent {
		j.rest()
	}
	if !p.wait() { // otherwise the answer could overtake the last part
		err = errGone
	}
	j.answer(last, err)
}

// parts sends the parts of a stream.
type parts struct {
	j       *job
	written chan struct{} // receives one when a part has been written; nil before the first part
	sent    bool          // a part was sent, and wait has not found yet that it was written
}

// send sends a part when the caller wants it and the part before has been written, which it could overtake otherwise.
func (p *parts) send(part []byte) error {
	j := p.j
	if j.credit == nil {
		return fmt.Errorf("%w: verb %d answers with a stream, which was not asked for", ErrFrame, j.req.Verb)
	}
	resume := j.rest()
	idle, stop := j.idle()
	defer stop()
	select {
	case <-j.credit:
	case <-j.ctx.Done():
		return errGone
	case <-idle:
		return fmt.Errorf("%w (%v): ask again for what comes after the last part", ErrIdle, j.c.s.opt.StreamTime)
	}
	if !p.wait() || !resume() {
		return errGone
	}
	if p.written == nil {
		p.written = make(chan struct{}, 1)
	}
	m := (&message{kind: kindPart, priority: j.req.Priority, id: j.id, body: part, gone: func() { p.written <- struct{}{} }}).withLength()
	if p.sent, _ = j.c.out.push(m, true); !p.sent {
		return errGone
	}
	return nil
}

// idle returns a channel that receives when a client has not asked for the next part of a stream for too long, unless it has asked already.
// Nodes may take their time, as their own clients do.
func (j *job) idle() (idle <-chan time.Time, stop func()) {
	if j.c.own == nil || len(j.credit) > 0 {
		return nil, func() {}
	}
	t := time.NewTimer(j.c.s.opt.StreamTime)
	return t.C, func() { t.Stop() }
}

// rest ends the turn of a request that waits. resume waits for another one, and reports false if the request has ended before.
func (j *job) rest() (resume func() bool) {
	if j.c.own == nil {
		return func() bool { return true }
	}
	j.c.s.turns.rest(&j.turn)
	return func() bool { return j.c.s.turns.resume(&j.c.row, j) }
}

// wait waits until the part that was sent last, if any, has been written. It reports false if the connection has ended.
func (p *parts) wait() bool {
	if !p.sent {
		return true
	}
	select {
	case <-p.written:
		p.sent = false
		return true
	case <-p.j.c.ctx.Done():
		return false
	}
}

// runTogether runs requests of one verb that have arrived together.
func (s *Server) runTogether(all []*Task) {
	in := all[:0]
	for _, t := range all {
		if t.j.late() {
			continue
		}
		in = append(in, t)
	}
	if len(in) > 0 {
		s.opt.Together[in[0].Request.Verb](in)
	}
}

// late ends a request that its caller has given up, or whose time has passed, before it began. It reports whether it has.
func (j *job) late() bool {
	err := j.ctx.Err()
	if err == nil {
		return false
	}
	j.end()
	if errors.Is(err, context.DeadlineExceeded) {
		j.c.refuse(j.id, refusedLate, "its time was over before it began")
	}
	j.c.give(j.bytes)
	j.cancel()
	j.c.s.running.Add(-1)
	return true
}

// answer sends the answer of a request: the last body, or an error.
func (j *job) answer(last []byte, err error) {
	c := j.c
	add := c.out.push
	if j.end() < fewMost { // otherwise more answers are likely to come before the writer's turn
		add = c.w.send
	}
	m := &message{kind: kindAnswer, priority: j.req.Priority, id: j.id, body: last}
	if err == nil && len(last) > BodyBytesMax {
		err = fmt.Errorf("%w: an answer of %d bytes, at most %d", ErrFrame, len(last), BodyBytesMax)
	}
	if err != nil {
		m.kind, m.body = kindError, c.s.opt.errors(c.from.Role).Append(nil, err)
	}
	m.withLength()
	c.answers.add(len(m.body))
	m.gone = func() {
		c.answers.add(-len(m.body))
		c.give(j.bytes)
	}
	if ok, _ := add(m, true); !ok {
		m.gone()
	}
}

// end removes a request from the connection, and returns how many others are running.
func (j *job) end() (others int) {
	j.c.mu.Lock()
	defer j.c.mu.Unlock()
	delete(j.c.open, j.id)
	return len(j.c.open)
}
