package bloomd

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// bufferBytes is what a buffer of a connection begins with, and bufferBytesKept the most that it keeps when it is empty.
	bufferBytes     = 4 << 10
	bufferBytesKept = 64 << 10
	// lingerTime is how long the server reads what a client still sends behind a line that is too long, and drainLingerTime what it sends
	// after the server has shut down: to close with unread bytes would take answers away from it.
	lingerTime      = time.Second
	drainLingerTime = 100 * time.Millisecond
	// linePace is the bytes of a long line that have a second more to come.
	linePace = 256 << 10
)

// conn is a connection. One goroutine serves it; only drain is called by others.
//
// in has what was read: in[begin:end] is not executed yet, and in[begin:seen] has no line feed.
type conn struct {
	s                *Server
	nc               stream
	seat             seat // in a loop; nil where there is none
	in, out          []byte
	begin, seen, end int
	reserved         int64 // of the server's bytes for lines
	group            group
	many             many
	tally            tally
	turnKeys         int  // of those that were executed in a loop, in this turn
	ended            bool // no more answers can be sent, or are to be

	readUntil, writeUntil time.Time  // nc's deadlines, while it is not drained
	idleUntil             time.Time  // where there is an idle time
	lineBegun             time.Time  // since when the server waits for the rest of a long line; zero where it does not
	lastRead              bool       // nc's deadline is the end of what is read before a shutdown
	mu                    sync.Mutex // guards the change of draining, of nc and of seat, and nc's deadline for reading
	draining              atomic.Bool
}

