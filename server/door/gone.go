package door

import (
	"context"
	"errors"
	"sync"
	"time"
)

// gonePause is how often the server looks whether clients that wait for an answer are still there.
const gonePause = time.Second

// waiting are connections that wait for something other than their clients.
type waiting struct {
	mu       sync.Mutex
	conns    map[*Conn]context.CancelCauseFunc // to be called when the client has gone
	watching bool                              // a goroutine looks at them
	ended    bool                              // the server shuts down
}

// ErrGone is the cause of the end of a context of UntilGone if the client has gone.
var ErrGone = errors.New("door: the client has closed the connection, or its sending half")

// UntilGone returns a context that ends within some seconds after the client has closed the connection or its sending half, with the cause ErrGone,
// and as soon as the server shuts down. It is for requests that wait long for something other than the client, after a call of MayWait. The caller must call stop
// before Execute returns. Outside Linux nobody sees that the client has gone. The answers so far are written first: the client need not wait for them.
func (c *Conn) UntilGone() (gone context.Context, stop func()) {
	c.write()
	gone, cancel := context.WithCancelCause(context.Background())
	w := &c.s.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		cancel(nil)
		return gone, func() {}
	}
	if w.conns == nil {
		w.conns = map[*Conn]context.CancelCauseFunc{}
	}
	w.conns[c] = cancel
	if !w.watching {
		w.watching = true
		go w.watch()
	}
	return gone, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.conns, c)
		cancel(nil)
	}
}

// Gone reports whether the client has closed the connection or its sending half. It asks the system. Outside Linux nobody sees that, and Gone
// reports false.
func (c *Conn) Gone() bool { return c.hungUp() }

// end ends the contexts of all, also of those that begin to wait later.
func (w *waiting) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for c, cancel := range w.conns {
		delete(w.conns, c)
		cancel(nil)
	}
}

// watch looks at the connections until none is left. None of them ends while it looks.
func (w *waiting) watch() {
	for w.look() {
		time.Sleep(gonePause)
	}
}

// look ends the contexts of clients that have gone, and reports whether others are left.
func (w *waiting) look() (more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c, cancel := range w.conns {
		if c.hungUp() {
			delete(w.conns, c)
			cancel(ErrGone)
		}
	}
	w.watching = len(w.conns) > 0
	return w.watching
}
