package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// ClientOptions configure one connection to a server.
type ClientOptions struct {
	Options
	Role    Role   // the role of this side; default RoleClient
	Name    string // a node's ID, or a client's name; at most 255 bytes
	Purpose Purpose
	Hello   []byte // what this side reports about itself, at most 8 KiB
	// Check checks what the server reports about itself; an error ends the connection. Nil accepts everything.
	Check func(server *Remote) error
	// RequestsMax and BytesMax bound the requests in progress. Above that, calls fail with ErrBusy at once. The defaults are 4,096 and 128
	// MiB.
	RequestsMax int
	BytesMax    int
	// Credit is how many parts of a stream may be in flight; default 2.
	Credit int
	// Unwatched lets the connection go unread while no call is in progress and calls have come alone: the goroutine of such a call reads its
	// own answer, which is sooner. Then the end of the connection is noticed by the next call, before it is sent, or after a PingInterval. A call
	// that begins beside that one may be lost.
	Unwatched bool
}

func (o ClientOptions) withDefaults() ClientOptions {
	o.Options = o.Options.withDefaults()
	if o.Role == 0 {
		o.Role = RoleClient
	}
	if o.Purpose == 0 {
		o.Purpose = ForRequests
	}
	if o.RequestsMax == 0 {
		o.RequestsMax = 4096
	}
	if o.BytesMax == 0 {
		o.BytesMax = 128 << 20
	}
	if o.Credit == 0 {
		o.Credit = 2
	}
	return o
}

// Client is one connection to a server. It implements Caller.
type Client struct {
	opt     ClientOptions
	nc      net.Conn
	out     *queue
	w       *writer
	remote  Remote
	address uint64

	done     chan struct{} // closed when the connection has ended
	heard    atomic.Int64  // when something last arrived, in nanoseconds since start
	start    time.Time
	draining atomic.Bool

	in segments // used by the goroutine that reads

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]*waiter
	err     error // why the connection has ended
	reading reading
}

var (
	_ Caller = (*Client)(nil)
	_ Sender = (*Client)(nil)
)

// waiter is a call in progress.
type waiter struct {
	id      uint64
	request *message
	replies chan reply          // has room for all replies that may come; nil for a call by Send
	done    func([]byte, error) // for a call by Send: called by the goroutine that removes the call from waiting
	stop    func() bool         // stops watching its context
	coming  *assembly           // used by the goroutine that reads
	spare   chan []byte         // memory of parts no longer in use, for later parts; nil for a call that is not a stream
	reads   bool                // the goroutine of the call reads the connection
	unwatch func() bool         // stops what ends its reading with its context; may be nil
}

type reply struct {
	body []byte
	last bool
	err  error
}

// NewClient introduces this side on a connection. The connection is closed with the client, and also if NewClient fails. The context bounds
// the introduction. Errors wrap ErrNotSent.
func NewClient(ctx context.Context, nc net.Conn, o ClientOptions) (*Client, error) {
	o = o.withDefaults()
	if err := nc.SetDeadline(deadlineOf(o.HelloTime)); err != nil {
		return nil, errors.Join(notSent(err), nc.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) }) // the last deadline counts
	defer stop()
	c := &Client{opt: o, nc: nc, out: newQueue(o.BytesMax), done: make(chan struct{}), start: time.Now(), waiting: map[uint64]*waiter{}}
	r := bufio.NewReaderSize(nc, headBytes+SegmentBytesMax+sumBytes)
	c.in.r = r
	c.reading = reading{least: loneLeast, resume: make(chan struct{}, 1)}
	if o.Unwatched {
		c.reading.peek = newPeek(nc)
	}
	their, version, err := o.greet(nc, r, hello{role: o.Role, purpose: o.Purpose, name: o.Name, body: o.Hello})
	if err == nil {
		c.remote = Remote{Role: their.role, Name: their.name, Address: nc.RemoteAddr().String(), Purpose: o.Purpose, Version: version, Hello: their.body}
		c.address = their.address
		if o.Check != nil {
			err = o.Check(&c.remote)
		}
	}
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = nc.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(ctx.Err(), context.Canceled) {
			err = fmt.Errorf("no hello within %v: it hangs, or speaks another protocol: %w", time.Since(c.start).Round(time.Millisecond), err)
		}
		return nil, notSent(err)
	}
	c.w = newWriter(nc, c.out, o.WriteTime)
	go func() {
		if err := c.w.run(c.done); err != nil {
			c.end(err)
		}
	}()
	go func() { c.end(c.read()) }()
	go c.watch()
	return c, nil
}

