package door

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// Link is a protocol that serves its connections itself, because either side may speak at any time. wire.Server is one.
type Link interface {
	// ServeConn serves a connection until it or ctx ends, and closes it. The error is for callers that want it; the protocol has logged
	// errors worth logging. With Options.TLS, nc is a *tls.Conn before its handshake: the protocol performs the handshake within its own
	// time limit.
	ServeConn(ctx context.Context, nc net.Conn) error
	// Shutdown takes no more requests, answers those in progress as long as ctx allows, and ends all connections. When ctx ends, the door closes the
	// connections and does not wait for Shutdown.
	Shutdown(ctx context.Context) error
}

// NewLink returns a server for a protocol that serves its connections itself. It uses the options Name, TLS, Limits, Full, Kept and Log.
func NewLink(l Link, o Options) (*Server, error) {
	s, err := newServer(o)
	if err == nil {
		s.link = l
	}
	return s, err
}

// HandshakeFailed counts a TLS handshake that the protocol of NewLink has performed, and that has failed.
func (s *Server) HandshakeFailed() { s.counters.handshakes.Add(1) }

// startLink passes a connection to the protocol.
func (s *Server) startLink(ctx context.Context, p *part, nc net.Conn) {
	c := &Conn{s: s, nc: nc, raw: nc}
	if !s.admit(ctx, p, c) {
		return
	}
	nc = counted{nc, &s.counters}
	if s.opt.TLS != nil {
		nc = tls.Server(nc, s.opt.TLS)
	}
	go func() {
		defer s.stopped(p, c)
		_ = s.link.ServeConn(ctx, nc)
	}()
}

// counted is a connection whose bytes are counted.
type counted struct {
	net.Conn
	counters *counters
}

// Read implements net.Conn.
func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.counters.read.Add(uint64(n))
	return n, err
}

// Write implements net.Conn.
func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.counters.written.Add(uint64(n))
	return n, err
}

// SyscallConn implements syscall.Conn, so that a protocol can write to the socket without waiting. The protocol reports what it has written
// to Wrote.
func (c counted) SyscallConn() (syscall.RawConn, error) {
	if raw, ok := c.Conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Wrote counts bytes that were written to the socket other than by Write.
func (c counted) Wrote(n int) { c.counters.written.Add(uint64(n)) }
