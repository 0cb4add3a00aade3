package coord_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"bigset/server/coord"
)

// sched is a Runner that runs everything in turns, one at a time, in an order that its seed decides. Time stands still while
// anything can run, mostly.
type sched struct {
	rng     *rand.Rand
	now     time.Time
	tasks   []*task
	timers  []*timer
	current *task
	turn    chan struct{} // given back by the task whose turn it was
	hurry   int           // in one of so many turns the next timer fires although something could run; 0 is never
}

type task struct {
	resume chan struct{}
	ready  func() bool // nil is always
	over   bool
}

type timer struct {
	at time.Time
	f  func()
}

var _ coord.Runner = (*sched)(nil)

func newSched(seed uint64) *sched {
	return &sched{rng: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1e9, 0), turn: make(chan struct{})}
}

// Go implements coord.Runner.
func (s *sched) Go(f func()) {
	t := &task{resume: make(chan struct{})}
	s.tasks = append(s.tasks, t)
	go func() {
		<-t.resume
		defer func() { // also when f ends the test
			t.over = true
			s.turn <- struct{}{}
		}()
		f()
	}()
}

// Now implements coord.Runner.
func (s *sched) Now() time.Time { return s.now }

// After implements coord.Runner.
func (s *sched) After(d time.Duration, f func()) (stop func()) {
	t := &timer{s.now.Add(d), f}
	s.timers = append(s.timers, t)
	return func() { s.timers = slices.DeleteFunc(s.timers, func(o *timer) bool { return o == t }) }
}

// yield lets others run until ready says so.
func (s *sched) yield(ready func() bool) {
	t := s.current
	t.ready = ready
	s.turn <- struct{}{}
	<-t.resume
}

// NewSignal implements coord.Runner.
func (s *sched) NewSignal() coord.Signal { return &schedSignal{s: s} }

type schedSignal struct {
	s   *sched
	set bool
}

func (g *schedSignal) Set() { g.set = true }

func (g *schedSignal) Wait(ctx context.Context) error {
	for !g.set {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		g.s.yield(func() bool { return g.set || ctx.Err() != nil })
	}
	return nil
}

// run runs f and what it starts until nothing is left to do within a time.
func (s *sched) run(t *testing.T, within time.Duration, f func()) {
	t.Helper()
	s.Go(f)
	first, end := s.tasks[len(s.tasks)-1], s.now.Add(within)
	for {
		var able []*task
		for _, t := range s.tasks {
			if t.ready == nil || t.ready() {
				able = append(able, t)
			}
		}
		if len(able) == 0 || s.hurry > 0 && s.rng.IntN(s.hurry) == 0 {
			if s.fire(end) {
				continue
			}
			if len(able) == 0 {
				break
			}
		}
		next := able[s.rng.IntN(len(able))]
		next.ready, s.current = nil, next
		next.resume <- struct{}{}
		<-s.turn
		if next.over {
			s.tasks = slices.DeleteFunc(s.tasks, func(o *task) bool { return o == next })
		}
	}
	if !first.over {
		t.Fatalf("it waits for what never comes; %d tasks", len(s.tasks))
	}
}

// fire lets the next timer fire if it is due before the end.
func (s *sched) fire(end time.Time) bool {
	var next *timer
	for _, t := range s.timers {
		if next == nil || t.at.Before(next.at) {
			next = t
		}
	}
	if next == nil || next.at.After(end) {
		return false
	}
	s.now = next.at
	s.timers = slices.DeleteFunc(s.timers, func(o *timer) bool { return o == next })
	s.Go(next.f)
	return true
}
