package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// TestStopUnread: a stop waits for a client that reads its answers slowly, as long as it is given time, and no longer.
func TestStopUnread(t *testing.T) {
	t.Parallel()
	const requests, body = 40, 1 << 20 // more than two sockets hold
	for _, v := range []struct {
		what         string
		reads, waits bool
	}{{"a client that reads", true, false}, {"a client that reads nothing", false, false}, {"beside a request in progress", false, true}} {
		s := NewServer(ServerOptions{Options: Options{WriteTime: time.Hour}, Log: quiet, Handler: func(ctx context.Context, r *Request, _ func([]byte) error) ([]byte, error) {
			if r.Verb == verbWait {
				<-ctx.Done()
			}
			return make([]byte, body), nil
		}})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Serve(context.Background(), ln) }()
		defer ln.Close()
		nc := raw(t, &service{ln: ln})
		in := greeted(t, nc)
		var b []byte
		for id := range uint64(requests) {
			b = request(b, id+1, envelope{verb: verbEcho}, "")
		}
		left := int64(0)
		if v.waits {
			left, b = 1, request(b, requests+1, envelope{verb: verbWait}, "")
		}
		if _, err := nc.Write(b); err != nil {
			t.Fatal(err)
		}
		c := only(t, s)
		eventually(t, "answers wait", func() bool {
			c.out.mu.Lock()
			defer c.out.mu.Unlock()
			return s.running.Load() == left && c.out.bytes > requests/2*body
		})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		stopped := make(chan error, 1)
		go func() { stopped <- s.Shutdown(ctx) }()
		eventually(t, "it stops", func() bool { return v.waits && s.stopped() || c.out.finished() })
		if v.reads {
			in.answers(t, requests)
			if _, err := in.next(); !errors.Is(err, io.EOF) {
				t.Errorf("%s: after the last answer: %v", v.what, err)
			}
		} else {
			cancel()
		}
		select {
		case err := <-stopped:
			if (err == nil) != v.reads || !v.reads && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", v.what, err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: the stop waits", v.what)
		}
	}
}

// hooked is a connection whose writes a function does.
type hooked struct {
	net.Conn
	write func(b []byte)
}

func (h *hooked) Write(b []byte) (int, error) {
	h.write(b)
	return len(b), nil
}

func (h *hooked) SetWriteDeadline(time.Time) error { return nil }

// TestStopLateAnswer: an answer that comes after its connection has looked for more, and just before the stop, is written.
func TestStopLateAnswer(t *testing.T) {
	t.Parallel()
	q := newQueue(1 << 20)
	var written []byte
	nc := &hooked{write: func(b []byte) {
		if len(written) == 0 { // nothing more waits, as far as the writer knows
			q.push(&message{kind: kindAnswer, id: 2, body: []byte("second")}, true)
			q.finish()
		}
		written = append(written, b...)
	}}
	q.push(&message{kind: kindAnswer, id: 1, body: []byte("first")}, true)
	if err := newWriter(nc, q, time.Hour).run(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("the writer ends with %v", err)
	}
	if !bytes.Contains(written, []byte("first")) || !bytes.Contains(written, []byte("second")) {
		t.Errorf("written is only %q", written)
	}
}

// only returns the only connection of a server.
func only(t *testing.T, s *Server) (c *serverConn) {
	t.Helper()
	eventually(t, "a connection", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c = range s.conns {
		}
		return c != nil
	})
	return c
}

// eventually waits for something that another goroutine does.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for ctx := inTime(t); !done(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%s: not in time", what)
		}
	}
}
