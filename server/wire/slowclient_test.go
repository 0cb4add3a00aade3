package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// watched is a connection of a server that shows its deadlines for reading, and holds its writes up.
type watched struct {
	net.Conn
	hurry bool // each deadline for reading has passed when it is set

	mu   sync.Mutex
	last time.Time // the deadline for reading
	held chan struct{}
}

func (w *watched) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	w.last = t
	w.mu.Unlock()
	if w.hurry && !t.IsZero() {
		t = time.Unix(1, 0)
	}
	return w.Conn.SetReadDeadline(t)
}

func (w *watched) deadline() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// hold holds up writes until the returned function is called.
func (w *watched) hold() (release func()) {
	held := make(chan struct{})
	w.mu.Lock()
	w.held = held
	w.mu.Unlock()
	return sync.OnceFunc(func() { close(held) })
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	held := w.held
	w.mu.Unlock()
	if held != nil {
		<-held
	}
	return w.Conn.Write(b)
}

// watch connects a raw client to a server through a watched connection. ended receives what ServeConn returns.
func (v *service) watch(t *testing.T, hurry bool) (nc net.Conn, w *watched, ended chan error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	nc = raw(t, &service{ln: ln})
	in, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	w, ended = &watched{Conn: in, hurry: hurry}, make(chan error, 1)
	go func() { ended <- v.s.ServeConn(context.Background(), w) }()
	return nc, w, ended
}

// greeted reads the Hello of a server.
func greeted(t *testing.T, nc net.Conn) *segments {
	t.Helper()
	_ = nc.SetReadDeadline(time.Now().Add(time.Minute))
	o := Options{}.withDefaults()
	s := &segments{r: bufio.NewReader(nc)}
	_, err := o.speaks(s.r)
	if err == nil {
		_, _, err = s.whole()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answers reads n answers.
func (s *segments) answers(t *testing.T, n int) {
	t.Helper()
	for last := 0; last < n; {
		h, err := s.next()
		if err == nil {
			err = s.rest(h)
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.kind == kindAnswer && h.flags&flagLast != 0 {
			last++
		}
	}
}

// TestHalfRequest: a client that stops in the middle of a request takes room from others for some time only, wherever it stops. A client
// whose requests have arrived may take its time for the next one.
func TestHalfRequest(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{})
	large := request(nil, 1, envelope{verb: verbEcho}, strings.Repeat("x", 1000))
	segments := request(nil, 1, envelope{verb: verbEcho, length: 1}, strings.Repeat("x", 3*SegmentBytesMax))
	for what, part := range map[string][]byte{"within a segment": large[:headBytes+envelopeBytes+10], "between two segments": segments} {
		nc, _, ended := v.watch(t, true)
		if _, err := nc.Write(part); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if !errors.Is(err, ErrFrame) || !strings.Contains(err.Error(), "arrived in part") {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: the connection stays", what)
		}
	}
	v.free(t)

	nc, w, _ := v.watch(t, false)
	whole := requestWhole(nil, 1, envelope{verb: verbEcho}, strings.Repeat("x", 3*SegmentBytesMax))
	if _, err := nc.Write(whole[:len(whole)-1]); err != nil {
		t.Fatal(err)
	}
	for ctx := inTime(t); w.deadline().IsZero(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("a request that arrives may take for ever")
		}
	}
	if _, err := nc.Write(whole[len(whole)-1:]); err != nil {
		t.Fatal(err)
	}
	greeted(t, nc).answers(t, 1)
	for ctx := inTime(t); !w.deadline().IsZero(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("the next request has to come before %v", w.deadline())
		}
	}
	n := v.dial(t, ClientOptions{Role: RoleNode, Name: "n"})
	if _, err := n.Do(inTime(t), Call{Verb: verbPeer, Body: make([]byte, 3*SegmentBytesMax)}); err != nil {
		t.Errorf("a node's: %v", err)
	}
}

// requestWhole appends all segments of a request.
func requestWhole(dst []byte, id uint64, e envelope, body string) []byte {
	e.length = uint32(len(body))
	w := &writer{q: newQueue(1 << 20)}
	m := &message{kind: kindRequest, id: id, prefixed: envelopeBytes, body: []byte(body)}
	e.append(m.prefix[:0])
	for w.segment(m) {
	}
	return append(dst, w.buf...)
}

// TestUnreadAnswers: a client that sends requests and does not read fills the server with answers only up to a bound. What it has asked is
// answered as soon as it reads.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	const requests, most, body = 40, 5, 40_000
	const passed = 2 * bufferBytes / body // answers that count as written at most, though they are held
	v := serveTurns(t, 1, ServerOptions{UnreadMax: most * body})
	nc, w, _ := v.watch(t, false)
	in := greeted(t, nc)
	release := w.hold()
	defer release()
	var b []byte
	for id := range uint64(requests) {
		b = request(b, id+1, envelope{verb: verbEcho}, strings.Repeat("x", body))
	}
	if _, err := nc.Write(b); err != nil {
		t.Fatal(err)
	}
	ctx, other := inTime(t), v.dial(t, ClientOptions{})
	for arrived := 0; arrived < requests-passed && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		v.s.clients.mu.Lock()
		arrived = v.s.clients.requests
		v.s.clients.mu.Unlock()
	}
	const others = 5 * requests // connections take turns: by then each of the first one's has had its own
	for range others {
		if _, err := other.Do(ctx, Call{Verb: verbEcho}); err != nil {
			t.Fatal(err)
		}
	}
	if n := v.served.Load() - others; n < most || n > requests/2 {
		t.Errorf("%d of %d requests were done for a client that reads nothing, want about %d", n, requests, most+1)
	}
	release()
	in.answers(t, requests)
	v.free(t)
}

