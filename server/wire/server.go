package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// ServerOptions configure a server.
type ServerOptions struct {
	Options
	// Handler answers requests. It has no default.
	Handler Handler
	// ClientErrors is how errors cross to clients; default Errors.
	ClientErrors Errors
	// Name is what the server says it is called.
	Name string
	// Hello judges what the other side says of itself, and returns what this side says, and the address that requests of nodes must bear: a number
	// that stands for this member in this incarnation. An error refuses the connection, and crosses by Errors. Default: everyone is
	// accepted.
	Hello func(from *Remote) (answer []byte, address uint64, err error)
	// Identify says who is at the other end before it has said anything, by a TLS handshake. Default: everyone is who it says.
	Identify func(ctx context.Context, nc net.Conn) (role Role, name string, err error)
	// Nodes and Clients bound what is under way in all connections of nodes, and of clients. Beyond, requests are refused with ErrBusy. Default for
	// nodes 16,384 requests and 1 GiB, for clients 4,096 and 256 MiB.
	Nodes, Clients Budget
	// PerClient bounds what is under way in one connection of a client; default 1,024 requests and 128 MiB.
	PerClient Budget
	// GreetingMax is how many connections may be about to introduce themselves; default 256.
	GreetingMax int
	// Foreign is what is said to someone who speaks another protocol; default ForeignLine.
	Foreign string
	// Log is told of connections that are refused; default slog.Default().
	Log *slog.Logger
}

// ForeignLine tells someone who speaks another protocol what this port is, as bloomd's protocol has errors.
const ForeignLine = "Client Error: this port speaks the protocol of bigset's nodes and clients, not bloomd's: ask the port of serve --bloomd\n"

