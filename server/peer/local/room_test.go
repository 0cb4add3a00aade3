package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/peer"
)

func (r *room) counts() (left, waiting int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left, r.waiting.Len()
}

// await waits until some wait for room.
func (r *room) await(n int) {
	for _, waiting := r.counts(); waiting != n; _, waiting = r.counts() {
		runtime.Gosched()
	}
}

// TestRoom: room is given in the order of the questions, and what one that gives up had kept from others is theirs.
func TestRoom(t *testing.T) {
	r := &room{left: 100}
	ctx, cancel := context.WithCancel(t.Context())
	if err := r.take(ctx, 60); err != nil {
		t.Fatal(err)
	}
	large, small := make(chan error), make(chan error)
	go func() { large <- r.take(ctx, 50) }()
	r.await(1)
	go func() { small <- r.take(t.Context(), 40) }()
	r.await(2) // also the small one, which would have room
	cancel()
	if err := <-large; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that gave up: %v", err)
	}
	if err := <-small; err != nil {
		t.Error(err)
	}
	if left, waiting := r.counts(); left != 0 || waiting != 0 {
		t.Errorf("%d left, %d wait", left, waiting)
	}
	go func() { large <- r.take(t.Context(), 100) }()
	r.await(1)
	r.give(60)
	if left, waiting := r.counts(); left != 60 || waiting != 1 {
		t.Errorf("%d left, %d wait", left, waiting)
	}
	r.give(40)
	if err := <-large; err != nil {
		t.Error(err)
	}
	r.give(100)
	if left, _ := r.counts(); left != 100 {
		t.Errorf("%d left", left)
	}
}

// TestRoomOfBatches: what would make a batch with much of a set's name waits for memory, is done as soon as it has that, and returns it. If its time
// ends before, nothing has happened. Other changes do not wait.
func TestRoomOfBatches(t *testing.T) {
	l := newTrying(t).Replica
	set := bytes.Repeat([]byte("s"), 40_000)
	n := 0
	ops := func() (ops []bigset.Op) {
		for range 2 {
			n++
			ops = append(ops, bigset.Op{Kind: keyscheme.OpAdd, Element: fmt.Append(nil, n)})
		}
		return ops
	}
	first := uint64(1)
	delta := func() bigset.Delta {
		d := bigset.Delta{Set: set, Actor: "other", First: first}
		for range 2 {
			n++
			d.Items = append(d.Items, bigset.Item{Kind: keyscheme.OpAdd, Element: fmt.Append(nil, n)})
		}
		first += 2
		return d
	}
	for _, c := range []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"write", func(ctx context.Context) error {
			_, _, err := l.Write(ctx, set, ops(), bigset.WriteOptions{})
			return err
		}},
		{"writes", func(ctx context.Context) error {
			out, _, err := l.WriteMany(ctx, set, []bigset.WriteRequest{{Ops: ops()[:1]}, {Ops: ops()[:1]}})
			for _, o := range out {
				err = errors.Join(err, o.Err)
			}
			return err
		}},
		{"delta", func(ctx context.Context) error { _, err := l.Apply(ctx, delta(), bigset.NoSync); return err }},
		{"deltas", func(ctx context.Context) error {
			a, b := delta(), delta()
			a.Items, b.Items = a.Items[:1], b.Items[:1]
			each, _, err := l.ApplyMany(ctx, []bigset.Delta{a, b}, bigset.NoSync)
			return errors.Join(append(each, err)...)
		}},
	} {
		before, _ := l.store.Live(t.Context(), set)
		if err := l.room.take(t.Context(), roomBytes); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.do(ctx) }()
		l.room.await(1)
		cancel()
		if err := <-done; !errors.Is(err, peer.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s whose time ends: %v", c.name, err)
		}
		if after, _ := l.store.Live(t.Context(), set); after != before {
			t.Errorf("%s whose time ends: %d elements, before %d", c.name, after, before)
		}
		if _, _, err := l.Write(t.Context(), set, ops()[:1], bigset.WriteOptions{}); err != nil {
			t.Errorf("a small write: %v", err)
		}
		go func() { done <- c.do(t.Context()) }()
		l.room.await(1)
		l.room.give(roomBytes)
		if err := <-done; err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if after, _ := l.store.Live(t.Context(), set); after != before+3 {
			t.Errorf("%s: %d elements, before %d", c.name, after, before)
		}
		if left, _ := l.room.counts(); left != roomBytes {
			t.Errorf("%s: %d bytes are left", c.name, left)
		}
	}
	if taken, err := l.takeRoom(t.Context(), set, 100_000); taken != roomBytes || err != nil { // the store will refuse it
		t.Errorf("%d, %v", taken, err)
	}
}