// stream is what a connection needs of its socket. A net.Conn is one.
type stream interface {
	io.ReadWriteCloser
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// seat is a connection's place in a loop, which executes the requests of many. Only cut may be called by any goroutine.
type seat interface {
	// park has the loop wait for the next request, and serve the connection then. It reports false where it must not or can't.
	park() bool
	// holds reports whether the loop does nothing else until the caller returns.
	holds() bool
	// leave ends the connection's turn in the loop, if it is in one: the caller's goroutine is its own then.
	leave()
	// settle leaves the loop for good, and returns a socket that is fit for a goroutine of its own; nil where that can't be had.
	settle() net.Conn
	// cut ends what the connection is at, and all that will be.
	cut()
}

func newConn(s *Server, nc net.Conn) *conn {
	return &conn{s: s, nc: nc, in: make([]byte, min(bufferBytes, s.opt.LineBytesMax)), out: make([]byte, 0, bufferBytes)}
}

// serve reads, executes and answers until the client or the server ends it, or it waits for the next request in a loop. Then it
// reports true.
func (c *conn) serve(ctx context.Context) (parked bool) {
	for c.turn(ctx) {
		c.awaitMore()
		if c.park() {
			return true
		}
	}
	return false
}

// park has the connection wait for its next request in a loop, where it has one.
func (c *conn) park() bool { return c.seat != nil && c.seat.park() }

// turn reads once, executes and answers, and reports false at the end. All complete lines that were read are executed and answered; a
// line without an end is not.
func (c *conn) turn(ctx context.Context) (more bool) {
	c.turnKeys = 0
	if len(c.in) > bufferBytesKept {
		c.mayWait() // for itself: such a line has many keys
	}
	if c.draining.Load() && !c.lastRead {
		c.nc.SetReadDeadline(time.Now().Add(drainTime)) // its goroutine may have begun late: what has come is read
	}
	n, err := c.nc.Read(c.in[c.end:])
	c.end += n
	c.tally.others[tallyRead] += uint64(n)
	c.executeAll(ctx)
	c.giveBack()
	c.write()
	switch {
	case err != nil:
		if c.draining.Load() {
			c.linger(drainLingerTime)
		}
		return false
	case c.makeRoom():
		return !c.ended
	}
	c.refuseLine()
	return false
}

// cut ends the connection, whatever it is at. Any goroutine may call it.
func (c *conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seat != nil {
		c.seat.cut()
	} else {
		c.nc.Close()
	}
}

// settle gives the connection a goroutine of its own for good: its requests wait, and to leave a loop at each takes more than it saves.
func (c *conn) settle() {
	if c.seat == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining.Load() {
		return // its last deadline is set
	}
	if nc := c.seat.settle(); nc != nil {
		c.nc, c.seat = nc, nil
		c.readUntil, c.writeUntil = time.Time{}, time.Time{}
	}
}

// mayWait is called before what may wait, or takes long: a loop goes on without the connection.
func (c *conn) mayWait() {
	if c.seat != nil {
		c.seat.leave()
	}
}

// executeAll executes the complete lines.
func (c *conn) executeAll(ctx context.Context) {
	for !c.ended {
		i := bytes.IndexByte(c.in[c.seen:c.end], '\n')
		if i < 0 {
			c.seen = c.end
			break
		}
		line := c.in[c.begin : c.seen+i]
		c.begin, c.lineBegun = c.seen+i+1, time.Time{}
		c.seen = c.begin
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		c.execute(ctx, line)
	}
	c.finishGroup(ctx) // its keys are in the buffer
}

// giveBack gives back the room of a long line that was executed. It comes before the answers: a client that has read its answer may
// begin another long line elsewhere, and counts on that room.
func (c *conn) giveBack() {
	if c.begin < c.end || len(c.in) <= bufferBytesKept {
		return
	}
	size := min(bufferBytes, c.s.opt.LineBytesMax)
	c.reserve(size)
	c.in, c.begin, c.seen, c.end = make([]byte, size), 0, 0, 0
}

// makeRoom makes room for reading, and reports false where that would take a longer line than may be, or more
// memory than there is for the lines of all connections.
func (c *conn) makeRoom() bool {
	rest, full, most := c.in[c.begin:c.end], c.end == len(c.in), c.s.opt.LineBytesMax
	if len(rest) == most {
		return false
	}
	if len(rest) > 0 && !full {
		return true
	}
	to, size := c.in, len(c.in)
	if full && size < most && (len(rest) > size/2 || size < bufferBytesKept) { // more may wait than one read takes
		size = min(2*size, most)
	}
	if size != len(c.in) {
		if !c.reserve(size) {
			return false
		}
		to = make([]byte, size)
	}
	copy(to, rest)
	c.in, c.begin, c.seen, c.end = to, 0, c.seen-c.begin, len(rest)
	return true
}

// reserve has a buffer of so many bytes count among those of all connections, and reports false where they would be too many. The small
// ones, which every connection may keep, do not count: the limit on connections bounds them.
func (c *conn) reserve(size int) bool {
	want := int64(size)
	if want <= bufferBytesKept {
		want = 0
	}
	more := want - c.reserved
	if c.s.lines.Add(more) > int64(c.s.opt.LinesBytesMax) && more > 0 {
		c.s.lines.Add(-more)
		return false
	}
	c.reserved = want
	return true
}

// refuseLine answers a line that is too long.
func (c *conn) refuseLine() {
	c.refuse(answerTooLong)
	c.write()
	c.linger(lingerTime)
}

// linger tells the client that there are no more answers, and reads what it still sends until it has heard of that.
func (c *conn) linger(d time.Duration) {
	c.mayWait()
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	c.nc.SetReadDeadline(time.Now().Add(d)) // where that fails Read does, too
	for err := error(nil); err == nil; {
		_, err = c.nc.Read(c.in)
	}
}

// write sends the answers that have come together, and publishes what was counted.
func (c *conn) write() {
	if c.ended {
		c.out = c.out[:0]
	}
	c.tally.others[tallyWritten] += uint64(len(c.out))
	c.s.counters.add(&c.tally)
	if len(c.out) == 0 {
		return
	}
	if limit := c.s.opt.WriteTime; limit > 0 {
		if now := time.Now(); c.writeUntil.Sub(now) < limit {
			c.writeUntil = now.Add(limit + limit/8)
			c.nc.SetWriteDeadline(c.writeUntil) // where that fails Write does, too
		}
	}
	if _, err := c.nc.Write(c.out); err != nil {
		c.ended = true
	}
	if c.out = c.out[:0]; cap(c.out) > 2*bufferBytesKept {
		c.out = make([]byte, 0, bufferBytes)
	}
}

// writeIfFull bounds the answers that wait.
func (c *conn) writeIfFull() {
	if len(c.out) >= c.s.opt.OutputBytesMax {
		c.write()
	}
}

// awaitMore sets how long the client is waited for. Deadlines are set an eighth too late, and rarely: at each request that would be felt.
// While the server shuts down, it gives what is on its way a last chance.
func (c *conn) awaitMore() {
	if c.draining.Load() {
		if !c.lastRead {
			c.lastRead = true
			c.nc.SetReadDeadline(time.Now().Add(drainTime)) // where that fails Read does, too
		}
		return
	}
	if limit := c.s.opt.IdleTime; limit > 0 {
		if now := time.Now(); c.idleUntil.Sub(now) < limit {
			c.idleUntil = now.Add(limit + limit/8)
		}
	}
	until := c.idleUntil
	if c.reserved > 0 {
		if line := c.lineUntil(); until.IsZero() || line.Before(until) {
			until = line
		}
	}
	if until.Equal(c.readUntil) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.draining.Load() {
		c.readUntil = until
		c.nc.SetReadDeadline(until) // none where it is zero
	}
}

// lineUntil returns when the long line that is being read has to be whole. Without an end to that, some clients that begin lines and never
// end them would hold for ever what there is for the long lines of all.
func (c *conn) lineUntil() time.Time {
	if c.lineBegun.IsZero() {
		c.lineBegun = time.Now()
	}
	return c.lineBegun.Add(c.s.opt.LineTime + time.Duration(c.reserved/linePace)*time.Second)
}

// drain ends the connection when nothing has come for a while. It may be called by any goroutine.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining.Store(true)
	c.nc.SetReadDeadline(time.Now().Add(drainTime))
}