// notSent turns an error into one that says that nothing has happened.
func notSent(err error) error {
	if err == nil || errors.Is(err, ErrNotSent) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotSent, err)
}

// Remote returns the other end, as it identified itself.
func (c *Client) Remote() *Remote { return &c.remote }

// Done is closed when the connection has ended; Err says why.
func (c *Client) Done() <-chan struct{} { return c.done }

// Draining reports whether the other side wants no more requests.
func (c *Client) Draining() bool { return c.draining.Load() }

// Err returns why the connection has ended, or nil.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Waiting returns how many calls are in progress.
func (c *Client) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

// Close ends the connection and the calls in progress.
func (c *Client) Close() error {
	c.end(ErrClosed)
	return nil
}

// end ends the connection. Calls that have written nothing have not happened; the outcome of the others is unknown.
func (c *Client) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	var sent []*waiter
	for _, w := range c.waiting {
		if w.done != nil {
			sent = append(sent, w)
		}
	}
	clear(c.waiting)
	c.mu.Unlock()
	close(c.done) // wakes all that wait
	defer func() {
		for _, w := range sent {
			c.settle(w, nil, outcome(c.out.drop(w.request), err))
		}
	}()
	_ = c.nc.Close()
	c.out.close()
}

// outcome returns the error of a request whose answer will not come.
func outcome(begun bool, cause error) error {
	if !begun {
		return notSent(cause)
	}
	if errors.Is(cause, ErrNotSent) { // ErrNotSent is about the connection; the outcome of this request is unknown
		return fmt.Errorf("%w: %v", ErrLost, cause)
	}
	return fmt.Errorf("%w: %w", ErrLost, cause)
}

// Do implements Caller.
func (c *Client) Do(ctx context.Context, call Call) ([]byte, error) {
	w, err := c.begin(ctx, &call, 0, nil)
	if err != nil {
		return nil, err
	}
	if w.reads {
		c.readAnswer(w)
		c.left(w)
	}
	r := c.wait(ctx, w)
	return r.body, r.err
}

// Send implements Sender. It never reports false.
func (c *Client) Send(ctx context.Context, call Call, done func([]byte, error)) bool {
	w, err := c.begin(ctx, &call, 0, done)
	if err != nil {
		done(nil, err)
		return true
	}
	stop := context.AfterFunc(ctx, func() {
		if c.takes(w) {
			c.settle(w, nil, outcome(c.dropped(w), ctx.Err()))
		}
	})
	c.mu.Lock()
	w.stop = stop
	waits := c.waiting[w.id] == w
	c.mu.Unlock()
	if !waits { // it has ended in between
		stop()
	}
	return true
}

// takes removes a call from those in progress, and reports whether it was among them.
func (c *Client) takes(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	waits := c.waiting[w.id] == w
	delete(c.waiting, w.id)
	return waits
}

// settle ends a call by Send. The goroutine that has removed the call from those in progress calls it.
func (c *Client) settle(w *waiter, body []byte, err error) {
	c.mu.Lock()
	stop := w.stop
	c.mu.Unlock()
	if stop != nil { // otherwise Send calls it
		stop()
	}
	w.done(body, err)
}

// wait returns the next reply to a call.
func (c *Client) wait(ctx context.Context, w *waiter) reply {
	var cause error
	select {
	case r := <-w.replies:
		return r
	case <-ctx.Done():
		cause = ctx.Err()
	case <-c.done:
		cause = c.Err()
	}
	begun := c.forget(w)
	select {
	case r := <-w.replies: // it has just arrived
		return r
	default:
	}
	return reply{err: outcome(begun, cause)}
}

