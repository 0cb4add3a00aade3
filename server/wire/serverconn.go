package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// serverConn is one connection of a server.
type serverConn struct {
	s       *Server
	nc      net.Conn
	out     *queue
	w       *writer
	from    Remote
	address uint64
	use     *use // of all connections of its kind
	own     *use // of this connection; nil for nodes
	row     row  // of a client: its requests that wait for their turn
	answers unread
	said    unread // refusals and pongs
	ctx     context.Context
	cancel  context.CancelFunc

	mu      sync.Mutex
	open    map[uint64]*job      // requests that are running
	coming  map[uint64]*assembly // requests some of whose segments are still to come
	drained bool

	// Only the reader uses these.
	segments *segments
	arrived  []*Task // requests for one function of ServerOptions.Together that have not begun
	expects  bool    // reading has a deadline, because a request has arrived in part
	alone    bool    // no other request was running when the last one came
	lone     int     // how many requests have come alone: see here.go
	peek     *peek

	busy  busy
	ended chan error // receives why reading has ended
}

// drain asks the other side to send no more requests.
func (c *serverConn) drain() {
	c.mu.Lock()
	c.drained = true
	c.mu.Unlock()
	c.out.push(&message{kind: kindDrain, priority: PriorityQuorum}, true)
}

// read takes requests until the connection ends, or until another goroutine reads on. At the end it sends the reason to ended.
func (c *serverConn) read() {
	err := c.readSegments()
	if err == errTakenOver {
		return
	}
	c.letGo()
	c.cancel() // what this connection's requests do
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: a request that arrived in part, and nothing more of it within %v", ErrFrame, c.s.opt.ArriveTime)
	}
	c.ended <- err
}

// readSegments is read with the errors of the connection.
func (c *serverConn) readSegments() error {
	s := c.segments
	for {
		if len(c.arrived) > 0 && s.waits() {
			if err := c.together(); err != nil {
				return err
			}
		}
		if err := c.hold(); err != nil {
			return err
		}
		h, err := s.next()
		if err != nil {
			return err
		}
		switch h.kind {
		case kindRequest:
			err = c.request(s, h)
		case kindCredit:
			err = c.credit(s, h)
		case kindCancel:
			c.mu.Lock()
			a := c.coming[h.id]
			delete(c.coming, h.id)
			j := c.open[h.id]
			c.mu.Unlock()
			if a != nil {
				c.give(int64(a.env.length))
			}
			if j != nil {
				j.cancel()
			}
			if err = c.expect(false); err == nil {
				err = s.rest(h)
			}
		case kindPing:
			c.say(&message{kind: kindPong})
			err = s.rest(h)
		case kindPong:
			err = s.rest(h)
		default:
			err = fmt.Errorf("%w: a segment of kind %d from a caller", ErrFrame, h.kind)
		}
		if err != nil {
			return err
		}
	}
}

// Refusals and pongs are in no budget of requests. So while many of those for a client wait to be written, nothing more is read from it.
const (
	saidMax   = 1 << 20 // bytes
	saidBytes = 200     // about the memory of one, without its text
)

// say adds a refusal or a pong.
func (c *serverConn) say(m *message) {
	n := saidBytes + len(m.body)
	m.priority, m.gone = PriorityQuorum, func() { c.said.add(-n) }
	c.said.add(n)
	if ok, _ := c.out.push(m, true); !ok {
		m.gone()
	}
}

