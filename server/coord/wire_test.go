package coord_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"bigset/server/coord/turns"
	"bigset/server/peer"
)

// sched runs a cluster of a test in turns, and has its source.
type sched struct {
	*turns.Runner
	rng *rand.Rand
}

func newSched(seed uint64) *sched {
	rng := rand.New(rand.NewPCG(seed, 7))
	return &sched{turns.New(rng), rng}
}

// run runs f and what it starts until nothing is left to do within a time, and ends the test if f has not ended then.
func (s *sched) run(t testing.TB, within time.Duration, f func()) {
	t.Helper()
	if !s.Run(within, f) {
		running, _ := s.Left()
		t.Fatalf("it waits for what never comes; %d tasks", running)
	}
}

// wire is the way to a node. What is sent waits for its turn, and so does the answer.
type wire struct {
	s    *sched
	node string
	down bool // nothing reaches it, and that is known
	// fault of a call: "", "lost" (the request), "mute" (the answer), "reset" (the same, and the caller learns it), "twice", "late" (it is done
	// when nobody waits for it any more)
	fault func() string
	after func() // before each answer
	calls int
}

func newWire(s *sched, node string) wire {
	return wire{s: s, node: node, fault: func() string { return "" }}
}

// over does a call through the network.
func (w *wire) over(ctx context.Context, do func() error) error {
	w.calls++
	w.s.Yield(nil)
	fault := w.fault()
	if w.down {
		return fmt.Errorf("%w: no way to %v", peer.ErrUnavailable, w.node)
	}
	switch fault {
	case "lost":
		return w.silence(ctx)
	case "twice":
		w.s.Go(func() { _ = do() })
	case "late":
		w.s.Go(func() {
			w.s.Sleep(time.Duration(w.s.rng.IntN(int(time.Minute))))
			_ = do()
		})
		return w.silence(ctx)
	}
	err := do()
	if w.after != nil {
		w.after()
	}
	if fault == "mute" {
		return w.silence(ctx)
	}
	if w.s.Yield(nil); fault == "reset" {
		return errors.New("connection reset")
	}
	return err
}

// silence waits until the caller gives up.
func (w *wire) silence(ctx context.Context) error {
	for ctx.Err() == nil {
		w.s.Yield(func() bool { return ctx.Err() != nil })
	}
	return context.Cause(ctx)
}
