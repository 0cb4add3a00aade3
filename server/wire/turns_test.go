package wire

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// order is a turns whose work is listed, not done.
type order struct {
	*turns
	s    *Server
	done []string
	runs []*turn // of the work that was begun
}

func newOrder(most int) *order {
	o := &order{s: NewServer(ServerOptions{Log: quiet})}
	o.turns = newTurns(most, o.start)
	o.time = time.Hour
	return o
}

// conn returns a connection of a client.
func (o *order) conn() *serverConn {
	return &serverConn{s: o.s, own: &use{}, use: &use{}, open: map[uint64]*job{}, out: newQueue(1 << 20)}
}

// start lists the jobs of some work as one word.
func (o *order) start(w work) {
	if !w.some() {
		return
	}
	text := ""
	for j := range w.jobs() {
		text += string(j.req.Body)
	}
	o.done, o.runs = append(o.done, text), append(o.runs, w.turn())
}

// alone returns a request of a connection, and ask begins work or has it wait.
func alone(ctx context.Context, c *serverConn, name string) *job {
	j := &job{c: c, req: Request{Verb: verbEcho, Body: []byte(name)}}
	j.ctx, j.cancel = context.WithCancel(ctx)
	c.s.running.Add(1)
	return j
}

func (o *order) ask(c *serverConn, w work) {
	if o.begin(&c.row, w) {
		o.start(w)
	}
}

// end ends the oldest of the turns that work has.
func (o *order) endFirst() {
	u := o.runs[0]
	o.runs = o.runs[1:]
	o.start(o.end(u))
}

func (o *order) want(t *testing.T, want ...string) {
	t.Helper()
	if got := fmt.Sprint(o.done); got != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestTurnsOrder: connections take turns, the requests of one go in order, and those of one verb that have waited go together.
func TestTurnsOrder(t *testing.T) {
	t.Parallel()
	o := newOrder(2)
	a, b, c := o.conn(), o.conn(), o.conn()
	for i := range 5 {
		o.ask(a, work{alone: alone(t.Context(), a, fmt.Sprint("a", i))})
	}
	o.ask(b, work{alone: alone(t.Context(), b, "b0")})
	var many []*Task
	for i := range togetherMost + 2 {
		j := alone(t.Context(), c, ".")
		if j.req.Verb = verbFail; i == togetherMost+1 {
			j.req.Verb = verbWait
		}
		j.task = Task{Request: &j.req, j: j}
		many = append(many, &j.task)
	}
	o.ask(c, work{together: many[:togetherMost+1]})
	o.ask(c, work{together: many[togetherMost+1:]})
	o.want(t, "a0", "a1")
	all := ""
	for range togetherMost {
		all += "."
	}
	for range 9 {
		o.endFirst()
	}
	o.want(t, "a0", "a1", "a2", "b0", all, "a3", ".", "a4", ".")
	if len(o.held) > 0 || len(o.rows) > 0 {
		t.Errorf("%d turns are held, %d rows wait", len(o.held), len(o.rows))
	}
}

// TestTurnsGivenUp: a request that its caller gives up no longer waits, and one whose turn has come does not count as given up.
func TestTurnsGivenUp(t *testing.T) {
	t.Parallel()
	o := newOrder(1)
	a, b := o.conn(), o.conn()
	given := alone(t.Context(), a, "given up")
	o.ask(b, work{alone: alone(t.Context(), b, "b0")})
	o.ask(a, work{alone: given})
	o.ask(b, work{alone: alone(t.Context(), b, "b1")})
	given.cancel()
	for ctx := inTime(t); o.s.running.Load() != 2; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("a request still waits though its caller has given up")
		}
	}
	o.endFirst()
	o.endFirst()
	o.want(t, "b0", "b1")
	if len(o.held) > 0 || len(o.rows) > 0 {
		t.Errorf("%d turns are held, %d rows wait", len(o.held), len(o.rows))
	}
}

// TestTurnsEnd: a turn ends at the second look that finds a processor free, and at the eighth in any case, and is not ended twice.
func TestTurnsEnd(t *testing.T) {
	t.Parallel()
	o := newOrder(1)
	a := o.conn()
	for i := range 3 {
		o.ask(a, work{alone: alone(t.Context(), a, fmt.Sprint("a", i))})
	}
	o.look(true)
	for range looksMost - 2 {
		o.look(false)
	}
	o.want(t, "a0")
	o.look(false)
	o.want(t, "a0", "a1")
	o.look(true)
	o.want(t, "a0", "a1")
	o.look(true)
	o.want(t, "a0", "a1", "a2")
	o.endFirst() // a0, whose turn has ended
	o.endFirst()
	o.want(t, "a0", "a1", "a2")
	if len(o.held) != 1 {
		t.Errorf("%d turns are held", len(o.held))
	}
	if o.endFirst(); len(o.held) > 0 {
		t.Errorf("%d turns are held", len(o.held))
	}
}

