package convergence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Options says how much is tried. The zero value is a good start.
type Options struct {
	Seed      uint64        // of the first schedule; the others follow from it
	Schedules int           // how many; 0 is 1,000, or without limit if Duration is set
	Duration  time.Duration // stop after this time; 0 is no limit
	Replicas  int           // of each schedule, 1 to 8; 0 is a mixture of 2 to 8
	Steps     int           // a schedule has from 10 to about Steps steps; 0 is 70, the maximum is 10,000
	Elements  []string      // that operations name, at most 10,000 of 100,000 bytes; nil is a mixture of plain, odd and long ones
	Shapes    []string      // only schedules of these shapes, see ShapeNames; nil is all
	// Replays is how often a failing script is run again to learn whether it fails each time; 0 is 3. A script that does not is run
	// at least 20 times; the less often it fails, the more often each step of shrinking is tried.
	Replays int
	// ShrinkRuns limits the number of runs that shrinking takes; 0 is 5,000. ShrinkTime limits its time; 0 is a minute. Shrinking
	// also ends when the context does, and Run ends it before the time limit of go test.
	ShrinkRuns int
	ShrinkTime time.Duration
	// StepLimit is how long one call of a replica may take before its step counts as hung; 0 is 20 seconds, a negative value is no
	// limit.
	StepLimit time.Duration
	// Workers is how many schedules run concurrently; 0 is GOMAXPROCS, or one with System.Alone. System.Open and Share are called
	// by up to that many goroutines at the same time. The result does not depend on it: the failure that is reported is that of the
	// first schedule that fails.
	Workers int
	// Progress, if it is set, is called about ten times a second, from the goroutine that runs the schedules. It may read the
	// report until it returns.
	Progress func(*Report)

	before func(n int, p *plan) // is called with each schedule before it runs
	until  time.Time            // the time at which shrinking ends, if it is set
}

// Limits of options, so that every script can be read back: it has fewer than stepsMax steps, and lines shorter than lineMax.
const (
	optionMost  = 10_000
	elementMost = 100_000
)

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Replicas < 0 || o.Replicas > replicasMax:
		return o, fmt.Errorf("convergence: %d replicas, want 1 to %d", o.Replicas, replicasMax)
	case o.Schedules < 0 || o.Steps < 0 || o.Replays < 0 || o.ShrinkRuns < 0 || o.ShrinkTime < 0 || o.Duration < 0 || o.Workers < 0:
		return o, errors.New("convergence: a negative option")
	}
	if o.Steps > optionMost || len(o.Elements) > optionMost {
		return o, fmt.Errorf("convergence: %d steps and %d elements, at most %d of each: scripts have to be readable again", o.Steps, len(o.Elements), optionMost)
	}
	for _, elem := range o.Elements {
		if len(elem) > elementMost {
			return o, fmt.Errorf("convergence: an element of %d bytes, at most %d: scripts have to be readable again", len(elem), elementMost)
		}
	}
	for _, name := range o.Shapes {
		if !contains(ShapeNames(), name) {
			return o, fmt.Errorf("convergence: unknown shape %q, want one of %v", name, ShapeNames())
		}
	}
	if o.Schedules == 0 && o.Duration == 0 {
		o.Schedules = 1000
	}
	o.Steps = orElse(o.Steps, 70)
	o.Replays = orElse(o.Replays, 3)
	o.ShrinkRuns = orElse(o.ShrinkRuns, 5000)
	o.ShrinkTime = orElse(o.ShrinkTime, time.Minute)
	o.Workers = orElse(o.Workers, runtime.GOMAXPROCS(0))
	if o.StepLimit == 0 {
		o.StepLimit = stepLimit
	}
	return o, nil
}

func orElse[N int | time.Duration](n, def N) N {
	if n == 0 {
		return def
	}
	return n
}

// Report is what schedules did and found.
type Report struct {
	System string
	Stats
	Elapsed time.Duration
	Failure *Failure // nil: no violation
}

// Never returns the faults and states that this kind of system can reach, as far as the kit knows, but that were not reached. They
// are a reason to run more schedules, or to look at what the replicas refuse.
func (r *Report) Never() []string {
	names := append(never(r.Faults), never(r.Sometimes)...)
	return slices.DeleteFunc(names, func(name string) bool {
		if r.parts == 0 && contains(ofParts, name) {
			return true
		}
		ofOperations, ok := ofMessages[name]
		return ok && r.sent == 0 && (ofOperations || r.own == 0)
	})
}

