package convergence

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// stepLimit is how long a call of a replica may take if Options.StepLimit is 0.
const stepLimit = 20 * time.Second

// progress is how far a schedule has come: its current step, and the number of calls of replicas that it has begun. One step, such
// as a fill or an exchange, may make thousands of calls.
type progress struct {
	step, calls atomic.Int64
	found       atomic.Pointer[Violation] // after which the replicas are only closed
	goroutine   atomic.Value              // how its stack begins
}

// call records that replicas are called.
func (w *world) call(nodes ...*node) {
	w.calling = 0
	for _, n := range nodes {
		w.calling |= 1 << n.id
	}
	if w.progress != nil {
		w.progress.calls.Add(1)
	}
}

// lateTicks is how many late ticks count as one.
const lateTicks = 10

// patience counts the ticks of a limit. Only one of lateTicks late ticks counts: a process that was stopped, or that got no processor,
// has not hung. So if every tick is late, the limit takes lateTicks times as many.
type patience struct {
	*time.Ticker
	each time.Duration // between ticks
	last time.Time     // the last tick
	left int           // ticks until the limit
	all  int           // ticks of the limit
	late int           // ticks that came late
}

func newPatience(limit time.Duration) *patience {
	each := max(limit/20, min(limit, 5*time.Millisecond), 1)
	all := int((limit + each - 1) / each)
	return &patience{Ticker: time.NewTicker(each), each: each, last: time.Now(), left: all, all: all}
}

// ends is called at each tick, with whether anything has moved since the last one. It reports whether nothing has for the whole limit.
func (p *patience) ends(moved bool) bool {
	now := time.Now()
	late := now.Sub(p.last) > 2*p.each+10*time.Millisecond
	if late {
		p.late++
	}
	p.last = now
	if moved {
		p.left = p.all
	} else if !late || p.late%lateTicks == 0 {
		p.left--
	}
	return p.left <= 0
}

// watched runs a script. If a call of a replica takes longer than the limit, watched abandons the script and its goroutine.
func watched(sys System, s *Script, trace bool, limit time.Duration) (*Violation, *Stats) {
	if limit < 0 {
		stats := newStats()
		return within(sys, s, stats, trace, &progress{}), stats
	}
	type result struct {
		v     *Violation
		stats *Stats
	}
	done, at := make(chan result, 1), &progress{}
	own := s
	if trace { // an abandoned goroutine may still write into it
		own = s.filter(func(Step) bool { return true })
	}
	go func() {
		stats := newStats()
		done <- result{within(sys, own, stats, trace, at), stats}
	}()
	wait := newPatience(limit)
	defer wait.Stop()
	for calls := int64(-1); ; {
		select {
		case r := <-done:
			s.show(own)
			return r.v, r.stats
		case <-wait.C:
		}
		begun := at.calls.Load()
		if wait.ends(begun != calls) {
			if v := at.found.Load(); v != nil { // only Close hangs, for instance for a lock that was held in a panic
				s.show(own)
				return v, newStats()
			}
			if i := slices.IndexFunc(s.Steps, func(st Step) bool { return int64(st.N) == at.step.Load() }); trace && i >= 0 {
				before := s.before(s.Steps[i].N - 1)
				watched(sys, before, true, limit)
				s.show(before)
				s.Steps[i].pretty = "!! " + Hung
			}
			return &Violation{Kind: Hung, Step: int(at.step.Load()), Text: fmt.Sprintf("a call of the replica has not ended after %v", limit), Stack: at.stacks()}, newStats()
		}
		calls = begun
	}
}

// show takes what each step did from a run of the script, or of its beginning.
func (s *Script) show(ran *Script) {
	for i := range ran.Steps {
		s.Steps[i].pretty = ran.Steps[i].pretty
	}
}

