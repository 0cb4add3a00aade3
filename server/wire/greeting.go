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

// greeting bounds the connections that are about to introduce themselves. Others wait for their turn, in the order in which they came, and
// close those that have waited longest for the other side: clients that connect and say nothing keep nobody out.
type greeting struct {
	turns chan struct{} // holds one for each connection in list, or about to be in it

	mu     sync.Mutex
	list   []*greeter // the first has had its turn longest
	closed int        // connections closed for others since the last log line
	logged time.Time
}

// greeter is a connection that has its turn.
type greeter struct {
	nc    net.Conn
	since time.Time
	out   bool // it was closed for another one
}

func newGreeting(most int) *greeting { return &greeting{turns: make(chan struct{}, most)} }

// enter waits until a connection has its turn, or ctx ends.
func (g *greeting) enter(ctx context.Context, nc net.Conn) (*greeter, error) {
	for {
		wait := g.makeRoom()
		select {
		case g.turns <- struct{}{}:
			e := &greeter{nc: nc, since: time.Now()}
			g.mu.Lock()
			g.list = append(g.list, e)
			g.mu.Unlock()
			return e, nil
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// makeRoom closes the connection that has had its turn longest if there is no room and it has had greetMin. It returns after which time to
// try again.
func (g *greeting) makeRoom() time.Duration {
	e, wait := g.oldest()
	if e != nil {
		_ = e.nc.Close() // its goroutine notices, and calls leave
	}
	return wait
}

// oldest takes the connection to close from the list, if any.
func (g *greeting) oldest() (e *greeter, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.turns) < cap(g.turns) || len(g.list) == 0 {
		return nil, greetMin
	}
	if wait := greetMin - time.Since(g.list[0].since); wait > 0 {
		return nil, wait
	}
	e, g.list = g.list[0], g.list[1:]
	e.out = true
	return e, greetMin
}

// leave ends the turn of a connection. It reports whether the connection was closed for another one, and how many were since the last log
// line if one is due.
func (g *greeting) leave(e *greeter) (out bool, due int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.list, e); i >= 0 {
		g.list = slices.Delete(g.list, i, i+1)
	}
	<-g.turns
	if !e.out {
		return false, 0
	}
	g.closed++
	if now := time.Now(); now.Sub(g.logged) >= greetLogEvery {
		due, g.closed, g.logged = g.closed, 0, now
	}
	return true, due
}
