package coord

import (
	"context"
	"sync"
	"time"
)

// Runner provides a coordinator's concurrency, time and waits. Goroutines is the usual one.
type Runner interface {
	// Go runs f concurrently with its caller, some time from now.
	Go(f func())
	// Now returns the time.
	Now() time.Time
	// After runs f concurrently with its caller when d has passed, unless stop is called before.
	After(d time.Duration, f func()) (stop func())
	// NewSignal returns a signal that is not set.
	NewSignal() Signal
}

// Signal is an event that happens once. Its methods may be called by any number of goroutines.
type Signal interface {
	// Set makes it happen. Setting it again has no effect.
	Set()
	// Wait returns nil when the event has happened, or the cause of ctx if that ended first: context.DeadlineExceeded if the time was up,
	// also by the Runner's clock.
	Wait(ctx context.Context) error
}

// Goroutines is the Runner of a real node: goroutines, and the time of the machine.
type Goroutines struct{}

var _ Runner = Goroutines{}

// Go implements Runner.
func (Goroutines) Go(f func()) { go f() }

// Now implements Runner.
func (Goroutines) Now() time.Time { return time.Now() }

// After implements Runner.
func (Goroutines) After(d time.Duration, f func()) (stop func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// NewSignal implements Runner.
func (Goroutines) NewSignal() Signal { return &signal{c: make(chan struct{})} }

type signal struct {
	once sync.Once
	c    chan struct{}
}

func (s *signal) Set() { s.once.Do(func() { close(s.c) }) }

func (s *signal) Wait(ctx context.Context) error {
	select {
	case <-s.c:
		return nil
	default:
	}
	select {
	case <-s.c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Deadline returns a context that ends when d has passed on the runner's clock; its cause is then context.DeadlineExceeded. With Goroutines
// the context has a real deadline, which a wire sends with each request, so that a peer stops when the coordinator does. The caller must
// call the function when the work has ended.
func Deadline(ctx context.Context, r Runner, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := r.(Goroutines); ok {
		return context.WithTimeout(ctx, d)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := r.After(d, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
