package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	verbEcho   Verb = 1 // the body again
	verbCount  Verb = 2 // a stream of as many parts as the body has bytes
	verbWait   Verb = 3 // until the context ends, or the gate opens
	verbFail   Verb = 4
	verbPeer   Verb = 100 // as echo
	verbAbsent Verb = 99
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

type service struct {
	s      *Server
	ln     net.Listener
	gate   chan struct{}
	inside atomic.Int64
	gone   chan error // what ended a verbWait
	served atomic.Int64
}

func (v *service) handle(ctx context.Context, r *Request, send func([]byte) error) ([]byte, error) {
	v.served.Add(1)
	switch r.Verb {
	case verbEcho, verbPeer:
		return r.Body, nil
	case verbCount:
		for i := range r.Body {
			if err := send(bytes.Repeat([]byte{byte(i)}, 100+i)); err != nil {
				v.gone <- err
				return nil, err
			}
		}
		return []byte("last"), nil
	case verbWait:
		v.inside.Add(1)
		select {
		case <-ctx.Done():
			v.inside.Add(-1) // first: who reads from gone may count on it
			v.gone <- ctx.Err()
			return nil, ctx.Err()
		case <-v.gate:
			v.inside.Add(-1)
			return []byte("through"), nil
		}
	case verbFail:
		return nil, fmt.Errorf("no: %s", r.Body)
	}
	return nil, fmt.Errorf("verb %d", r.Verb)
}

func serve(t testing.TB, o ServerOptions) *service {
	v := &service{gate: make(chan struct{}), gone: make(chan error, 100)}
	if o.Handler == nil {
		o.Handler = v.handle
	}
	if o.Log == nil {
		o.Log = quiet
	}
	v.s = NewServer(o)
	if rand.N(2) == 0 {
		v.eager()
		t.Log("the server performs lone requests where it reads them")
	}
	var err error
	if v.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- v.s.Serve(context.Background(), v.ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := v.s.Shutdown(ctx); err != nil && !t.Failed() {
			t.Errorf("shutdown: %v", err)
		}
		v.ln.Close()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return v
}

func (v *service) dial(t testing.TB, o ClientOptions) *Client {
	t.Helper()
	eager := o.PingInterval == 0 && rand.N(2) == 0 // otherwise the test is about what a connection notices, or sets more
	if eager {
		o.Unwatched = true
		t.Log("lone calls of a client read their answers")
	}
	c, err := v.try(o)
	if err != nil {
		t.Fatal(err)
	}
	if eager {
		c.least(0)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (v *service) try(o ClientOptions) (*Client, error) {
	nc, err := net.Dial("tcp", v.ln.Addr().String())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return NewClient(ctx, nc, o)
}

func inTime(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestDo(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{})
	c := v.dial(t, ClientOptions{})
	ctx := inTime(t)
	for _, n := range []int{0, 1, SegmentBytesMax - envelopeBytes, SegmentBytesMax - envelopeBytes + 1, SegmentBytesMax, 3*SegmentBytesMax + 7, 5 << 20} {
		body := bytes.Repeat([]byte("abcdefg"), n/7+1)[:n]
		got, err := c.Do(ctx, Call{Verb: verbEcho, Body: body})
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("%d bytes: %d bytes, %v", n, len(got), err)
		}
	}
	if _, err := c.Do(ctx, Call{Verb: verbFail, Body: []byte("why")}); err == nil || err.Error() != "no: why" {
		t.Errorf("error %v", err)
	}
	if _, err := c.Do(ctx, Call{Verb: verbEcho, Body: make([]byte, BodyBytesMax+1)}); !errors.Is(err, ErrRefused) {
		t.Errorf("too large a body: %v", err)
	}
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for j := range 50 {
				body := []byte(fmt.Sprint(i, j, strings.Repeat("x", i*j*10)))
				if got, err := c.Do(ctx, Call{Verb: verbEcho, Body: body}); err != nil || !bytes.Equal(got, body) {
					t.Errorf("%d %d: %v", i, j, err)
				}
			}
		})
	}
	all.Wait()
}

func TestCallEnds(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{})
	c := v.dial(t, ClientOptions{})
	for bound := 30 * time.Millisecond; ; bound *= 2 {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		_, err := c.Do(ctx, Call{Verb: verbWait})
		cancel()
		if _, err := c.Do(inTime(t), Call{Verb: verbEcho}); err != nil { // which comes after it
			t.Fatal(err)
		}
		for v.s.running.Load() > 0 {
			time.Sleep(time.Millisecond)
		}
		if v.served.Swap(0) == 1 && bound < time.Minute {
			continue // on a busy machine its time ended before it was sent, or began
		}
		if err == nil || errors.Is(err, ErrNotSent) { // lost, unless the handler has noticed first and said so
			t.Fatalf("a call after its time: %v", err)
		}
		break
	}
	if err := <-v.gone; err == nil {
		t.Error("the handler's context did not end")
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for v.inside.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := c.Do(ctx, Call{Verb: verbWait}); !errors.Is(err, ErrLost) || !errors.Is(err, context.Canceled) {
		t.Errorf("a call that is given up: %v", err)
	}
	if err := <-v.gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the handler's context: %v", err)
	}
	if _, err := c.Do(ctx, Call{Verb: verbEcho}); !errors.Is(err, ErrNotSent) || !errors.Is(err, context.Canceled) {
		t.Errorf("a call that ended before: %v", err)
	}
}

