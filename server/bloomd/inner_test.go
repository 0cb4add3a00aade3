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
	c, client := connected(t)
	fmt.Fprint(client, "check f a\n")
	c.drain()
	time.Sleep(2 * drainTime)
	wantAnswered(t, c, client)
	if rest, err := io.ReadAll(client); err != nil || len(rest) > 0 {
		t.Errorf("at the end: %q, %v", rest, err)
	}
}

func TestIsTemporary(t *testing.T) {
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
