package wire

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// LinkOptions configure the way to one other process.
type LinkOptions struct {
	// Dial opens a connection. It resolves the address each time. It has no default.
	Dial func(ctx context.Context) (net.Conn, error)
	// Client returns the options for one connection; the link sets Purpose. It is called for each connection.
	Client func() ClientOptions
	// Requests is how many connections requests share; default 2. Copies have one connection of their own, which is opened when it is
	// needed.
	Requests int
	// DialTime bounds opening and introducing a connection; default 2 s.
	DialTime time.Duration
	// PauseLeast and PauseMost bound the pause between two tries to open a connection: it doubles, and varies at random by up to a quarter.
	// The defaults are 50 ms and 2 s.
	PauseLeast, PauseMost time.Duration
	// Events is called with the changes of connections; it must not block. Nil means no calls.
	Events func(LinkEvent)
}

// LinkEvent is a change of one connection of a link.
type LinkEvent struct {
	Up     bool
	Remote *Remote // for an open connection
	Err    error   // why a connection is closed, or could not be opened
}

func (o LinkOptions) withDefaults() LinkOptions {
	if o.Client == nil {
		o.Client = func() ClientOptions { return ClientOptions{} }
	}
	if o.Requests == 0 {
		o.Requests = 2
	}
	if o.DialTime == 0 {
		o.DialTime = 2 * time.Second
	}
	if o.PauseLeast == 0 {
		o.PauseLeast = 50 * time.Millisecond
	}
	if o.PauseMost == 0 {
		o.PauseMost = 2 * time.Second
	}
	if o.Events == nil {
		o.Events = func(LinkEvent) {}
	}
	return o
}

// Link keeps connections to one other process open, and reopens them, from its first call on. It implements Caller. If it has no connection
// and the last try to open one has failed, calls fail at once with ErrNotSent. Its methods may be called by any number of goroutines.
type Link struct {
	opt    LinkOptions
	lines  []*line // the last one is for copies
	turn   atomic.Uint32
	life   context.Context
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

var (
	_ Caller = (*Link)(nil)
	_ Sender = (*Link)(nil)
)

// NewLink returns a link. It dials at the first call.
func NewLink(o LinkOptions) *Link {
	o = o.withDefaults()
	l := &Link{opt: o}
	l.life, l.cancel = context.WithCancel(context.Background())
	for i := range o.Requests + 1 {
		n := &line{l: l, purpose: ForRequests, tried: make(chan struct{}), wake: make(chan struct{}, 1)}
		if i == o.Requests {
			n.purpose = ForCopies
		}
		l.lines = append(l.lines, n)
	}
	return l
}

// line is one connection of a link, with its successors.
type line struct {
	l       *Link
	purpose Purpose
	once    sync.Once
	client  atomic.Pointer[Client] // nil while there is none
	wake    chan struct{}          // ends a pause

	mu    sync.Mutex
	tried chan struct{} // closed when the first try has ended
	first bool          // the first try has ended
	err   error         // why there is no connection
}

// Close closes all connections and ends the background work.
func (l *Link) Close() error {
	l.cancel()
	for _, n := range l.lines {
		n.once.Do(func() { close(n.tried) })
	}
	l.ended.Wait()
	return nil
}

// Do implements Caller.
func (l *Link) Do(ctx context.Context, call Call) ([]byte, error) {
	c, err := l.pick(ctx, call.Priority)
	if err != nil {
		return nil, err
	}
	return c.Do(ctx, call)
}

// Send implements Sender. It reports false if no connection has room. All requests use the same connection as long as it is open and at
// most half full: requests sent at the same time go in one write, and so do the answers.
func (l *Link) Send(ctx context.Context, call Call, done func([]byte, error)) bool {
	for _, n := range l.lines[:len(l.lines)-1] {
		n.start()
		if c := n.client.Load(); c != nil && !c.Draining() && c.Waiting() < c.opt.RequestsMax/2 {
			return c.Send(ctx, call, done)
		}
	}
	return false
}

// Stream implements Caller.
func (l *Link) Stream(ctx context.Context, call Call) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		c, err := l.pick(ctx, call.Priority)
		if err != nil {
			yield(nil, err)
			return
		}
		c.Stream(ctx, call)(yield)
	}
}