// Stream implements Caller.
func (c *Client) Stream(ctx context.Context, call Call) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		w, err := c.begin(ctx, &call, c.opt.Credit, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		ended := false
		defer func() {
			if !ended { // also if yield panics
				c.forget(w)
			}
		}()
		for {
			r := c.wait(ctx, w)
			ended = r.err != nil || r.last
			if !yield(r.body, r.err) || ended {
				return
			}
			select {
			case w.spare <- r.body:
			default:
			}
			var one [1]byte
			binary.PutUvarint(one[:], 1)
			c.out.push(&message{kind: kindCredit, priority: PriorityQuorum, id: w.id, body: one[:]}, true)
		}
	}
}

// begin sends a request. credit is how many parts may come unrequested. done is called with the answer; nil means that the caller waits.
func (c *Client) begin(ctx context.Context, call *Call, credit int, done func([]byte, error)) (*waiter, error) {
	if err := ctx.Err(); err != nil {
		return nil, notSent(err)
	}
	encoded, err := call.Encoded(c.remote.Version)
	if err != nil {
		return nil, err
	}
	call = &encoded
	if len(call.Body) > BodyBytesMax {
		return nil, fmt.Errorf("%w: a body of %d bytes, at most %d", ErrRefused, len(call.Body), BodyBytesMax)
	}
	e := envelope{address: c.address, epoch: call.Epoch, length: uint32(len(call.Body)), verb: call.Verb, priority: call.Priority, credit: uint16(credit)}
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		if left <= 0 {
			return nil, notSent(context.DeadlineExceeded)
		}
		e.deadline = uint32(min(left.Milliseconds()+1, 1<<31))
	}
	m := &message{kind: kindRequest, priority: call.Priority, body: call.Body, prefixed: envelopeBytes}
	e.append(m.prefix[:0])
	w := &waiter{request: m, done: done}
	if credit > 0 {
		w.spare = make(chan []byte, credit+1)
	}
	if done == nil {
		w.replies = make(chan reply, credit+2)
	}
	c.mu.Lock()
	switch {
	case c.err != nil:
		err := c.err
		c.mu.Unlock()
		return nil, notSent(err)
	case c.draining.Load():
		c.mu.Unlock()
		return nil, c.stopping()
	case len(c.waiting) >= c.opt.RequestsMax:
		c.mu.Unlock()
		return nil, fmt.Errorf("%w: %d requests are under way to it", ErrBusy, c.opt.RequestsMax)
	}
	c.last++
	w.id, m.id = c.last, c.last
	c.waiting[w.id] = w
	alone, few := len(c.waiting) == 1, len(c.waiting) <= fewMost
	do := done == nil && credit == 0
	c.reading.begin(w, alone && do)
	c.mu.Unlock()
	add := c.out.push
	if few { // with many calls, the next is likely to come before the writer's turn
		add = c.w.send
	}
	if w.reads {
		if err := c.catchUp(ctx, w); err != nil {
			settled := !c.takes(w) && done != nil
			if c.left(w); settled {
				return w, nil
			}
			return nil, err
		}
	}
	ok, closed := add(m, false)
	unsettled := ok || c.takes(w) || done == nil
	if w.reads && !(ok && do) {
		c.left(w)
	}
	if !unsettled { // the end of the connection has settled it
		return w, nil
	}
	if !ok {
		if err := c.Err(); closed {
			return nil, notSent(cmpErr(err, ErrClosed))
		}
		return nil, fmt.Errorf("%w: %d bytes are on the way to it", ErrBusy, c.opt.BytesMax)
	}
	return w, nil
}

// cmpErr returns the first error that is not nil.
func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// forget ends a call for which no goroutine waits any more, and reports whether any of it was written.
func (c *Client) forget(w *waiter) (begun bool) {
	c.takes(w)
	return c.dropped(w)
}

// dropped takes back the request of a call that was removed from those in progress, and reports whether any of it was written.
func (c *Client) dropped(w *waiter) (begun bool) {
	begun = c.out.drop(w.request)
	if begun {
		c.out.push(&message{kind: kindCancel, priority: PriorityQuorum, id: w.id}, true)
	}
	return begun
}

