package door

import (
	"bytes"
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

// echo is a protocol for tests: it answers each line with itself. After a line that begins with "wait" it stays until it is released.
type echo struct{ wait chan bool }

func newEcho(*Conn) Handler { return echo{} }

// Execute implements Handler.
func (e echo) Execute(_ context.Context, c *Conn, buf []byte) (used int) {
	for !c.Ended() {
		i := bytes.IndexByte(buf[used:], '\n')
		if i < 0 {
			break
		}
		line := buf[used : used+i+1]
		used += i + 1
		if bytes.HasPrefix(line, []byte("wait")) {
			c.MayWait()
			e.wait <- true
			<-e.wait
		}
		c.Out = append(c.Out, line...)
		c.WriteIfFull()
	}
	return used
}

// TooLong implements Handler.
func (echo) TooLong(c *Conn) { c.Out = append(c.Out, "too long\n"...) }

// connected returns a connection that nobody serves yet, and its client.
func connected(t *testing.T) (*Conn, net.Conn) {
	t.Helper()
	s, err := New(newEcho, Options{Log: slog.New(slog.DiscardHandler)})
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
	client.SetDeadline(time.Now().Add(time.Minute))
	c := newConn(s, nc)
	c.handler = newEcho(c)
	return c, client
}

// wantAnswered sends a request, has the connection served, and wants the answer.
func wantAnswered(t *testing.T, c *Conn, client net.Conn) {
	t.Helper()
	go func() {
		c.serve(context.Background())
		c.nc.Close()
	}()
	got := make([]byte, len("hello\n"))
	if n, err := io.ReadFull(client, got); err != nil || string(got) != "hello\n" {
		t.Errorf("got %q, %v", got[:n], err)
	}
}

// TestLateDrain has a goroutine that gets its turn only when the time for what is on its way has passed: what had come is answered.
func TestLateDrain(t *testing.T) {
	t.Parallel()
	c, client := connected(t)
	fmt.Fprint(client, "hello\n")
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

// TestRequestUntil gives a request the time that its buffer needs on a slow network.
func TestRequestUntil(t *testing.T) {
	t.Parallel()
	c, _ := connected(t)
	for _, w := range []struct {
		buffer int
		more   time.Duration
	}{{128 << 10, 0}, {256 << 10, time.Second}, {64 << 20, 256 * time.Second}} {
		c.requestBegun = time.Time{}
		if !c.reserve(w.buffer) {
			t.Fatalf("no room for %d bytes", w.buffer)
		}
		until := c.requestUntil()
		if got := until.Sub(c.requestBegun) - c.s.opt.RequestTime; got != w.more || c.requestBegun.IsZero() || !c.requestUntil().Equal(until) {
			t.Errorf("%d bytes have %v more, want %v", w.buffer, got, w.more)
		}
	}
}

// TestWriteBy gives an answer the time that its memory needs on a slow network, however many writes it takes.
func TestWriteBy(t *testing.T) {
	t.Parallel()
	c, _ := connected(t)
	limit, now := c.s.opt.WriteTime, time.Now()
	for _, w := range []struct {
		taken int
		whole time.Duration // for all of the answer, beside the limit; -1 means that each write has its own time
	}{{0, -1}, {16 << 10, 0}, {256 << 10, 8 * time.Second}, {64 << 20, 2048 * time.Second}} {
		if !c.Take(w.taken) {
			t.Fatalf("no room for %d bytes", w.taken)
		}
		for _, later := range []time.Duration{0, limit / 2, limit, 100 * limit} {
			want := later + limit + limit/8
			if w.whole >= 0 {
				want = min(want, limit+w.whole)
			}
			if got := c.writeBy(now.Add(later)).Sub(now); got != want {
				t.Errorf("%d bytes, a write %v after the first: it ends after %v, want %v", w.taken, later, got, want)
			}
		}
		c.Give()
	}
	shared := c.s.Loan()
	shared.Take(256 << 10)
	c.Sends(shared)
	if got := c.writeBy(now).Sub(now); got != limit+8*time.Second {
		t.Errorf("an answer in shared memory has %v", got)
	}
	c.Give()
	if got := c.writeBy(now).Sub(now); got != limit+limit/8 {
		t.Errorf("the answer after it has %v", got)
	}
	c.Give()
	c.SendsMore(64 << 20) // of no memory: each write has its own time
	if got := c.writeBy(now).Sub(now); got != limit+limit/8 {
		t.Errorf("an answer without memory has %v", got)
	}
	c.Take(256 << 10)
	c.SendsMore(256 << 10)
	if got := c.writeBy(now).Sub(now); got != limit+16*time.Second {
		t.Errorf("an answer that repeats what is in its memory has %v", got)
	}
	c.Give()
	if c.s.opt.Limits.long.Load() != 256<<10 {
		t.Error("shared memory is given back with the answer of one connection")
	}
	if shared.Give(); c.s.opt.Limits.long.Load() != 0 {
		t.Error("shared memory is not given back")
	}
}

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

// TestBuffers has a client send without end: what is read and what is answered stay within their bounds.
func TestBuffers(t *testing.T) {
	t.Parallel()
	s, err := New(newEcho, Options{RequestBytesMax: 1000, OutputBytesMax: 100, Loops: -1, Log: noLog})
	if err != nil {
		t.Fatal(err)
	}
	client, ours := net.Pipe()
	c := newConn(s, ours)
	c.handler = newEcho(c)
	line := append(bytes.Repeat([]byte("x"), 299), '\n')
	go func() {
		client.Write(append(bytes.Repeat(line, 500), bytes.Repeat([]byte("y"), 1000)...))
	}()
	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(client)
		got <- b
	}()
	c.serve(context.Background())
	ours.Close()
	if b, want := <-got, string(bytes.Repeat(line, 500))+"too long\n"; string(b) != want {
		t.Errorf("%d bytes of answers, want %d", len(b), len(want))
	}
	if len(c.in) > 1000 || cap(c.Out) > bufferBytes {
		t.Errorf("buffers of %d and %d bytes", len(c.in), cap(c.Out))
	}
}
