package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What was written when a connection ends is lost; what was not has not happened.
func TestConnectionEnds(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{})
	c := v.dial(t, ClientOptions{})
	ctx := inTime(t)
	errs := make(chan error, 1)
	go func() {
		_, err := c.Do(ctx, Call{Verb: verbWait})
		errs <- err
	}()
	for v.inside.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	v.s.Cut(func(*Remote) bool { return true })
	if err := <-errs; !errors.Is(err, ErrLost) || errors.Is(err, ErrNotSent) {
		t.Errorf("a call under way: %v", err)
	}
	<-c.Done()
	if _, err := c.Do(ctx, Call{Verb: verbEcho}); !errors.Is(err, ErrNotSent) || errors.Is(err, ErrLost) {
		t.Errorf("a call after the end: %v", err)
	}
	if err := <-v.gone; err == nil {
		t.Error("the handler was not told")
	}
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{})
	c := v.dial(t, ClientOptions{})
	ctx := inTime(t)
	errs := make(chan error, 1)
	go func() {
		got, err := c.Do(ctx, Call{Verb: verbWait})
		if err == nil && string(got) != "through" {
			err = fmt.Errorf("%q", got)
		}
		errs <- err
	}()
	for v.inside.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- v.s.Shutdown(ctx) }()
	for !c.Draining() {
		time.Sleep(time.Millisecond)
	}
	if _, err := c.Do(ctx, Call{Verb: verbEcho}); !errors.Is(err, ErrNotSent) {
		t.Errorf("a request while the server stops: %v", err)
	}
	close(v.gate)
	if err := errors.Join(<-errs, <-stopped); err != nil {
		t.Errorf("what was under way: %v", err)
	}
	<-c.Done()
	if nc, err := net.Dial("tcp", v.ln.Addr().String()); err == nil {
		if _, err := NewClient(ctx, nc, ClientOptions{}); !errors.Is(err, ErrNotSent) {
			t.Errorf("a connection after shutdown: %v", err)
		}
	}
}

// A peer that speaks another protocol learns so, in both directions.
func TestForeign(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{Options: Options{HelloTime: time.Hour}})
	for _, line := range []string{"create foobar\n", "list\n", "\n", "BIG\n", "B\x00"} {
		nc, err := net.Dial("tcp", v.ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		fmt.Fprint(nc, line)
		if b, err := io.ReadAll(nc); string(b) != ForeignLine || err != nil {
			t.Errorf("a client that says %q is told %q, %v", line, b, err)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		fmt.Fprintf(nc, "Client Error: Command not supported\n")
		_, _ = io.Copy(io.Discard, nc)
	}()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewClient(inTime(t), nc, ClientOptions{}); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "Client Error") {
		t.Errorf("a bloomd: %v", err)
	}
}

// A side that accepts and says nothing costs HelloTime, and one that falls silent costs SilenceMax.
func TestSilence(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewClient(inTime(t), nc, ClientOptions{Options: Options{HelloTime: 20 * time.Millisecond}}); !errors.Is(err, ErrNotSent) || !strings.Contains(err.Error(), "no hello within ") {
		t.Errorf("a server without a hello: %v", err)
	}
	l := NewLink(LinkOptions{Requests: 1, DialTime: 20 * time.Millisecond, PauseLeast: time.Hour, PauseMost: time.Hour, Dial: func(context.Context) (net.Conn, error) {
		return net.Dial("tcp", ln.Addr().String())
	}})
	if _, err := l.Do(inTime(t), Call{Verb: verbEcho}); !errors.Is(err, ErrNotSent) || !strings.Contains(err.Error(), "no hello within 20ms") {
		t.Errorf("a link to it: %v", err)
	}
	l.Close()
	go func() {
		for { // two of before are among them
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			o := Options{}.withDefaults()
			_, _ = nc.Write(appendSegment(o.preamble(), kindHello, (&hello{role: RoleNode, purpose: ForRequests}).append(nil)))
		}
	}()
	for silence := 20 * time.Millisecond; ; silence *= 2 {
		if nc, err = net.Dial("tcp", ln.Addr().String()); err != nil {
			t.Fatal(err)
		}
		c, err := NewClient(inTime(t), nc, ClientOptions{Options: Options{PingInterval: silence / 4, SilenceMax: silence}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Do(inTime(t), Call{Verb: verbEcho}); errors.Is(err, ErrLost) {
			return
		}
		if !errors.Is(err, ErrNotSent) || silence > 10*time.Second { // on a busy machine it was silent for too long before the call
			t.Fatalf("a server that fell silent: %v", err)
		}
	}
}

// slowDeadline is a connection that calls first before it sets its first deadline.
type slowDeadline struct {
	net.Conn
	first func()
}

func (s *slowDeadline) SetDeadline(t time.Time) error {
	if first := s.first; first != nil {
		s.first = nil
		first()
	}
	return s.Conn.SetDeadline(t)
}

// A context that ends while the time for a hello is set ends the introduction at once.
func TestHelloCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nc, other := net.Pipe()
		defer other.Close()
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		_, err := NewClient(ctx, &slowDeadline{nc, func() {
			cancel()
			synctest.Wait()
		}}, ClientOptions{})
		if took := time.Since(began); took > 0 || !errors.Is(err, ErrNotSent) {
			t.Errorf("it took %v: %v", took, err)
		}
	})
}

// A byte that changes on the way ends the connection: nothing of its segment is believed.
func TestChangedBytes(t *testing.T) {
	t.Parallel()
	whole := written(t, nil, requestOf(1, envelope{verb: verbEcho}, []byte("abcdefgh")))
	for at := range whole {
		b := bytes.Clone(whole)
		b[at] ^= 0x10
		s := &segments{r: bufio.NewReader(bytes.NewReader(b))}
		h, err := s.next()
		if err == nil {
			err = s.rest(h)
		}
		if !errors.Is(err, ErrFrame) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("byte %d changed: %v", at, err)
		}
	}
}
