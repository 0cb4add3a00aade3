package door

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"
)

// TestUntilGone has clients that stay, that go, and that send no more, after bytes that nobody reads.
func TestUntilGone(t *testing.T) {
	t.Parallel()
	stays, client := connected(t)
	fmt.Fprint(client, "more")
	still, stop := stays.UntilGone()
	defer stop()
	for what, leave := range map[string]func(net.Conn) error{
		"goes":          net.Conn.Close,
		"sends no more": func(nc net.Conn) error { return nc.(*net.TCPConn).CloseWrite() },
	} {
		c, client := connected(t)
		c.s = stays.s
		fmt.Fprint(client, "more")
		gone, stop := c.UntilGone()
		if c.hungUp() {
			t.Error("a client that is connected has gone")
		}
		if err := leave(client); err != nil {
			t.Fatal(err)
		}
		select {
		case <-gone.Done():
		case <-time.After(time.Minute):
			t.Errorf("a client that %s is waited for", what)
		}
		if !errors.Is(context.Cause(gone), ErrGone) {
			t.Errorf("a client that %s: %v", what, context.Cause(gone))
		}
		stop()
	}
	if still.Err() != nil {
		t.Error("a client that stays counts as gone")
	}
	stop()
	stays.s.waiting.end()
	late, stop := stays.UntilGone()
	defer stop()
	if late.Err() == nil || errors.Is(context.Cause(late), ErrGone) {
		t.Error("a request that comes after the server has shut down waits")
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		stays.s.waiting.mu.Lock()
		watching, left := stays.s.waiting.watching, len(stays.s.waiting.conns)
		stays.s.waiting.mu.Unlock()
		if !watching && left == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d connections are left, watched: %v", left, watching)
		}
	}
}