// A call that waits after others in the queue, and has written nothing, has not happened.
func TestUnwrittenCall(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe() // takes nothing that is not read
	go func() {
		r := make([]byte, preambleBytes+headBytes+sumBytes+11)
		_, _ = io.ReadFull(b, r)
		o := Options{}.withDefaults()
		_, _ = b.Write(appendSegment(o.preamble(), kindHello, (&hello{role: RoleNode, purpose: ForRequests}).append(nil)))
	}()
	c, err := NewClient(inTime(t), a, ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	first := make(chan error, 1)
	go func() {
		_, err := c.Do(inTime(t), Call{Verb: verbEcho, Body: make([]byte, 1<<20)})
		first <- err
	}()
	for { // until the first is being written
		c.out.mu.Lock()
		busy := c.out.bytes > 0 && c.out.lanes[0].len() == 0
		c.out.mu.Unlock()
		if busy {
			break
		}
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Do(ctx, Call{Verb: verbEcho}); !errors.Is(err, ErrNotSent) || errors.Is(err, ErrLost) {
		t.Errorf("a call that was not written: %v", err)
	}
	c.Close()
	if err := <-first; !errors.Is(err, ErrLost) || errors.Is(err, ErrNotSent) {
		t.Errorf("a call that was written in part: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	hellos := func(from *Remote) ([]byte, uint64, error) {
		if string(from.Hello) == "stranger" {
			return nil, 0, errors.New("we do not know you")
		}
		return []byte("hello " + from.Name), 77, nil
	}
	v := serve(t, ServerOptions{Hello: hellos, Name: "n1"})
	ctx := inTime(t)
	c := v.dial(t, ClientOptions{Name: "paul"})
	if r := c.Remote(); r.Name != "n1" || string(r.Hello) != "hello paul" || r.Role != RoleNode {
		t.Errorf("remote %+v", r)
	}
	for _, call := range []Call{{Verb: verbPeer}, {Verb: verbEcho, Epoch: 1}, {Verb: verbEcho, Priority: PriorityRepair}} {
		if _, err := c.Do(ctx, call); !errors.Is(err, ErrRefused) {
			t.Errorf("a client's %+v: %v", call, err)
		}
	}
	n := v.dial(t, ClientOptions{Role: RoleNode, Name: "n2"})
	if _, err := n.Do(ctx, Call{Verb: verbPeer, Epoch: 5, Priority: PriorityCopy, Body: []byte("x")}); err != nil {
		t.Errorf("a node's: %v", err)
	}
	n.address = 78
	if _, err := n.Do(ctx, Call{Verb: verbPeer}); !errors.Is(err, ErrNotSent) {
		t.Errorf("to another member: %v", err)
	}
	if got := v.served.Load(); got != 1 {
		t.Errorf("%d requests reached the handler, want 1", got)
	}
	if _, err := v.try(ClientOptions{Hello: []byte("stranger")}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "we do not know you") {
		t.Errorf("a stranger: %v", err)
	}
	if _, err := v.try(ClientOptions{Check: func(*Remote) error { return errors.New("not mine") }}); err == nil || !strings.Contains(err.Error(), "not mine") {
		t.Errorf("a server that is not wanted: %v", err)
	}
	for _, versions := range [][2]byte{{4, 5}, {9, 9}} {
		_, err := v.try(ClientOptions{Options: Options{VersionLeast: versions[0], VersionMost: versions[1]}})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "speaks versions 1 to 3") {
			t.Errorf("versions %v: %v", versions, err)
		}
	}
	if c, err := v.try(ClientOptions{Options: Options{VersionLeast: 1, VersionMost: 4}}); err != nil {
		t.Errorf("a later version that speaks ours: %v", err)
	} else {
		c.Close()
	}
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{Clients: Budget{3, 1000}, PerClient: Budget{2, 1000}, Nodes: Budget{1, 100}})
	ctx := inTime(t)
	a, b := v.dial(t, ClientOptions{}), v.dial(t, ClientOptions{})
	var all sync.WaitGroup
	hold := func(c *Client, n int64) {
		all.Go(func() {
			if got, err := c.Do(ctx, Call{Verb: verbWait}); err != nil || string(got) != "through" {
				t.Errorf("%q, %v", got, err)
			}
		})
		for v.inside.Load() < n {
			time.Sleep(time.Millisecond)
		}
	}
	hold(a, 1)
	if _, err := a.Do(ctx, Call{Verb: verbEcho, Body: make([]byte, 1001)}); !errors.Is(err, ErrBusy) {
		t.Errorf("too many bytes: %v", err)
	}
	hold(a, 2)
	if _, err := a.Do(ctx, Call{Verb: verbEcho}); !errors.Is(err, ErrBusy) || !errors.Is(err, ErrNotSent) {
		t.Errorf("a third of one client: %v", err)
	}
	hold(b, 3)
	if _, err := b.Do(ctx, Call{Verb: verbEcho}); !errors.Is(err, ErrBusy) {
		t.Errorf("a fourth of all clients: %v", err)
	}
	n := v.dial(t, ClientOptions{Role: RoleNode})
	if _, err := n.Do(ctx, Call{Verb: verbPeer, Body: make([]byte, 5<<20)}); err != nil {
		t.Errorf("a node's, alone: %v", err)
	}
	close(v.gate)
	all.Wait()
	for _, c := range []*Client{a, b, n} { // what was taken is given back
		for range 5 {
			v.free(t)
			if _, err := c.Do(ctx, Call{Verb: verbEcho, Body: make([]byte, 1000)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	v.free(t)
}

// TestLittleRoom: a client that asks for little has room even if others have taken all of it.
func TestLittleRoom(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{Clients: Budget{1, 1000}, PerClient: Budget{256, 1 << 20}, RunMax: 10})
	ctx := inTime(t)
	a, b := v.dial(t, ClientOptions{}), v.dial(t, ClientOptions{})
	var all sync.WaitGroup
	for i, c := range []*Client{a, b} {
		all.Go(func() {
			if _, err := c.Do(ctx, Call{Verb: verbWait}); err != nil {
				t.Error(err)
			}
		})
		for v.inside.Load() < int64(i+1) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	if _, err := b.Do(ctx, Call{Verb: verbEcho}); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	c := v.dial(t, ClientOptions{})
	if _, err := c.Do(ctx, Call{Verb: verbEcho, Body: make([]byte, 1000)}); !errors.Is(err, ErrBusy) {
		t.Errorf("a large one: %v", err)
	}
	taken := &use{most: Budget{1, 1000}}
	if !taken.take(1000, false) || !taken.take(1000, true) || taken.take(1, true) {
		t.Errorf("%d bytes are taken", taken.bytes)
	}
	close(v.gate)
	all.Wait()
	v.free(t)
}

// free waits until the room of all requests was given back, which happens after their answers are written.
func (v *service) free(t *testing.T) {
	t.Helper()
	taken := func(u *use) string {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.requests == 0 && u.bytes == 0 {
			return ""
		}
		return fmt.Sprintf("%d requests of %d bytes are counted", u.requests, u.bytes)
	}
	for ctx := inTime(t); ; time.Sleep(time.Millisecond) {
		all := taken(&v.s.clients) + taken(&v.s.nodes)
		v.s.mu.Lock()
		for c := range v.s.conns {
			if c.own != nil {
				all += taken(c.own)
			}
		}
		v.s.mu.Unlock()
		if all == "" {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(all)
		}
	}
}

// TestLargeAndSmall: a large body does not hold up a small one on the same connection, neither where it is written nor where it is read.
func TestLargeAndSmall(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe() // takes nothing that is not read
	q := newQueue(1 << 30)
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- newWriter(near, q, time.Minute).run(stop) }()
	large, small := requestOf(1, envelope{verb: verbPeer}, make([]byte, BodyBytesMax)), requestOf(2, envelope{verb: verbEcho}, nil)
	large.priority = PriorityRepair
	q.push(large, true)
	s := &segments{r: bufio.NewReader(far)}
	for n := 0; ; n++ {
		h, err := s.next()
		if err == nil {
			err = s.rest(h)
		}
		if err != nil || n > 10 {
			t.Fatalf("%d segments of a large request come before a small one, %v", n, err)
		}
		if n == 0 {
			q.push(small, true)
		}
		if h.id == small.id {
			break
		}
	}
	_ = far.Close()
	close(stop)
	<-ended

	v := serve(t, ServerOptions{})
	nc := raw(t, v)
	in, body := greeted(t, nc), strings.Repeat("x", 3*SegmentBytesMax)
	begun, whole := request(nil, 1, envelope{verb: verbEcho}, body), requestWhole(nil, 1, envelope{verb: verbEcho}, body)
	for _, part := range [][]byte{request(begun, 2, envelope{verb: verbEcho}, "small"), whole[len(begun):]} { // the first one has a segment of the large request
		if _, err := nc.Write(part); err != nil {
			t.Fatal(err)
		}
		in.answers(t, 1)
	}
}
