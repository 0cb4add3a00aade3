package door

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// bufferBytes is what a buffer of a connection begins with, and bufferBytesKept the most that it keeps when it is empty.
	bufferBytes     = 4 << 10
	bufferBytesKept = 64 << 10
	// lingerTime is how long the server reads what a client still sends after a request that is too long, and drainLingerTime what it sends
	// after the server has shut down: to close with unread bytes would take answers away from it.
	lingerTime      = time.Second
	drainLingerTime = 100 * time.Millisecond
	// requestPace is the bytes of a long request that have a second more to come.
	requestPace = 256 << 10
	// turnWorkMax is the work of a turn that a loop executes: one piece may take a microsecond, or some.
	turnWorkMax = 2000
)

// Conn is a connection. Its methods and fields are for its Handler, within Execute and TooLong.
//
// One goroutine serves it; only drain and cut are called by others. in has what was read: in[begin:end] is not executed yet.
type Conn struct {
	// Out has the answers that are not written yet. The handler appends to it.
	Out []byte

	s          *Server
	handler    Handler // nil before a TLS handshake
	nc         stream
	raw        net.Conn // what the listener gave; with TLS what is below nc. Not the handler's
	tls        *tls.Conn
	remote     net.Addr
	station    station // in a loop; nil where there is none
	in         []byte
	begin, end int
	reserved   int64       // of the limits' bytes for long requests
	read       int         // bytes not counted yet
	turnWork   int         // what was executed in a loop, in this turn
	ended      bool        // no more answers can be sent, or are to be
	finished   bool        // the answers that are there are the last
	taken      int64       // of the limits' bytes for long requests, for answers
	work       Work        // what the handler has deferred
	deferred   bool        // it has, and the turn goes on when that is done
	readErr    error       // what ended the last read
	upgrade    *tls.Config // the connection goes on with TLS when its answers have been written

	readUntil, writeUntil time.Time  // nc's deadlines, while it is not drained
	idleUntil             time.Time  // where there is an idle time
	requestBegun          time.Time  // since when the server waits for the rest of a long request; zero where it does not
	lastRead              bool       // nc's deadline is the end of what is read before a shutdown
	mu                    sync.Mutex // guards the change of draining, of nc and of station, and nc's deadline for reading
	draining              atomic.Bool
}

