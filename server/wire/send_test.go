package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// told is what done of a Send was called with.
type told struct {
	body []byte
	err  error
}

// sent sends a call, and returns where its outcome arrives, twice if it were reported twice.
func sent(t *testing.T, ctx context.Context, to Sender, call Call) <-chan told {
	t.Helper()
	c := make(chan told, 2)
	if !to.Send(ctx, call, func(body []byte, err error) { c <- told{body, err} }) {
		t.Fatal("not sent")
	}
	return c
}

func outcomeOf(t *testing.T, c <-chan told) told {
	t.Helper()
	select {
	case got := <-c:
		return got
	case <-inTime(t).Done():
		t.Fatal("done was not called")
		return told{}
	}
}

// TestSend: what is sent ends once, with what Do would return.
func TestSend(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{})
	c := v.dial(t, ClientOptions{})
	if got := outcomeOf(t, sent(t, inTime(t), c, Call{Verb: verbEcho, Body: []byte("x")})); string(got.body) != "x" || got.err != nil {
		t.Errorf("an echo: %q, %v", got.body, got.err)
	}
	if got := outcomeOf(t, sent(t, inTime(t), c, Call{Verb: verbFail, Body: []byte("x")})); got.err == nil || !strings.Contains(got.err.Error(), "no: x") {
		t.Errorf("an error: %v", got.err)
	}
	ctx, cancel := context.WithCancel(inTime(t))
	waits := sent(t, ctx, c, Call{Verb: verbWait})
	for v.inside.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if got := outcomeOf(t, waits); !errors.Is(got.err, ErrLost) || !errors.Is(got.err, context.Canceled) {
		t.Errorf("a call that was given up: %v", got.err)
	}
	<-v.gone // the handler has noticed
	var all []<-chan told
	later, end := context.WithCancel(inTime(t))
	defer end()
	for range 20 {
		all = append(all, sent(t, later, c, Call{Verb: verbWait}))
	}
	for v.inside.Load() < 20 {
		time.Sleep(time.Millisecond)
	}
	c.Close()
	for _, one := range all {
		if got := outcomeOf(t, one); !errors.Is(got.err, ErrLost) {
			t.Errorf("a call on a connection that ended: %v", got.err)
		}
	}
	if got := outcomeOf(t, sent(t, inTime(t), c, Call{Verb: verbEcho})); !errors.Is(got.err, ErrNotSent) {
		t.Errorf("a call on a connection that has ended: %v", got.err)
	}
	if n := c.Waiting(); n != 0 {
		t.Errorf("%d calls are under way", n)
	}
	end()
	time.Sleep(5 * time.Millisecond)
	for _, one := range all {
		if len(one) > 0 {
			t.Error("done was called twice")
		}
	}
}

// TestSendNeverWaits: a link that has no connection sends nothing.
func TestSendNeverWaits(t *testing.T) {
	t.Parallel()
	l := NewLink(LinkOptions{Dial: func(ctx context.Context) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	defer l.Close()
	if l.Send(inTime(t), Call{Verb: verbEcho}, func([]byte, error) { t.Error("done was called") }) {
		t.Error("it was sent")
	}
}

// TestSendNow: what the socket does not take at once is written later, in order, and the sender does not wait.
func TestSendNow(t *testing.T) {
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
	defer nc.Close()
	other, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	q := newQueue(1 << 30)
	w := newWriter(nc, q, time.Minute)
	if w.now == nil {
		t.Skip("no socket")
	}
	const n = 1500
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- w.run(stop) }()
	for i := range n { // more than the system keeps
		if ok, _ := w.send(&message{kind: kindPing, id: uint64(i), body: bytes.Repeat([]byte{byte(i)}, 8<<10)}, true); !ok {
			t.Fatal("not sent")
		}
	}
	s := &segments{r: bufio.NewReader(other)}
	for i := range n {
		h, payload, err := s.whole()
		if err != nil || h.id != uint64(i) || !bytes.Equal(payload, bytes.Repeat([]byte{byte(i)}, 8<<10)) {
			t.Fatalf("segment %d: number %d, %d bytes, %v", i, h.id, len(payload), err)
		}
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
