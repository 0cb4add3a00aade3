package door

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// drainTime is how long a connection is still read after Shutdown and after its last answers: requests on their way are answered.
	drainTime = 50 * time.Millisecond
	// acceptPause is how long the server waits if a connection can't be accepted: it may be out of file descriptors.
	acceptPause = 50 * time.Millisecond
)

// Handler executes the requests of one connection. Its methods are called by one goroutine at a time.
type Handler interface {
	// Execute executes the complete requests at the start of buf, in their order, appends the answers to c.Out, and returns the length of
	// those requests. The rest is the beginning of a request: the next call gets it again, with more bytes after it. Execute owns buf until
	// it returns and may overwrite the part that it has used. ctx ends when the connection is cut off.
	//
	// It must call c.MayWait before work that may wait, and c.WriteIfFull between requests with long answers. Once c.Ended reports true, no
	// client takes answers any more, and it must return.
	Execute(ctx context.Context, c *Conn, buf []byte) (used int)
	// TooLong appends the answer to a request longer than the limit. The connection is closed afterwards.
	TooLong(c *Conn)
}

// RoomHandler is a Handler that distinguishes a request that is too long from one for which no memory is left. For any other, TooLong answers both.
type RoomHandler interface {
	Handler
	// NoRoom appends the answer to a request whose beginning is buf and for which too little memory is left. It has not been executed. The connection is
	// closed afterwards.
	NoRoom(c *Conn, buf []byte)
}

// ClosedHandler is a Handler that keeps something for its connection.
type ClosedHandler interface {
	Handler
	// Closed is called once after the connection has ended. It must not wait.
	Closed()
}

// Server serves the connections of any number of listeners by one protocol. Its methods may be called by any number of goroutines.
type Server struct {
	open     func(*Conn) Handler
	link     Link // instead of open
	opt      Options
	counters counters
	share    share
	places   places
	waiting  waiting
	crowded  spell // in a queue, little work waits for much
	failures *Failures

	mu      sync.Mutex
	closed  bool
	serving sync.WaitGroup // calls of Serve
	parts   map[*part]struct{}
}

// part is a listener with its connections. The server's lock guards it.
type part struct {
	ln     net.Listener
	conns  map[*Conn]struct{}
	cancel context.CancelFunc // of the context of its calls
	served sync.WaitGroup     // connections
	loops  loops
}

// New returns a server, which does nothing before Serve is called. open makes the handler of each connection; with TLS it is called after
// the handshake. If it returns nil the connection is closed. It must not wait.
func New(open func(*Conn) Handler, o Options) (*Server, error) {
	s, err := newServer(o)
	if err == nil {
		s.open = open
	}
	return s, err
}

func newServer(o Options) (*Server, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Server{opt: o, failures: NewFailures(o.Log, o.Name+": connections failed", "at", "from"), parts: map[*part]struct{}{}}
	s.places = places{taken: make(chan struct{}, placesOf(runtime.GOMAXPROCS(0), o.Loops)), wait: placeTime}
	if err := o.Limits.keep(&s.share, o.Kept); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Name, err)
	}
	return s, nil
}

// Serve serves the connections of a listener and closes it at the end. It returns nil after Shutdown, or when ctx has ended. The end of ctx
// cuts off all connections and ends the contexts of their requests; no connection of the listener is left then. Serve returns an error if
// the listener fails, and ErrClosed if the server was shut down before.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &part{ln: ln, conns: map[*Conn]struct{}{}, cancel: cancel}
	if !s.begin(p) {
		return errors.Join(ErrClosed, ln.Close())
	}
	defer s.end(p)
	p.loops = newLoops(ctx, s, p)
	defer p.loops.end()
	defer context.AfterFunc(ctx, func() { s.cut(p) })()
	err := s.accept(ctx, p)
	if err != nil {
		cancel()
		ln.Close() // it has failed: its next error is of no use
	}
	p.served.Wait()
	return err
}

func (s *Server) begin(p *part) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.parts[p] = struct{}{}
	s.serving.Add(1)
	return true
}

func (s *Server) end(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.parts, p)
	s.serving.Done()
}

// cut closes the listener and its connections, whatever they do.
func (s *Server) cut(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.ln.Close()
	for c := range p.conns {
		c.cut()
	}
}

// accept accepts connections until the listener is closed. It returns nil if the server closed the listener.
func (s *Server) accept(ctx context.Context, p *part) error {
	for {
		nc, err := p.ln.Accept()
		switch {
		case err == nil:
			s.start(ctx, p, nc)
		case ctx.Err() != nil || s.isClosed():
			return nil
		case !isTemporary(err):
			return fmt.Errorf("%s: accept: %w", s.opt.Name, err)
		default:
			s.failures.Add("accept", nil, err)
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
		}
	}
}

