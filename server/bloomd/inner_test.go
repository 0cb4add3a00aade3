package bloomd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// noFilters is a node without filters.
type noFilters struct{ Filters }

func (noFilters) Find([]byte) Filter { return nil }

// connected returns a connection that nobody serves yet, and its client.
func connected(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	s, err := New(noFilters{}, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); nc.Close() })
	client.SetDeadline(time.Now().Add(20 * time.Second))
	return newConn(s, nc), client
}

// wantAnswered sends a request, has the connection served, and wants the answer.
func wantAnswered(t *testing.T, c *conn, client net.Conn) {
	t.Helper()
	go func() {
		c.serve(context.Background())
		c.nc.Close()
	}()
	got := make([]byte, len(answerNoFilter))
	if n, err := io.ReadFull(client, got); err != nil || string(got) != answerNoFilter {
		t.Errorf("got %q, %v", got[:n], err)
	}
}

// TestLateDrain has a goroutine that gets its turn only when the time for what is on its way has passed: what had come is answered.
func TestLateDrain(t *testing.T) {
	t.Parallel()
	c, client := connected(t)
	fmt.Fprint(client, "check f a\n")
	c.drain()
	time.Sleep(2 * drainTime)
	wantAnswered(t, c, client)
	if rest, err := io.ReadAll(client); err != nil || len(rest) > 0 {
		t.Errorf("at the end: %q, %v", rest, err)
	}
}

// TestLingerEnds has a client that stays after the last answer: the connection is given up in the end.
func TestLingerEnds(t *testing.T) {
	t.Parallel()
	c, client := connected(t)
	const linger = 20 * time.Millisecond
	began := time.Now()
	c.linger(linger)
	if took := time.Since(began); took < linger {
		t.Errorf("it lingered for %v", took)
	}
	if rest, err := io.ReadAll(client); err != nil || len(rest) > 0 {
		t.Errorf("the client: %q, %v", rest, err)
	}
}

// TestLineUntil gives a line the time that its buffer needs on a slow network.
func TestLineUntil(t *testing.T) {
	t.Parallel()
	c, _ := connected(t)
	for _, w := range []struct {
		buffer int
		more   time.Duration
	}{{128 << 10, 0}, {256 << 10, time.Second}, {64 << 20, 256 * time.Second}} {
		c.lineBegun = time.Time{}
		if !c.reserve(w.buffer) {
			t.Fatalf("no room for %d bytes", w.buffer)
		}
		until := c.lineUntil()
		if got := until.Sub(c.lineBegun) - c.s.opt.LineTime; got != w.more || c.lineBegun.IsZero() || !c.lineUntil().Equal(until) {
			t.Errorf("%d bytes have %v more, want %v", w.buffer, got, w.more)
		}
	}
}

// SetLogPause changes how long the log of failures pauses between two lines. It comes before the first client.
func (s *Server) SetLogPause(d time.Duration) { s.failures.pause = d }

func TestIsTemporary(t *testing.T) {
	t.Parallel()
	for _, err := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EPROTO, syscall.ECONNABORTED,
		syscall.ENETDOWN, syscall.EPERM, syscall.ENOSPC, syscall.EINTR} {
		if !isTemporary(&net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}) {
			t.Errorf("%v ends the server", err)
		}
	}
	for _, err := range []error{net.ErrClosed, os.NewSyscallError("accept4", syscall.EBADF), os.NewSyscallError("accept4", syscall.EINVAL), errors.New("odd")} {
		if isTemporary(&net.OpError{Op: "accept", Err: err}) {
			t.Errorf("%v does not end the server", err)
		}
	}
}
