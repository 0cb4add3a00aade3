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
		all := func() {
			if !l.room.TryAcquire(roomBytes) {
				t.Fatalf("%s: some room is taken", c.name)
			}
		}
		before, _ := l.store.Live(t.Context(), set)
		all()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		waits := func() {
			for l.room.TryAcquire(0) { // as long as nobody waits
				select {
				case err := <-done:
					t.Fatalf("%s did not wait for room: %v", c.name, err)
				default:
					runtime.Gosched()
				}
			}
		}
		go func() { done <- c.do(ctx) }()
		waits()
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
		waits()
		l.room.Release(roomBytes)
		if err := <-done; err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if after, _ := l.store.Live(t.Context(), set); after != before+3 {
			t.Errorf("%s: %d elements, before %d", c.name, after, before)
		}
		all() // it was returned
		l.room.Release(roomBytes)
	}
	if taken, err := l.takeRoom(t.Context(), set, 100_000); taken != roomBytes || err != nil { // the store will refuse it
		t.Errorf("%d, %v", taken, err)
	}
}
