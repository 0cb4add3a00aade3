package rest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// link serves the connections of a door by an http.Server. It is a door.Link.
type link struct {
	srv    *http.Server
	given  chan net.Conn // connections for the http.Server
	closed chan struct{}
	once   sync.Once
	served chan struct{} // closed when the http.Server takes no more connections

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
	l := &link{srv: srv, given: make(chan net.Conn), closed: make(chan struct{}), served: make(chan struct{}), conns: map[net.Conn]*linked{}}
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
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *link) Close() error {
	l.once.Do(func() { close(l.closed) })
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
	c := &linked{gone: make(chan struct{})}
	l.mu.Lock()
	l.conns[nc] = c
	l.mu.Unlock()
	select {
	case l.given <- nc:
	case <-l.closed:
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
