package cluster

import (
	"context"
	"sync"
	"time"

	"bigset/server/coord"
	"bigset/server/peer/remote"
)

// tasks are functions that run concurrently and can be waited for. The Runner runs them: in a simulation, one at a time.
type tasks struct {
	run coord.Runner

	mu      sync.Mutex
	running int
	ended   coord.Signal // set when none runs; nil while nothing waits
}

// Go runs f concurrently with its caller.
func (t *tasks) Go(f func()) {
	t.mu.Lock()
	t.running++
	t.mu.Unlock()
	t.run.Go(func() {
		defer t.end()
		f()
	})
}

func (t *tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running--; t.running == 0 && t.ended != nil {
		t.ended.Set()
		t.ended = nil
	}
}

// Wait returns when no task runs.
func (t *tasks) Wait() {
	t.mu.Lock()
	if t.running == 0 {
		t.mu.Unlock()
		return
	}
	if t.ended == nil {
		t.ended = t.run.NewSignal()
	}
	ended := t.ended
	t.mu.Unlock()
	_ = ended.Wait(context.Background())
}

// pause returns when d has passed by the runner's clock.
func pause(run coord.Runner, d time.Duration) {
	passed := run.NewSignal()
	run.After(d, passed.Set)
	_ = passed.Wait(context.Background())
}

// besideRequests returns a runner in the form that package remote needs.
func besideRequests(run coord.Runner) remote.Runner {
	return remote.Runner{Go: run.Go, NewSignal: func() (set, wait func()) {
		s := run.NewSignal()
		return s.Set, func() { _ = s.Wait(context.Background()) }
	}}
}
