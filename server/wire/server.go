package wire

import (
	"bufio"
	"cmp"
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
	// Together has functions that answer requests of some verbs in place of Handler, except requests for streams. A call gets the requests of one verb that
	// have arrived together on a connection: one, or as many as were received at once. It is made in a goroutine like a Handler's. Each request is admitted, bounded
	// in time and answered by itself.
	Together map[Verb]func([]*Task)
	// ClientErrors encodes errors for clients; default Errors.
	ClientErrors Errors
	// Name is the name that the server reports.
	Name string
	// Hello checks what the other side reports about itself. It returns what this side reports, and the address that requests of nodes must
	// carry: a number that stands for this member in this incarnation. An error refuses the connection, and is encoded by Errors. Nil
	// accepts everyone.
	Hello func(from *Remote) (answer []byte, address uint64, err error)
	// Identify identifies the other end before it has sent anything, by a TLS handshake. Nil trusts what the other end reports.
	Identify func(ctx context.Context, nc net.Conn) (role Role, name string, err error)
	// Nodes and Clients bound the requests in progress on all connections of nodes, and of clients. Above that, requests are refused with
	// ErrBusy; but each connection of a client may have 1/256 of the requests and 1/2,048 of the bytes of PerClient in any case, until all
	// clients have twice the bytes. The defaults are 16,384 requests and 1 GiB for nodes, and 4,096 and 256 MiB for clients.
	Nodes, Clients Budget
	// PerClient bounds the requests in progress on one connection of a client; default 1,024 requests and 128 MiB.
	PerClient Budget
	// RunMax bounds the requests of clients that run at once; less than 1 is the default, 16 for each processor. Others wait in line, and those
	// of each connection take turns with those of others. A request that waits for its client does not count, nor one that has waited for
	// something else for 10 ms. A call of a function of Together counts as one, until it returns.
	RunMax int
	// Free has the verbs of clients' requests that run at once in any case: they wait most of the time, for something that many share.
	Free map[Verb]bool
	// ArriveTime is how long a client may send nothing more of a request that has arrived in part, before its connection is closed: such a
	// request takes room from those of others. The default is 30 s.
	ArriveTime time.Duration
	// StreamTime is how long a client may ask for no further part of a stream before the stream ends with an error: it keeps its room, and
	// what it reads from. The default is 10 minutes.
	StreamTime time.Duration
	// UnreadMax is how many bytes of answers, without parts of streams, may wait to be written to a connection of a client; default 64 MiB. When
	// more wait, no request of the connection begins until half of them wait: a client that does not read its answers would fill the memory otherwise.
	UnreadMax int
	// GreetingMax bounds the connections that are about to introduce themselves; default 256. Others wait, and the newest has the next turn. They
	// close those that have had their turn longest.
	GreetingMax int
	// Foreign is the answer to a client that speaks another protocol; default ForeignLine.
	Foreign string
	// Log receives the connections that are refused, for each host and cause once a minute; default slog.Default().
	Log *slog.Logger
}

// ForeignLine explains this port to a client that speaks another protocol, in the form of an error of bloomd's protocol.
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
	if o.ArriveTime == 0 {
		o.ArriveTime = 30 * time.Second
	}
	if o.StreamTime == 0 {
		o.StreamTime = 10 * time.Minute
	}
	if o.UnreadMax == 0 {
		o.UnreadMax = 64 << 20
	}
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

// errors returns the codec of errors for a role.
func (o *ServerOptions) errors(r Role) Errors {
	if r == RoleNode {
		return o.Errors
	}
	return o.ClientErrors
}

// Server answers requests on the connections that it is given. Its methods may be called by any number of goroutines.
type Server struct {
	opt            ServerOptions
	nodes, clients use
	work           chan work // to idle goroutines
	turns          *turns    // of clients' requests
	guard          guard
	loneLeast      int // loneLeast, or a test's
	greeting       *greeting
	refused        refusalLog

	mu      sync.Mutex
	closed  bool
	conns   map[*serverConn]struct{}
	served  sync.WaitGroup // connections
	running atomic.Int64   // requests
}

// NewServer returns a server.
func NewServer(o ServerOptions) *Server {
	o = o.withDefaults()
	s := &Server{opt: o, nodes: use{most: o.Nodes}, clients: use{most: o.Clients}, work: make(chan work), greeting: newGreeting(o.GreetingMax), conns: map[*serverConn]struct{}{},
		guard: guard{time: guardTime}, loneLeast: loneLeast}
	s.turns = newTurns(o.RunMax, s.do)
	s.refused.log, s.refused.now = o.Log, time.Now
	return s
}

