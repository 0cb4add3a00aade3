package resp

import (
	"context"
	"testing"

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