func (o ServerOptions) withDefaults() ServerOptions {
	o.Options = o.Options.withDefaults()
	if o.ClientErrors == nil {
		o.ClientErrors = o.Errors
	}
	if o.Hello == nil {
		o.Hello = func(*Remote) ([]byte, uint64, error) { return nil, 0, nil }
	}
	o.Nodes = o.Nodes.or(Budget{16384, 1 << 30})
	o.Clients = o.Clients.or(Budget{4096, 256 << 20})
	o.PerClient = o.PerClient.or(Budget{1024, 128 << 20})
	if o.GreetingMax == 0 {
		o.GreetingMax = 256
	}
	if o.Foreign == "" {
		o.Foreign = ForeignLine
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// errors is how errors cross to someone.
func (o *ServerOptions) errors(r Role) Errors {
	if r == RoleNode {
		return o.Errors
	}
	return o.ClientErrors
}

// Budget bounds requests that are under way. One that is alone is never too large.
type Budget struct {
	Requests int
	Bytes    int64 // of their bodies
}

func (b Budget) or(d Budget) Budget {
	if b.Requests == 0 {
		b.Requests = d.Requests
	}
	if b.Bytes == 0 {
		b.Bytes = d.Bytes
	}
	return b
}

// use is what is taken of a budget.
type use struct {
	most Budget

	mu       sync.Mutex
	requests int
	bytes    int64
}

func (u *use) take(bytes int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.requests > 0 && (u.requests >= u.most.Requests || u.bytes+bytes > u.most.Bytes) {
		return false
	}
	u.requests++
	u.bytes += bytes
	return true
}

func (u *use) give(bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests--
	u.bytes -= bytes
}

// Server answers requests on connections that it is given. Its methods may be called by any number of goroutines.
type Server struct {
	opt            ServerOptions
	nodes, clients use
	work           chan *job // to goroutines that have nothing to do

	mu       sync.Mutex
	closed   bool
	greeting int
	conns    map[*serverConn]struct{}
	served   sync.WaitGroup // connections
	running  atomic.Int64   // requests
}

// NewServer returns a server.
func NewServer(o ServerOptions) *Server {
	o = o.withDefaults()
	return &Server{opt: o, nodes: use{most: o.Nodes}, clients: use{most: o.Clients}, work: make(chan *job), conns: map[*serverConn]struct{}{}}
}

// serverConn is one connection of a server.
type serverConn struct {
	s       *Server
	nc      net.Conn
	out     *queue
	from    Remote
	address uint64
	use     *use // of all of its kind
	own     *use // of this connection; nil for nodes
	ctx     context.Context
	cancel  context.CancelFunc

	mu      sync.Mutex
	open    map[uint64]*job      // requests that are being done
	coming  map[uint64]*assembly // requests of which segments are still to come
	drained bool
}

// job is one request.
type job struct {
	c      *serverConn
	id     uint64
	req    Request
	bytes  int64
	ctx    context.Context
	cancel context.CancelFunc
	credit chan struct{} // parts that may be sent; nil for a request that wants no stream
}

// ServeConn answers the requests of one connection until it ends, which it closes. It returns why the connection was refused or failed, nil where the
// other side closed it or the server did.
func (s *Server) ServeConn(ctx context.Context, nc net.Conn) error {
	c, r, err := s.greet(ctx, nc)
	if err != nil {
		err = errors.Join(err, nc.Close())
		if silent(err) {
			return nil
		}
		s.opt.Log.Warn("wire: connection refused", "from", nc.RemoteAddr().String(), "cause", err)
		return err
	}
	defer s.served.Done()
	defer s.remove(c)
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	w := &writer{nc: nc, buf: bufio.NewWriterSize(nc, bufferBytes), q: c.out, time: s.opt.WriteTime}
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		if w.run(c.ctx.Done()) != nil {
			_ = nc.Close()
		}
	}()
	err = c.read(r)
	c.cancel()
	_ = nc.Close()
	c.out.close()
	<-writing
	if !errors.Is(err, ErrFrame) {
		return nil
	}
	s.opt.Log.Warn("wire: connection cut", "from", c.from.Address, "name", c.from.Name, "cause", err)
	return err
}

// greet makes a connection known, or refuses it.
func (s *Server) greet(ctx context.Context, nc net.Conn) (*serverConn, *bufio.Reader, error) {
	s.mu.Lock()
	if s.closed || s.greeting >= s.opt.GreetingMax {
		defer s.mu.Unlock()
		if s.closed {
			return nil, nil, ErrClosed
		}
		return nil, nil, fmt.Errorf("%w: %d connections are about to introduce themselves", ErrBusy, s.greeting)
	}
	s.greeting++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.greeting--
		s.mu.Unlock()
	}()
	if err := nc.SetDeadline(deadlineOf(s.opt.HelloTime)); err != nil {
		return nil, nil, err
	}
	from := Remote{Address: nc.RemoteAddr().String()}
	if s.opt.Identify != nil {
		var err error
		if from.Role, from.Name, err = s.opt.Identify(ctx, nc); err != nil {
			return nil, nil, err
		}
		from.Proven = true
	}
	r := bufio.NewReaderSize(nc, bufferBytes)
	version, err := s.opt.speaks(r)
	if err != nil {
		switch {
		case errors.Is(err, ErrForeign):
			_, _ = nc.Write([]byte(s.opt.Foreign))
		case errors.Is(err, ErrRefused):
			_, _ = nc.Write(s.opt.preamble()) // the other side finds out the same
		}
		return nil, nil, err
	}
	refuse := func(err error) error {
		b := append([]byte{byte(refusedHello)}, s.opt.errors(from.Role).Append(nil, err)...)
		if len(b) > helloBytesMax {
			b = b[:helloBytesMax]
		}
		_, _ = nc.Write(appendSegment(s.opt.preamble(), kindRefusal, b))
		return err
	}
	h, payload, err := (&segments{r: r}).whole()
	if err == nil && h.kind != kindHello {
		err = fmt.Errorf("%w: a segment of kind %d in place of a hello", ErrFrame, h.kind)
	}
	if err != nil {
		return nil, nil, err
	}
	their, err := decodeHello(payload)
	if err != nil {
		return nil, nil, refuse(err)
	}
	if from.Proven && (their.role != from.Role || their.name != "" && their.name != from.Name) {
		return nil, nil, refuse(fmt.Errorf("%w: it says that it is %v %q, its certificate says %v %q", ErrRefused, their.role, their.name, from.Role, from.Name))
	}
	if !from.Proven {
		from.Role, from.Name = their.role, their.name
	}
	from.Purpose, from.Version, from.Hello = their.purpose, version, their.body
	answer, address, err := s.opt.Hello(&from)
	if err != nil {
		return nil, nil, refuse(err)
	}
	own := hello{role: RoleNode, purpose: from.Purpose, address: address, name: s.opt.Name, body: answer}
	if _, err := nc.Write(appendSegment(s.opt.preamble(), kindHello, own.append(nil))); err != nil {
		return nil, nil, err
	}
	if err := nc.SetDeadline(time.Time{}); err != nil {
		return nil, nil, err
	}
	c := &serverConn{s: s, nc: nc, from: from, address: address, use: &s.clients, open: map[uint64]*job{}, coming: map[uint64]*assembly{}}
	c.out = newQueue(int(s.opt.Nodes.Bytes))
	if from.Role == RoleNode {
		c.use = &s.nodes
	} else {
		c.own = &use{most: s.opt.PerClient}
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.cancel()
		return nil, nil, ErrClosed
	}
	s.conns[c] = struct{}{}
	s.served.Add(1)
	return c, r, nil
}

