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
	"testing/synctest"
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

func TestStream(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{})
	c := v.dial(t, ClientOptions{})
	ctx := inTime(t)
	n := 0
	for part, err := range c.Stream(ctx, Call{Verb: verbCount, Body: make([]byte, 200)}) {
		if err != nil {
			t.Fatal(err)
		}
		if n < 200 && (len(part) != 100+n || part[0] != byte(n)) || n == 200 && string(part) != "last" {
			t.Fatalf("part %d: %d bytes of %d", n, len(part), part[0])
		}
		n++
	}
	if n != 201 {
		t.Errorf("%d parts", n)
	}
	for _, err := range c.Stream(ctx, Call{Verb: verbFail, Body: []byte("x")}) {
		if err == nil || err.Error() != "no: x" {
			t.Errorf("error of a stream: %v", err)
		}
	}
	// If the consumer stops, the handler learns it. It has sent no more than was asked for.
	for range c.Stream(ctx, Call{Verb: verbCount, Body: make([]byte, 200)}) {
		break
	}
	if err := <-v.gone; err == nil {
		t.Error("the handler was not told")
	}
	if got, err := c.Do(ctx, Call{Verb: verbEcho, Body: []byte("on")}); err != nil || string(got) != "on" {
		t.Errorf("after a broken stream: %q, %v", got, err)
	}
	// A stream that was not asked for is an error, and nothing else.
	if _, err := c.Do(ctx, Call{Verb: verbCount, Body: make([]byte, 2)}); err == nil || !strings.Contains(err.Error(), "not asked for") {
		t.Errorf("a stream in answer to Do: %v", err)
	}
}

// TestStreamMemory: a stream takes the memory of few parts, however many it has, and a part stays as it is until the next one was asked for.
// The handler makes parts in the memory of two.
func TestStreamMemory(t *testing.T) {
	t.Parallel()
	const parts, size = 300, 100_000
	v := serve(t, ServerOptions{Handler: func(_ context.Context, r *Request, send func([]byte) error) ([]byte, error) {
		part, sent := make([]byte, size), make([]byte, size)
		for i := range parts {
			for k := range part {
				part[k] = byte(i)
			}
			if err := send(part); err != nil {
				return nil, err
			}
			part, sent = sent, part
		}
		return nil, nil
	}})
	c := v.dial(t, ClientOptions{Credit: 3})
	memory := map[*byte]bool{}
	n := 0
	for part, err := range c.Stream(inTime(t), Call{Verb: verbCount}) {
		if err != nil {
			t.Fatal(err)
		}
		if n == parts {
			break
		}
		if memory[&part[0]] = true; n%50 == 0 {
			time.Sleep(2 * time.Millisecond) // more parts come in between
		}
		if len(part) != size || bytes.Count(part, []byte{byte(n)}) != size {
			t.Fatalf("part %d has %d bytes, of %d", n, len(part), part[0])
		}
		n++
	}
	if n != parts || len(memory) > parts/4 {
		t.Errorf("%d parts in %d places", n, len(memory))
	}
}

// TestStreamPanics: a loop that panics gives up its call as one that breaks does.
func TestStreamPanics(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{})
	c := v.dial(t, ClientOptions{Credit: 1})
	func() {
		defer func() {
			if recover() != "mine" {
				t.Error("another panic")
			}
		}()
		for range c.Stream(inTime(t), Call{Verb: verbCount, Body: make([]byte, 50)}) {
			panic("mine")
		}
	}()
	if n := c.Waiting(); n > 0 {
		t.Fatalf("%d calls are in progress", n)
	}
	v.free(t)
}

// A slow consumer holds up its stream and nothing else.
func TestStreamIsPaced(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	v := serve(t, ServerOptions{Handler: func(_ context.Context, r *Request, send func([]byte) error) ([]byte, error) {
		if r.Verb == verbEcho {
			return r.Body, nil
		}
		for range 100 {
			if err := send(make([]byte, 300_000)); err != nil {
				return nil, err
			}
			sent.Add(1)
		}
		return nil, nil
	}})
	c := v.dial(t, ClientOptions{Credit: 3})
	ctx := inTime(t)
	n := 0
	for _, err := range c.Stream(ctx, Call{Verb: verbCount}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 10 {
			for range 200 {
				if _, err := c.Do(ctx, Call{Verb: verbEcho}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if most := int64(n + 3); sent.Load() > most {
			t.Fatalf("%d parts were sent when %d were taken", sent.Load(), n)
		}
	}
	if n != 101 {
		t.Errorf("%d parts", n)
	}
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

func TestLink(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var address string
	var cause error
	set := func(a string, err error) {
		mu.Lock()
		defer mu.Unlock()
		address, cause = a, err
	}
	l := NewLink(LinkOptions{DialTime: time.Minute, PauseLeast: time.Millisecond, PauseMost: 5 * time.Millisecond, Dial: func(ctx context.Context) (net.Conn, error) {
		mu.Lock()
		a, err := address, cause
		mu.Unlock()
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", a)
	}})
	defer l.Close()
	ctx := inTime(t)
	set("", errors.New("no such host"))
	if _, err := l.Do(ctx, Call{Verb: verbEcho}); !errors.Is(err, ErrNotSent) || !strings.Contains(err.Error(), "no such host") {
		t.Fatalf("a link to nowhere: %v", err)
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for !ok() {
			if ctx.Err() != nil {
				t.Fatal(what)
			}
			time.Sleep(time.Millisecond)
		}
	}
	v := serve(t, ServerOptions{})
	set(v.ln.Addr().String(), nil)
	until("the link did not come up", l.Up)
	for _, p := range []Priority{PriorityQuorum, PriorityRead} {
		if got, err := l.Do(ctx, Call{Verb: verbEcho, Priority: p, Body: []byte("x")}); err != nil || string(got) != "x" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	n := 0
	for _, err := range l.Stream(ctx, Call{Verb: verbCount, Body: make([]byte, 5)}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 6 {
		t.Errorf("%d parts", n)
	}
	w := serve(t, ServerOptions{})
	set(w.ln.Addr().String(), nil)
	v.s.Cut(func(*Remote) bool { return true })
	until("requests did not find the other server", func() bool {
		_, err := l.Do(ctx, Call{Verb: verbEcho})
		return err == nil && w.served.Load() > 0
	})
	l.Close()
	if _, err := l.Do(ctx, Call{Verb: verbEcho}); !errors.Is(err, ErrNotSent) {
		t.Errorf("a closed link: %v", err)
	}
	fresh := NewLink(LinkOptions{Dial: func(context.Context) (net.Conn, error) { return nil, errors.New("never") }})
	fresh.Close()
	if _, err := fresh.Do(ctx, Call{Verb: verbEcho}); !errors.Is(err, ErrClosed) {
		t.Errorf("a link closed before its first call: %v", err)
	}
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

// TestLinkWakes: a link that pauses between two tries is tried at once when it is woken.
func TestLinkWakes(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{})
	var dials atomic.Int32
	l := NewLink(LinkOptions{PauseLeast: time.Hour, PauseMost: time.Hour, Dial: func(ctx context.Context) (net.Conn, error) {
		if dials.Add(1) <= 2 {
			return nil, errors.New("not yet")
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", v.ln.Addr().String())
	}})
	defer l.Close()
	l.Start()
	for ctx := inTime(t); !l.Up(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%d dials", dials.Load())
		}
		if dials.Load() >= 2 {
			l.Wake()
		}
	}
}

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