// stream is what a connection needs of its socket. A net.Conn is one.
type stream interface {
	io.ReadWriteCloser
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// station is a connection's place in a loop, which executes the requests of many. Only cut may be called by any goroutine.
type station interface {
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

func newConn(s *Server, nc net.Conn) *Conn {
	return &Conn{s: s, nc: nc, raw: nc, remote: nc.RemoteAddr(), in: make([]byte, min(bufferBytes, s.opt.RequestBytesMax)), Out: make([]byte, 0, bufferBytes)}
}

// TLS returns what the handshake found out about the client, or nil for a connection without TLS.
func (c *Conn) TLS() *tls.ConnectionState {
	if c.tls == nil {
		return nil
	}
	state := c.tls.ConnectionState()
	return &state
}

// shake makes the TLS handshake and the handler. It reports false where either fails.
func (c *Conn) shake(ctx context.Context) bool {
	if !c.handshake(ctx) {
		return false
	}
	c.handler = c.s.open(c)
	return c.handler != nil
}

// handshake makes the TLS handshake. It reports false where it fails, which is counted.
func (c *Conn) handshake(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, c.s.opt.HandshakeTime)
	defer cancel()
	if err := c.tls.HandshakeContext(ctx); err != nil {
		c.s.counters.handshakes.Add(1)
		if !errors.Is(err, io.EOF) { // a client that only looked whether the port is open
			c.s.failures.Add("TLS handshake", []byte(c.raw.RemoteAddr().String()), err)
		}
		return false
	}
	return true
}

// serve reads, executes and answers until the client or the server ends it, or it waits for the next request in a loop. Then it
// reports true.
func (c *Conn) serve(ctx context.Context) (parked bool) {
	for c.turn(ctx) {
		c.awaitMore()
		if c.park() {
			return true
		}
	}
	return false
}

// park has the connection wait for its next request in a loop, where it has one.
func (c *Conn) park() bool { return c.station != nil && c.station.park() }

// turn reads once, executes and answers, and reports false at the end. All whole requests that were read are executed and answered; one
// without its end is not. Where the handler defers work, resume goes on.
func (c *Conn) turn(ctx context.Context) (more bool) {
	c.turnWork = 0
	if len(c.in) > bufferBytesKept {
		c.MayWait() // for itself: such a request is much work
	}
	if c.draining.Load() && !c.lastRead {
		c.nc.SetReadDeadline(time.Now().Add(drainTime)) // its goroutine may have begun late: what has come is read
	}
	n, err := c.nc.Read(c.in[c.end:])
	c.end += n
	c.read += n
	c.readErr = err
	if n > 0 {
		c.execute(ctx)
	}
	return c.deferred || c.endTurn(ctx, err)
}

// endTurn answers what was executed, and reports false at the end: err is that of the read.
func (c *Conn) endTurn(ctx context.Context, err error) (more bool) {
	c.giveBack()
	c.write()
	if c.upgrade != nil && !c.upgradeTLS(ctx) {
		return false
	}
	switch {
	case c.finished:
		c.linger(lingerTime)
		return false
	case err != nil:
		c.countEnd(err)
		if c.draining.Load() {
			c.linger(drainLingerTime)
		}
		return false
	case c.makeRoom():
		return !c.ended
	}
	c.refuseRequest()
	return false
}

// execute has the handler execute the whole requests that have come.
func (c *Conn) execute(ctx context.Context) {
	used := c.handler.Execute(ctx, c, c.in[c.begin:c.end])
	if used > 0 {
		c.begin, c.requestBegun = c.begin+used, time.Time{}
	}
}

// countEnd counts a connection whose time is over.
func (c *Conn) countEnd(err error) {
	switch {
	case c.draining.Load() || !errors.Is(err, os.ErrDeadlineExceeded):
	case c.reserved > 0:
		c.s.counters.slow.Add(1)
	default:
		c.s.counters.idle.Add(1)
	}
}

// cut ends the connection, whatever it is at. Any goroutine may call it.
func (c *Conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.station != nil {
		c.station.cut()
	} else {
		c.raw.Close()
	}
}

// Settle gives the connection a goroutine of its own for good: its requests wait, and to leave an event loop at each takes more than it saves.
// Where that can't be had, it does what MayWait does.
func (c *Conn) Settle() {
	if c.station == nil {
		return
	}
	defer c.MayWait() // where it still has a station
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining.Load() {
		return // its last deadline is set
	}
	if nc := c.station.settle(); nc != nil {
		c.nc, c.raw, c.station = nc, nc, nil
		c.s.counters.settled.Add(1)
		c.readUntil, c.writeUntil = time.Time{}, time.Time{}
	}
}

// MayWait is called before what may wait, or takes long: an event loop goes on without the connection.
func (c *Conn) MayWait() {
	if c.station != nil {
		c.station.leave()
	}
}

// Now returns how many of so many pieces of work, each of about a microsecond, may be done without a call of MayWait, and counts them.
func (c *Conn) Now(pieces int) int {
	if c.station == nil || !c.station.holds() {
		return pieces
	}
	pieces = min(pieces, turnWorkMax-c.turnWork)
	c.turnWork += pieces
	return pieces
}

// Ended reports whether answers are of no use any more: the client takes none, or End was called.
func (c *Conn) Ended() bool { return c.ended }

// End closes the connection without the answers that are not written yet: one of them could not be completed.
func (c *Conn) End() { c.ended = true }

// Finish closes the connection when the answers that are there have been written. The handler executes nothing more.
func (c *Conn) Finish() { c.finished = true }

// Remote returns the address of the client.
func (c *Conn) Remote() net.Addr { return c.remote }

// Take takes memory for an answer from what all long requests and answers of a node share, and reports false where there is not as much left.
// The handler gives it back before Execute returns.
func (c *Conn) Take(bytes int) bool {
	if !c.s.opt.Limits.takeLong(int64(bytes)) {
		return false
	}
	c.taken += int64(bytes)
	return true
}

// Give gives back all that was taken.
func (c *Conn) Give() {
	c.s.opt.Limits.takeLong(-c.taken)
	c.taken = 0
}

// giveBack gives back the room of a long request that was executed. It comes before the answers: a client that has read its answer may
// begin another long request elsewhere, and counts on that room.
func (c *Conn) giveBack() {
	if c.begin < c.end || len(c.in) <= bufferBytesKept {
		return
	}
	size := min(bufferBytes, c.s.opt.RequestBytesMax)
	c.reserve(size)
	c.in, c.begin, c.end = make([]byte, size), 0, 0
}

// makeRoom makes room for reading, and reports false where that would take a longer request than may be, or more
// memory than there is for the long requests of all connections.
func (c *Conn) makeRoom() bool {
	rest, full, most := c.in[c.begin:c.end], c.end == len(c.in), c.s.opt.RequestBytesMax
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
	c.in, c.begin, c.end = to, 0, len(rest)
	return true
}

// reserve has a buffer of so many bytes count among those of all connections, and reports false where they would be too many. The small
// ones, which every connection may keep, do not count: the limit on connections bounds them.
func (c *Conn) reserve(size int) bool {
	want := int64(size)
	if want <= bufferBytesKept {
		want = 0
	}
	more := want - c.reserved
	if !c.s.opt.Limits.takeLong(more) {
		return false
	}
	c.reserved = want
	return true
}

// refuseRequest answers a request that is too long.
func (c *Conn) refuseRequest() {
	c.handler.TooLong(c)
	c.write()
	c.linger(lingerTime)
}

// linger tells the client that there are no more answers, and reads what it still sends until it has heard of that.
func (c *Conn) linger(d time.Duration) {
	c.MayWait()
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
func (c *Conn) write() {
	if c.ended {
		c.Out = c.Out[:0]
	}
	if c.read > 0 {
		c.s.counters.read.Add(uint64(c.read))
		c.read = 0
	}
	if len(c.Out) == 0 {
		return
	}
	c.s.counters.written.Add(uint64(len(c.Out)))
	if limit := c.s.opt.WriteTime; limit > 0 {
		if now := time.Now(); c.writeUntil.Sub(now) < limit {
			c.writeUntil = now.Add(limit + limit/8)
			c.nc.SetWriteDeadline(c.writeUntil) // where that fails Write does, too
		}
	}
	if _, err := c.nc.Write(c.Out); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.s.counters.slow.Add(1)
		}
		c.ended = true
	}
	if c.Out = c.Out[:0]; cap(c.Out) > 2*bufferBytesKept {
		c.Out = make([]byte, 0, bufferBytes)
	}
}

// WriteIfFull bounds the answers that wait: it writes them where enough have come together.
func (c *Conn) WriteIfFull() {
	if c.Full() {
		c.write()
	}
}

// Full reports whether WriteIfFull would write.
func (c *Conn) Full() bool { return len(c.Out) >= c.s.opt.OutputBytesMax }

// awaitMore sets how long the client is waited for. Deadlines are set an eighth too late, and rarely: at each request that would be felt.
// While the server shuts down, it gives what is on its way a last chance.
func (c *Conn) awaitMore() {
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
		if request := c.requestUntil(); until.IsZero() || request.Before(until) {
			until = request
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

// requestUntil returns when the long request that is being read has to be whole. Without an end to that, some clients that begin requests and
// never end them would hold for ever what there is for the long requests of all.
func (c *Conn) requestUntil() time.Time {
	if c.requestBegun.IsZero() {
		c.requestBegun = time.Now()
	}
	return c.requestBegun.Add(c.s.opt.RequestTime + time.Duration(c.reserved/requestPace)*time.Second)
}

// drain ends the connection when nothing has come for a while. It may be called by any goroutine.
func (c *Conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining.Store(true)
	c.nc.SetReadDeadline(time.Now().Add(drainTime))
}
