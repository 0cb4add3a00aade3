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
	// bufferBytes is the initial size of a connection's buffer. bufferBytesKept is the largest size that it keeps when it is empty.
	bufferBytes     = 4 << 10
	bufferBytesKept = 64 << 10
	// lingerTime is how long the server reads from a client after a request that is too long, and drainLingerTime how long after a
	// shutdown: closing with unread bytes would discard answers on their way to the client.
	lingerTime      = time.Second
	drainLingerTime = 100 * time.Millisecond
	// longPace is how many bytes of a long request give it one more second.
	longPace = 256 << 10
	// turnWorkMax bounds the work of a turn in a loop: one piece takes about a microsecond, or a few.
	turnWorkMax = 2000
	// longWrite is how many bytes of an answer are a part of long work.
	longWrite = 16 << 10
)

// AnswerPace is how many bytes of a long answer give its client one more second to read it. A client on a network that is slow but steady, such as
// 256 kbit a second, must get its answer.
const AnswerPace = 32 << 10

// Conn is a connection. Its methods and fields are for its Handler, during Execute, TooLong and NoRoom.
//
// One goroutine serves it; others call only drain and cut. in contains what was read: in[begin:end] has not been executed yet.
type Conn struct {
	// Out contains the answers that have not been written yet. The handler appends to it.
	Out []byte

	s          *Server
	handler    Handler // nil before a TLS handshake
	nc         stream
	raw        net.Conn // from the listener; with TLS, the connection below nc. Not for the handler
	tls        *tls.Conn
	remote     net.Addr
	station    station // in a loop; nil outside a loop
	in         []byte
	begin, end int
	reserved   int64       // from the limits' bytes for long requests
	read       int         // bytes not counted yet
	turnWork   int         // pieces executed in this turn of a loop
	turnShare  int         // pieces deferred in this turn
	ended      bool        // no more answers can or should be sent
	finished   bool        // the waiting answers are the last
	loan       Loan        // for answers
	sends      int64       // bytes of the loan of another connection with the answer that is sent
	bounded    bool        // the system takes unsentMax bytes of answers
	placed     bool        // it has a place for a part of long work
	work       Work        // deferred by the handler
	deferred   bool        // the handler has deferred work, and the turn continues when the work is done
	readErr    error       // the error of the last read
	upgrade    *tls.Config // the connection switches to TLS when its answers have been written

	readUntil, writeUntil time.Time  // nc's deadlines, unless it is drained
	idleUntil             time.Time  // zero without an idle time
	requestBegun          time.Time  // when the server began to wait for the rest of a long request; zero if it does not wait
	answerBegun           time.Time  // when the first part was written of an answer whose memory is taken
	lastRead              bool       // nc's deadline is the end of the last read before a shutdown
	mu                    sync.Mutex // guards changes of draining, nc and station, and nc's read deadline
	draining              atomic.Bool
}

// stream is what a connection needs from its socket. A net.Conn is a stream.
type stream interface {
	io.ReadWriteCloser
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// station is a connection's place in a loop, which executes the requests of many connections. Only cut may be called by any goroutine.
type station interface {
	// park makes the loop wait for the next request and then serve the connection. It reports false if the loop must not or can't.
	park() bool
	// holds reports whether the loop does nothing else until the caller returns.
	holds() bool
	// leave ends the connection's turn in the loop, if any: the caller's goroutine then belongs to the connection.
	leave()
	// settle leaves the loop for good. It returns a socket for a goroutine of the connection's own, or nil if none can be made.
	settle() net.Conn
	// cut ends whatever the connection does, now and later.
	cut()
}

func newConn(s *Server, nc net.Conn) *Conn {
	return &Conn{s: s, nc: nc, raw: nc, remote: nc.RemoteAddr(), in: make([]byte, min(bufferBytes, s.opt.RequestBytesMax)), Out: make([]byte, 0, bufferBytes)}
}

// TLS returns the state of the handshake with the client, or nil for a connection without TLS.
func (c *Conn) TLS() *tls.ConnectionState {
	if c.tls == nil {
		return nil
	}
	state := c.tls.ConnectionState()
	return &state
}

// shake performs the TLS handshake and makes the handler. It reports false if either fails.
func (c *Conn) shake(ctx context.Context) bool {
	if !c.handshake(ctx) {
		return false
	}
	c.handler = c.s.open(c)
	return c.handler != nil
}

// handshake performs the TLS handshake. It reports false and counts the failure if the handshake fails.
func (c *Conn) handshake(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, c.s.opt.HandshakeTime)
	defer cancel()
	if err := c.tls.HandshakeContext(ctx); err != nil {
		c.s.counters.handshakes.Add(1)
		if !errors.Is(err, io.EOF) { // EOF: a client that only checked whether the port is open
			c.s.failures.Add("TLS handshake", []byte(c.raw.RemoteAddr().String()), err)
		}
		return false
	}
	return true
}

