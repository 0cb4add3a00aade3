package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"bigset/bench"
	"bigset/bench/screen"
	"bigset/convergence"
	"bigset/internal/sim"
	"bigset/internal/testkit/tier"
)

// small is a demonstration of a moment.
func small(t *testing.T) Config {
	return Config{Seed: 7, Scale: ScaleMin, Dir: t.TempDir(), tick: 5 * time.Millisecond}
}

func text(t *testing.T, r *Result, s screen.Style) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteText(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestRun: all of it, small, with real engines: the race, the drill, the verdict, the report.
func TestRun(t *testing.T) {
	t.Parallel()
	c := small(t)
	told := map[string]int{}
	c.Show = func(s State) {
		switch {
		case s.Leg != nil:
			told[s.Leg.Name]++
		case s.Drill != nil && s.Drill.Schedules > 0:
			told["drill"]++
		}
	}
	r, err := Run(t.Context(), c)
	if err != nil || !r.Pass || r.Failed() || r.Interrupted {
		t.Fatalf("%v: %+v", err, r)
	}
	d := r.Drill
	if d.Schedules != drillLeast || d.Engines != 10 || d.Clusters != 4 || d.Operations == 0 || d.Checks == 0 || d.Faults["crash"] == 0 || d.Faults["copy"] == 0 {
		t.Errorf("%+v", d)
	}
	if len(r.Race) != legs || len(r.Table) != 5*legs || told["settled"] == 0 || told["queue"] == 0 || told["churn"] == 0 || told["drill"] < 2 {
		t.Errorf("%d legs, %d figures, told %v", len(r.Race), len(r.Table), told)
	}
	said := text(t, r, screen.Style{})
	for _, want := range []string{"lost 0 · resurrected 0 · diverged 0 · counters reused 0\n", "\nPASS in ", "bigset demo --seed 7 --scale 0.001\n", "hash " + r.Race[0].Stream, "Under uniform churn", "\nnext "} {
		if !strings.Contains(said, want) && !(want == "Under uniform churn" && strings.Contains(said, "Uniform churn is where")) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	var page bytes.Buffer
	if err := r.WritePage(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PASS", "nothing that was acknowledged is lost", "power cuts", "set-tombstones", "bigset demo --seed 7", r.Race[2].Stream} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if left, err := os.ReadDir(c.Dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// TestInterrupted: an interrupt ends it with what was done until then, whenever it comes.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(State) bool{
		"in the race":  func(s State) bool { return s.Leg != nil && s.Leg.Name == "queue" && len(s.Leg.Racers[0].Samples) > 0 },
		"in the drill": func(s State) bool { return s.Drill != nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := small(t)
			if name == "in the drill" {
				c.race = func(context.Context, bench.RaceConfig) ([]bench.Leg, error) {
					return []bench.Leg{measured(), measured()}, nil
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.Show = func(s State) {
				if at(s) {
					cancel()
				}
			}
			r, err := Run(ctx, c)
			if err != nil || !r.Interrupted || r.Pass || r.Failed() || len(r.Table) < 10 {
				t.Fatalf("%v: %+v", err, r)
			}
			if said := text(t, r, screen.Style{}); !strings.Contains(said, "\nINTERRUPTED in ") || !strings.Contains(said, "not begun") && !strings.Contains(said, "not finished") {
				t.Errorf("it says:\n%s", said)
			}
			if err := r.WritePage(&bytes.Buffer{}); err != nil {
				t.Error(err)
			}
			if left, err := os.ReadDir(c.Dir); err != nil || len(left) > 0 {
				t.Errorf("it left %v, %v", left, err)
			}
		})
	}
}

// twin is a replica by the rules, with a bug in what it shows or in what it makes.
type twin struct {
	convergence.Replica
	show func(convergence.View) convergence.View
}

func (r twin) Read() (convergence.View, error) {
	v, err := r.Replica.Read()
	return r.show(v), err
}

// planted runs schedules over replicas with a bug.
func planted(show func(env convergence.Env) func(convergence.View) convergence.View) func(context.Context, sim.Options) (*sim.Report, error) {
	return func(ctx context.Context, o sim.Options) (*sim.Report, error) {
		sys := sim.Rules()
		open := sys.Open
		sys.Open = func(env convergence.Env) (convergence.Replica, error) {
			r, err := open(env)
			return twin{r, show(env)}, err
		}
		sys.Merge = nil // it wants more of a replica
		k, err := convergence.Explore(ctx, sys, convergence.Options{Seed: o.Seed, Schedules: 200, Replicas: o.Replicas, ShrinkRuns: o.ShrinkRuns})
		r := &sim.Report{Schedules: k.Schedules, Operations: k.Operations, Checks: k.Checks, Faults: k.Faults}
		if k.Failure != nil {
			r.Violations = 1
			r.Failure = &sim.Failure{Violation: k.Failure.Violation, Seed: k.Failure.Script.Seed, Script: k.Failure.Script.String()}
		}
		return r, err
	}
}

// TestPlantedBugs: what the kit's own checks find in replicas with a bug fails the demonstration, in the right place.
func TestPlantedBugs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		show func(env convergence.Env) func(convergence.View) convergence.View
		want string
	}{
		"an element is not shown": {func(convergence.Env) func(convergence.View) convergence.View {
			return func(v convergence.View) convergence.View {
				if len(v.Items) > 1 {
					v.Items = v.Items[1:]
				}
				return v
			}
		}, "lost 1 · resurrected 0 · diverged 0 · counters reused 0\n"},
		"what was removed is still shown": {func(convergence.Env) func(convergence.View) convergence.View {
			var last []convergence.Item
			return func(v convergence.View) convergence.View {
				if len(v.Items) == 0 && len(last) == 1 {
					v.Items = last
				}
				last = v.Items
				return v
			}
		}, "lost 0 · resurrected 1 · diverged 0 · counters reused 0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := drill(t.Context(), Config{Seed: 1, Scale: ScaleMin, simulate: planted(c.show)}, func(*Drill) {})
			if err != nil {
				t.Fatal(err)
			}
			r := &Result{Drill: d, Race: []bench.Leg{{Finished: true}}, Scale: 1}
			r.judge()
			said := text(t, r, screen.Style{})
			if r.Pass || !r.Failed() || d.Violation == "" || d.Script == "" || !strings.Contains(said, c.want) || !strings.Contains(said, "\nFAIL in ") ||
				!strings.Contains(said, "broken: ") || !strings.Contains(said, d.Script) {
				t.Errorf("%+v\n%s", d, said)
			}
			if page := r.page(); page.Title != "bigset demo: FAIL" {
				t.Errorf("the page is %q", page.Title)
			}
		})
	}
}

