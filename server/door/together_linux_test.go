package door

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// choir is a protocol whose lines are work of the set that their first byte names: a capital waits for the disk, '+' for nodes, 'u' for its turn, a small letter rarely.
// 'm' is much work, and 'w' takes long without waiting. A line for the disk or its turn whose second byte is 'f' is too much for the loop. Lines that begin with '-' are
// answered at once, and so are those with '~', which are much work before a rest.
type choir struct {
	mu    sync.Mutex
	calls []string           // of each: what it did
	hold  map[byte]chan bool // a call of a set sends that it is in, and goes on when it may
}

type singer struct {
	choir    *choir
	line     []byte
	deferred bool
	answer   string
}

func (o *choir) open(*Conn) Handler { return &singer{choir: o} }

// together answers each line with itself and the number of connections in its call.
func (o *choir) together(_ context.Context, list []Handler) {
	var all []string
	for _, h := range list {
		all = append(all, string(h.(*singer).line))
	}
	o.mu.Lock()
	o.calls = append(o.calls, strings.Join(all, " "))
	hold := o.hold[all[0][0]]
	o.mu.Unlock()
	if hold != nil {
		hold <- true
		<-hold
	}
	for began := time.Now(); all[0][0] == 'w' && time.Since(began) < 3*lendTime; {
	}
	for i, h := range list {
		h.(*singer).answer = all[i] + "\n"
	}
}

// note remembers what was done.
func (o *choir) note(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, what)
}

func (s *singer) Execute(ctx context.Context, c *Conn, buf []byte) (used int) {
	if s.deferred {
		c.Out = append(c.Out, s.answer...)
		s.deferred = false
	}
	for !c.Ended() {
		i := bytes.IndexByte(buf[used:], '\n')
		if i < 0 {
			break
		}
		s.line = buf[used : used+i]
		used += i + 1
		if s.line[0] == '-' {
			c.Out = append(append(c.Out, s.line...), '\n')
			continue
		}
		if s.line[0] == '~' {
			c.Out = append(append(c.Out, s.line...), '\n')
			s.choir.note(string(s.line))
			if c.Rest(workPiecesMax) {
				return used
			}
			continue
		}
		w := Work{Set: s.line[:1], Pieces: 1, Bytes: len(s.line)}
		switch b := s.line[0]; {
		case b == 'm':
			w.Pieces = workPiecesMax
		case b == '+':
			w.Waits = WaitsForNodes
		case b == 'u':
			w.Waits = WaitsForTurn
		case b < 'a':
			w.Waits = WaitsForDisk
		}
		if (w.Waits == WaitsForTurn || w.Waits == WaitsForDisk) && bytes.HasPrefix(s.line[1:], []byte("f")) {
			w.Pieces = piecesFew + 1
		}
		if s.deferred = c.Defer(w); s.deferred {
			return used
		}
		c.MayWait()
		s.choir.together(ctx, []Handler{s})
		c.Out = append(c.Out, s.answer...)
	}
	return used
}

func (s *singer) TooLong(*Conn) {}

// begun has a call of the set under way that its connection waits for, and returns how to end it.
func (o *choir) begun(t *testing.T, r *running, set byte) (end func()) {
	t.Helper()
	return o.begunBy(t, r, string(set)+"1")
}

// begunBy is begun with a line.
func (o *choir) begunBy(t *testing.T, r *running, line string) (end func()) {
	t.Helper()
	hold := make(chan bool)
	release := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release) // a test that fails before it ends the call leaves no server that waits for it
	o.mu.Lock()
	o.hold = map[byte]chan bool{line[0]: hold}
	o.mu.Unlock()
	nc := r.dial()
	send(t, nc, line+"\n")
	<-hold
	o.mu.Lock()
	o.hold = nil
	o.mu.Unlock()
	return func() {
		release()
		want(t, nc, line+"\n")
	}
}

func send(t *testing.T, nc net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(nc, text); err != nil {
		t.Fatal(err)
	}
}