// TestTurnsOfStreams: streams and new requests of one connection alternate, and streams go in the order in which they have rested.
func TestTurnsOfStreams(t *testing.T) {
	t.Parallel()
	o := newOrder(1)
	a := o.conn()
	one, two := alone(t.Context(), a, "one"), alone(t.Context(), a, "two")
	o.ask(a, work{alone: one})
	o.ask(a, work{alone: two})
	for i := range 4 {
		o.ask(a, work{alone: alone(t.Context(), a, fmt.Sprint("x", i))})
	}
	on := make(chan *job, 1)
	goOn := func(j *job) { // returns when it waits
		o.mu.Lock()
		want := a.row.len() + 1
		o.mu.Unlock()
		go func() {
			if o.resume(&a.row, j) {
				on <- j
			}
		}()
		for waits := false; !waits; runtime.Gosched() {
			o.mu.Lock()
			waits = a.row.len() == want
			o.mu.Unlock()
		}
	}
	goes := func(j *job) {
		t.Helper()
		select {
		case got := <-on:
			if got != j {
				t.Fatalf("%s goes on, want %s", got.req.Body, j.req.Body)
			}
		case <-inTime(t).Done():
			t.Fatalf("%s does not go on", j.req.Body)
		}
	}
	o.rest(&one.turn)
	goOn(one)
	o.runs = nil
	if o.rest(&two.turn); len(o.runs) > 0 {
		t.Fatalf("new requests keep a stream out: %v", o.done)
	}
	goes(one)
	goOn(two)
	for range 4 {
		o.rest(&one.turn) // a new request runs
		if len(o.runs) != 1 {
			t.Fatalf("a stream keeps new requests out: %v", o.done)
		}
		goOn(one)
		o.endFirst()
		goes(two)
		one, two = two, one
	}
	o.want(t, "one", "two", "x0", "x1", "x2", "x3")
}

// TestTurnsTwice: a request that goes on twice has one turn.
func TestTurnsTwice(t *testing.T) {
	t.Parallel()
	o := newOrder(2)
	a := o.conn()
	j := alone(t.Context(), a, "a")
	o.ask(a, work{alone: j})
	if o.resume(&a.row, j); len(o.held) != 1 {
		t.Errorf("%d turns", len(o.held))
	}
	if o.endFirst(); len(o.held) > 0 {
		t.Errorf("%d turns are held", len(o.held))
	}
}

// serveTurns returns a server at which most requests of clients run at once, and whose turns do not end by themselves.
func serveTurns(t *testing.T, most int, o ServerOptions) *service {
	o.RunMax = most
	v := serve(t, o)
	v.s.turns.time = time.Hour
	return v
}

// inLine returns how many requests wait for their turn.
func (v *service) inLine() (n int) {
	v.s.turns.mu.Lock()
	defer v.s.turns.mu.Unlock()
	for _, r := range v.s.turns.rows {
		n += r.len()
	}
	return n
}

// waiting waits until n requests wait for their turn.
func (v *service) waiting(t *testing.T, n int) {
	t.Helper()
	for ctx := inTime(t); ; time.Sleep(time.Millisecond) {
		have := v.inLine()
		if have == n {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%d requests wait, want %d", have, n)
		}
	}
}

