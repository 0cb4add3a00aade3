package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// crowd is the function of verbWait and verbFail that answers requests together. It keeps the tasks of each call until the test answers them.
type crowd struct {
	mu    sync.Mutex
	calls [][]*Task
	came  chan struct{} // has a value for each call
}

func (c *crowd) take(all []*Task) {
	c.mu.Lock()
	c.calls = append(c.calls, slices.Clone(all))
	c.mu.Unlock()
	c.came <- struct{}{}
}

// sizes returns how many requests each call has got.
func (c *crowd) sizes() (n []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, all := range c.calls {
		n = append(n, len(all))
	}
	return n
}

// crowdServer serves verbWait together, and all else one by one.
func crowdServer(t *testing.T, o ServerOptions) (*service, *crowd) {
	c := &crowd{came: make(chan struct{}, 100)}
	o.Together = map[Verb]func([]*Task){verbWait: c.take, verbFail: c.take}
	return serve(t, o), c
}

// raw is a connection to a server that sends whole writes.
func raw(t *testing.T, v *service) net.Conn {
	nc, err := net.Dial("tcp", v.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	o := Options{}.withDefaults()
	b := appendSegment(o.preamble(), kindHello, (&hello{role: RoleClient, purpose: ForRequests}).append(nil))
	if _, err := nc.Write(b); err != nil {
		t.Fatal(err)
	}
	return nc
}

// request appends a request in one segment.
func request(dst []byte, id uint64, e envelope, body string) []byte {
	e.length = uint32(len(body))
	w := &writer{q: newQueue(1 << 20)}
	m := &message{kind: kindRequest, id: id, prefixed: envelopeBytes, body: []byte(body)}
	e.append(m.prefix[:0])
	w.segment(m)
	return append(dst, w.buf...)
}

// TestTogether: requests that arrive together are one call, those that arrive alone are one each, and a request that has not arrived as a whole makes none wait.
func TestTogether(t *testing.T) {
	t.Parallel()
	v, c := crowdServer(t, ServerOptions{})
	nc := raw(t, v)
	var b []byte
	for id := uint64(1); id <= 5; id++ {
		b = request(b, id, envelope{verb: verbWait}, fmt.Sprint("body ", id))
	}
	b = request(b, 6, envelope{verb: verbFail}, "another verb")
	b = request(b, 7, envelope{verb: verbWait, deadline: 1 << 30}, "seven")
	rest := request(nil, 8, envelope{verb: verbWait}, strings.Repeat("x", 1000))
	if _, err := nc.Write(append(b, rest[:500]...)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-c.came
	}
	got := c.sizes()
	slices.Sort(got) // they begin side by side
	if !slices.Equal(got, []int{1, 1, 5}) {
		t.Errorf("calls of %v requests, want 5 and two of 1", got)
	}
	for _, all := range c.calls {
		for i, task := range all {
			if len(all) == 5 && string(task.Request.Body) != fmt.Sprint("body ", i+1) {
				t.Errorf("request %d has body %q", i, task.Request.Body)
			}
			_, bounded := task.Context.Deadline()
			if bounded != (string(task.Request.Body) == "seven") {
				t.Errorf("%q has a deadline: %v", task.Request.Body, bounded)
			}
			task.Done(task.Request.Body, nil)
		}
	}
	if _, err := nc.Write(rest[500:]); err != nil {
		t.Fatal(err)
	}
	<-c.came
	c.calls[3][0].Done(nil, nil)
}

// TestTogetherOutcomes: each request has its own answer, error, refusal and end, in any order, and its room is free again.
func TestTogetherOutcomes(t *testing.T) {
	t.Parallel()
	v, c := crowdServer(t, ServerOptions{PerClient: Budget{Requests: 6}})
	cl := v.dial(t, ClientOptions{})
	ctx, cancel := context.WithCancel(inTime(t))
	defer cancel()
	for range 3 {
		v.free(t)
		answers := []<-chan told{}
		for i := range 3 {
			answers = append(answers, sent(t, inTime(t), cl, Call{Verb: verbWait, Body: fmt.Append(nil, i)}))
		}
		given := sent(t, ctx, cl, Call{Verb: verbWait, Body: []byte("given up")})
		for n := 0; n < 4; {
			<-c.came
			n = 0
			for _, k := range c.sizes() {
				n += k
			}
		}
		c.mu.Lock()
		all := slices.Concat(c.calls...)
		c.calls = nil
		c.mu.Unlock()
		cancel()
		slices.Reverse(all)
		for _, task := range all {
			switch string(task.Request.Body) {
			case "1":
				task.Done(nil, errors.New("one"))
			case "given up":
				<-task.Context.Done()
				task.Done(nil, task.Context.Err())
			default:
				if err := task.Context.Err(); err != nil {
					t.Errorf("%q ended with another request: %v", task.Request.Body, err)
				}
				task.Done(task.Request.Body, nil)
			}
		}
		for i, a := range answers {
			switch r := outcomeOf(t, a); {
			case i == 1:
				if r.err == nil || r.err.Error() != "one" {
					t.Errorf("request 1: %q, %v", r.body, r.err)
				}
			case r.err != nil || string(r.body) != fmt.Sprint(i):
				t.Errorf("request %d: %q, %v", i, r.body, r.err)
			}
		}
		if r := outcomeOf(t, given); !errors.Is(r.err, context.Canceled) {
			t.Errorf("given up: %v", r.err)
		}
		ctx, cancel = context.WithCancel(inTime(t))
	}
	cancel()
}

// TestTogetherLate: a request whose time has passed before its turn is refused, and the others that came with it are done.
func TestTogetherLate(t *testing.T) {
	t.Parallel()
	s := NewServer(ServerOptions{Log: quiet})
	took := 0
	s.opt.Together = map[Verb]func([]*Task){verbWait: func(all []*Task) {
		took += len(all)
		for _, task := range all {
			task.Done(nil, nil)
		}
	}}
	c := &serverConn{s: s, use: &s.clients, open: map[uint64]*job{}, out: newQueue(1 << 20)}
	c.ctx, c.cancel = context.WithCancel(t.Context())
	c.w = newWriter(&net.TCPConn{}, c.out, time.Second)
	c.w.now = nil
	past, cancel := context.WithDeadline(c.ctx, time.Now().Add(-time.Second))
	defer cancel()
	var all []*Task
	for id := range uint64(3) {
		j := &job{c: c, id: id + 1, ctx: c.ctx, cancel: func() {}, req: Request{Verb: verbWait, From: &c.from}}
		if id == 1 {
			j.ctx = past
		}
		j.task = Task{j.ctx, &j.req, j}
		c.open[j.id] = j
		s.running.Add(1)
		s.clients.take(0, false)
		all = append(all, &j.task)
	}
	s.runTogether(all)
	refused, answered := 0, 0
	for m := c.out.next(); m != nil; m = c.out.next() {
		switch {
		case m.kind == kindRefusal && m.id == 2:
			refused++
		case m.kind == kindAnswer && m.id != 2:
			answered++
		}
		c.out.written(m)
	}
	if took != 2 || refused != 1 || answered != 2 || s.running.Load() != 0 || len(c.open) != 0 || s.clients.requests != 0 {
		t.Errorf("%d done, %d refused, %d answered, %d running, %d open, %d in progress", took, refused, answered, s.running.Load(), len(c.open), s.clients.requests)
	}
}