// within runs a script in the environment that the system requires.
func within(sys System, s *Script, stats *Stats, trace bool, at *progress) (v *Violation) {
	blocked, left := sys.inside(func(sys System) { v = runScript(sys, s, stats, trace, at) })
	switch {
	case v != nil:
	case blocked != nil:
		v = &Violation{Kind: Hung, Step: int(at.step.Load()), Text: fmt.Sprintf("the step does not end: %v", blocked), Stack: at.stacks()}
	case left != nil:
		v = bad(Failed, "%v", left)
	}
	return v
}

// inside calls do in the environment that the system requires. A bubble of testing/synctest panics if all its goroutines wait for
// each other (the error blocked), and if goroutines are left after do (the error left).
func (s System) inside(do func(sys System)) (blocked, left error) {
	if s.Within == nil {
		do(s)
		return nil, nil
	}
	ended := false
	defer func() {
		switch p := recover(); {
		case p == nil:
		case ended:
			left = fmt.Errorf("goroutines are left after all replicas were closed: %v", p)
		default:
			blocked = fmt.Errorf("%v", p)
		}
	}()
	s.Within(func(wait func()) {
		s.wait = wait
		do(s)
		ended = true
	})
	return nil, nil
}

var (
	goroutineHead = regexp.MustCompile(`^goroutine \d+ `)
	inBubble      = regexp.MustCompile(`^goroutine .*(synctest bubble \d+)`)
)

// here records which goroutine runs the schedule.
func (p *progress) here() {
	var buf [64]byte
	p.goroutine.Store(string(goroutineHead.Find(buf[:runtime.Stack(buf[:], false)])))
}

// stacks returns the stack of the goroutine that runs the schedule, up to the kit's functions.
func (p *progress) stacks() string {
	head, _ := p.goroutine.Load().(string)
	return stacks(func(g string) bool { return head != "" && strings.HasPrefix(g, head) })
}

// stacks returns the stacks of the goroutines for which of returns true, and of those that share a bubble of testing/synctest with
// one of them.
func stacks(of func(g string) bool) string {
	buf := make([]byte, 1<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	bubbles := map[string]bool{}
	for _, g := range all {
		if m := inBubble.FindStringSubmatch(g); m != nil && of(g) {
			bubbles[m[1]] = true
		}
	}
	var some []string
	for _, g := range all {
		if m := inBubble.FindStringSubmatch(g); !of(g) && (m == nil || !bubbles[m[1]]) {
			continue
		}
		if at := kitFrame.FindStringIndex(g); at != nil {
			g = g[:at[0]]
		}
		some = append(some, strings.TrimSpace(g))
	}
	return strings.Join(some, "\n\n")
}

// kitFrame is the first line of a frame of the kit.
var kitFrame = regexp.MustCompile(`(?m)^.*convergence\.\(\*(world|node|reading)\)\.`)

// trimStack removes from a panic's stack what is above the panic and below the kit's call.
func trimStack(stack string) string {
	if _, after, ok := strings.Cut(stack, "panic("); ok {
		if _, rest, ok := strings.Cut(after, "\n\t"); ok {
			_, stack, _ = strings.Cut(rest, "\n")
		}
	}
	if at := kitFrame.FindStringIndex(stack); at != nil {
		stack = stack[:at[0]]
	}
	return strings.TrimSpace(stack)
}

// outcome is what the n-th schedule did.
type outcome struct {
	n     int
	s     *Script
	v     *Violation
	stats *Stats
	err   error // the schedule was not made
}

// each runs schedules on workers goroutines, and passes their outcomes to next in the order of their numbers, until next returns
// false. What a schedule does depends on its number, and on the outcomes that were passed to next before.
func each(ctx context.Context, workers int, run func(ctx context.Context, n int) outcome, next func(o outcome) bool, more func(n int) bool) {
	if workers == 1 {
		for n := 0; ctx.Err() == nil && more(n) && next(run(ctx, n)); n++ {
		}
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	// A number that was taken is run: later schedules may wait for its outcome (guide.plan).
	var mu sync.Mutex
	count := 0
	take := func() (n int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if n = count; ctx.Err() != nil || !more(n) {
			return n, false
		}
		count++
		return n, true
	}
	out := make(chan outcome, workers)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for n, ok := take(); ok; n, ok = take() {
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