// Failure is a violation and how to reproduce it.
type Failure struct {
	Violation *Violation
	Script    *Script // shrunk, with what each step did
	Steps     int     // of the schedule before it was shrunk
	Runs      int     // how often the schedule was run again
	Failed    int     // how often it failed in those runs: less than Runs if the replicas do not replay exactly
	Shrunk    bool    // the script is shorter than the schedule
	Cut       bool    // shrinking was ended by its limits or by the context: the script may be longer than necessary
	// Rests is the part of the System's declaration on which the verdict rests; empty if it rests on nothing declared.
	Rests string
	// Others are declarations, each with one thing changed, under which the script and some more schedules violate nothing. If the
	// system promises no more than one of them does, it should declare that one; otherwise it is broken.
	Others []string
	alone  bool // no other declaration accepts it
	quiet  bool // goroutines of the replicas are waited for
}

// String prints the failure for people.
func (f *Failure) String() string {
	s := fmt.Sprintf("%s\n", f.Violation)
	switch {
	case f.Runs == 0:
	case f.Failed == 0:
		s += fmt.Sprintf("the schedule of %d steps did not fail again in %d runs, and is not shrunk\n", f.Steps, f.Runs)
	case f.Failed < f.Runs && f.Script.parallel():
		s += fmt.Sprintf("the schedule of %d steps failed in %d of %d more runs: two clients at once (both) do not replay exactly\n", f.Steps, f.Failed, f.Runs)
	case f.Failed < f.Runs:
		s += fmt.Sprintf("the schedule of %d steps failed in %d of %d more runs: the replicas do not replay exactly (if those of two schedules share variables, declare Alone)\n",
			f.Steps, f.Failed, f.Runs)
	default:
		s += fmt.Sprintf("shrunk from %d to %d steps\n", f.Steps, len(f.Script.Steps))
		if f.Script.parallel() {
			s += "two clients at once (both) do not replay exactly: the script may have to be run more than once\n"
		}
	}
	if f.Cut {
		s += "shrinking was ended early: the script may be longer than necessary\n"
	}
	s += f.rests() + f.odd() + "\n" + f.Script.String()
	if f.Violation.Stack != "" {
		s += "\n" + f.Violation.Stack + "\n"
	}
	return s
}

// parallel reports whether two clients at once do something.
func (s *Script) parallel() bool {
	return slices.ContainsFunc(s.Steps, func(s Step) bool { return s.Kind == "both" })
}

func (f *Failure) rests() (s string) {
	if f.Rests != "" {
		s = fmt.Sprintf("it rests on: %s\n", f.Rests)
	}
	if len(f.Others) > 0 {
		s += fmt.Sprintf("if the system promises less, declare that; accepted: %s\n", strings.Join(f.Others, ", or "))
	}
	if f.alone {
		s += "no other declaration accepts it\n"
	}
	if late := f.Violation.Kind == Lost || f.Violation.Kind == Diverged; late && f.alone && !f.quiet && f.received() {
		s += "if replicas work in goroutines of their own, let the kit wait for them: Quieter, or package bubble\n"
	}
	return s
}

// received reports whether a replica took a message: only then can it help to wait for goroutines.
func (f *Failure) received() bool {
	return slices.ContainsFunc(f.Script.Steps, func(s Step) bool { return s.Kind == "deliver" || s.Kind == "spread" || s.Kind == "exchange" })
}

// odd says what may be wrong if the script needs an element that is not text.
func (f *Failure) odd() string {
	for i := range f.Script.Steps {
		for _, o := range f.Script.Steps[i].Ops {
			if !utf8.ValidString(o.Op.Elem) {
				return fmt.Sprintf("%s is not UTF-8, and encoding/json changes such strings: a type that takes only text returns ErrRefused for it, or Options.Elements names others\n", show(o.Op.Elem))
			}
		}
	}
	return ""
}