// watch closes a connection whose other side is silent.
func (c *Client) watch() {
	t := time.NewTicker(c.opt.PingInterval)
	defer t.Stop()
	var asked time.Duration // since start: when the last unanswered ping was sent
	for {
		select {
		case <-c.done:
			return
		case <-t.C:
		}
		c.goOn()
		now, heard := time.Since(c.start), time.Duration(c.heard.Load())
		if asked != 0 && heard >= asked {
			asked = 0
		}
		switch {
		case asked != 0:
			if now-asked >= c.opt.SilenceMax {
				c.end(fmt.Errorf("wire: %s has said nothing for %v", c.remote.Address, (now - heard).Round(time.Millisecond)))
				return
			}
		case now-heard >= 15*c.opt.PingInterval, now-heard >= c.opt.PingInterval && c.Waiting() > 0:
			asked = now
			c.out.push(&message{kind: kindPing, priority: PriorityQuorum}, true)
		}
	}
}

// readSegment handles a segment that the other side sends.
func (c *Client) readSegment() error {
	s := &c.in
	h, err := s.next()
	if err != nil {
		return err
	}
	c.heard.Store(int64(time.Since(c.start)))
	switch h.kind {
	case kindAnswer, kindPart, kindError:
		return c.body(s, h)
	case kindRefusal:
		return c.refused(s, h)
	case kindDrain:
		c.draining.Store(true)
		return s.rest(h)
	case kindPing:
		c.out.push(&message{kind: kindPong, priority: PriorityQuorum}, true)
		return s.rest(h)
	case kindPong:
		return s.rest(h)
	}
	return fmt.Errorf("%w: a segment of kind %d from a server", ErrFrame, h.kind)
}

// rest skips a payload.
func (s *segments) rest(h head) error {
	if err := s.skip(h.length); err != nil {
		return err
	}
	return s.end()
}

// body handles a segment of an answer, a part or an error.
func (c *Client) body(s *segments, h head) error {
	c.mu.Lock()
	w := c.waiting[h.id]
	c.mu.Unlock()
	if w == nil { // no goroutine waits for it any more
		return s.rest(h)
	}
	n := h.length
	if h.flags&flagFirst != 0 {
		if w.coming != nil || n < lengthBytes {
			return fmt.Errorf("%w: an answer within another", ErrFrame)
		}
		b, err := s.small(lengthBytes)
		if err != nil {
			return err
		}
		length := binary.LittleEndian.Uint32(b)
		if length > BodyBytesMax {
			return fmt.Errorf("%w: a body of %d bytes, at most %d", ErrFrame, length, BodyBytesMax)
		}
		w.coming = &assembly{kind: h.kind, left: int(length)}
		select {
		case b := <-w.spare:
			w.coming.body = b[:0]
		default:
		}
		n -= lengthBytes
	}
	a := w.coming
	if a == nil || a.kind != h.kind {
		return fmt.Errorf("%w: a segment of an answer that has not begun", ErrFrame)
	}
	last := h.flags&flagLast != 0
	if err := a.add(s, n, last); err != nil {
		return err
	}
	if err := s.end(); err != nil || !last {
		return err
	}
	w.coming = nil
	switch h.kind {
	case kindAnswer:
		return c.deliver(w, reply{body: a.body, last: true})
	case kindPart:
		return c.deliver(w, reply{body: a.body})
	}
	return c.deliver(w, reply{last: true, err: c.opt.Errors.Decode(a.body)})
}

// refused handles a refusal.
func (c *Client) refused(s *segments, h head) error {
	b, err := s.small(h.length)
	if err != nil {
		return err
	}
	err = c.opt.decodeRefusal(b)
	if endErr := s.end(); endErr != nil {
		return endErr
	}
	if h.id == 0 {
		return err
	}
	c.mu.Lock()
	w := c.waiting[h.id]
	c.mu.Unlock()
	if w == nil {
		return nil
	}
	return c.deliver(w, reply{last: true, err: err})
}

// deliver passes a reply to a call. It fails if a server sends more than was requested, for which the call has no room.
func (c *Client) deliver(w *waiter, r reply) error {
	if r.last && c.takes(w) && w.done != nil {
		c.settle(w, r.body, r.err)
	}
	if w.done != nil && r.last {
		return nil
	}
	select {
	case w.replies <- r:
		return nil
	default:
		return fmt.Errorf("%w: more parts than were asked for", ErrFrame)
	}
}
