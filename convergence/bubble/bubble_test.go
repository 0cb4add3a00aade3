package bubble_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset/convergence"
	"bigset/convergence/bubble"
)

// changed is a Courier that does something else when it receives an element, or is closed.
type changed struct {
	*Courier
	receive func(s *Courier, msg []byte)
	close   func(s *Courier)
}

func (s changed) Receive(msg []byte) (bool, error) {
	if s.receive != nil {
		s.receive(s.Courier, msg)
	}
	return s.Courier.Receive(msg)
}

func (s changed) Close() error {
	if s.close != nil {
		s.close(s.Courier)
		return nil
	}
	return s.Courier.Close()
}

func explore(t *testing.T, c changed, pass time.Duration, o convergence.Options) *convergence.Report {
	t.Helper()
	r, err := convergence.Explore(t.Context(), bubble.In(t, convergence.System{Name: "courier", Open: func(env convergence.Env) (convergence.Replica, error) {
		s, err := Open(env)
		return changed{s.(*Courier), c.receive, c.close}, err
	}}, pass), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTimePasses: a replica that takes a second for a message is reported if less than a second passes in a step.
func TestTimePasses(t *testing.T) {
	for pass, found := range map[time.Duration]bool{0: true, delay / 2: true, delay: false, 5 * delay: false} {
		start := time.Now()
		r := explore(t, changed{}, pass, convergence.Options{Schedules: 30})
		if (r.Failure != nil) != found {
			t.Errorf("%v pass in a step: got %v", pass, r.Failure)
		}
		if time.Since(start) > time.Minute {
			t.Errorf("it took %v", time.Since(start))
		}
	}
}

// TestNamesPass: the failure of a replica that only needs more time says so.
func TestNamesPass(t *testing.T) {
	f := explore(t, changed{}, 0, convergence.Options{}).Failure
	if f == nil || !slices.Contains(f.Others, "bubble.In with a pass of 10s") {
		t.Errorf("got %v", f)
	}
}

// TestBlocked: a replica that waits forever ends its step at once, and the report has the stacks of all its goroutines.
func TestBlocked(t *testing.T) {
	forever := func(s *Courier, msg []byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		<-make(chan int)
	}
	start := time.Now()
	f := explore(t, changed{receive: forever}, delay, convergence.Options{StepLimit: time.Hour}).Failure
	if f == nil || f.Violation.Kind != convergence.Hung || len(f.Script.Steps) > 2 || time.Since(start) > time.Minute {
		t.Fatalf("got %v", f)
	}
	for _, part := range []string{"deadlock", "bubble_test.changed.Receive", "bubble_test.Open.func"} {
		if !strings.Contains(f.String(), part) {
			t.Errorf("want %s in\n%v", part, f)
		}
	}
}

// TestLeft: goroutines that Close leaves are reported at the start, and as a violation if they come later.
func TestLeft(t *testing.T) {
	late := changed{receive: func(s *Courier, _ []byte) { go func() { <-make(chan int) }() }}
	f := explore(t, late, delay, convergence.Options{ShrinkRuns: 50}).Failure
	if f == nil || f.Violation.Kind != convergence.Failed || !strings.Contains(f.String(), "goroutines are left") {
		t.Errorf("got %v", f)
	}
	sys := bubble.In(t, convergence.System{Name: "left", Open: func(env convergence.Env) (convergence.Replica, error) {
		s, err := Open(env)
		return changed{Courier: s.(*Courier), close: func(*Courier) {}}, err
	}}, delay)
	if _, err := convergence.Explore(t.Context(), sys, convergence.Options{}); err == nil || !strings.Contains(err.Error(), "goroutines are left") {
		t.Errorf("got %v", err)
	}
}

// TestPanics: a panic of a replica is a violation, and does not end the process.
func TestPanics(t *testing.T) {
	f := explore(t, changed{receive: func(*Courier, []byte) { panic("sprung") }}, delay, convergence.Options{}).Failure
	if f == nil || f.Violation.Kind != convergence.Panicked || !strings.Contains(f.Violation.Stack, "bubble_test.TestPanics") {
		t.Fatalf("got %v", f)
	}
}

// TestWorkers: concurrent bubbles do what sequential ones do.
func TestWorkers(t *testing.T) {
	var first *convergence.Report
	for _, workers := range []int{1, 3} {
		r := explore(t, changed{}, delay, convergence.Options{Schedules: 50, Workers: workers})
		if first == nil {
			first = r
		} else if r.Failure != nil || !reflect.DeepEqual(first.Stats, r.Stats) {
			t.Errorf("got %+v, want %+v; %v", r.Stats, first.Stats, r.Failure)
		}
	}
}