// ServeConn answers the requests of one connection until the connection ends, and closes it. It returns why the connection was refused or
// failed, or nil if either side closed it.
func (s *Server) ServeConn(ctx context.Context, nc net.Conn) error {
	c, err := s.admit(ctx, nc)
	if c == nil {
		if closed := nc.Close(); err == nil || ctx.Err() != nil || s.stopped() || silent(errors.Join(err, closed)) {
			return nil
		}
		if errors.Is(err, errProbe) {
			s.opt.Log.Debug("wire: a client asked which protocol this is", "from", nc.RemoteAddr().String())
			return err
		}
		s.refused.add(nc.RemoteAddr().String(), err)
		return err
	}
	defer s.served.Done()
	defer s.remove(c)
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		_ = c.w.run(c.ctx.Done())
		c.cancel()     // ends hold
		_ = nc.Close() // ends reading
	}()
	go c.read()
	err = <-c.ended // a request that was performed where it was read may still be running
	_ = nc.Close()
	c.out.close()
	<-writing
	if !errors.Is(err, ErrFrame) {
		return nil
	}
	s.opt.Log.Warn("wire: connection cut", "from", c.from.Address, "name", c.from.Name, "cause", err)
	return err
}

// stopped reports whether the server takes no more connections.
func (s *Server) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// admit waits until a connection may introduce itself, and registers or refuses it. The error is nil, and so is the connection, if it was
// closed to make room for others.
func (s *Server) admit(ctx context.Context, nc net.Conn) (*serverConn, error) {
	if s.stopped() {
		return nil, ErrClosed
	}
	e, err := s.greeting.enter(ctx, nc, s.opt.HelloTime)
	if err != nil {
		return nil, err
	}
	c, err := s.greet(ctx, nc)
	out, due := s.greeting.leave(e)
	if due > 0 {
		s.opt.Log.Warn("wire: connections that did not introduce themselves were closed for others", "closed", due)
	}
	if out && c == nil {
		err = nil
	}
	return c, err
}

// greet registers a connection or refuses it.
func (s *Server) greet(ctx context.Context, nc net.Conn) (*serverConn, error) {
	if err := nc.SetDeadline(deadlineOf(s.opt.HelloTime)); err != nil {
		return nil, err
	}
	from := Remote{Address: nc.RemoteAddr().String()}
	if s.opt.Identify != nil {
		var err error
		if from.Role, from.Name, err = s.opt.Identify(ctx, nc); err != nil {
			return nil, err
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
			_, _ = nc.Write(s.opt.preamble()) // the other side comes to the same result
		}
		return nil, err
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
		return nil, err
	}
	their, err := decodeHello(payload)
	if err != nil {
		return nil, refuse(err)
	}
	if from.Proven && (their.role != from.Role || their.name != "" && their.name != from.Name) {
		return nil, refuse(fmt.Errorf("%w: it says that it is %v %q, its certificate says %v %q", ErrRefused, their.role, their.name, from.Role, from.Name))
	}
	if !from.Proven {
		from.Role, from.Name = their.role, their.name
	}
	from.Purpose, from.Version, from.Hello = their.purpose, version, their.body
	answer, address, err := s.opt.Hello(&from)
	if err != nil {
		return nil, refuse(err)
	}
	own := hello{role: RoleNode, purpose: from.Purpose, address: address, name: s.opt.Name, body: answer}
	if _, err := nc.Write(appendSegment(s.opt.preamble(), kindHello, own.append(nil))); err != nil {
		return nil, err
	}
	if err := nc.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	c := &serverConn{s: s, nc: nc, from: from, address: address, use: &s.clients, open: map[uint64]*job{}, coming: map[uint64]*assembly{},
		segments: &segments{r: r}, peek: newPeek(nc), ended: make(chan error, 1)}
	c.out = newQueue(int(s.opt.Nodes.Bytes))
	c.w = newWriter(nc, c.out, s.opt.WriteTime)
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
		return nil, ErrClosed
	}
	s.conns[c] = struct{}{}
	s.served.Add(1)
	return c, nil
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

// Cut closes the connections for whose other side f returns true.
func (s *Server) Cut(f func(*Remote) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if f(&c.from) {
			_ = c.nc.Close()
		}
	}
}

// Shutdown takes no more connections and requests, waits as long as ctx allows until the requests in progress have ended and their answers are
// written, and closes all connections.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	var all []*serverConn
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	s.greeting.end()
	for _, c := range all {
		c.drain()
	}
	err := s.idle(ctx)
	for _, c := range all {
		c.out.finish()
	}
	ended := make(chan struct{})
	go func() {
		s.served.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return err
	case <-ctx.Done(): // clients read slowly or not at all, or requests were cut off
	}
	for _, c := range all {
		c.cancel()
		_ = c.nc.Close()
	}
	<-ended
	return cmp.Or(err, fmt.Errorf("wire: connections were cut off before their answers were written: %w", ctx.Err()))
}

// idle waits until no request is in progress.
func (s *Server) idle(ctx context.Context) error {
	for s.running.Load() > 0 {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wire: %d requests were cut off: %w", s.running.Load(), ctx.Err())
		}
	}
	return nil
}

// Serve answers the connections of a listener until Shutdown is called or ctx ends, and closes the listener.
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
		time.Sleep(50 * time.Millisecond) // possibly out of descriptors
	}
}
