// Package turns runs whole clusters with one goroutine running at a time: it has a Runner for coordinators whose order and time are a
// function of a seed, so that a schedule can be repeated exactly.
package turns

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"bigset/server/coord"
)

// Runner is a coord.Runner that runs everything in turns, one at a time, in an order decided by its source of random numbers. A turn ends
// where its task yields, sleeps, waits for a signal, or ends. Time usually stands still while any task can run. A task that panics, or ends
// its goroutine as a test that fails does, ends Run in the same way.
//
// Run may be called while no task of the Runner is running. The other methods may be called then, and by a task in its turn; Yield, Sleep
// and a Signal's Wait only by a task in its turn. A task must not wait in any other way, or no task ever gets a turn again.
type Runner struct {
	// Hurry makes the next timer fire in one of Hurry turns although some task could run; 0 means never.
	Hurry int

	rng     *rand.Rand
	now     time.Time
	tasks   []*task
	timers  []*timer
	current *task
	idle    []*routine // of tasks that have ended; Run ends them
	trace   uint64
}

type task struct {
	*routine
	ready func() bool // nil means always
	over  bool
}

// routine is a coroutine that runs one task after the other. Its turns need no scheduler, and its stack has grown already.
type routine struct {
	do    func()
	next  func() (struct{}, bool) // gives it a turn
	yield func(struct{}) bool     // ends the turn
}

type timer struct {
	at time.Time
	f  func()
}

var _ coord.Runner = (*Runner)(nil)

// New returns a Runner whose order rng decides. Its start time is always the same.
func New(rng *rand.Rand) *Runner {
	return &Runner{rng: rng, now: time.Unix(1e9, 0)}
}

// Go implements coord.Runner.
func (r *Runner) Go(f func()) {
	var c *routine
	if n := len(r.idle); n > 0 {
		c, r.idle = r.idle[n-1], r.idle[:n-1]
	} else {
		c = newRoutine()
	}
	c.do = f
	r.tasks = append(r.tasks, &task{routine: c})
}

func newRoutine() *routine {
	c := &routine{}
	c.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		defer func() {
			switch p := recover().(type) {
			case nil:
			case error, string: // Run panics in its place, on a stack that does not show the task
				panic(fmt.Sprintf("turns: %v\n%s", p, debug.Stack()))
			default: // somebody waits for a value of this type
				panic(p)
			}
		}()
		for c.do != nil {
			c.do()
			c.do = nil
			yield(struct{}{})
		}
	})
	return c
}

// Now implements coord.Runner.
func (r *Runner) Now() time.Time { return r.now }

// After implements coord.Runner.
func (r *Runner) After(d time.Duration, f func()) (stop func()) {
	t := &timer{r.now.Add(d), f}
	r.timers = append(r.timers, t)
	return func() { r.timers = slices.DeleteFunc(r.timers, func(o *timer) bool { return o == t }) }
}

// Yield ends the turn. The next one comes when ready returns true; ready must change nothing. If it is nil, the next turn may come at once.
func (r *Runner) Yield(ready func() bool) {
	t := r.current
	if t == nil {
		panic("turns: a goroutine that has no turn waits for one")
	}
	t.ready = ready
	t.yield(struct{}{})
}

// Sleep ends the turn. The next one comes when d has passed.
func (r *Runner) Sleep(d time.Duration) {
	passed := false
	r.After(d, func() { passed = true })
	r.Yield(func() bool { return passed })
}

// NewSignal implements coord.Runner.
func (r *Runner) NewSignal() coord.Signal { return &signal{r: r} }

type signal struct {
	r   *Runner
	set bool
}

func (s *signal) Set() { s.set = true }

func (s *signal) Wait(ctx context.Context) error {
	for !s.set {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.r.Yield(func() bool { return s.set || ctx.Err() != nil })
	}
	return nil
}

// Run runs f and everything else until nothing can run and no timer is due within the given time. It reports whether f has ended; the next
// Run continues what has not.
func (r *Runner) Run(within time.Duration, f func()) bool {
	defer func() {
		for _, c := range r.idle {
			c.next() // it has nothing to do, and ends
		}
		r.idle = nil
	}()
	r.Go(f)
	first, end := r.tasks[len(r.tasks)-1], r.now.Add(within)
	for {
		var able []*task
		for _, t := range r.tasks {
			if t.ready == nil || t.ready() {
				able = append(able, t)
			}
		}
		if len(able) == 0 || r.Hurry > 0 && r.rng.IntN(r.Hurry) == 0 {
			if r.fire(end) {
				continue
			}
			if len(able) == 0 {
				return first.over
			}
		}
		r.note(len(able))
		r.give(able[r.rng.IntN(len(able))])
	}
}

// note adds a turn, for which that many tasks were ready, to the trace.
func (r *Runner) note(able int) {
	const prime = 1<<40 + 0x1b3 // as in FNV-1a
	r.trace = (r.trace ^ uint64(able)) * prime
	r.trace = (r.trace ^ uint64(r.now.UnixNano())) * prime
}

// Trace returns a hash of all turns so far: of their times, and of the number of tasks that were ready. If a schedule is a function of
// its seed, each run of it has the same trace.
func (r *Runner) Trace() uint64 { return r.trace }

// give gives a task its turn.
func (r *Runner) give(t *task) {
	t.ready, r.current = nil, t
	ended := true // unless next returns: it panicked, or ended its goroutine
	defer func() {
		if r.current = nil; ended {
			t.over = true
			r.tasks = slices.DeleteFunc(r.tasks, func(o *task) bool { return o == t })
		}
	}()
	t.next()
	if ended = t.do == nil; ended {
		r.idle = append(r.idle, t.routine)
	}
}

// fire fires the next timer if it is due before end.
func (r *Runner) fire(end time.Time) bool {
	var next *timer
	for _, t := range r.timers {
		if next == nil || t.at.Before(next.at) {
			next = t
		}
	}
	if next == nil || next.at.After(end) {
		return false
	}
	r.now = next.at
	r.timers = slices.DeleteFunc(r.timers, func(o *timer) bool { return o == next })
	r.Go(next.f)
	return true
}

// Left returns how many functions have not ended, and how many timers have not fired.
func (r *Runner) Left() (running, timers int) { return len(r.tasks), len(r.timers) }
