package server

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// connections bounds the connections of an http.Server. A connection above the bound closes the one that has waited longest for its client,
// either to send a whole request or to read the answer. So clients that send half a request or nothing, or read nothing, keep nobody out. A
// connection is never closed from the end of its request until its answer begins; if all connections are in that state, the new one is
// closed. bind sets up a connections value before the server serves.
type connections struct {
	most    int
	waitMin time.Duration // a connection is closed for another only after it has waited this long; new connections queue in the kernel until then

	mu        sync.Mutex
	waiting   []waitingConn         // the first has waited longest
	answering map[net.Conn]struct{} // until the answer begins
}

// waitingConn is a connection that waits for its client since it was accepted or its last answer began.
type waitingConn struct {
	net.Conn
	since time.Time
}

// connKey is the key under which the context of a request holds its connection.
type connKey struct{}

// bind makes srv report its connections and requests to a new connections value, which it returns.
func bind(srv *http.Server, most int, waitMin time.Duration) *connections {
	b := &connections{most: most, waitMin: waitMin, answering: map[net.Conn]struct{}{}}
	srv.ConnState = b.state
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	h := srv.Handler
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(connKey{}).(net.Conn)
		b.begin(c)
		defer b.end(c)
		h.ServeHTTP(&answer{w, func() { b.end(c) }}, r)
	})
	return b
}

// answer is a ResponseWriter that reports when the answer begins.
type answer struct {
	http.ResponseWriter
	begins func() // may be called again
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.begins()
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.begins()
	return a.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController find the server's own writer.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// state is the server's ConnState. The server calls it for a new connection before it accepts the next one.
func (b *connections) state(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		for {
			old, wait := b.admit(c, time.Now())
			if wait <= 0 {
				if old != nil {
					old.Close()
				}
				return
			}
			time.Sleep(wait)
		}
	case http.StateClosed, http.StateHijacked:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.leaveWaiting(c)
		delete(b.answering, c)
	}
}

// admit counts c and returns the connection to close for it, if any; this is c itself if all others are being answered. If even the oldest
// has not waited long enough, admit counts nothing and returns the time until it has.
func (b *connections) admit(c net.Conn, now time.Time) (old net.Conn, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting)+len(b.answering) >= b.most {
		if len(b.waiting) == 0 {
			return c, 0
		}
		if wait = b.waitMin - now.Sub(b.waiting[0].since); wait > 0 {
			return nil, wait
		}
		old = b.waiting[0].Conn
		b.waiting = slices.Delete(b.waiting, 0, 1)
	}
	b.waiting = append(b.waiting, waitingConn{c, now})
	return old, 0
}

// leaveWaiting reports whether c was waiting.
func (b *connections) leaveWaiting(c net.Conn) bool {
	i := slices.IndexFunc(b.waiting, func(w waitingConn) bool { return w.Conn == c })
	if i < 0 {
		return false
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return true
}

// begin and end enclose the work of the node for an answer, which ends with the first byte. A connection that was closed for another is not
// counted again.
func (b *connections) begin(c net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leaveWaiting(c) {
		b.answering[c] = struct{}{}
	}
}

func (b *connections) end(c net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.answering[c]; ok {
		delete(b.answering, c)
		b.waiting = append(b.waiting, waitingConn{c, time.Now()})
	}
}