// serve reads, executes and answers until the client or the server ends the connection, or it waits for the next request in a loop. In that
// case it reports true.
func (c *Conn) serve(ctx context.Context) (parked bool) {
	for c.turn(ctx) {
		c.awaitMore()
		if c.park() {
			return true
		}
	}
	return false
}

// park makes the connection wait for its next request in its loop, if any.
func (c *Conn) park() bool { return c.station != nil && c.station.park() }

// turn reads once, executes and answers, and reports false when the connection ends. All complete requests that were read are executed and
// answered; an incomplete one is not. If the handler defers work, resume continues.
func (c *Conn) turn(ctx context.Context) (more bool) {
	c.turnWork, c.turnShare = 0, 0
	c.boundUnsent(false)
	if len(c.in) > bufferBytesKept {
		c.MayWait() // such a request is much work by itself
	}
	if c.draining.Load() && !c.lastRead {
		c.nc.SetReadDeadline(time.Now().Add(drainTime)) // its goroutine may have started late: read what has arrived
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

// endTurn answers what was executed and reports false when the connection ends; err is the error of the read.
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

// execute makes the handler execute the complete requests in the buffer.
func (c *Conn) execute(ctx context.Context) {
	used := c.handler.Execute(ctx, c, c.in[c.begin:c.end])
	if used > 0 {
		c.begin, c.requestBegun = c.begin+used, time.Time{}
	}
}

// countEnd counts a connection whose time has run out.
func (c *Conn) countEnd(err error) {
	switch {
	case c.draining.Load() || !errors.Is(err, os.ErrDeadlineExceeded):
	case c.reserved > 0:
		c.s.counters.slow.Add(1)
	default:
		c.s.counters.idle.Add(1)
	}
}

// cut ends the connection, whatever it does. Any goroutine may call it.
func (c *Conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.station != nil {
		c.station.cut()
	} else {
		c.raw.Close()
	}
}

// Settle gives the connection a goroutine of its own for good: its requests wait, and leaving an event loop at each costs more than the
// loop saves. If no goroutine's socket can be made, Settle does what MayWait does.
func (c *Conn) Settle() {
	if c.station == nil {
		return
	}
	defer c.MayWait() // if it still has a station
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

// MayWait must be called before work that may wait or takes long: the event loop then continues without the connection.
func (c *Conn) MayWait() {
	if c.station != nil {
		c.station.leave()
	}
}

// Now returns how many of a number of pieces of work, each about a microsecond, may be done without a call of MayWait, and counts them.
func (c *Conn) Now(pieces int) int {
	if c.station == nil || !c.station.holds() {
		return pieces
	}
	pieces = min(pieces, turnWorkMax-c.turnWork)
	c.turnWork += pieces
	return pieces
}

// Ended reports whether answers are no longer of use: the client takes none, or End was called.
func (c *Conn) Ended() bool { return c.ended }

// End closes the connection and discards the answers that are not written yet: one of them could not be completed.
func (c *Conn) End() { c.ended = true }

// Finish closes the connection when the waiting answers have been written. The handler executes nothing more.
func (c *Conn) Finish() { c.finished = true }

// Remote returns the address of the client.
func (c *Conn) Remote() net.Addr { return c.remote }

// Take takes memory for an answer from the bytes that all long requests and answers of a node share. It reports false if too few are left.
// The handler must return them by Give before Execute returns.
func (c *Conn) Take(bytes int) bool {
	c.loan.limits = c.s.opt.Limits
	return c.loan.Take(bytes)
}

// Give returns all bytes that were taken.
func (c *Conn) Give() {
	c.loan.Give()
	c.sends, c.answerBegun = 0, time.Time{}
}

// Sends says that the connection sends an answer in the memory of a loan, until the next call of Conn.Give. It has as much time as if it had
// taken the memory itself.
func (c *Conn) Sends(l *Loan) { c.sends = l.taken }

// SendsMore says by how many bytes an answer is longer than the memory that was taken for it, because parts of it are repeated. The answer has
// time for these bytes as well, until the next call of Conn.Give.
func (c *Conn) SendsMore(bytes int) {
	if c.loan.taken > 0 {
		c.sends += int64(bytes)
	}
}

// giveBack returns the room of a long request that was executed. It runs before the answers are written: a client that has read its answer
// may begin another long request elsewhere and counts on that room.
func (c *Conn) giveBack() {
	if c.begin < c.end || len(c.in) <= bufferBytesKept {
		return
	}
	size := min(bufferBytes, c.s.opt.RequestBytesMax)
	c.reserve(size)
	c.in, c.begin, c.end = make([]byte, size), 0, 0
}

// makeRoom makes room for reading. It reports false if that would exceed the longest request, or the memory for the long requests of all
// connections.
func (c *Conn) makeRoom() bool {
	rest, full, most := c.in[c.begin:c.end], c.end == len(c.in), c.s.opt.RequestBytesMax
	if len(rest) == most {
		return false
	}
	if len(rest) > 0 && !full {
		return true
	}
	to, size := c.in, len(c.in)
	if full && size < most && (len(rest) > size/2 || size < bufferBytesKept) { // more may be waiting than one read takes
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

// reserve counts a buffer of the given size among those of all connections. It reports false if they would be too large together. Small
// buffers, which every connection may keep, are not counted: the limit on connections bounds them.
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

// refuseRequest answers a request that is too long, or for which no memory is left.
func (c *Conn) refuseRequest() {
	rest := c.in[c.begin:c.end]
	if h, ok := c.handler.(RoomHandler); ok && len(rest) < c.s.opt.RequestBytesMax {
		h.NoRoom(c, rest)
	} else {
		c.handler.TooLong(c)
	}
	c.write()
	c.linger(lingerTime)
}

// linger signals to the client that no more answers follow, and reads what it still sends until it notices.
func (c *Conn) linger(d time.Duration) {
	c.MayWait()
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	c.nc.SetReadDeadline(time.Now().Add(d)) // if this fails, Read fails too
	for err := error(nil); err == nil; {
		_, err = c.nc.Read(c.in)
	}
}

// write sends the answers collected so far and publishes the counts.
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
	c.writeNow(c.Out)
	if c.Out = c.Out[:0]; cap(c.Out) > 2*bufferBytesKept {
		c.Out = make([]byte, 0, bufferBytes)
	}
}

// writeNow sends p.
func (c *Conn) writeNow(p []byte) {
	c.s.counters.written.Add(uint64(len(p)))
	if limit := c.s.opt.WriteTime; limit > 0 {
		if now := time.Now(); c.loan.taken+c.sends > 0 || c.writeUntil.Sub(now) < limit {
			c.writeUntil = c.writeBy(now)
			c.nc.SetWriteDeadline(c.writeUntil) // if this fails, Write fails too
		}
	}
	if _, err := c.nc.Write(p); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.s.counters.slow.Add(1)
		}
		c.ended = true
	}
}

// Send appends p to the answers if the memory of Out has room for it. Otherwise it writes all answers, those of p without a copy. So it may wait
// for the client, and p must not change until it returns.
func (c *Conn) Send(p []byte) {
	room := cap(c.Out) - len(c.Out)
	if len(c.Out) > 0 || len(p) <= room { // what waits is not written by itself
		n := min(room, len(p))
		c.Out, p = append(c.Out, p[:n]...), p[n:]
	}
	if len(p) == 0 {
		return
	}
	if len(p) >= longWrite {
		c.boundUnsent(true)
	}
	if c.write(); !c.ended {
		c.writeNow(p)
	}
}

// writeBy returns when a write that begins now must have ended. An answer whose memory is counted has a time for all of it, as long requests
// have: a few clients that read it slowly would otherwise hold the memory for all long answers for hours.
func (c *Conn) writeBy(now time.Time) time.Time {
	limit := c.s.opt.WriteTime
	until := now.Add(limit + limit/8)
	bytes := c.loan.taken + c.sends
	if bytes == 0 {
		return until
	}
	if c.answerBegun.IsZero() {
		c.answerBegun = now
	}
	if whole := c.answerBegun.Add(limit + time.Duration(bytes/AnswerPace)*time.Second); whole.Before(until) {
		return whole
	}
	return until
}

// WriteIfFull bounds the waiting answers: it writes them if there are enough.
func (c *Conn) WriteIfFull() {
	if c.Full() {
		c.write()
	}
}

// Full reports whether WriteIfFull would write.
func (c *Conn) Full() bool { return len(c.Out) >= c.s.opt.OutputBytesMax }

// awaitMore sets how long to wait for the client. Deadlines are set an eighth too late, and so rarely: setting them at each request would
// cost too much. During a shutdown it sets one last deadline for requests on their way.
func (c *Conn) awaitMore() {
	if c.draining.Load() {
		if !c.lastRead {
			c.lastRead = true
			c.nc.SetReadDeadline(time.Now().Add(drainTime)) // if this fails, Read fails too
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
		c.nc.SetReadDeadline(until) // zero means none
	}
}

// requestUntil returns the time by which the current long request must be complete. Without such a bound, a few clients that begin requests
// and never complete them would hold the memory for all long requests forever.
func (c *Conn) requestUntil() time.Time {
	if c.requestBegun.IsZero() {
		c.requestBegun = time.Now()
	}
	return c.requestBegun.Add(c.s.opt.RequestTime + time.Duration(c.reserved/longPace)*time.Second)
}

// drain ends the connection when nothing has arrived for a while. Any goroutine may call it.
func (c *Conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining.Store(true)
	c.nc.SetReadDeadline(time.Now().Add(drainTime))
}
