package wire

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A caller that has one request under way at a time waits for each goroutine that its request wakes. So the goroutine that reads a
// connection performs such a request itself, and then reads on. While it does, nobody reads the connection. If the request takes longer than the
// guard allows, another goroutine takes over the reading: pings are answered, the caller can give up, and requests that come later begin.
//
//	read ─► the request comes alone ─► perform it ─► read
//	                                      │ guardTime
//	                                      └─► taken over: another goroutine reads, this one ends
//
// Over TLS a goroutine has to be woken for each write (writer.send), and another one that reads saves nothing: requests were slower so.
//
// A request that comes while another is running, or that has waited for the one before, takes several of those that came alone out of the count. The
// count does not begin again: of three replicas the last one often answers when the next request has come, which is no reason to wake goroutines
// for the requests after that. It begins again when the reading was taken over.
const (
	// loneLeast is how many requests of a connection must have come alone before the next one is performed where it was read.
	loneLeast = 16
	// loneSpare is how many more are counted, at most.
	loneSpare = 16
	// besideCost is how many a request that has not come alone takes out of the count. One in five of them keeps the count from growing.
	besideCost = 4
	// longTime is how long a request takes after which the reader looks whether others have waited for it.
	longTime = 50 * time.Microsecond
	// guardTime is how often the guard looks. It finds that a request takes long at its second look.
	guardTime = 5 * time.Millisecond
)

// errTakenOver reports to a goroutine that it does not read its connection any more.
var errTakenOver = errors.New("wire: another goroutine reads the connection")

// came notes that a request has come, and that this many others are running.
func (c *serverConn) came(others int) {
	if c.alone = others == 0; !c.alone {
		c.notAlone()
		return
	}
	c.lone = min(c.lone+1, c.s.loneLeast+loneSpare)
}

// notAlone notes that a request has not come alone.
func (c *serverConn) notAlone() { c.lone = max(c.lone-besideCost, 0) }

// here reports whether the goroutine that reads may perform some work itself: a request that came alone, after which nothing has arrived, and which
// does not wait most of the time.
func (c *serverConn) here(w work) bool {
	j := w.first()
	return c.alone && c.lone > c.s.loneLeast && c.peek != nil && len(w.together) < 2 && j.credit == nil && !c.s.opt.Free[j.req.Verb] && c.segments.waits()
}

// performHere performs some work in the goroutine that reads. It fails with errTakenOver if another goroutine has taken over the reading.
func (c *serverConn) performHere(w work) error {
	n, began := c.s.guard.enter(c), time.Now()
	if next := c.s.perform(w); next.some() {
		c.s.do(next)
	}
	if !c.busy.leave(n) {
		return errTakenOver
	}
	if time.Since(began) > longTime && c.peek.arrived() {
		c.notAlone()
	}
	return nil
}

// takeOver reads on in another goroutine, because the one that has read performs a request that takes long.
func (c *serverConn) takeOver() {
	c.lone = 0
	go c.read()
}

// busy says whether the goroutine that reads a connection performs a request: its number is odd then.
type busy struct {
	n      atomic.Uint64
	listed atomic.Bool // the guard looks at it
	seen   uint64      // used by the guard
}

// leave ends a request. It reports false if the reading was taken over.
func (b *busy) leave(n uint64) bool { return b.n.CompareAndSwap(n, n+1) }

// guard takes over the reading of connections whose reading goroutine performs a request that takes long. It looks at those whose requests
// were performed in this way since its last look.
type guard struct {
	time time.Duration // between two looks

	mu    sync.Mutex
	conns []*serverConn
}

// enter begins a request of a connection. It returns the number for leave.
func (g *guard) enter(c *serverConn) (n uint64) {
	n = c.busy.n.Add(1)
	if c.busy.listed.Load() {
		return n
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.busy.listed.Swap(true) {
		return n
	}
	if g.conns = append(g.conns, c); len(g.conns) == 1 {
		time.AfterFunc(g.time, g.look)
	}
	return n
}

// look takes over the reading where it finds the same request as at its last look, and forgets connections that have performed none since.
func (g *guard) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns = slices.DeleteFunc(g.conns, func(c *serverConn) (idle bool) {
		b, n := &c.busy, c.busy.n.Load()
		if n != b.seen {
			b.seen = n
			return false
		}
		if n&1 == 1 {
			if b.seen++; b.n.CompareAndSwap(n, b.seen) {
				c.takeOver()
			}
			return false
		}
		b.listed.Store(false)
		if idle = b.n.Load() == n; !idle { // enter may have found it listed
			b.listed.Store(true)
		}
		return idle
	})
	if len(g.conns) > 0 {
		time.AfterFunc(g.time, g.look)
	}
}