// pick returns an open connection, if any.
func (l *Link) pick(ctx context.Context, p Priority) (*Client, error) {
	requests := l.lines[:len(l.lines)-1]
	if p == PriorityCopy {
		return l.lines[len(requests)].get(ctx)
	}
	at := int(l.turn.Add(1))
	for i := range requests {
		n := requests[(at+i)%len(requests)]
		n.start()
		if c := n.client.Load(); c != nil && !c.Draining() {
			return c, nil
		}
	}
	return requests[at%len(requests)].get(ctx)
}

// Up reports whether requests have a connection.
func (l *Link) Up() bool {
	for _, n := range l.lines[:len(l.lines)-1] {
		if c := n.client.Load(); c != nil && !c.Draining() {
			return true
		}
	}
	return false
}

// Remote returns what the other side has reported about itself. Without a connection it returns nil and the reason.
func (l *Link) Remote() (*Remote, error) {
	for _, n := range l.lines[:len(l.lines)-1] {
		if c := n.client.Load(); c != nil {
			return c.Remote(), nil
		}
	}
	n := l.lines[0]
	n.mu.Lock()
	defer n.mu.Unlock()
	return nil, n.err
}

// Start opens the connections of requests without waiting for a call.
func (l *Link) Start() {
	for _, n := range l.lines[:len(l.lines)-1] {
		n.start()
	}
}

// Wake makes the link try to open its connections at once: the other side is probably back.
func (l *Link) Wake() {
	if l.Up() {
		return
	}
	for _, n := range l.lines {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// Redial closes the connections and reopens them. Calls in progress are lost.
func (l *Link) Redial() {
	for _, n := range l.lines {
		if c := n.client.Load(); c != nil {
			_ = c.Close()
		}
	}
}

func (n *line) start() {
	n.once.Do(func() {
		n.l.ended.Add(1)
		go n.run()
	})
}

// get returns the connection. It waits for the first try only.
func (n *line) get(ctx context.Context) (*Client, error) {
	n.start()
	if c := n.client.Load(); c != nil {
		return c, nil
	}
	select {
	case <-n.tried:
	case <-ctx.Done():
		return nil, notSent(ctx.Err())
	}
	if c := n.client.Load(); c != nil {
		return c, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.l.life.Err() != nil {
		return nil, ErrClosed
	}
	return nil, notSent(cmpErr(n.err, ErrClosed))
}

// run keeps one connection open.
func (n *line) run() {
	defer n.l.ended.Done()
	pause := n.l.opt.PauseLeast
	for n.l.life.Err() == nil {
		c, err := n.dial()
		if err == nil {
			pause = n.l.opt.PauseLeast
			n.client.Store(c)
			n.attempted(nil)
			n.l.opt.Events(LinkEvent{Up: true, Remote: c.Remote()})
			select {
			case <-c.Done():
			case <-n.l.life.Done():
				_ = c.Close()
			}
			err = c.Err()
			n.client.Store(nil)
		}
		n.attempted(err)
		if n.l.life.Err() != nil {
			return
		}
		n.l.opt.Events(LinkEvent{Err: err})
		select {
		case <-time.After(pause*3/4 + rand.N(pause/2+1)):
			pause = min(2*pause, n.l.opt.PauseMost)
		case <-n.wake:
			pause = n.l.opt.PauseLeast
		case <-n.l.life.Done():
		}
	}
}

// attempted records why there is no connection.
func (n *line) attempted(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
	if !n.first {
		n.first = true
		close(n.tried)
	}
}

func (n *line) dial() (*Client, error) {
	ctx, cancel := context.WithTimeout(n.l.life, n.l.opt.DialTime)
	defer cancel()
	nc, err := n.l.opt.Dial(ctx)
	if err != nil {
		return nil, notSent(fmt.Errorf("wire: dial: %w", err))
	}
	o := n.l.opt.Client()
	o.Purpose = n.purpose
	c, err := NewClient(ctx, nc, o)
	if err != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)) {
		err = fmt.Errorf("%w: no hello within %v: it hangs, or speaks another protocol", ErrNotSent, n.l.opt.DialTime)
	}
	return c, err
}
