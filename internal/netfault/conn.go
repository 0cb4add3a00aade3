package netfault

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one connection through a link. Two goroutines serve each direction: one reads into a queue, one writes what is due.
type conn struct {
	link    *Link
	sides   [2]*net.TCPConn // by the direction that is read from it: the dialer, the dialed
	done    chan struct{}   // closed by end
	once    sync.Once
	ended   atomic.Bool    // set by finish: no more bytes pass
	lossy   [2]atomic.Bool // something was swallowed
	life    atomic.Int64   // bytes until a fragile connection is reset
	fragile bool
	random  [2]*rand.Rand // each used by the reader of its direction

	mu sync.Mutex // guards the second of sides until attach
}

const (
	chunkBytes = 32 << 10
	queueMax   = 128 // chunks, 4 MiB
	// finishTime is how long the sides may take to close after a FIN.
	finishTime = 5 * time.Second
)

// chunk is the result of one read. n is 0 at the end of the stream; broken says that the end is an error.
type chunk struct {
	bytes  *[chunkBytes]byte
	n      int
	at     time.Time
	jitter float64 // the part of the rule's jitter that applies
	broken bool
}

var buffers = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

func newConn(l *Link, dialer *net.TCPConn) *conn {
	return &conn{link: l, sides: [2]*net.TCPConn{dialer, nil}, done: make(chan struct{})}
}

// attach gives the connection its other side. If the connection was reset in the meantime, attach closes that side and reports
// false.
func (c *conn) attach(dialed *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.done:
		dialed.Close()
		return false
	default:
	}
	c.sides[Back] = dialed
	if c.ended.Load() {
		c.finishLocked()
	}
	return true
}

// run forwards both directions until both have ended.
func (c *conn) run() {
	var wg sync.WaitGroup
	for _, dir := range []Direction{Forth, Back} {
		queue := make(chan chunk, queueMax)
		wg.Go(func() { c.read(dir, queue) })
		wg.Go(func() { c.write(dir, queue) })
	}
	wg.Wait()
}

// read fills the queue of a direction until its side has ended.
func (c *conn) read(dir Direction, queue chan<- chunk) {
	for {
		b := buffers.Get().(*[chunkBytes]byte)
		n, err := c.sides[dir].Read(b[:])
		k := chunk{bytes: b, n: n, at: time.Now(), jitter: c.random[dir].Float64()}
		if n > 0 && !c.put(queue, k) {
			return
		}
		if err != nil {
			c.put(queue, chunk{at: time.Now(), broken: !errors.Is(err, io.EOF)})
			return
		}
	}
}

func (c *conn) put(queue chan<- chunk, k chunk) bool {
	select {
	case queue <- k:
		return true
	case <-c.done:
		return false
	}
}

// write empties the queue of a direction: it writes each chunk when it is due, if it may pass.
func (c *conn) write(dir Direction, queue <-chan chunk) {
	p := pacer{conn: c, dir: dir}
	for {
		select {
		case k := <-queue:
			if !p.chunk(k) {
				return
			}
			if k.bytes != nil {
				buffers.Put(k.bytes)
			}
		case <-c.done:
			return
		}
	}
}

// resetWhen resets the connection when the direction can carry a reset.
func (c *conn) resetWhen(dir Direction) {
	if c.passable(dir) {
		c.end(true)
	}
}

// passable waits until a direction is neither held nor swallowed; false says that the connection has ended before.
func (c *conn) passable(dir Direction) bool {
	for {
		r, changed := c.link.rule(dir)
		if !r.blocked() {
			return true
		}
		select {
		case <-changed:
		case <-c.done:
			return false
		case <-c.link.done:
			return false
		}
	}
}

// pacer decides when bytes of a direction pass.
type pacer struct {
	conn *conn
	dir  Direction
	next time.Time // when the rate permits the next byte
	gone bool      // the side that is written to accepts nothing any more
}

// chunk forwards a chunk, or drops it. It reports whether the direction goes on.
func (p *pacer) chunk(k chunk) bool {
	c, rest := p.conn, k.n
	for {
		passes, ok := p.wait(k.at, k.jitter)
		switch {
		case !ok:
			return false
		case c.ended.Load():
			return k.n > 0
		case !passes:
			return p.swallow(k)
		case k.broken:
			c.end(true)
			return false
		case k.n == 0:
			_ = c.sides[p.dir.other()].CloseWrite() // if it has gone, the other direction reports it
			return false
		case p.gone:
			return true
		}
		n, ok := p.piece(k.bytes[k.n-rest : k.n])
		if !ok {
			return false
		}
		if rest -= n; rest == 0 {
			return true
		}
	}
}

// swallow drops a chunk. The end of a direction is dropped, too: the connection is reset when the fault ends.
func (p *pacer) swallow(k chunk) bool {
	c := p.conn
	c.lossy[p.dir].Store(true)
	if r, _ := c.link.rule(p.dir); !r.swallowed { // the fault ended before the connection was marked as lossy
		c.end(true)
		return false
	}
	if k.n == 0 {
		<-c.done
		return false
	}
	return true
}

// wait returns when data that was read at the given time is due, and whether it passes; ok is false if the connection has ended.
func (p *pacer) wait(at time.Time, jitter float64) (passes, ok bool) {
	for {
		r, changed := p.conn.link.rule(p.dir)
		if r.swallowed {
			return false, true
		}
		var timer <-chan time.Time
		if !r.held {
			d := time.Until(at.Add(r.delay + time.Duration(jitter*float64(r.jitter))))
			if r.rate > 0 {
				d = max(d, time.Until(p.next))
			}
			if d <= 0 {
				return true, true
			}
			timer = time.After(d)
		}
		select {
		case <-timer:
		case <-changed:
		case <-p.conn.done:
			return false, false
		}
	}
}

// piece writes as many bytes as the rate permits at once, and returns their number. ok is false if the connection has ended.
func (p *pacer) piece(b []byte) (n int, ok bool) {
	c := p.conn
	r, _ := c.link.rule(p.dir)
	n = len(b)
	if r.rate > 0 {
		n = min(n, max(1, int(r.rate/50)))
		if now := time.Now(); p.next.Before(now) {
			p.next = now
		}
		p.next = p.next.Add(time.Duration(float64(n) / float64(r.rate) * float64(time.Second)))
	}
	dies := false
	if c.fragile {
		if left := c.life.Add(-int64(n)); left <= 0 {
			n, dies = max(0, n+int(left)), true
		}
	}
	if _, err := c.sides[p.dir.other()].Write(b[:n]); err != nil {
		p.gone = true
		c.link.running.Go(func() { c.resetWhen(p.dir.other()) })
		return len(b), true
	}
	if dies {
		c.end(true)
		return n, false
	}
	return n, true
}

// end closes both sides: by a reset, so that both get an error, or cleanly, when both directions have ended.
func (c *conn) end(reset bool) {
	c.once.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(c.done)
		for _, s := range c.sides {
			if s == nil {
				continue
			}
			if reset {
				_ = s.SetLinger(0)
			}
			s.Close()
		}
	})
}

// finish ends the connection cleanly: both sides read an end. Bytes in transit are lost.
func (c *conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended.Store(true)
	c.finishLocked()
}

func (c *conn) finishLocked() {
	for _, s := range c.sides {
		if s != nil {
			_ = s.CloseWrite() // a side that has gone needs no end
			_ = s.SetReadDeadline(time.Now().Add(finishTime))
		}
	}
}