// isTemporary reports whether a listener may continue after an error: a connection that broke before it was accepted, or a lack of file
// descriptors or memory. For a listener that can never continue the system says that it is closed, or not a listener.
func isTemporary(err error) bool {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e != syscall.EBADF && e != syscall.EINVAL
	}
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary() && !errors.Is(err, net.ErrClosed)
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// start begins to serve a connection, or closes it if there are too many.
func (s *Server) start(ctx context.Context, p *part, nc net.Conn) {
	if t, ok := nc.(*net.TCPConn); ok {
		t.SetNoDelay(true) // a broken connection fails at its first read
		t.SetKeepAlive(true)
	}
	if !s.opt.Limits.take(&s.share) {
		s.turnAway(nc)
		return
	}
	switch {
	case s.link != nil:
		s.startLink(ctx, p, nc)
	case s.opt.TLS != nil:
		s.startTLS(ctx, p, nc)
	default:
		s.startPlain(ctx, p, nc)
	}
}

// lastWordTime bounds the write of Options.Full. The system takes it at once: nothing was written before.
const lastWordTime = time.Second

// turnAway closes a connection above the limits, after the protocol's last words. With TLS there are none: a handshake would cost more than a connection.
func (s *Server) turnAway(nc net.Conn) {
	s.counters.refused.Add(1)
	if s.opt.Full != "" && s.opt.TLS == nil {
		nc.SetWriteDeadline(time.Now().Add(lastWordTime))
		_, _ = io.WriteString(nc, s.opt.Full) // the client may have gone
	}
	nc.Close()
}

func (s *Server) startPlain(ctx context.Context, p *part, nc net.Conn) {
	c := newConn(s, nc)
	if c.handler = s.open(c); c.handler == nil {
		s.refuse(nc)
		return
	}
	if !s.admit(ctx, p, c) {
		return
	}
	c.mu.Lock() // until it is adopted, only cut and drain know the connection
	if !c.draining.Load() {
		p.loops.adopt(c)
	}
	c.mu.Unlock()
	c.awaitMore()
	if !c.park() {
		go s.serve(ctx, p, c)
	}
}

// startTLS serves a connection in a goroutine of its own, which begins with the handshake.
func (s *Server) startTLS(ctx context.Context, p *part, nc net.Conn) {
	t := tls.Server(nc, s.opt.TLS)
	c := newConn(s, t)
	c.raw, c.tls = nc, t
	if !s.admit(ctx, p, c) {
		return
	}
	go func() {
		if !c.shake(ctx) {
			s.stopped(p, c)
			return
		}
		c.awaitMore()
		s.serve(ctx, p, c)
	}()
}

// admit adds a connection to those of the listener, or closes it if the server has been shut down.
func (s *Server) admit(ctx context.Context, p *part, c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || ctx.Err() != nil {
		s.refuse(c.raw)
		return false
	}
	s.counters.accepted.Add(1)
	p.conns[c] = struct{}{}
	p.served.Add(1)
	return true
}

// refuse closes a connection that was counted as open.
func (s *Server) refuse(nc net.Conn) {
	s.counters.refused.Add(1)
	s.opt.Limits.give(&s.share)
	nc.Close()
}

// serve serves a connection in a goroutine of its own until it has ended or is parked in a loop.
func (s *Server) serve(ctx context.Context, p *part, c *Conn) {
	if !c.serve(ctx) {
		s.stopped(p, c)
	}
}

// stopped removes a connection that has ended.
func (s *Server) stopped(p *part, c *Conn) {
	defer p.served.Done()
	c.reserve(0)
	c.nc.Close()
	if h, ok := c.handler.(ClosedHandler); ok {
		h.Closed()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(p.conns, c)
	s.opt.Limits.give(&s.share)
}

// Shutdown stops accepting, answers the complete requests that have arrived or are on their way, and closes the connections. A connection
// that was not accepted yet is reset, as the system does when a listener closes; none of its requests is executed. If ctx ends first, it cuts
// them off and returns ctx's error without waiting for requests still at the node. The server can't be used again.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain()
	done := make(chan error, 1)
	go func() {
		var err error
		if s.link != nil {
			err = s.link.Shutdown(ctx)
		}
		if err == nil {
			s.serving.Wait()
		}
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		s.cutAll()
		return fmt.Errorf("%s: %w", s.opt.Name, err)
	}
	s.opt.Limits.release(&s.share)
	return nil
}

// cutAll cuts off all connections without waiting for their work.
func (s *Server) cutAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.parts {
		p.cancel()
	}
}

func (s *Server) drain() {
	s.waiting.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for p := range s.parts {
		p.ln.Close()
		if s.link != nil {
			continue // the protocol drains
		}
		for c := range p.conns {
			c.drain()
		}
	}
}