// TestUnreadRefusals: a client that sends requests that are refused, or pings, and does not read fills the server only up to a bound. All are
// answered as soon as it reads, and so is the request after them. A client that has gone does not hold its connection up.
func TestUnreadRefusals(t *testing.T) {
	t.Parallel()
	const many = 4 * saidMax / saidBytes
	for what, one := range map[string][]byte{
		"refusals": request(nil, 1, envelope{verb: verbEcho, epoch: 1}, ""),
		"pings":    appendSegment(nil, kindPing, nil),
	} {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, gone %t", what, gone), func(t *testing.T) {
				t.Parallel()
				v := serve(t, ServerOptions{})
				nc, w, ended := v.watch(t, false)
				in := greeted(t, nc)
				release := w.hold()
				defer release()
				wrote := make(chan error, 1)
				go func() {
					_, err := nc.Write(request(bytes.Repeat(one, many), 2, envelope{verb: verbEcho}, "x"))
					wrote <- err
				}()
				ctx, waits := inTime(t), false
				var c *serverConn
				for ; c == nil && ctx.Err() == nil; time.Sleep(time.Millisecond) { // it comes after the Hello
					v.s.mu.Lock()
					for c = range v.s.conns {
					}
					v.s.mu.Unlock()
				}
				for ; !waits && ctx.Err() == nil; time.Sleep(time.Millisecond) {
					c.out.mu.Lock()
					waiting := c.out.lanes[PriorityQuorum].len()
					c.out.mu.Unlock()
					if waiting > saidMax/saidBytes+1 {
						t.Fatalf("%d answers wait for a client that reads nothing", waiting)
					}
					c.said.mu.Lock()
					waits = c.said.read != nil
					c.said.mu.Unlock()
				}
				if !waits {
					t.Fatal("the server reads on")
				}
				if gone {
					_ = nc.(*net.TCPConn).SetLinger(0)
					_ = nc.Close()
					<-wrote
					release()
					select {
					case <-ended:
					case <-ctx.Done():
						t.Fatal("the connection stays")
					}
					return
				}
				release()
				said := 0
				for ; ; said++ {
					h, err := in.next()
					if err == nil {
						err = in.rest(h)
					}
					if err != nil {
						t.Fatal(err)
					}
					if h.kind == kindAnswer {
						break
					}
				}
				if err := <-wrote; err != nil || said != many {
					t.Errorf("%d answers, want %d (%v)", said, many, err)
				}
				v.free(t)
			})
		}
	}
}

// TestUnreadTogether: requests that have arrived together wait for a client that does not read, also if the first of them has ended.
func TestUnreadTogether(t *testing.T) {
	t.Parallel()
	o := newOrder(1)
	c := o.conn()
	c.answers.add(o.s.opt.UnreadMax + 1)
	var w work
	var jobs []*job
	for _, name := range []string{"a", "b"} {
		j := alone(t.Context(), c, name)
		j.task = Task{j.ctx, &j.req, j}
		jobs, w.together = append(jobs, j), append(w.together, &j.task)
	}
	jobs[0].cancel()
	went := make(chan struct{})
	go func() {
		defer close(went)
		w.unread()
	}()
	select {
	case <-went:
		t.Error("the second request begins although its client has not read")
	case <-time.After(10 * time.Millisecond):
	}
	c.answers.add(-1 - o.s.opt.UnreadMax/2)
	<-went
	jobs[1].cancel()
}

// TestUnreadAgain: of several requests that wait for a client to read its answers, each looks again when its turn comes, and later ones do not overtake
// them.
func TestUnreadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 100
		s := NewServer(ServerOptions{Log: quiet, RunMax: 1, UnreadMax: most})
		c := (&order{s: s}).conn()
		c.answers.add(most + 1)
		went := make(chan *job, 3)
		begin := func(name string) {
			j := alone(t.Context(), c, name)
			go func() {
				defer j.cancel()
				work{alone: j}.unread()
				went <- j
			}()
			synctest.Wait()
		}
		begin("a")
		begin("b")
		c.answers.add(-1)
		if begin("c"); len(went) > 0 {
			t.Errorf("%d requests begin while most of the answers wait", len(went))
		}
		c.answers.add(-most / 2)
		for range 2 {
			if synctest.Wait(); len(went) != 1 {
				t.Fatalf("%d requests begin, want one", len(went))
			}
			c.answers.add(most)
			s.turns.end(&(<-went).turn)
			if synctest.Wait(); len(went) > 0 {
				t.Fatal("a request begins although the answer to the one before has not been read")
			}
			c.answers.add(-most)
		}
		synctest.Wait()
		s.turns.end(&(<-went).turn)
	})
}

// TestIdleStream: a client that asks for no further part of a stream keeps it for some time only. A node may take its time.
func TestIdleStream(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{StreamTime: time.Millisecond})
	nc := raw(t, v)
	in := greeted(t, nc)
	if _, err := nc.Write(request(nil, 1, envelope{verb: verbCount, credit: 1}, "xxx")); err != nil {
		t.Fatal(err)
	}
	for ended := false; !ended; {
		h, err := in.next()
		if err == nil {
			_, err = in.small(h.length)
		}
		if err == nil {
			ended = h.kind == kindError && strings.Contains(string(in.pay[:h.length]), "asked for in time")
			err = in.end()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-v.gone; !errors.Is(err, ErrIdle) {
		t.Error(err)
	}
	v.free(t)
	n, parts := v.dial(t, ClientOptions{Role: RoleNode, Name: "n", Credit: 1}), 0
	for _, err := range n.Stream(inTime(t), Call{Verb: verbCount, Body: make([]byte, 5)}) {
		if parts++; err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	if parts != 6 {
		t.Errorf("a node got %d parts", parts)
	}
}
