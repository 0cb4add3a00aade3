package remote_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/peer/remote"
	"bigset/server/wire"
)

// slowDisk is a replica whose disk takes its time after a write was applied.
type slowDisk struct {
	remote.Local
	disk func() error
}

func (s slowDisk) Write(ctx context.Context, set []byte, ops []bigset.Op, o bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	r, m, err := s.Local.Write(ctx, set, ops, o)
	if err == nil {
		err = s.disk()
	}
	return r, m, err
}

// TestWriteAhead: the far side says what it has applied before its disk is done, and the result or the error when it is.
func TestWriteAhead(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]error{"synced": nil, "failed": bigset.ErrFailed} {
		n := newNode(t, remote.Open{})
		sent := make(chan struct{})
		n.loop.after = func() error { close(sent); return nil }
		n.loop.handler = remote.Handler(slowDisk{n.local, func() error { <-sent; return fails }}, remote.Open{})
		var told []bigset.Result
		ops := []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x")}}
		r, by, err := n.far.Write(ctx, set, ops, bigset.WriteOptions{Durability: bigset.Sync, Applied: func(r bigset.Result, _ *bigset.Group) { told = append(told, r) }})
		if !errors.Is(err, fails) || by != n.local.Member() {
			t.Errorf("%s: from %v: %v", name, by, err)
		}
		if len(told) != 1 || len(told[0].Dots) != 1 || fmt.Sprint(told[0]) != fmt.Sprint(r) || string(r.Delta.Items[0].Element) != "x" {
			t.Errorf("%s: told %+v, returned %+v", name, told, r)
		}
	}
}

// TestNothingAhead: a write that has nothing to wait for, that does nothing, or is refused, is not sent ahead.
func TestNothingAhead(t *testing.T) {
	t.Parallel()
	n := newNode(t, remote.Open{})
	never := func(r bigset.Result, _ *bigset.Group) { t.Errorf("told %+v", r) }
	x := []byte("x")
	if r, _, err := n.far.Write(ctx, set, []bigset.Op{{Kind: keyscheme.OpAdd, Element: x}}, bigset.WriteOptions{Durability: bigset.NoSync, Applied: never}); err != nil || len(r.Dots) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, _, err := n.far.Write(ctx, set, []bigset.Op{{Kind: keyscheme.OpRemove, Element: []byte("y")}}, bigset.WriteOptions{Durability: bigset.Sync, Applied: never}); err != nil || !r.Delta.Empty() {
		t.Errorf("%+v, %v", r, err)
	}
	o := bigset.WriteOptions{Durability: bigset.Sync, Policy: bigset.PolicyRequired, Applied: never}
	if _, _, err := n.far.Write(ctx, set, []bigset.Op{{Kind: keyscheme.OpAdd, Element: x}}, o); !errors.Is(err, bigset.ErrContextRequired) || happened(err) != "nothing" {
		t.Errorf("%v", err)
	}
}

// TestOddAnswersAhead: what is no answer to the write is not passed on, and the outcome is unknown.
func TestOddAnswersAhead(t *testing.T) {
	t.Parallel()
	ops := []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x")}}
	for name, tamper := range map[string]func(n *node, b []byte) []byte{
		"of another set": func(_ *node, b []byte) []byte {
			m, by, _ := peer.Decode(b)
			if w, ok := m.(peer.Written); ok {
				w.Delta.Set = []byte("other")
				b, _ = peer.Append(nil, by, w)
			}
			return b
		},
		"none at all": func(n *node, _ []byte) []byte {
			b, _ := peer.Append(nil, n.local.Member(), peer.Done{})
			return b
		},
		"of another kind": func(n *node, _ []byte) []byte {
			b, _ := peer.Append(nil, n.local.Member(), peer.Known(true))
			return b
		},
		"cut": func(*node, []byte) []byte { return nil },
	} {
		n := newNode(t, remote.Open{})
		n.loop.tamper = func(b []byte) []byte { return tamper(n, b) }
		o := bigset.WriteOptions{Durability: bigset.Sync, Applied: func(r bigset.Result, _ *bigset.Group) { t.Errorf("%s: told %+v", name, r) }}
		if _, _, err := n.far.Write(ctx, set, ops, o); happened(err) != "nobody knows" {
			t.Errorf("%s: %v says that %s", name, err, happened(err))
		}
	}
}

// TestOlderWritesOnce: a member whose program does not know the verb is asked by the older one, and the write is done once.
func TestOlderWritesOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t, remote.Open{})
	handler := n.loop.handler
	n.loop.handler = func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
		if r.Verb == remote.VerbWriteAhead {
			r.Verb = 255 // which nobody knows
		}
		return handler(ctx, r, send)
	}
	o := bigset.WriteOptions{Durability: bigset.Sync, Applied: func(r bigset.Result, _ *bigset.Group) { t.Errorf("told %+v", r) }}
	r, _, err := n.far.Write(ctx, set, []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x")}}, o)
	if st, e := n.store.Replica().State(ctx, set); err != nil || e != nil || len(r.Dots) != 1 || st.Seen.Len() != 1 {
		t.Errorf("%+v, %v; %+v, %v", r, err, st, e)
	}
}

// TestGateAhead: a write stays within the gate until its disk is done, and no longer, however slowly the other side takes the answers.
func TestGateAhead(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]error{"slow": nil, "gone": context.Canceled} {
		g := &gate{}
		n := newNode(t, g)
		sent := make(chan struct{})
		n.loop.after = func() error { // what was applied is sent; the other side takes its time
			if g.inside.Load() != 1 {
				t.Errorf("%s: the gate was left before the disk was done", name)
			}
			close(sent)
			for end := time.Now().Add(time.Minute); g.inside.Load() > 0; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s: the gate is held by a write that has ended", name)
				}
			}
			return gone
		}
		n.loop.handler = remote.Handler(slowDisk{n.local, func() error { <-sent; return nil }}, g)
		o := bigset.WriteOptions{Durability: bigset.Sync, Applied: func(bigset.Result, *bigset.Group) {}}
		if _, _, err := n.far.Write(ctx, set, []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x")}}, o); !errors.Is(err, gone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRunner: a handler starts no goroutine by itself and waits for nothing else: in a simulation everything has its turn.
func TestRunner(t *testing.T) {
	t.Parallel()
	n := newNode(t, remote.Open{})
	started, inside, waits := 0, 0, 0
	run := remote.Runner{Go: func(f func()) { // as in a simulation, f and its caller do not run at the same time: f runs until it would wait for a disk
		started++
		inside++
		f()
		inside--
	}, NewSignal: func() (set, wait func()) {
		happened := false
		return func() { happened = true }, func() {
			if waits++; !happened {
				t.Error("waits for what does not happen")
			}
		}
	}}
	n.loop.handler = remote.HandlerIn(run, n.local, remote.Open{})
	var told []bigset.Result
	o := bigset.WriteOptions{Durability: bigset.Sync, Applied: func(r bigset.Result, _ *bigset.Group) { told = append(told, r) }}
	r, _, err := n.far.Write(ctx, set, []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x")}}, o)
	if err != nil || len(r.Dots) != 1 || len(told) != 1 {
		t.Errorf("%+v, %+v, %v", r, told, err)
	}
	if started != 1 || inside != 0 || waits != 2 {
		t.Errorf("%d functions were started, %d have not ended, and it waited %d times; want 1, 0 and 2", started, inside, waits)
	}
}
