package wire

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// greetMin is how long a connection may take to introduce itself, however many others wait to do so: three round trips to a distant node.
	greetMin = 250 * time.Millisecond
	// greetLogEvery is the least time between two log lines about connections that were closed for others.
	greetLogEvery = 10 * time.Second
)

// greeting bounds the connections that are about to introduce themselves. Others wait, and the newest has the next turn. They
// close those that have waited longest for the other side: clients that connect and say nothing keep nobody out, however many they are.
type greeting struct {
	most int
	stop chan struct{} // closed when no connection has a turn any more

	mu      sync.Mutex
	list    []*greeter  // the first has had its turn longest
	leaving int         // connections that were closed for others, and have not left
	waiting []*greeter  // the last one came last, and is next
	timer   *time.Timer // looks for the first of list when it has had greetMin; nil while it need not
	closed  int         // connections closed for others since the last log line
	logged  time.Time
}

// greeter is a connection that waits for its turn, or has it.
type greeter struct {
	nc    net.Conn
	turn  chan struct{} // closed when it has its turn
	since time.Time     // when that was
	out   bool          // it was closed for another one
}

func newGreeting(most int) *greeting { return &greeting{most: most, stop: make(chan struct{})} }

// enter waits until a connection has its turn, for at most d, or ctx or the server ends.
func (g *greeting) enter(ctx context.Context, nc net.Conn, d time.Duration) (*greeter, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	e := &greeter{nc: nc, turn: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, e)
	g.pass()
	g.mu.Unlock()
	var err error
	select {
	case <-e.turn:
		return e, nil
	case <-g.stop:
		err = ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	g.mu.Lock()
	i := slices.Index(g.waiting, e)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 { // its turn came at the same time
		_, due := g.leave(e)
		g.count(due)
	}
	return nil, err
}

// pass gives turns to connections that wait. If more wait than will leave, it closes those that have had their turn longest, and at least
// greetMin. The caller holds mu.
func (g *greeting) pass() {
	select {
	case <-g.stop:
		return
	default:
	}
	for len(g.waiting) > 0 && len(g.list)+g.leaving < g.most {
		last := len(g.waiting) - 1
		e := g.waiting[last]
		g.waiting, e.since = slices.Delete(g.waiting, last, last+1), time.Now()
		g.list = append(g.list, e)
		close(e.turn)
	}
	for len(g.waiting) > g.leaving && len(g.list) > 0 {
		e := g.list[0]
		if wait := greetMin - time.Since(e.since); wait > 0 {
			g.after(wait)
			return
		}
		g.list, e.out = g.list[1:], true
		g.leaving++
		_ = e.nc.Close() // its goroutine notices, and calls leave
	}
}

// after calls pass after a time, unless that is planned already. The caller holds mu.
func (g *greeting) after(d time.Duration) {
	if g.timer != nil {
		return
	}
	g.timer = time.AfterFunc(d, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.timer = nil
		g.pass()
	})
}

// leave ends the turn of a connection. It reports whether the connection was closed for another one, and how many were since the last log
// line if one is due.
func (g *greeting) leave(e *greeter) (out bool, due int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.list, e); i >= 0 {
		g.list = slices.Delete(g.list, i, i+1)
	}
	if e.out {
		g.leaving--
	}
	g.pass()
	if !e.out {
		return false, 0
	}
	g.closed++
	if now := time.Now(); now.Sub(g.logged) >= greetLogEvery {
		due, g.closed, g.logged = g.closed, 0, now
	}
	return true, due
}

// count counts connections that a log line would have had, for the next one.
func (g *greeting) count(closed int) {
	if closed == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.logged = g.closed+closed, time.Time{}
}

// end ends all waits, and closes the connections that have their turn.
func (g *greeting) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.stop:
		return
	default:
	}
	close(g.stop)
	for _, e := range g.list {
		_ = e.nc.Close()
	}
}
