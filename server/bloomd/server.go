package bloomd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrClosed is the error of Serve after Shutdown.
var ErrClosed = errors.New("bloomd: server is shut down")

// Options are a server's. Zero means the default.
type Options struct {
	LineBytesMax   int           // longest line, with its line feed; 64 MiB. A longer one is answered by an error, and its connection closed
	LinesBytesMax  int           // of all lines above 64 KiB that are being read; 512 MiB, or LineBytesMax. Beyond it a line is taken for too long
	OutputBytesMax int           // answers are written when so much of them has come together, or no request is left; 64 KiB
	ConnectionsMax int           // open at one time; 10,000. One more is closed at once
	IdleTime       time.Duration // a connection that sends nothing for so long, to an eighth more, is closed; 0: never, as bloomd
	LineTime       time.Duration // a line above 64 KiB that is not whole after so long, and a second more for each 256 KiB of its buffer, ends its connection; 1 minute
	WriteTime      time.Duration // a connection that takes nothing for so long, to an eighth more, is closed; 5 minutes
	Loops          int           // event loops of a listener, on Linux; half of the processors. -1: none, each connection has a goroutine of its own
	Log            *slog.Logger  // of what fails at the node or the listener; slog.Default()
}

func (o Options) withDefaults() Options {
	if o.LineBytesMax == 0 {
		o.LineBytesMax = 64 << 20
	}
	if o.LinesBytesMax == 0 {
		o.LinesBytesMax = max(512<<20, o.LineBytesMax)
	}
	if o.OutputBytesMax == 0 {
		o.OutputBytesMax = 64 << 10
	}
	if o.ConnectionsMax == 0 {
		o.ConnectionsMax = 10_000
	}
	if o.LineTime == 0 {
		o.LineTime = time.Minute
	}
	if o.WriteTime == 0 {
		o.WriteTime = 5 * time.Minute
	}
	if o.Loops == 0 {
		o.Loops = (runtime.GOMAXPROCS(0) + 1) / 2
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// validate judges options that have their defaults.
func (o Options) validate() error {
	switch {
	case o.LineBytesMax < lineBytesLeast:
		return fmt.Errorf("bloomd: longest line of %d bytes, at least %d are needed", o.LineBytesMax, lineBytesLeast)
	case o.LinesBytesMax < o.LineBytesMax:
		return fmt.Errorf("bloomd: %d bytes for all lines, at least the %d of one are needed", o.LinesBytesMax, o.LineBytesMax)
	case o.OutputBytesMax < 1:
		return fmt.Errorf("bloomd: output of %d bytes", o.OutputBytesMax)
	case o.ConnectionsMax < 1:
		return fmt.Errorf("bloomd: at most %d connections", o.ConnectionsMax)
	case o.IdleTime < 0:
		return fmt.Errorf("bloomd: idle time %v", o.IdleTime)
	case o.LineTime < 0:
		return fmt.Errorf("bloomd: time for a line %v", o.LineTime)
	case o.WriteTime < 0:
		return fmt.Errorf("bloomd: write time %v", o.WriteTime)
	}
	return nil
}

const (
	// lineBytesLeast holds every line but those of key commands: create with the longest name and all its options.
	lineBytesLeast = 1024
	// drainTime is how long a connection is still read after Shutdown, and after what it had at the node then: what is on its way is answered.
	drainTime = 50 * time.Millisecond
	// acceptPause is how long the server waits when a connection can't be accepted: it may be out of file descriptors.
	acceptPause = 50 * time.Millisecond
)

// Server answers bloomd's protocol on any number of listeners, with the filters of one node. Its methods may be called by any number of
// goroutines.
type Server struct {
	filters  Filters
	opt      Options
	counters counters
	failures failureLog
	lines    atomic.Int64 // bytes of the buffers that are larger than those that connections keep

	mu      sync.Mutex
	closed  bool
	serving sync.WaitGroup // calls of Serve
	parts   map[*part]struct{}
}

// part is a listener and its connections. The server's lock guards it.
type part struct {
	ln     net.Listener
	conns  map[*conn]struct{}
	cancel context.CancelFunc // of the context of its calls
	served sync.WaitGroup     // connections
	loops  loops
}

// New returns a server, which does nothing before Serve is called.
func New(filters Filters, o Options) (*Server, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Server{filters: filters, opt: o, failures: failureLog{log: o.Log, pause: failurePause}, parts: map[*part]struct{}{}}, nil
}

// Serve answers the connections of a listener, which it closes in the end. It returns nil after Shutdown, or when ctx has ended, which
// cuts off all connections and is passed on to the node; then no connection of the listener is left. It fails when the listener does, and
// with ErrClosed when the server was shut down before.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &part{ln: ln, conns: map[*conn]struct{}{}, cancel: cancel}
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
		ln.Close() // it has failed: what else it says is of no use
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

// cut closes the listener and its connections, whatever they are at.
func (s *Server) cut(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.ln.Close()
	for c := range p.conns {
		c.cut()
	}
}

// accept takes connections until the listener is closed, which is no error when it was the server that closed it.
func (s *Server) accept(ctx context.Context, p *part) error {
	for {
		nc, err := p.ln.Accept()
		switch {
		case err == nil:
			s.start(ctx, p, nc)
		case ctx.Err() != nil || s.isClosed():
			return nil
		case !isTemporary(err):
			return fmt.Errorf("bloomd: accept: %w", err)
		default:
			s.failures.add("accept", nil, err)
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
		}
	}
}

// isTemporary reports whether a listener may go on after an error: a connection that broke before it was accepted, or a lack of file
// descriptors or of memory. What the system says of a listener that will never do again is that it is closed, or not one.
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

// start begins to serve a connection, or closes it where there are too many.
func (s *Server) start(ctx context.Context, p *part, nc net.Conn) {
	if t, ok := nc.(*net.TCPConn); ok {
		t.SetNoDelay(true) // a connection that is broken already fails at its first read
		t.SetKeepAlive(true)
	}
	c := newConn(s, nc)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || ctx.Err() != nil || s.counters.open.Load() >= int64(s.opt.ConnectionsMax) {
		s.counters.refused.Add(1)
		nc.Close()
		return
	}
	s.counters.accepted.Add(1)
	s.counters.open.Add(1)
	p.conns[c] = struct{}{}
	p.served.Add(1)
	p.loops.adopt(c)
	c.awaitMore()
	if !c.park() {
		go s.serve(ctx, p, c)
	}
}

// serve serves a connection by a goroutine of its own, until it has ended or is parked in a loop.
func (s *Server) serve(ctx context.Context, p *part, c *conn) {
	if !c.serve(ctx) {
		s.stopped(p, c)
	}
}

func (s *Server) stopped(p *part, c *conn) {
	defer p.served.Done()
	c.reserve(0)
	c.nc.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(p.conns, c)
	s.counters.open.Add(-1)
}

// Shutdown stops accepting, answers the complete requests that have come or are on their way, and closes the connections. When ctx ends
// before that is done, it cuts them off, and returns ctx's error without waiting for what is still at the node. The server can't be used
// again.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain()
	done := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.parts {
		p.cancel()
	}
	return ctx.Err()
}

func (s *Server) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for p := range s.parts {
		p.ln.Close()
		for c := range p.conns {
			c.drain()
		}
	}
}

// Metrics returns what the server has counted so far.
func (s *Server) Metrics() Metrics { return s.counters.snapshot() }
