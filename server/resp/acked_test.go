package resp

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"bigset/server/door"
)

// acking is a backend whose changes other replicas acknowledge: three in all, but two if it drops the set a. Nobody knows what becomes of a change of the set lost.
type acking struct{ door.Backend }

func (b acking) Write(ctx context.Context, w door.Write) (door.Result, error) {
	if string(w.Set) == "lost" {
		return door.Result{}, &door.UnknownError{Acked: 1, W: 2}
	}
	r, err := b.Backend.Write(ctx, w)
	r.Acked = 3
	return r, err
}

func (b acking) Drop(ctx context.Context, d door.Drop) (door.Dropped, error) {
	out, err := b.Backend.Drop(ctx, d)
	if out.Acked = 3; string(d.Set) == "a" {
		out.Acked = 2
	}
	return out, err
}

// TestWait: WAIT answers how many other replicas have the last change of the connection, whatever it was.
func TestWait(t *testing.T) {
	t.Parallel()
	_, inner := start(t, Options{})
	dial, _ := serve(t, acking{inner.sets}, Options{})
	p := dial()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"PING"}, ":0"},
		{[]string{"SADD", "a", "x"}, ":2"},
		{[]string{"DEL", "a"}, ":1"},
		{[]string{"SADD", "b", "x"}, ":2"},
		{[]string{"DEL", "nothing"}, ":2"},
		{[]string{"SADD", "a", "x"}, ":2"},
		{[]string{"DEL", "a", "b"}, ":1"},
		{[]string{"SADD", "b", "x"}, ":2"},
		{[]string{"SADD", "a", "x"}, ":2"},
		{[]string{"SINTERSTORE", "a", "a", "nothing"}, ":1"},
		{[]string{"SUNIONSTORE", "a", "b"}, ":2"},
		{[]string{"BF.ADD", "f", "x"}, ":0"},
		{[]string{"SREM", "a", "x"}, ":2"},
		{[]string{"DEL", "f"}, ":0"},
		{[]string{"SADD", "b", "x"}, ":2"},
		{[]string{"SADD", "lost", "x"}, ":0"},
		{[]string{"SADD", "b", "x"}, ":2"},
		{[]string{"BS.ADD", "lost", "ELEMENTS", "x"}, ":0"},
	} {
		p.do(t, c.args...)
		if got := p.do(t, "WAIT", "0", "0"); got != c.want {
			t.Errorf("WAIT after %v: %s, want %s", c.args, got, c.want)
		}
	}
}

// TestTimes: requests about sets and keys are timed, each once, by what they ask for.
func TestTimes(t *testing.T) {
	t.Parallel()
	dial, s := start(t, Options{})
	p := dial()
	if _, err := p.Write(append(request("SADD", "k", "a", "b"), request("SADD", "k", "c")...)); err != nil {
		t.Fatal(err)
	}
	p.read(t)
	p.read(t)
	for _, args := range [][]string{{"SISMEMBER", "k", "a"}, {"SMEMBERS", "k"}, {"SCARD", "k"}, {"BS.COUNT", "k"}, {"BS.CHANGES", "k", ""}, {"BF.ADD", "f", "x"}, {"PING"}, {"SADD", "k"}} {
		p.do(t, args...)
	}
	m := s.Metrics()
	if m.Changes.Count != 2 || m.Questions.Count != 1 || m.Others.Count != 3 || m.Changes.Seconds <= 0 {
		t.Errorf("changes %+v, questions %+v, others %+v", m.Changes, m.Questions, m.Others)
	}
}

// counting is a backend whose changes two of three replicas have acknowledged, and whose third is counted by third of each set, if there is one. A change of the set nothing is no
// event.
type counting struct {
	door.Backend
	third map[string]*third
}

func (b counting) Write(ctx context.Context, w door.Write) (door.Result, error) {
	r, err := b.Backend.Write(ctx, w)
	if r.Acked = 2; string(w.Set) == "nothing" {
		r.Acked = 0
	}
	if a := b.third[string(w.Set)]; a != nil && w.Later {
		r.Later = a
	}
	return r, err
}

func (b counting) Drop(ctx context.Context, d door.Drop) (door.Dropped, error) {
	out, err := b.Backend.Drop(ctx, d)
	out.Acked = 2
	if a := b.third[string(d.Set)]; a != nil && d.Later {
		out.Later = a
	}
	return out, err
}

// third is whether the third replica has acknowledged.
type third struct {
	answered chan struct{} // closed when it has answered
	acked    bool          // what it has answered
}

func newThird() *third { return &third{answered: make(chan struct{})} }

func (a *third) answers(acked bool) {
	a.acked = acked
	close(a.answered)
}

// Wait implements door.Acks.
func (a *third) Wait(ctx context.Context, n int) int {
	select {
	case <-a.answered:
		if a.acked {
			return 3
		}
		return 2
	default:
	}
	if n > 2 {
		select {
		case <-a.answered:
			return a.Wait(ctx, n)
		case <-ctx.Done():
		}
	}
	return 2
}

