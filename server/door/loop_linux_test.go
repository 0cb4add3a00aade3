package door

import (
	"context"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"
)

// TestNotParkedTooLate has a connection whose time has ended: in a loop it would get one more read at each sweep.
func TestNotParkedTooLate(t *testing.T) {
	t.Parallel()
	c, _ := connected(t)
	l, err := newLoop(context.Background(), c.s, &part{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.free()
	if !l.adopt(c) {
		t.Fatal("not adopted")
	}
	defer c.nc.Close()
	c.nc.SetReadDeadline(time.Now().Add(-time.Second))
	if c.park() {
		t.Error("parked after its deadline")
	}
	c.nc.SetReadDeadline(time.Now().Add(time.Hour))
	if !c.park() {
		t.Error("not parked before its deadline")
	}
}

// TestNotWatched has a system that refuses to watch a connection's socket: it is served, by a goroutine of its own.
func TestNotWatched(t *testing.T) {
	t.Parallel()
	c, client := connected(t)
	l, err := newLoop(context.Background(), c.s, &part{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.free()
	if !l.adopt(c) {
		t.Fatal("not adopted")
	}
	k := c.nc.(*sock)
	// It is watched already, and a second time that is refused.
	if err := l.control(syscall.EPOLL_CTL_ADD, k.fd, 0); err != nil {
		t.Fatal(err)
	}
	if c.park() {
		t.Error("parked, and nothing watches it")
	}
	go func() {
		time.Sleep(2 * watchPause) // the connection waits by then, or will find something: either is right
		fmt.Fprint(client, "hello\n")
	}()
	wantAnswered(t, c, client)
	c.drain()
	if rest, err := io.ReadAll(client); err != nil || len(rest) > 0 {
		t.Errorf("at the end: %q, %v", rest, err)
	}
}
