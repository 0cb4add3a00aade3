package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// reading says who reads the connection of a client. Usually a goroutine of the connection does, the reader, and wakes those of the calls. One
// that calls again and again, alone, would wait for that each time. So after loneLeast such calls the reader stops, and the goroutine of each
// call reads its own answer:
//
//	reader ──► an answer, no call is left, and calls have come alone ──► nobody
//	nobody ──► a call that comes alone ──► its goroutine ──► its answer, and no call is left ──► nobody
//	nobody ──► any other call, or the next look of watch ──► reader
//	its goroutine ──► its end, and other calls are left ──► reader
//
// Client.mu guards the fields, except within.
type reading struct {
	least   int           // loneLeast, or a test's
	lone    int           // how many calls in a row have come alone
	stopped bool          // the reader has stopped
	call    *waiter       // the call whose goroutine reads
	kicked  bool          // that goroutine should stop: the deadline for reads has passed
	resume  chan struct{} // lets the reader go on; has room for one
	peek    *peek         // nil if the reader never stops

	within bool // a segment has begun to arrive: used by the goroutine that reads
}

// begin notes that a call begins. If its goroutine is to read the answer, w.reads is set. Client.mu is locked.
func (r *reading) begin(w *waiter, alone bool) {
	if r.lone++; !alone {
		r.lone = 0
	}
	switch {
	case !r.stopped || r.call != nil:
	case alone:
		r.call, w.reads = w, true
	default:
		r.goOn()
	}
}

// goOn lets the reader go on. Client.mu is locked.
func (r *reading) goOn() {
	r.stopped, r.call = false, nil
	r.resume <- struct{}{} // has room: it comes once after each stop
}

// read reads, whenever no call does, until the connection ends.
func (c *Client) read() error {
	for {
		if err := c.readSegment(); err != nil {
			return err
		}
		if !c.stops() {
			continue
		}
		select {
		case <-c.reading.resume:
		case <-c.done:
			return ErrClosed
		}
	}
}

// stops reports whether the reader stops: the next call is likely to read its own answer.
func (c *Client) stops() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.reading
	r.stopped = r.peek != nil && r.lone >= r.least && len(c.waiting) == 0 && c.in.r.Buffered() == 0
	return r.stopped
}

// goOn lets the reader go on if nobody reads.
func (c *Client) goOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := &c.reading; r.stopped && r.call == nil {
		r.goOn()
	}
}

// catchUp reads what has arrived while nobody has read, before a call that reads its answer sends its request. An error says that the
// call has not happened.
func (c *Client) catchUp(ctx context.Context) error {
	for c.in.r.Buffered() > 0 || c.reading.peek.arrived() {
		switch err := c.readNext(); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return notSent(ctx.Err())
		case err != nil:
			c.end(err)
			return notSent(err)
		}
	}
	if c.draining.Load() {
		return c.stopping()
	}
	return nil
}

// stopping is the error of a call to a node that wants no more requests.
func (c *Client) stopping() error {
	return fmt.Errorf("%w: %s is stopping", ErrNotSent, c.remote.Address)
}

// readAnswer reads until the answer to a call has arrived, its context has ended, or the connection has.
func (c *Client) readAnswer(w *waiter) {
	for len(w.replies) == 0 {
		switch err := c.readNext(); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return
		case err != nil:
			c.end(err)
			return
		}
	}
}

// readNext reads a segment in the goroutine of a call. It fails with os.ErrDeadlineExceeded if that should not read any more.
func (c *Client) readNext() error {
	c.mu.Lock()
	kicked := c.reading.kicked
	c.mu.Unlock()
	if kicked {
		return os.ErrDeadlineExceeded
	}
	if _, err := c.in.r.Peek(1); err != nil {
		return err
	}
	c.reading.within = true
	defer func() { c.reading.within = false }()
	return c.readSegment()
}

// kick makes the goroutine of a call stop reading.
func (c *Client) kick(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading.call == w {
		c.reading.kicked = true
		_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // if it fails, the connection has ended
	}
}

// unkick lets reads of the connection wait again. Client.mu is locked.
func (c *Client) unkick() {
	if c.reading.kicked {
		_ = c.nc.SetReadDeadline(time.Time{})
	}
}

// left ends the reading by the goroutine of a call.
func (c *Client) left(w *waiter) {
	w.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unkick()
	c.reading.call, c.reading.kicked = nil, false
	if len(c.waiting) > 0 {
		c.reading.goOn()
	}
}

// patient reads from the connection of a client. The end of a call does not interrupt a segment.
type patient struct{ c *Client }

func (p patient) Read(b []byte) (int, error) {
	for {
		n, err := p.c.nc.Read(b)
		if !p.c.reading.within || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		p.c.mu.Lock()
		p.c.unkick()
		p.c.mu.Unlock()
		if n > 0 {
			return n, nil
		}
	}
}
