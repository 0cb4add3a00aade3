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
// Requests come alone if lone in a row were read while no other was running. If one was found to have waited for the one before, or if the
// reading was taken over, the count begins again.
const (
	// loneLeast is how many requests of a connection in a row must have come alone before the next one is performed where it was read.
	loneLeast = 16
	// soonTime is within which time a request is read that has arrived while another was performed. A caller takes longer to read an answer
	// and to send its next request.
	soonTime = 5 * time.Microsecond
	// guardTime is how often the guard looks. It finds that a request takes long at its second look.
	guardTime = 5 * time.Millisecond
)

// errTakenOver reports to a goroutine that it does not read its connection any more.
var errTakenOver = errors.New("wire: another goroutine reads the connection")

// lone says how requests have come. Only the goroutine that reads uses it.
type lone struct {
	row   int       // how many in a row have come alone
	ended time.Time // when a request that was performed here has ended; zero if the last one was not
}

// arrived notes that a segment has been read.
func (l *lone) arrived() {
	if !l.ended.IsZero() {
		if time.Since(l.ended) < soonTime {
			l.row = 0
		}
		l.ended = time.Time{}
	}
}

// came notes that a request has come, and that this many others are running.
func (l *lone) came(others int) {
	if l.row++; others > 0 {
		l.row = 0
	}
}

// here reports whether the goroutine that reads may perform some work itself: a request that came alone, and after which nothing has arrived.
func (c *serverConn) here(w work) bool {
	return c.lone.row > c.s.loneLeast && len(w.together) < 2 && w.first().credit == nil && c.segments.waits()
}

// performHere performs some work in the goroutine that reads. It fails with errTakenOver if another goroutine has taken over the reading.
func (c *serverConn) performHere(w work) error {
	c.s.here.Add(1)
	c.s.guard.enter(c)
	if next := c.s.perform(w); next.some() {
		c.s.do(next)
	}
	if !c.busy.leave() {
		return errTakenOver
	}
	c.lone.ended = time.Now()
	return nil
}

// takeOver reads on in another goroutine, because the one that has read performs a request that takes long.
func (c *serverConn) takeOver() {
	c.lone = lone{}
	go c.read()
}

// busy says whether the goroutine that reads a connection performs a request: its number is odd then.
type busy struct {
	n      atomic.Uint64
	listed atomic.Bool // the guard looks at it
	seen   uint64      // used by the guard
}

// leave ends a request. It reports false if the reading was taken over.
func (b *busy) leave() bool {
	n := b.n.Load()
	return n&1 == 1 && b.n.CompareAndSwap(n, n+1)
}

// guard takes over the reading of connections whose reading goroutine performs a request that takes long. It looks at those whose requests
// were performed in this way since its last look.
type guard struct {
	time time.Duration // between two looks

	mu    sync.Mutex
	conns []*serverConn
}

// enter begins a request of a connection.
func (g *guard) enter(c *serverConn) {
	c.busy.n.Add(1)
	if c.busy.listed.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.busy.listed.Swap(true) {
		return
	}
	if g.conns = append(g.conns, c); len(g.conns) == 1 {
		time.AfterFunc(g.time, g.look)
	}
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