func (s *Server) remove(c *serverConn) {
	c.cancel()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// Each calls f for the other side of every connection.
func (s *Server) Each(f func(*Remote)) {
	s.mu.Lock()
	var all []*serverConn
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		f(&c.from)
	}
}

// Cut closes the connections whose other side f names.
func (s *Server) Cut(f func(*Remote) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if f(&c.from) {
			_ = c.nc.Close()
		}
	}
}

// Shutdown takes no more connections and requests, waits for the requests under way as long as ctx allows, and closes all connections.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	var all []*serverConn
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.drain()
	}
	var err error
	for s.running.Load() > 0 && err == nil {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			err = fmt.Errorf("wire: %d requests were cut off: %w", s.running.Load(), ctx.Err())
		}
	}
	for _, c := range all {
		if err != nil {
			c.cancel()
		}
		c.out.finish()
	}
	s.served.Wait()
	return err
}

// drain asks the other side for no more requests.
func (c *serverConn) drain() {
	c.mu.Lock()
	c.drained = true
	c.mu.Unlock()
	c.out.push(&message{kind: kindDrain, priority: PriorityQuorum}, true)
}

// read takes requests until the connection ends.
func (c *serverConn) read(r *bufio.Reader) error {
	defer c.letGo()
	s := &segments{r: r}
	for {
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
			err = s.rest(h)
		case kindPing:
			c.out.push(&message{kind: kindPong, priority: PriorityQuorum}, true)
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

// letGo gives back what requests have taken that did not come whole.
func (c *serverConn) letGo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, a := range c.coming {
		c.give(int64(a.env.length))
		delete(c.coming, id)
	}
}

// credit takes a segment that asks for more parts.
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
	if j == nil { // it has ended
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

// request takes a segment of a request.
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
	if a == nil { // what follows a refusal or a cancel
		return s.rest(head{length: n})
	}
	last := h.flags&flagLast != 0
	err := a.add(s, n, last)
	if err == nil {
		err = s.end()
	}
	switch {
	case err != nil:
		if h.flags&flagFirst != 0 && last { // else letGo does
			c.give(int64(a.env.length))
		}
		return err
	case last:
		c.mu.Lock()
		delete(c.coming, h.id)
		c.mu.Unlock()
		c.begin(h.id, a)
	}
	return nil
}

// admit takes the room of a request, or says why it is refused.
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
	if c.own != nil && !c.own.take(int64(e.length)) {
		return refusedBusy, "this connection has too much under way"
	}
	if !c.use.take(int64(e.length)) {
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
	c.out.push(&message{kind: kindRefusal, priority: PriorityQuorum, id: id, body: append([]byte{byte(why)}, text...)}, true)
}

// begin has a request that is whole done.
func (c *serverConn) begin(id uint64, a *assembly) {
	j := &job{c: c, id: id, bytes: int64(a.env.length),
		req: Request{Verb: a.env.verb, Epoch: a.env.epoch, Priority: a.env.priority, Body: a.body, From: &c.from}}
	if a.env.deadline > 0 {
		j.ctx, j.cancel = context.WithTimeout(c.ctx, time.Duration(a.env.deadline)*time.Millisecond)
	} else {
		j.ctx, j.cancel = context.WithCancel(c.ctx)
	}
	if a.env.credit > 0 {
		j.credit = make(chan struct{}, creditMax)
		for range a.env.credit {
			j.credit <- struct{}{}
		}
	}
	c.mu.Lock()
	c.open[id] = j
	c.mu.Unlock()
	c.s.running.Add(1)
	select {
	case c.s.work <- j:
	default:
		go c.s.worker(j)
	}
}

// idleTime is how long a goroutine waits for another request: its stack has grown already.
const idleTime = 10 * time.Second

// worker does requests, one after the other.
func (s *Server) worker(j *job) {
	idle := time.NewTimer(idleTime)
	defer idle.Stop()
	for {
		j.run()
		j = nil
		idle.Reset(idleTime)
		select {
		case j = <-s.work:
		case <-idle.C:
			return
		}
	}
}

// errGone says that nobody waits for a stream any more.
var errGone = errors.New("wire: nobody waits for the answer any more")

// run does one request and sends the answer.
func (j *job) run() {
	c := j.c
	defer c.s.running.Add(-1)
	defer j.cancel()
	if err := j.ctx.Err(); err != nil {
		j.end()
		if errors.Is(err, context.DeadlineExceeded) {
			c.refuse(j.id, refusedLate, "its time was over before it began")
		}
		c.give(j.bytes)
		return
	}
	var written chan struct{} // of the part before
	var send func([]byte) error
	if j.credit != nil {
		send = func(part []byte) error {
			select {
			case <-j.credit:
			case <-j.ctx.Done():
				return errGone
			}
			if written == nil {
				written = make(chan struct{}, 1)
			}
			m := (&message{kind: kindPart, priority: j.req.Priority, id: j.id, body: part, gone: func() { written <- struct{}{} }}).withLength()
			if ok, _ := c.out.push(m, true); !ok {
				return errGone
			}
			select {
			case <-written: // or the next part could overtake it
				return nil
			case <-c.ctx.Done():
				return errGone
			}
		}
	} else {
		send = func([]byte) error {
			return fmt.Errorf("%w: verb %d answers with a stream, which was not asked for", ErrFrame, j.req.Verb)
		}
	}
	last, err := c.s.opt.Handler(j.ctx, &j.req, send)
	j.end()
	m := &message{kind: kindAnswer, priority: j.req.Priority, id: j.id, body: last}
	if err == nil && len(last) > BodyBytesMax {
		err = fmt.Errorf("%w: an answer of %d bytes, at most %d", ErrFrame, len(last), BodyBytesMax)
	}
	if err != nil {
		m.kind, m.body = kindError, c.s.opt.errors(c.from.Role).Append(nil, err)
	}
	m.withLength()
	m.gone = func() { c.give(j.bytes) }
	if ok, _ := c.out.push(m, true); !ok {
		c.give(j.bytes)
	}
}

// end takes a request off the connection.
func (j *job) end() {
	j.c.mu.Lock()
	delete(j.c.open, j.id)
	j.c.mu.Unlock()
}

// Serve answers the connections of a listener, which it closes in the end, until Shutdown or ctx ends.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	for {
		nc, err := ln.Accept()
		if err == nil {
			go func() { _ = s.ServeConn(ctx, nc) }()
			continue
		}
		s.mu.Lock()
		closed := s.closed
		s.mu.Unlock()
		if closed || ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		time.Sleep(50 * time.Millisecond) // out of descriptors, perhaps
	}
}
