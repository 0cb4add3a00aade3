package turns_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset/server/coord/turns"
)

func newRunner(seed uint64) *turns.Runner { return turns.New(rand.New(rand.NewPCG(seed, 0))) }

// TestOrder: one runs at a time; the order is the seed's, and another seed's is another.
func TestOrder(t *testing.T) {
	orders, traces := map[string]bool{}, map[uint64]bool{}
	for seed := range uint64(20) {
		var orderOf [2]string
		var traceOf [2]uint64
		for i := range orderOf {
			r, inside := newRunner(seed), 0
			for id := range 3 {
				r.Go(func() {
					for range 3 {
						if inside++; inside > 1 {
							t.Error("two at a time")
						}
						orderOf[i] += fmt.Sprint(id)
						inside--
						r.Yield(nil)
					}
				})
			}
			if !r.Run(0, func() {}) {
				t.Error("not ended")
			}
			traceOf[i] = r.Trace()
		}
		if traces[traceOf[0]] = true; traceOf[0] != traceOf[1] {
			t.Errorf("seed %d: trace %x, then %x", seed, traceOf[0], traceOf[1])
		}
		if len(orderOf[0]) != 9 || orderOf[0] != orderOf[1] {
			t.Errorf("seed %d: %q, then %q", seed, orderOf[0], orderOf[1])
		}
		orders[orderOf[0]] = true
	}
	if len(orders) < 10 {
		t.Errorf("%d orders of 20 seeds", len(orders))
	}
	if len(traces) < 5 {
		t.Errorf("%d traces of 20 seeds", len(traces))
	}
}

// TestTime: time stands still while anything can run, and goes from timer to timer when nothing can; not so in a hurry.
func TestTime(t *testing.T) {
	for _, hurry := range []int{0, 2} {
		r := newRunner(1)
		r.Hurry = hurry
		begin := r.Now()
		var fired []time.Duration
		note := func() { fired = append(fired, r.Now().Sub(begin)) }
		r.After(3*time.Second, note)
		r.After(time.Second, note)
		r.After(2*time.Second, note)()
		r.After(time.Hour, note)
		early := false
		ended := r.Run(time.Minute, func() {
			for range 100 {
				r.Yield(nil)
			}
			early = len(fired) > 0
			r.Sleep(10 * time.Second)
			note()
		})
		if want := []time.Duration{time.Second, 3 * time.Second, 10 * time.Second}; hurry == 0 && !slices.Equal(fired, want) {
			t.Errorf("fired at %v", fired)
		}
		if !ended || early != (hurry > 0) || len(fired) != 3 || !slices.IsSorted(fired) {
			t.Errorf("hurry %d: fired at %v, ended %v, early %v", hurry, fired, ended, early)
		}
		if running, timers := r.Left(); running != 0 || timers != 1 {
			t.Errorf("%d run, %d timers", running, timers)
		}
		if r.Run(time.Hour, func() {}); len(fired) != 4 || fired[3] != time.Hour {
			t.Errorf("fired at %v", fired)
		}
	}
}

// TestSignal: a wait ends when the signal is set, or its context; Run reports one that does not, and the next Run goes on with it.
func TestSignal(t *testing.T) {
	r := newRunner(1)
	ctx, cancel := context.WithCancel(context.Background())
	set, never := r.NewSignal(), r.NewSignal()
	var errs []error
	r.Go(func() { errs = append(errs, never.Wait(ctx)) })
	if r.Run(time.Hour, func() { errs = append(errs, set.Wait(ctx)) }) || len(errs) > 0 {
		t.Fatalf("ended with %v", errs)
	}
	if running, _ := r.Left(); running != 2 {
		t.Errorf("%d wait", running)
	}
	r.Run(0, set.Set)
	if len(errs) != 1 || errs[0] != nil {
		t.Errorf("ended with %v", errs)
	}
	if r.Run(0, cancel); len(errs) != 2 || errs[1] != context.Canceled {
		t.Errorf("ended with %v", errs)
	}
	if running, _ := r.Left(); running != 0 {
		t.Errorf("%d wait", running)
	}
}

// TestGoexit: what ends its goroutine, as a test that fails does, or panics, ends Run in the same way.
func TestGoexit(t *testing.T) {
	for _, c := range []struct {
		end  func()
		want string // what the panic says
	}{{runtime.Goexit, "<nil>"}, {func() { panic("broken") }, "turns: broken\ngoroutine "}} {
		r, returned, ended := newRunner(1), false, make(chan any)
		go func() {
			defer func() { ended <- recover() }()
			r.Run(0, c.end)
			returned = true
		}()
		if got := fmt.Sprint(<-ended); returned || !strings.HasPrefix(got, c.want) {
			t.Errorf("Run returned: %v; it panicked with %v, want %v", returned, got, c.want)
		}
		if !r.Run(0, func() {}) {
			t.Error("the next Run does not end")
		}
	}
}

// TestRoutines: tasks that ended leave no goroutine when Run returns, and one that waits continues in the next Run.
func TestRoutines(t *testing.T) {
	stacks := make([]byte, 1<<20)
	left := func() int {
		return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("turns.newRoutine.func1("))
	}
	r, ran := newRunner(1), 0
	wait := r.NewSignal()
	r.Go(func() {
		if wait.Wait(t.Context()) == nil {
			ran++
		}
	})
	r.Run(time.Second, func() {
		for range 100 {
			r.Go(func() { r.Yield(nil); r.Go(func() { ran++ }); ran++ })
			r.Sleep(time.Millisecond)
		}
	})
	if n := left(); ran != 200 || n != 1 {
		t.Errorf("%d tasks ran, and %d goroutines are left for the one that waits", ran, n)
	}
	r.Run(0, wait.Set)
	if n := left(); ran != 201 || n != 0 {
		t.Errorf("%d tasks ran, and %d goroutines are left", ran, n)
	}
}

// TestNoTurn: what is not a task, and waits as one, ends the test instead of waiting for ever or taking a task's turn.
func TestNoTurn(t *testing.T) {
	r := newRunner(1)
	r.Run(0, func() { r.Yield(nil) })
	panicked := make(chan bool)
	go func() {
		defer func() { panicked <- recover() != nil }()
		r.Yield(nil)
	}()
	select {
	case is := <-panicked:
		if !is {
			t.Error("a goroutine without a turn was given one")
		}
	case <-time.After(10 * time.Second):
		t.Error("a goroutine without a turn waits for one")
	}
}