// TestTogether: what connections ask of one set while a call is under way is one call, each connection has its answers in order, and others are served.
func TestTogether(t *testing.T) {
	t.Parallel()
	o := &choir{}
	s, err := New(o.open, Options{Loops: 1, Together: o.together, Log: noLog})
	r := run(t, s, err)
	end := o.begunBy(t, r, "Af") // outside the loop, which would wait for a moment only
	const clients = 20
	conns := make([]net.Conn, clients)
	for i := range conns {
		conns[i] = r.dial()
		send(t, conns[i], fmt.Sprintf("-%d\nA%d\nb%d\n-\nA%d'\n", i, i, i, i))
		want(t, conns[i], "")
	}
	other := r.dial()
	ask(t, other, "b-other\n")
	ask(t, other, "B-other\n")
	for i, nc := range conns { // all are read by now, or their lines are among those that come
		send(t, nc, fmt.Sprintf("A%d\"\n", i))
	}
	ask(t, other, "-\n")
	end()
	for i, nc := range conns {
		want(t, nc, fmt.Sprintf("-%d\nA%d\nb%d\n-\nA%d'\nA%d\"\n", i, i, i, i, i))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	most := 0
	for _, call := range o.calls {
		n := strings.Count(call, "A")
		most = max(most, n)
		if n > 0 && strings.ContainsAny(call, "bB") {
			t.Errorf("a call of two sets: %s", call)
		}
	}
	if most < clients/2 {
		t.Errorf("at most %d connections in a call: %q", most, o.calls)
	}
}

// TestLoopGoesOn: a call of the loop that takes long, and one that waits for a node, hold up nobody, not even of the same set.
func TestLoopGoesOn(t *testing.T) {
	t.Parallel()
	for _, set := range []byte{'a', '+'} {
		o := &choir{}
		s, err := New(o.open, Options{Loops: 1, Together: o.together, Log: noLog})
		r := run(t, s, err)
		end := o.begun(t, r, set)
		nc := r.dial()
		for range 100 {
			ask(t, nc, "-\n"+string(set)+"x\nc\nC\n")
		}
		end()
	}
}

// TestSlowCalls: after a call that took long for its work, connections are served by calls of their own, so that nobody waits for what another reads; much work may take longer.
func TestSlowCalls(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		set  byte
		took time.Duration
		slow bool
	}{
		{'a', 5 * lendTime, true},
		{'m', 4 * lendTime, false},
		{'m', 2*lendTime + 2*workPiecesMax*pieceTime, true},
	} {
		o := &choir{}
		s, err := New(o.open, Options{Loops: 1, Together: o.together, Log: noLog})
		r := run(t, s, err)
		conns := make([]net.Conn, 20)
		for i := range conns {
			conns[i] = r.dial()
		}
		judged, shared := false, 0
		for tries := 0; tries < 20 && shared == 0; tries++ {
			began := time.Now()
			end := o.begun(t, r, test.set)
			time.Sleep(test.took)
			end()
			ended := time.Now()
			shared = o.sing(t, conns)
			if time.Since(ended) > slowTime/2 || test.slow && shared > 0 && tries < 10 { // this machine may be too busy to say
				shared = 0
				continue
			}
			if !test.slow && shared == 0 && ended.Sub(began) > lendTime+workPiecesMax*pieceTime { // it took longer than it should
				continue
			}
			if judged = true; test.slow {
				break
			}
		}
		if judged && test.slow != (shared == 0) {
			t.Errorf("after %v of %c: %d calls of several connections", test.took, test.set, shared)
		}
	}
}

// TestBusyCalls: a call that takes long, but waits for nothing, is not slow.
func TestBusyCalls(t *testing.T) {
	t.Parallel()
	o := &choir{}
	s, err := New(o.open, Options{Loops: 1, Together: o.together, Log: noLog})
	r := run(t, s, err)
	conns := make([]net.Conn, 20)
	for i := range conns {
		conns[i] = r.dial()
	}
	nc, judged := r.dial(), false
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		ask(t, nc, "w\n")
		ended := time.Now()
		shared := o.sing(t, conns)
		if time.Since(ended) > slowTime/2 { // this machine may be too busy to say
			continue
		}
		if judged = true; shared > 0 {
			return
		}
	}
	if judged {
		t.Error("a call that was only busy counts as slow")
	}
}

