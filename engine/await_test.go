package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"bigset"
	"bigset/keyscheme"
)

// TestAwaitNext: what changes after the wait has begun ends it, and nothing before does.
func TestAwaitNext(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	for i := range 3 {
		ready, woken := make(chan struct{}), make(chan error, 1)
		go func() { woken <- p.store.Replica().AwaitNext(bg, []byte("set"), func() { close(ready) }) }()
		<-ready
		select {
		case err := <-woken:
			t.Fatalf("woken before a change: %v", err)
		default:
		}
		p.all(t, "set", keyscheme.OpAdd, []string{string(rune('a' + i))}, bigset.NoSync)
		select {
		case err := <-woken:
			must(t, err, "a change")
		case <-time.After(time.Minute):
			t.Fatal("not woken")
		}
	}
	ctx, cancel := context.WithCancel(bg)
	if err := p.store.Replica().AwaitNext(ctx, []byte("set"), cancel); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	p.close(t)
	if err := p.store.Replica().AwaitNext(bg, []byte("set"), func() {}); !errors.Is(err, bigset.ErrClosed) {
		t.Error(err)
	}
}

// TestAwait: an add, a remove, a delta of nothing new and a drop of the range, as a goroutine that awaits a change sees them.
func TestAwait(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	state := func() *bigset.State {
		s, err := p.store.Replica().State(bg, []byte("set"))
		if err != nil && !errors.Is(err, bigset.ErrNotFound) {
			t.Fatal(err)
		}
		return &s
	}
	changes := map[string]func(){
		"add":        func() { p.all(t, "set", keyscheme.OpAdd, []string{"a", "b"}, bigset.NoSync) },
		"remove":     func() { p.all(t, "set", keyscheme.OpRemove, []string{"a"}, bigset.NoSync) },
		"drop range": func() { p.dropRange(t, 0, keyscheme.SlotMax) },
	}
	for _, what := range []string{"add", "remove", "drop range", "add"} {
		was, woken := state(), make(chan error, 2)
		for range 2 {
			go func() { woken <- p.store.Replica().Await(bg, []byte("set"), was) }()
		}
		p.all(t, "another", keyscheme.OpAdd, []string{what}, bigset.NoSync)
		select {
		case err := <-woken:
			t.Fatalf("%s: woken before it, %v", what, err)
		case <-time.After(5 * time.Millisecond):
		}
		changes[what]()
		for range 2 {
			select {
			case err := <-woken:
				must(t, err, what)
			case <-time.After(time.Minute):
				t.Fatalf("%s: not woken", what)
			}
		}
		must(t, p.store.Replica().Await(bg, []byte("set"), was), "at once")
	}
	ctx, cancel := context.WithTimeout(bg, 5*time.Millisecond)
	defer cancel()
	if err := p.store.Replica().Await(ctx, []byte("set"), state()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	p.close(t)
	if err := p.store.Replica().Await(bg, []byte("set"), &bigset.State{}); !errors.Is(err, bigset.ErrClosed) {
		t.Error(err)
	}
}
