package wire

import (
	"context"
	"errors"
	"fmt"
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
}

// begin starts a complete request.
func (c *serverConn) begin(id uint64, a *assembly) {
	j := &job{c: c, id: id, bytes: int64(a.env.length),
		req: Request{Verb: a.env.verb, Epoch: a.env.epoch, Priority: a.env.priority, Body: a.body, From: &c.from}}
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
	c.open[id] = j
	c.mu.Unlock()
	c.s.running.Add(1)
	select {
	case c.s.work <- j:
	default:
		go c.s.worker(j)
	}
}

// idleTime is how long a goroutine waits for another request: its stack has already grown.
const idleTime = 10 * time.Second

// worker runs requests, one after another.
func (s *Server) worker(j *job) {
	idle := time.NewTimer(idleTime)
	defer idle.Stop()
	for {
		j.run()
		j = nil
		idle.Reset(idleTime)
		select {
		case j = <-s.work:
		case <-idle.C:
			return
		}
	}
}

// errGone reports that no caller waits for a stream any more.
var errGone = errors.New("wire: the caller has stopped waiting for the answer")

// run runs one request and sends the answer.
func (j *job) run() {
	c := j.c
	defer c.s.running.Add(-1)
	defer j.cancel()
	if err := j.ctx.Err(); err != nil {
		j.end()
		if errors.Is(err, context.DeadlineExceeded) {
			c.refuse(j.id, refusedLate, "its time was over before it began")
		}
		c.give(j.bytes)
		return
	}
	var written chan struct{} // closed when the part before has been written
	var send func([]byte) error
	if j.credit != nil {
		send = func(part []byte) error {
			select {
			case <-j.credit:
			case <-j.ctx.Done():
				return errGone
			}
			if written == nil {
				written = make(chan struct{}, 1)
			}
			m := (&message{kind: kindPart, priority: j.req.Priority, id: j.id, body: part, gone: func() { written <- struct{}{} }}).withLength()
			if ok, _ := c.out.push(m, true); !ok {
				return errGone
			}
			select {
			case <-written: // otherwise the next part could overtake it
				return nil
			case <-c.ctx.Done():
				return errGone
			}
		}
	} else {
		send = func([]byte) error {
			return fmt.Errorf("%w: verb %d answers with a stream, which was not asked for", ErrFrame, j.req.Verb)
		}
	}
	last, err := c.s.opt.Handler(j.ctx, &j.req, send)
	add := c.out.push
	if j.end() == 0 { // otherwise more answers are likely to come before the writer's turn
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
	m.gone = func() { c.give(j.bytes) }
	if ok, _ := add(m, true); !ok {
		c.give(j.bytes)
	}
}

// end removes a request from the connection, and returns how many others are running.
func (j *job) end() (others int) {
	j.c.mu.Lock()
	defer j.c.mu.Unlock()
	delete(j.c.open, j.id)
	return len(j.c.open)
}