// Explore runs generated schedules until one violates the specification, or the options or ctx end it. A violation is not an error:
// it is in the report, shrunk. The report is complete even if Explore returns an error.
func Explore(ctx context.Context, sys System, o Options) (*Report, error) {
	r := &Report{System: sys.Name, Stats: *newStats()}
	o, err := o.withDefaults()
	if err != nil {
		return r, err
	}
	can, err := probe(sys, o.StepLimit)
	if err != nil {
		return r, err
	}
	if sys.Alone {
		o.Workers = 1
	}
	can.expect(sys, &o, &r.Stats)
	start, told := time.Now(), time.Now()
	guide := newGuide()
	run := func(ctx context.Context, n int) outcome {
		p := o.plan(ctx, guide, n)
		s, err := generateSafely(sys, can, &o, n, p)
		if err != nil {
			return outcome{n: n, err: err}
		}
		if o.before != nil {
			o.before(n, p)
		}
		v, stats := watched(sys, s, false, o.StepLimit)
		return outcome{n: n, s: s, v: v, stats: stats}
	}
	next := func(got outcome) bool {
		if err = got.err; err != nil {
			return false
		}
		r.Schedules++
		r.Shapes[got.s.Shape]++
		r.add(got.stats)
		guide.learn(got)
		if got.v != nil {
			r.Failure = explain(ctx, sys, can, got.s, got.v, &o)
			return false
		}
		r.Elapsed = time.Since(start)
		if o.Progress != nil && time.Since(told) >= 100*time.Millisecond {
			told = time.Now()
			o.Progress(r)
		}
		return true
	}
	each(ctx, o.Workers, run, next, func(n int) bool {
		return (o.Schedules == 0 || n < o.Schedules) && (o.Duration == 0 || time.Since(start) < o.Duration)
	})
	r.Elapsed = time.Since(start)
	return r, err
}

// generateSafely makes the n-th schedule. A panic of the specification is an error.
func generateSafely(sys System, can abilities, o *Options, n int, p *plan) (s *Script, err error) {
	w := &world{}
	if v := w.guard(func() *Violation { s = generate(sys, can, o, n, p); return nil }); v != nil {
		err = fmt.Errorf("convergence: system %q: seed %d, schedule %d: its Spec's Gen panicked: %s\n%s", sys.Name, o.Seed, n, v.Text, v.Stack)
	}
	return s, err
}

// expect makes counters for everything that this kind of system can reach, so that a count of 0 shows what was never reached.
// States that depend on what replicas do of their own accord, such as refusing an operation, get no counter.
func (a abilities) expect(sys System, o *Options, s *Stats) {
	faults := func(can bool, names ...string) {
		for _, k := range names {
			if can {
				s.Faults[k] = 0
			}
		}
	}
	states := func(can bool, names ...string) {
		for _, k := range names {
			if can {
				s.Sometimes[k] = 0
			}
		}
	}
	three := o.Replicas == 0 || o.Replicas >= 3
	faults(true, "loss", "delay", "reorder")
	faults(!sys.CausalNet, "duplicate")
	states(!sys.CausalNet, "message delivered to its own author")
	states(!sys.CausalNet && !sys.Buffers && !sys.BestEffort && a.removes, "remove delivered before what it removes")
	states(true, "concurrent operations on one element")
	states(!sys.BestEffort, "everything exchanged by messages")
	states(a.repair, "everything exchanged by repair")
	states(three, joined)
	faults(three && !a.copying, "gone")
	faults(a.repair && (a.durable || three && !a.copying), "loss-for-good")
	faults(a.durable, "crash", "crash-unsynced", "restart")
	states(a.durable && !sys.BestEffort, "crash lost what another replica had acknowledged") // with BestEffort nothing is acknowledged
	faults(a.durable && (a.repair || a.resend), "crash-in-operation")
	faults(a.copying, "copy", "copy-cut")
	states(a.copying, "copy done", "copy begun again after a cut")
	states(a.copying && three, "two copies into one replica")
	faults(a.copying && a.durable, "copy-crash")
	faults(a.copying && a.durable && three, "wipe")
	faults(a.restored && !a.copying, "restore")
	faults(a.merge && three, "stream-failover")
	states(a.merge, "read of several replicas")
	states(a.merge && three, "replica replaced in the middle of a read")
	states(a.retries, "retry answered as before", "retry where the first try was not known")
	states(a.parallel, "two clients at once")
}

// bothRuns is the least number of times that a failing schedule with two concurrent clients runs again.
const bothRuns = 10

// chanceRuns is the least number of times that a schedule that fails by chance runs again, and againMost the largest number of
// times that a step of shrinking is tried.
const (
	chanceRuns = 20
	againMost  = 60
)

