package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"bigset/server/coord"
)

// turns is a coord.Runner that runs everything in turns, one at a time, in an order that its seed decides. Time stands still while
// anything can run, mostly.
type turns struct {
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

var _ coord.Runner = (*turns)(nil)

func newTurns(rng *rand.Rand) *turns {
	return &turns{rng: rng, now: time.Unix(1e9, 0), turn: make(chan struct{})}
}

// Go implements coord.Runner.
func (s *turns) Go(f func()) {
	t := &task{resume: make(chan struct{})}
	s.tasks = append(s.tasks, t)
	go func() {
		<-t.resume
		f()
		t.over = true
		s.turn <- struct{}{}
	}()
}

// Now implements coord.Runner.
func (s *turns) Now() time.Time { return s.now }

// After implements coord.Runner.
func (s *turns) After(d time.Duration, f func()) (stop func()) {
	t := &timer{s.now.Add(d), f}
	s.timers = append(s.timers, t)
	return func() { s.timers = slices.DeleteFunc(s.timers, func(o *timer) bool { return o == t }) }
}

// yield lets others run until ready says so; nil is at once.
func (s *turns) yield(ready func() bool) {
	t := s.current
	t.ready = ready
	s.turn <- struct{}{}
	<-t.resume
}

// sleep lets others run until some time has passed.
func (s *turns) sleep(d time.Duration) {
	passed := false
	s.After(d, func() { passed = true })
	s.yield(func() bool { return passed })
}

// NewSignal implements coord.Runner.
func (s *turns) NewSignal() coord.Signal { return &turnSignal{s: s} }

type turnSignal struct {
	s   *turns
	set bool
}

func (g *turnSignal) Set() { g.set = true }

func (g *turnSignal) Wait(ctx context.Context) error {
	for !g.set {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		g.s.yield(func() bool { return g.set || ctx.Err() != nil })
	}
	return nil
}

// run runs f and what it starts until nothing is left to do within a time. It reports whether f has ended.
func (s *turns) run(within time.Duration, f func()) bool {
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
				return first.over
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
}

// fire lets the next timer fire if it is due before the end.
func (s *turns) fire(end time.Time) bool {
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