// TestFlood: of a thousand requests of a client a few run at once. A node is answered beside them, whoever gives up no longer waits, and another
// client has its turn after a few of them.
func TestFlood(t *testing.T) {
	t.Parallel()
	const most, flood = 4, 1000
	v := serveTurns(t, most, ServerOptions{Free: map[Verb]bool{verbFail: true}})
	ctx := inTime(t)
	a, b, n := v.dial(t, ClientOptions{}), v.dial(t, ClientOptions{}), v.dial(t, ClientOptions{Role: RoleNode})
	gone, stop := context.WithCancel(ctx)
	defer stop()
	answers := make(chan error, flood)
	for range flood {
		go func() {
			_, err := a.Do(gone, Call{Verb: verbWait})
			answers <- err
		}()
	}
	v.waiting(t, flood-most)
	if _, err := n.Do(ctx, Call{Verb: verbPeer}); err != nil {
		t.Errorf("a node's: %v", err)
	}
	if _, err := b.Do(ctx, Call{Verb: verbFail}); err == nil || err.Error() != "no: " {
		t.Errorf("one that needs no turn: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := b.Do(short, Call{Verb: verbEcho}); err == nil {
		t.Error("a request was answered before its turn")
	}
	v.waiting(t, flood-most)
	if served := v.served.Load(); served != most+2 {
		t.Errorf("%d requests have begun, want %d, that of the node and the free one", served, most)
	}
	echo := make(chan error, 1)
	go func() {
		_, err := b.Do(ctx, Call{Verb: verbEcho})
		echo <- err
	}()
	v.waiting(t, flood-most+1)
	v.gate <- struct{}{}
	v.gate <- struct{}{} // the turn of one of them passes to the other client
	if err := <-echo; err != nil {
		t.Error(err)
	}
	stop()
	for range flood {
		<-answers
	}
	v.free(t)
}

// TestTurnsRest: a request has no turn while it waits for its client, or for what its handler rests for. With its turn over it goes on without.
func TestTurnsRest(t *testing.T) {
	t.Parallel()
	const verbRest Verb = 5
	opened := make(chan struct{})
	var v *service
	v = serveTurns(t, 1, ServerOptions{Handler: func(ctx context.Context, r *Request, send func([]byte) error) ([]byte, error) {
		if r.Verb != verbRest {
			return v.handle(ctx, r, send)
		}
		resume := r.Rest()
		select {
		case <-opened:
		case <-ctx.Done():
		}
		resume()
		return []byte("rested"), nil
	}})
	ctx := inTime(t)
	a, b := v.dial(t, ClientOptions{}), v.dial(t, ClientOptions{})
	echo := func(when string) {
		t.Helper()
		if _, err := b.Do(ctx, Call{Verb: verbEcho}); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	parts := 0
	for _, err := range a.Stream(ctx, Call{Verb: verbCount, Body: make([]byte, 50)}) {
		if err != nil {
			t.Fatal(err)
		}
		if parts++; parts == 1 || parts == 30 {
			echo("while a client does not read its stream")
		}
	}
	if parts != 51 {
		t.Errorf("%d parts", parts)
	}
	rested := make(chan error, 3)
	for range cap(rested) {
		go func() {
			got, err := a.Do(ctx, Call{Verb: verbRest})
			if err == nil && string(got) != "rested" {
				err = errors.New(string(got))
			}
			rested <- err
		}()
	}
	for range 10 {
		echo("while others rest")
	}
	close(opened)
	for range cap(rested) {
		if err := <-rested; err != nil {
			t.Error(err)
		}
	}
	v.free(t)
}

// TestStreamGivenUpInLine: a stream that its caller gives up while it waits for its turn ends, before its first part and later.
func TestStreamGivenUpInLine(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		var v *service
		var b *Client
		ctx, giveUp := context.WithCancel(inTime(t))
		held := make(chan error, 1)
		hold := func() { // another client takes the only turn, and the stream is given up when it waits for it
			go func() {
				_, err := b.Do(inTime(t), Call{Verb: verbWait})
				held <- err
			}()
			for v.inside.Load() == 0 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			go func() {
				for v.inLine() == 0 && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				giveUp()
			}()
		}
		v = serveTurns(t, 1, ServerOptions{Handler: func(ctx context.Context, r *Request, send func([]byte) error) ([]byte, error) {
			if first && r.Verb == verbCount {
				r.Rest()
				hold()
			}
			return v.handle(ctx, r, send)
		}})
		a := v.dial(t, ClientOptions{})
		b = v.dial(t, ClientOptions{})
		parts := 0
		for _, err := range a.Stream(ctx, Call{Verb: verbCount, Body: make([]byte, 50)}) {
			if err != nil {
				break
			}
			if parts++; parts == 1 && !first {
				hold()
			}
		}
		if parts > 10 || first && parts > 0 {
			t.Errorf("%d parts were sent", parts)
		}
		if err := <-v.gone; err == nil {
			t.Error("the handler was not told")
		}
		v.gate <- struct{}{}
		if err := <-held; err != nil {
			t.Error(err)
		}
		v.free(t)
	}
}

// TestNothingIsSentAfterTheEnd: a handler that ignores the end of its connection sends no part before the one that still waits was written or
// released: the writer would wait for ever.
func TestNothingIsSentAfterTheEnd(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(context.Background())
	c := &serverConn{out: newQueue(1 << 20), ctx: ended}
	p := parts{j: &job{c: c, ctx: context.Background(), credit: make(chan struct{}, creditMax)}}
	for range 3 {
		p.j.credit <- struct{}{}
	}
	if err := p.send([]byte("first")); err != nil {
		t.Fatal(err)
	}
	end()
	for range 2 {
		if err := p.send([]byte("more")); !errors.Is(err, errGone) {
			t.Errorf("%v", err)
		}
	}
	if n := c.out.lanes[0].len(); n != 1 {
		t.Errorf("%d parts wait", n)
	}
}