// mix spreads seeds, so that neighbouring runs share no schedule (splitmix64).
func mix(seed, n uint64) uint64 {
	z := seed*0x9e3779b97f4a7c15 + n + 1
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// explain runs a failing schedule again, shrinks it, and writes into it what each step does.
func explain(ctx context.Context, sys System, can abilities, s *Script, v *Violation, o *Options) *Failure {
	f := &Failure{Violation: v, Script: s, Steps: len(s.Steps), Runs: o.Replays}
	if v.Kind == Hung {
		f.Runs = 1
	}
	if f.Script.parallel() {
		f.Runs = max(f.Runs, bothRuns)
	}
	fails := func(s *Script, trace bool) (again *Violation) {
		if again, _ = watched(sys, s, trace, o.StepLimit); again != nil && again.Kind != v.Kind {
			again = nil
		}
		return again
	}
	for n := 0; n < f.Runs; n++ {
		if fails(s, false) != nil {
			f.Failed++
		}
		if n+1 == f.Runs && f.Failed < f.Runs && v.Kind != Hung { // by chance: how often?
			f.Runs = max(f.Runs, chanceRuns)
		}
	}
	if f.Failed == 0 {
		return f
	}
	again := 1
	if f.Failed < f.Runs { // so that about one in twenty of the candidates that can fail passes
		again = min(3*f.Runs/f.Failed, againMost)
	}
	f.Script, f.Violation, f.Cut = shrink(ctx, sys, s, v, o, again)
	f.Shrunk = len(f.Script.Steps) < f.Steps
	shown := false
	for n := 0; n < again && !shown; n++ {
		if v := fails(f.Script, true); v != nil {
			f.Violation, shown = v, true
		}
	}
	if !shown && v.Kind == Hung { // shrinking waits for less than the limit: the remaining script was only slow
		f.Script, f.Violation, f.Shrunk = s, v, false
	}
	f.Rests = sys.restsOn(f.Script, f.Violation)
	if again == 1 && ctx.Err() == nil {
		var all bool
		f.Others, all = sys.accepting(ctx, can, f.Script, f.Violation, o)
		f.alone = f.Violation.bySpec() && len(f.Others) == 0 && all
		f.quiet = can.quiet || sys.Within != nil
	}
	return f
}

// Replay runs a script that Run, Explore or a person wrote. It returns nil if nothing is violated. An error that wraps ErrScript
// means that the script can't be read, or is of another system.
//
// A call of a replica may take 20 seconds; Run with CONVERGENCE_REPLAY uses its Options.StepLimit.
func Replay(sys System, in io.Reader) (*Violation, *Script, error) { return replay(sys, in, stepLimit) }

func replay(sys System, in io.Reader, limit time.Duration) (*Violation, *Script, error) {
	if err := sys.check(); err != nil {
		return nil, nil, err
	}
	s, err := ReadScript(in)
	if err != nil {
		return nil, nil, err
	}
	if s.System != sys.Name {
		return nil, s, fmt.Errorf("%w: it is of system %q, this is %q", ErrScript, s.System, sys.Name)
	}
	v, _ := watched(sys, s, true, limit)
	return v, s, nil
}

// plan returns the plan of a schedule. Schedules of chosen shapes have none.
func (o *Options) plan(ctx context.Context, g *guide, n int) *plan {
	if len(o.Shapes) > 0 {
		return nil
	}
	return g.plan(ctx, n)
}

// Generate returns the schedule that Explore would run as its n-th, counted from 0. The same arguments give the same schedule. To
// know what an explorer would rarely have reached by then, Generate runs earlier schedules: up to the next to last multiple of 25,
// and none with Options.Shapes.
func Generate(sys System, o Options, n int) (*Script, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	can, err := probe(sys, o.StepLimit)
	if err != nil {
		return nil, err
	}
	g := newGuide()
	for i := range (n/blockSize - 1) * blockSize {
		if len(o.Shapes) == 0 {
			s := generate(sys, can, &o, i, g.plan(context.Background(), i))
			v, stats := watched(sys, s, false, o.StepLimit)
			g.learn(outcome{n: i, s: s, v: v, stats: stats})
		}
	}
	return generate(sys, can, &o, n, o.plan(context.Background(), g, n)), nil
}