// TestWaitWaits: WAIT waits until as many have the last change as it asks for, until no other one can have it, or until its time is up. Others are served in the same time.
func TestWaitWaits(t *testing.T) {
	t.Parallel()
	_, inner := start(t, Options{})
	b := counting{inner.sets, map[string]*third{"has": newThird(), "fails": newThird(), "never": newThird(), "a": newThird(), "b": newThird(), "c": newThird()}}
	dial, s := serve(t, b, Options{})
	p := dial()
	send := func(p *peer, args ...string) {
		t.Helper()
		if _, err := p.Write(request(args...)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(p *peer, want string, args ...string) {
		t.Helper()
		if got := p.do(t, args...); got != want {
			t.Errorf("%v: %s, want %s", args, got, want)
		}
	}
	// What needs no wait.
	p.do(t, "SADD", "never", "x")
	for _, n := range []string{"-1", "0", "1", "-9223372036854775808"} {
		want(p, ":1", "WAIT", n, "0")
	}
	want(p, ":1", "WAIT", "9223372036854775807", "1")
	want(p, ":1", "WAIT", "2", "1")
	p.do(t, "SADD", "plain", "x")
	want(p, ":1", "WAIT", "2", "0")
	p.do(t, "SADD", "nothing", "x")
	want(p, ":1", "WAIT", "2", "0")
	p.do(t, "SADD", "never", "x")
	p.do(t, "RESET")
	want(p, ":0", "WAIT", "2", "0")

	// Until the third has it, or can't have it.
	for set, answer := range map[string]string{"has": ":2", "fails": ":1"} {
		var all []*peer
		for range 12 {
			q := dial()
			q.do(t, "SADD", set, "x")
			send(q, "WAIT", "2", "0")
			all = append(all, q)
		}
		waiting(t, s, 12)
		want(p, "+PONG", "PING")
		b.third[set].answers(set == "has")
		for _, q := range all {
			if got := q.read(t); got != answer {
				t.Errorf("%s: %s, want %s", set, got, answer)
			}
		}
		waiting(t, s, 0)
	}

	// The part that the fewest have counts, of any number of parts.
	for _, key := range []string{"a", "b", "c"} {
		p.do(t, "SADD", key, "x")
	}
	p.do(t, "DEL", "a", "b", "c")
	want(p, ":1", "WAIT", "2", "1")
	b.third["a"].answers(true)
	b.third["c"].answers(true)
	want(p, ":1", "WAIT", "2", "1")
	if _, err := p.Write(append(request("PING"), request("WAIT", "2", "0")...)); err != nil {
		t.Fatal(err)
	}
	p.SetReadDeadline(time.Now().Add(20 * time.Second))
	if got := p.read(t); got != "+PONG" { // what was asked before is answered before
		t.Error(got)
	}
	p.SetReadDeadline(time.Time{})
	waiting(t, s, 1)
	b.third["b"].answers(true)
	if got := p.read(t); got != ":2" {
		t.Error(got)
	}
	want(p, ":2", "WAIT", "3", "0")
	del := []string{"DEL"}
	for i := range partsKept + 2 {
		key := fmt.Sprint("k", i)
		b.third[key] = newThird()
		if i < partsKept {
			b.third[key].answers(true)
		}
		p.do(t, "SADD", key, "x")
		del = append(del, key)
	}
	want(p, fmt.Sprint(":", partsKept), del[:1+partsKept]...)
	want(p, ":2", "WAIT", "2", "0")
	p.do(t, "SADD", "k0", "x")
	for _, key := range del[2:] {
		p.do(t, "SADD", key, "x")
	}
	want(p, fmt.Sprint(":", partsKept+2), del...)
	want(p, ":1", "WAIT", "2", "0")
}

// waiting waits until a number of requests wait.
func waiting(t *testing.T, s *Server, n int64) {
	t.Helper()
	for end := time.Now().Add(50 * time.Second); s.counters.waits.Load() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d wait, want %d", s.counters.waits.Load(), n)
		}
	}
}

// TestWaitEnds: WAIT ends when its client has gone, and when the server shuts down. Where many wait, one more is answered at once.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	_, inner := start(t, Options{})
	dial, s := serve(t, counting{inner.sets, map[string]*third{"never": newThird()}}, Options{})
	s.waitsMax = 2
	wait := func() *peer {
		p := dial()
		p.do(t, "SADD", "never", "x")
		if _, err := p.Write(request("WAIT", "2", "0")); err != nil {
			t.Fatal(err)
		}
		return p
	}
	goes, stays := wait(), wait()
	waiting(t, s, 2)
	if got := wait().read(t); got != ":1" {
		t.Error(got)
	}
	waiting(t, s, 2)
	if runtime.GOOS == "linux" {
		goes.Close()
		waiting(t, s, 1)
	}
	began := time.Now()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if got, took := stays.read(t), time.Since(began); got != ":1" || took > 40*time.Second {
		t.Errorf("%s after %v", got, took)
	}
}