// TestKinds: each kind of violation counts in its place, and none of them passes.
func TestKinds(t *testing.T) {
	t.Parallel()
	for kind, of := range map[string]func(*Drill) int{
		convergence.Lost: func(d *Drill) int { return d.Lost }, convergence.Resurrected: func(d *Drill) int { return d.Resurrected },
		convergence.Diverged: func(d *Drill) int { return d.Diverged }, convergence.TagReused: func(d *Drill) int { return d.Reused },
		convergence.Torn: func(d *Drill) int { return d.Other }, convergence.Unverifiable: func(d *Drill) int { return d.Other },
	} {
		d := drilled(&sim.Report{Violations: 1, Failure: &sim.Failure{Violation: &convergence.Violation{Kind: kind}}}, 14)
		if of(d) != 1 || d.broken() != 1 {
			t.Errorf("%s: %+v", kind, d)
		}
	}
	if d := drilled(&sim.Report{Schedules: 14, Violations: 1}, 14); d.broken() != 1 || !strings.Contains(d.promises(), "other 1") {
		t.Errorf("a violation of which nothing is known: %+v", d)
	}
}

// TestJudge: nothing passes that was not done to the end, or in which anything was wrong.
func TestJudge(t *testing.T) {
	t.Parallel()
	whole := func() *Result {
		return &Result{Race: []bench.Leg{{Finished: true}, {Finished: true}}, Drill: &Drill{Planned: 14, Finished: true}}
	}
	r := whole()
	if r.judge(); !r.Pass || r.word() != "PASS" {
		t.Errorf("%+v", r)
	}
	for name, c := range map[string]struct {
		spoil func(*Result)
		word  string
	}{
		"no race":             {func(r *Result) { r.Race = nil }, "NOT FINISHED"},
		"a leg to go":         {func(r *Result) { r.Race[1].Finished = false }, "NOT FINISHED"},
		"no drill":            {func(r *Result) { r.Drill = nil }, "NOT FINISHED"},
		"half a drill":        {func(r *Result) { r.Drill.Finished = false }, "NOT FINISHED"},
		"a lost element":      {func(r *Result) { r.Drill.Lost = 1 }, "FAIL"},
		"another violation":   {func(r *Result) { r.Drill.Other = 1 }, "FAIL"},
		"a wrong store":       {func(r *Result) { r.Problems = []string{"wrong"} }, "FAIL"},
		"a violation in text": {func(r *Result) { r.Drill.Violation = "lost at step 7" }, "FAIL"},
	} {
		r := whole()
		c.spoil(r)
		if r.judge(); r.Pass || r.word() != c.word {
			t.Errorf("%s: %s, want %s", name, r.word(), c.word)
		}
	}
	r = whole()
	r.Interrupted, r.Race[1].Finished = true, false
	if r.judge(); r.word() != "INTERRUPTED" || r.Failed() {
		t.Errorf("interrupted: %s", r.word())
	}
	if r.Drill.Lost = 1; r.word() != "FAIL" {
		t.Errorf("a lost element, and an interrupt: %s", r.word())
	}
}

