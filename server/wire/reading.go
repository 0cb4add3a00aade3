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
//	nobody ──► a call ──► its goroutine ──► its answer, and no call is left ──► nobody
//	nobody ──► the next look of watch ──► reader
//	its goroutine ──► its end, and other calls are left ──► reader
//
// A call by Stream or Send only reads what has arrived before it is sent. Client.mu guards the fields.
type reading struct {
	least   int           // loneLeast, or a test's
	lone    int           // how many calls in a row have come alone
	stopped bool          // the reader has stopped
	call    *waiter       // the call whose goroutine reads
	kicked  bool          // that goroutine should stop: the deadline for reads has passed
	resume  chan struct{} // lets the reader go on; has room for one
	peek    *peek         // nil if the reader never stops, as over TLS: see here.go
}

// begin notes that a call begins. If its goroutine reads from now on, w.reads is set. Client.mu is locked.
func (r *reading) begin(w *waiter, alone bool) {
	if r.lone++; !alone {
		r.lone = 0
	}
	if w.reads = r.stopped && r.call == nil; w.reads {
		r.call = w
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

// catchUp reads what has arrived while nobody has read, before a call is sent. An error says that the call has not happened.
func (c *Client) catchUp(ctx context.Context, w *waiter) error {
	if ctx.Done() != nil {
		w.unwatch = context.AfterFunc(ctx, func() { c.kick(w) })
	}
	for c.Waiting() < 2 && (c.in.r.Buffered() > 0 || c.reading.peek.arrived()) {
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

// readNext reads a segment in the goroutine of a call. It fails with os.ErrDeadlineExceeded if that should not read any more. What has arrived of
// a segment stays in the buffer, which has room for a whole one.
func (c *Client) readNext() error {
	b, err := c.in.r.Peek(headBytes)
	if err != nil {
		return err
	}
	if h, err := decodeHead(b); err == nil { // otherwise readSegment fails, too
		if _, err := c.in.r.Peek(headBytes + h.length + sumBytes); err != nil {
			return noEOF(err)
		}
	}
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

// left ends the reading by the goroutine of a call.
func (c *Client) left(w *waiter) {
	if w.unwatch != nil {
		w.unwatch()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading.kicked {
		_ = c.nc.SetReadDeadline(time.Time{}) // reads may wait again
	}
	c.reading.call, c.reading.kicked = nil, false
	if len(c.waiting) > 0 {
		c.reading.goOn()
	}
}