// TestLoopSyncs: a loop waits for a sync itself while clients send nothing but changes, and goes on beside it if some ask for other things.
func TestLoopSyncs(t *testing.T) {
	t.Parallel()
	o := &choir{}
	s, err := New(o.open, Options{Loops: 1, Together: o.together, Log: noLog})
	r := run(t, s, err)
	other := r.dial()
	asked := func() time.Duration {
		began := time.Now()
		end := o.begun(t, r, 'A')
		ask(t, other, "-\n")
		took := time.Since(began)
		end()
		return took
	}
	if took := asked(); took < lendDiskTime {
		t.Errorf("beside a sync that the loop should wait for, a client is answered after %v", took)
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); { // this machine may be too busy to say
		if ask(t, other, "-\n"); asked() < lendDiskTime {
			return
		}
	}
	t.Error("a client waits for the syncs of others")
}

// TestTurns: little work waits for a call of its set that is in progress outside the loop, and is done after it.
func TestTurns(t *testing.T) {
	t.Parallel()
	o := &choir{}
	s, err := New(o.open, Options{Loops: 1, Together: o.together, Log: noLog})
	r := run(t, s, err)
	end := o.begunBy(t, r, "uf")
	conns := make([]net.Conn, 10)
	for i := range conns {
		conns[i] = r.dial()
		send(t, conns[i], "u1\n")
	}
	other := r.dial()
	for range 20 {
		ask(t, other, "-\n")
	}
	o.mu.Lock()
	if len(o.calls) != 1 {
		t.Errorf("beside the first call: %q", o.calls[1:])
	}
	o.mu.Unlock()
	end()
	for _, nc := range conns {
		want(t, nc, "u1\n")
		ask(t, nc, "u2\n")
	}
}

// sing has all connections ask of one set, and returns how many calls were for several.
func (o *choir) sing(t *testing.T, conns []net.Conn) (shared int) {
	t.Helper()
	o.mu.Lock()
	o.calls = nil
	o.mu.Unlock()
	for i, nc := range conns {
		send(t, nc, fmt.Sprintf("b%d\n", i))
	}
	for i, nc := range conns {
		want(t, nc, fmt.Sprintf("b%d\n", i))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, call := range o.calls {
		if strings.Contains(call, " ") {
			shared++
		}
	}
	return shared
}

// TestDeferredAtTheEnd: connections whose work is deferred when the server is shut down, or when their clients have sent all, are answered; those that are cut off end.
func TestDeferredAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, set := range []byte{'a', 'A', '+'} {
		o := &choir{}
		s, err := New(o.open, Options{Loops: 1, Together: o.together, Log: noLog})
		r := run(t, s, err)
		end := o.begun(t, r, set)
		nc := r.dial()
		send(t, nc, "-accepted\n")
		want(t, nc, "-accepted\n") // a listener that closes resets connections that it has not accepted
		send(t, nc, "-\n"+string(set)+"x\n-\n")
		if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		down := make(chan error, 1)
		go func() { down <- r.Shutdown(context.Background()) }()
		for !s.isClosed() {
			time.Sleep(time.Millisecond)
		}
		end()
		want(t, nc, "-\n"+string(set)+"x\n-\n")
		if err := <-down; err != nil {
			t.Errorf("%c: %v", set, err)
		}
	}
}

// TestManyDefer has clients that send pipelines of all kinds at the same time; some of them leave before they are answered.
func TestManyDefer(t *testing.T) {
	t.Parallel()
	for _, loops := range []int{-1, 1, 3} {
		o := &choir{}
		s, err := New(o.open, Options{Loops: loops, Together: o.together, Log: noLog})
		r := run(t, s, err)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				for j := range 20 {
					nc, err := net.Dial("tcp", r.ln.Addr().String())
					if err != nil {
						t.Error(err)
						return
					}
					nc.SetDeadline(time.Now().Add(60 * time.Second))
					text := ""
					for k := range 30 {
						text += fmt.Sprintf("%c%d-%d-%d\n", "abcABC+-"[(i*j+k)%8], i, j, k)
					}
					io.WriteString(nc, text)
					if j%5 < 4 {
						got := make([]byte, len(text))
						if n, err := io.ReadFull(nc, got); err != nil || string(got) != text {
							t.Errorf("got %q, %v", got[:n], err)
						}
					}
					nc.Close()
				}
			})
		}
		wg.Wait()
	}
}