// hold waits until a client has taken most of the refusals and pongs for it. One that takes nothing is cut off after WriteTime.
func (c *serverConn) hold() error {
	if c.own == nil {
		return nil
	}
	taken := c.said.full(saidMax)
	if taken == nil {
		return nil
	}
	if err := c.together(); err != nil {
		return err
	}
	select {
	case <-taken:
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
	if c.expects { // the client could send nothing
		return c.expect(true)
	}
	return nil
}

// letGo begins the requests that have arrived, and returns the budget of incomplete ones.
func (c *serverConn) letGo() {
	c.lone = 0
	_ = c.together() // in other goroutines
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, a := range c.coming {
		c.give(int64(a.env.length))
		delete(c.coming, id)
	}
}

// credit handles a segment that asks for more parts.
func (c *serverConn) credit(s *segments, h head) error {
	b, err := s.small(h.length)
	if err != nil {
		return err
	}
	n := 0
	if len(b) == 1 {
		n = int(b[0])
	}
	if err := s.end(); err != nil {
		return err
	}
	if n == 0 || n > creditMax {
		return fmt.Errorf("%w: credit of %x", ErrFrame, b)
	}
	c.mu.Lock()
	j := c.open[h.id]
	c.mu.Unlock()
	if j == nil { // the request has ended
		return nil
	}
	for range n {
		select {
		case j.credit <- struct{}{}:
		default:
			return fmt.Errorf("%w: credit for more than %d parts, or for no stream", ErrFrame, creditMax)
		}
	}
	return nil
}

// request handles a segment of a request.
func (c *serverConn) request(s *segments, h head) error {
	n := h.length
	c.mu.Lock()
	a, open := c.coming[h.id], c.open[h.id] != nil
	c.mu.Unlock()
	if h.flags&flagFirst != 0 {
		if a != nil || open || n < envelopeBytes {
			return fmt.Errorf("%w: two requests of one number, or no envelope", ErrFrame)
		}
		b, err := s.small(envelopeBytes)
		if err != nil {
			return err
		}
		e, err := decodeEnvelope(b)
		if err != nil {
			return err
		}
		n -= envelopeBytes
		if why, text := c.admit(&e); why != 0 {
			c.refuse(h.id, why, text)
			if err := s.skip(n); err != nil {
				return err
			}
			return s.end()
		}
		a = &assembly{kind: kindRequest, left: int(e.length), env: e}
		if h.flags&flagLast == 0 {
			c.mu.Lock()
			c.coming[h.id] = a
			c.mu.Unlock()
		}
	}
	if a == nil { // the rest of a refused or cancelled request
		return s.rest(head{length: n})
	}
	last := h.flags&flagLast != 0
	var err error
	if !last || s.r.Buffered() < n+sumBytes {
		err = c.expect(true)
	}
	if err == nil {
		err = a.add(s, n, last)
	}
	if err == nil {
		err = s.end()
	}
	switch {
	case err != nil:
		if h.flags&flagFirst != 0 && last { // otherwise letGo does
			c.give(int64(a.env.length))
		}
		return err
	case last:
		c.mu.Lock()
		delete(c.coming, h.id)
		c.mu.Unlock()
		if err = c.expect(false); err != nil {
			c.give(int64(a.env.length))
			return err
		}
		return c.begin(h.id, a)
	}
	return nil
}

// expect sets the deadline for reading from a client. partly says that a request has arrived in part, and has just gone on. Nodes have no
// deadline.
func (c *serverConn) expect(partly bool) error {
	if c.own == nil || !partly && !c.expects {
		return nil
	}
	var by time.Time // none
	if partly {
		by = time.Now().Add(c.s.opt.ArriveTime)
	} else {
		c.mu.Lock()
		others := len(c.coming) > 0
		c.mu.Unlock()
		if others { // their deadline stays
			return nil
		}
	}
	c.expects = partly
	return c.nc.SetReadDeadline(by)
}

// admit takes the budget of a request, or returns why it is refused.
func (c *serverConn) admit(e *envelope) (why refusal, text string) {
	client := c.from.Role != RoleNode
	switch {
	case client && (e.verb.Peers() || e.epoch != 0 || e.priority > PriorityRead):
		return refusedRole, fmt.Sprintf("verb %d, epoch %d, priority %d of a client", e.verb, e.epoch, e.priority)
	case !client && e.address != c.address:
		return refusedAddress, "another member is here, or another incarnation of it"
	}
	c.mu.Lock()
	drained := c.drained
	c.mu.Unlock()
	if drained {
		return refusedDraining, "the node is stopping"
	}
	if c.own != nil && !c.own.take(int64(e.length), false) {
		return refusedBusy, "this connection has too much under way"
	}
	if !c.use.take(int64(e.length), c.own != nil && c.own.little()) {
		if c.own != nil {
			c.own.give(int64(e.length))
		}
		return refusedBusy, "too much is under way"
	}
	return 0, ""
}

func (c *serverConn) give(bytes int64) {
	c.use.give(bytes)
	if c.own != nil {
		c.own.give(bytes)
	}
}

func (c *serverConn) refuse(id uint64, why refusal, text string) {
	c.say(&message{kind: kindRefusal, id: id, body: append([]byte{byte(why)}, text...)})
}
