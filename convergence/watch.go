package convergence

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// stepLimit is how long a step may take, if Options.StepLimit does not say.
const stepLimit = 20 * time.Second

// watched runs a script, and gives it up when a step takes longer than the limit: then its goroutine is left behind.
func watched(sys System, s *Script, trace bool, limit time.Duration) (*Violation, *Stats) {
	if limit < 0 {
		stats := newStats()
		return runScript(sys, s, stats, trace, nil), stats
	}
	type result struct {
		v     *Violation
		stats *Stats
	}
	done, at := make(chan result, 1), &atomic.Int64{}
	own := s
	if trace { // one that is left behind may still write into it
		own = s.filter(func(Step) bool { return true })
	}
	go func() {
		stats := newStats()
		done <- result{runScript(sys, own, stats, trace, at), stats}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		before := at.Load()
		select {
		case r := <-done:
			for i := range own.Steps {
				s.Steps[i].pretty = own.Steps[i].pretty
			}
			return r.v, r.stats
		case <-timer.C:
		}
		if at.Load() == before {
			return &Violation{Kind: Hung, Step: int(before), Text: fmt.Sprintf("the step has not ended after %v", limit), Stack: stacks("convergence.runScript")}, newStats()
		}
		timer.Reset(limit)
	}
}

// stacks returns the stacks of the goroutines that are in a function.
func stacks(of string) string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var left []string
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(g, of) {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}

// trimStack leaves out of a panic's stack what is above the panic and below the kit's call.
func trimStack(stack string) string {
	if _, after, ok := strings.Cut(stack, "panic("); ok {
		if _, rest, ok := strings.Cut(after, "\n\t"); ok {
			_, stack, _ = strings.Cut(rest, "\n")
		}
	}
	if i := strings.Index(stack, "convergence.(*world).guard"); i >= 0 {
		stack = stack[:strings.LastIndexByte(stack[:i], '\n')+1]
	}
	return strings.TrimSpace(stack)
}

// outcome is what the n-th schedule did.
type outcome struct {
	n     int
	s     *Script
	v     *Violation
	stats *Stats
}

// each runs schedules on so many goroutines, and hands on their outcomes in the order of their numbers, until next says that it is
// enough. What a schedule does depends on its number, and on the outcomes that next was given before.
func each(ctx context.Context, workers int, run func(ctx context.Context, n int) outcome, next func(o outcome) bool, more func(n int) bool) {
	if workers == 1 {
		for n := 0; ctx.Err() == nil && more(n) && next(run(ctx, n)); n++ {
		}
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var count atomic.Int64
	out := make(chan outcome, workers)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				n := int(count.Add(1)) - 1
				if !more(n) {
					return
				}
				select {
				case out <- run(ctx, n):
				case <-ctx.Done():
				}
			}
		})
	}
	go func() { all.Wait(); close(out) }()
	early, want := map[int]outcome{}, 0
	for o := range out {
		early[o.n] = o
		for o, ok := early[want]; ok && ctx.Err() == nil; o, ok = early[want] {
			delete(early, want)
			if want++; !next(o) {
				cancel()
			}
		}
	}
	cancel()
}
