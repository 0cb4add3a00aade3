package coord_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

// outcomes collects what writes of WriteMany have come to.
type outcomes struct {
	mu  sync.Mutex
	got map[string]error
	by  map[string]string // nodes that have done them
	all sync.WaitGroup
}

func newOutcomes() *outcomes { return &outcomes{got: map[string]error{}, by: map[string]string{}} }

func (o *outcomes) call(t *testing.T, ctx context.Context, what string, w coord.Write) coord.WriteCall {
	o.all.Add(1)
	return coord.WriteCall{Context: ctx, Write: w, Done: func(r coord.Result, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if _, twice := o.got[what]; twice {
			t.Errorf("%s was answered twice", what)
		}
		if err == nil && r.Durable < 2 && !r.Delta.Empty() {
			t.Errorf("%s: %+v", what, r)
		}
		o.got[what], o.by[what] = err, r.By.Node
		o.all.Done()
	}}
}

// TestWriteManyOutcomes: of writes that come together each has its own outcome, and only those of one set are one call of its replica.
func TestWriteManyOutcomes(t *testing.T) {
	t.Parallel()
	c := bundleCase{how: "sends", many: true}
	to, list := c.replicas(t)
	co, err := coord.New(coord.Options{Quorum: coord.Quorum{N: 2, R: 1, W: 2, DW: 2}, Place: coord.List(func(name []byte) []peer.Replica {
		if string(name) == "nowhere" {
			return nil
		}
		return list
	}), HintInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	o := newOutcomes()
	if _, _, err := to.Write(ctx, set, add("elsewhere"), bigset.WriteOptions{Request: []byte("elsewhere")}); err != nil {
		t.Fatal(err)
	}
	var calls []coord.WriteCall
	want := map[string]error{}
	with := func(ctx context.Context, what string, err error, w coord.Write) {
		calls, want[what] = append(calls, o.call(t, ctx, what, w)), err
	}
	for i := range 5 {
		with(ctx, fmt.Sprint("add ", i), nil, coord.Write{Set: set, Ops: add(fmt.Sprint(i)), Request: fmt.Append(nil, i)})
	}
	with(ctx, "another set", nil, coord.Write{Set: []byte("other"), Ops: add("x")})
	with(ctx, "no event", nil, coord.Write{Set: set, Ops: []bigset.Op{{Kind: keyscheme.OpRemove, Element: []byte("never")}}})
	with(ctx, "repeated", nil, coord.Write{Set: set, Ops: add("1"), Request: []byte("1")})
	with(ctx, "retry", nil, coord.Write{Set: set, Ops: add("retry"), Request: []byte("r"), Retry: true})
	with(ctx, "retry of what is elsewhere", nil, coord.Write{Set: set, Ops: add("elsewhere"), Request: []byte("elsewhere"), Retry: true})
	with(ctx, "long id", coord.ErrRequest, coord.Write{Set: set, Ops: add("x"), Request: make([]byte, 65)})
	with(ctx, "no name", bigset.ErrRequest, coord.Write{Ops: add("x")})
	with(ctx, "long element", bigset.ErrLimit, coord.Write{Set: set, Ops: add(string(make([]byte, bigset.ElementBytesMax+1)))})
	with(ctx, "needs a context", bigset.ErrContextRequired, coord.Write{Set: set, Ops: add("x"), Policy: bigset.PolicyRequired})
	with(ctx, "no replicas", coord.ErrNoQuorum, coord.Write{Set: []byte("nowhere"), Ops: add("x")})
	with(ctx, "quorum", coord.ErrRequest, coord.Write{Set: set, Ops: add("x"), Quorum: coord.Quorum{W: 3}})
	with(ended, "given up", coord.ErrNoQuorum, coord.Write{Set: set, Ops: add("late")})
	co.WriteMany(calls)
	o.all.Wait()
	for what, err := range want {
		if got := o.got[what]; !errors.Is(got, err) || (got == nil) != (err == nil) || errors.Is(got, coord.ErrUnknown) {
			t.Errorf("%s: %v, want %v", what, got, err)
		}
	}
	if node := o.by["retry of what is elsewhere"]; node != "node1" {
		t.Errorf("a retry of what node1 has was done by %q", node)
	}
	most := 0
	for _, n := range to.frames {
		most = max(most, n)
	}
	if most < 6 { // five adds and the repeated one
		t.Errorf("frames of %v deltas", to.frames)
	}
	if err := co.Close(ctx); err != nil {
		t.Fatal(err)
	}
	found, _, err := to.Lookup(ctx, set, [][]byte{[]byte("4"), []byte("late"), []byte("retry")})
	if err != nil || !found[0].Present() || found[1].Present() || !found[2].Present() {
		t.Errorf("%+v, %v", found, err)
	}
	co.WriteMany([]coord.WriteCall{o.call(t, ctx, "closed", coord.Write{Set: set, Ops: add("x")})})
	if o.all.Wait(); !errors.Is(o.got["closed"], coord.ErrClosed) {
		t.Errorf("closed: %v", o.got["closed"])
	}
}

// TestWriteManyWaitsForNone: of writes that come together none waits for another whose caller gives up, whose context or time ends, or whose replica does not answer.
func TestWriteManyWaitsForNone(t *testing.T) {
	t.Parallel()
	c := bundleCase{how: "older", held: true, many: true}
	to, list := c.replicas(t)
	var all []*coord.Coordinator
	defer func() {
		close(to.held)
		for _, co := range all {
			if err := co.Close(ctx); err != nil {
				t.Error(err)
			}
		}
	}()
	for _, tt := range []struct {
		ends              string
		timeout, deadline time.Duration
		cause             error
	}{
		{"caller", 0, 0, context.Canceled},
		{"context", time.Hour, 50 * time.Millisecond, context.DeadlineExceeded},
		{"time", 3 * time.Second, 0, context.DeadlineExceeded},
	} {
		co, err := coord.New(coord.Options{Quorum: coord.Quorum{N: 2, R: 1, W: 2, DW: 2}, Place: coord.List(func([]byte) []peer.Replica { return list }), HintInterval: -1, Timeout: tt.timeout})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, co)
		giving, giveUp := context.WithCancel(ctx)
		defer giveUp()
		if tt.deadline > 0 {
			var end context.CancelFunc
			giving, end = context.WithTimeout(ctx, tt.deadline)
			defer end()
		}
		o := newOutcomes()
		var others sync.WaitGroup
		others.Add(1)
		good := coord.WriteCall{Context: ctx, Write: coord.Write{Set: set, Ops: add("good")}, Done: func(_ coord.Result, err error) {
			if err != nil {
				t.Error(err)
			}
			others.Done()
		}}
		co.WriteMany([]coord.WriteCall{o.call(t, giving, "bad", coord.Write{Set: bytes.Clone(set), Ops: add(string(bad))}), good})
		others.Wait()
		if tt.ends == "caller" {
			o.mu.Lock()
			if err, answered := o.got["bad"]; answered {
				t.Errorf("a write that its replica has not answered: %v", err)
			}
			o.mu.Unlock()
			giveUp()
		}
		answered := make(chan struct{})
		go func() { o.all.Wait(); close(answered) }()
		select {
		case <-answered:
		case <-time.After(time.Minute):
			t.Fatalf("the write waits on after its %s has ended", tt.ends)
		}
		unknown := errors.Is(o.got["bad"], coord.ErrUnknown) || tt.deadline > 0 && errors.Is(o.got["bad"], coord.ErrNoQuorum) // it may end before the write begins
		if !unknown || !errors.Is(o.got["bad"], tt.cause) {
			t.Errorf("its %s ended: %v", tt.ends, o.got["bad"])
		}
	}
}
