package rest

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// link serves the connections of a door by an http.Server. It is a door.Link.
type link struct {
	srv    *http.Server
	given  chan net.Conn // connections for the http.Server
	served chan struct{} // closed when the http.Server takes no more connections
	closed context.Context
	close  context.CancelFunc
	failed func(from net.Addr, err error) // is called when a TLS handshake fails

	mu    sync.Mutex
	conns map[net.Conn]*linked
}

// linked is a connection that the http.Server serves.
type linked struct {
	gone chan struct{} // closed when it has ended
	used bool          // a byte of it has arrived
}

// drainTime is how long a silent connection is kept after Shutdown: a request may be on its way.
const drainTime = 50 * time.Millisecond

func newLink(srv *http.Server) *link {
	l := &link{srv: srv, given: make(chan net.Conn), served: make(chan struct{}), conns: map[net.Conn]*linked{}}
	l.closed, l.close = context.WithCancel(context.Background())
	srv.ConnState = l.state
	go func() {
		defer close(l.served)
		_ = srv.Serve(l) // until Close
	}()
	return l
}

// Accept implements net.Listener.
func (l *link) Accept() (net.Conn, error) {
	select {
	case nc := <-l.given:
		return nc, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *link) Close() error {
	l.close()
	return nil
}

// Addr implements net.Listener.
func (l *link) Addr() net.Addr { return &net.TCPAddr{} }

// state records the state of a connection.
func (l *link) state(nc net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.conns[nc]
	switch {
	case c == nil:
	case state == http.StateActive:
		c.used = true
	case state == http.StateClosed, state == http.StateHijacked:
		delete(l.conns, nc)
		close(c.gone)
	}
}

// ServeConn implements door.Link.
func (l *link) ServeConn(ctx context.Context, nc net.Conn) error {
	if t, ok := nc.(*tls.Conn); ok {
		l.shake(ctx, t)
	}
	c := &linked{gone: make(chan struct{})}
	l.mu.Lock()
	l.conns[nc] = c
	l.mu.Unlock()
	select {
	case l.given <- nc:
	case <-l.closed.Done():
		l.mu.Lock()
		delete(l.conns, nc)
		l.mu.Unlock()
		return nc.Close()
	}
	select {
	case <-c.gone:
		return nil
	case <-ctx.Done():
		nc.Close() // this ends the context of its request
		<-c.gone
		return ctx.Err()
	}
}

// shake performs the TLS handshake, until the link is closed. The http.Server then finds it done or failed, and answers a client that speaks HTTP
// without TLS.
func (l *link) shake(ctx context.Context, t *tls.Conn) {
	ctx, cancel := context.WithTimeout(ctx, headerTime)
	defer cancel()
	defer context.AfterFunc(l.closed, cancel)()
	if err := t.HandshakeContext(ctx); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		l.failed(t.RemoteAddr(), err)
	}
}

// Shutdown implements door.Link. It closes connections that have never sent anything after drainTime; an http.Server would wait for
// seconds.
func (l *link) Shutdown(ctx context.Context) error {
	silent := time.AfterFunc(drainTime, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for nc, c := range l.conns {
			if !c.used {
				nc.Close()
			}
		}
	})
	defer silent.Stop()
	if err := l.srv.Shutdown(ctx); err != nil {
		return err
	}
	<-l.served
	return nil
}