// TestWrongRace: a store that the race finds wrong fails the demonstration, and the drill is run all the same.
func TestWrongRace(t *testing.T) {
	t.Parallel()
	c := small(t)
	c.race = func(context.Context, bench.RaceConfig) ([]bench.Leg, error) {
		return []bench.Leg{measured()}, fmt.Errorf("race: %w", bench.ErrWrong)
	}
	r, err := Run(t.Context(), c)
	if err != nil || r.Pass || !r.Failed() || r.Drill == nil || !r.Drill.Finished || !strings.Contains(text(t, r, screen.Style{}), "broken: race: bench: wrong answer\n") {
		t.Errorf("%v: %+v", err, r)
	}
}

// TestInterruptedLate: an interrupt does not hide that something is left on the disk, and one that comes when all is done changes nothing.
func TestInterruptedLate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := small(t)
	c.race = func(context.Context, bench.RaceConfig) ([]bench.Leg, error) {
		cancel()
		return []bench.Leg{measured()}, errors.Join(ctx.Err(), &fs.PathError{Op: "unlinkat", Path: "x", Err: fs.ErrPermission})
	}
	if r, err := Run(ctx, c); !errors.Is(err, fs.ErrPermission) || !r.Interrupted {
		t.Errorf("%v: %+v", err, r)
	}
	ctx, cancel = context.WithCancel(t.Context())
	c.race = func(context.Context, bench.RaceConfig) ([]bench.Leg, error) {
		return []bench.Leg{{Finished: true}}, nil
	}
	c.simulate = func(context.Context, sim.Options) (*sim.Report, error) {
		cancel()
		return reportOf(drillLeast), nil
	}
	if r, err := Run(ctx, c); err != nil || !r.Pass || r.Interrupted {
		t.Errorf("%v: %+v", err, r)
	}
}

// TestOutOfTime: a demonstration that takes too long ends with an error beside what was done, and is not called interrupted.
func TestOutOfTime(t *testing.T) {
	t.Parallel()
	c := small(t)
	c.limit = time.Millisecond
	c.race = func(ctx context.Context, _ bench.RaceConfig) ([]bench.Leg, error) {
		<-ctx.Done()
		return []bench.Leg{measured()}, ctx.Err()
	}
	r, err := Run(t.Context(), c)
	if !errors.Is(err, ErrTime) || errors.Is(err, context.DeadlineExceeded) || r.Interrupted || r.Pass || len(r.Table) == 0 || r.word() != "NOT FINISHED" {
		t.Errorf("%v: %+v", err, r)
	}
}

// TestErrors: what can't be run is refused, and an error of the machine is one, beside what was done.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, scale := range []float64{-1, ScaleMin / 2, ScaleMax * 2} {
		if r, err := Run(t.Context(), Config{Scale: scale}); !errors.Is(err, ErrConfig) || r != nil {
			t.Errorf("scale %v: %v", scale, err)
		}
	}
	c := small(t)
	c.Dir += "/none"
	if r, err := Run(t.Context(), c); !errors.Is(err, os.ErrNotExist) || r == nil || r.Pass {
		t.Errorf("no folder: %v, %+v", err, r)
	}
	c = small(t)
	c.simulate = func(context.Context, sim.Options) (*sim.Report, error) { return &sim.Report{Schedules: 3}, nil }
	if _, err := drill(t.Context(), c, func(*Drill) {}); err == nil {
		t.Error("a drill that ends early passes")
	}
}

// TestJSON: the result is one object, without what can't be written as JSON.
func TestJSON(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(&Result{Race: []bench.Leg{measured()}, Table: figures(new(measured())), Drill: &Drill{Faults: map[string]int{"loss": 1}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"pass":false`, `"counters_reused":0`, `"figure":"bytes written"`, `"space_back":0.5`, `"ratio":0.1`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
}

// reportOf is the report of a number of schedules.
func reportOf(schedules int) *sim.Report {
	return &sim.Report{Schedules: schedules, Operations: 30 * schedules, Checks: 75 * schedules, Faults: map[string]int{"crash": 12, "partition": 3}}
}

// TestDrill: over the real engines and clusters nothing is found, which bugs that are planted there turn round (internal/mutants).
func TestDrill(t *testing.T) {
	t.Parallel()
	told, want := 0, tier.Pick(42, 42, 140)
	d, err := drill(t.Context(), Config{Seed: 7, Scale: float64(want+1) / drillUsual, simulate: sim.Run}, func(d *Drill) { told = max(told, d.Schedules) })
	if err != nil || d.broken() > 0 || d.Schedules != want || !d.Finished || told != want {
		t.Errorf("%v: %d of %d told, %s; %s", err, told, d.Schedules, d.promises(), d.Violation)
	}
	for _, kind := range []string{"crash", "crash-unsynced", "partition", "copy", "copy-crash", "loss"} {
		if d.Faults[kind] == 0 {
			t.Errorf("no fault of kind %s", kind)
		}
	}
}
