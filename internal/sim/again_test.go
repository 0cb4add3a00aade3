package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bigset"
	"bigset/convergence"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// deaf is a store that takes no removes of others.
type deaf struct{ store }

func (s deaf) ApplyDelta(m bigset.Delta, d bigset.Durability) error {
	if slices.ContainsFunc(m.Items, func(it bigset.Item) bool { return it.Kind == keyscheme.OpRemove }) {
		return nil
	}
	return s.store.ApplyDelta(m, d)
}

// TestSystemsRepeat: a seed does the same again to replicas over rules, and to replicas over engines.
func TestSystemsRepeat(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rules", "engine"} {
		schedules := tier.Pick(10, 10, 400)
		if name == "engine" {
			schedules = tier.Pick(2, 2, 100)
		}
		var did [2]string
		for i := range did {
			sys, done := Rules(), func() error { return nil }
			if name == "engine" {
				sys, done = Engines()
			}
			found, err := convergence.Explore(t.Context(), sys, convergence.Options{Seed: 4, Replicas: 3, Schedules: schedules, Steps: 60, Workers: 1})
			if err := errors.Join(err, done()); err != nil || found.Failure != nil {
				t.Fatalf("%s: %v, %v", name, err, found.Failure)
			}
			did[i] = fmt.Sprintf("%+v", found.Stats)
		}
		if did[0] != did[1] {
			t.Errorf("%s did\n%s\nand then\n%s", name, did[0], did[1])
		}
	}
}

// TestPrintedFailsAgain: the printed, shrunk script of a violation by replicas over rules and over engines gives the same kind of
// violation when it is read and run again.
func TestPrintedFailsAgain(t *testing.T) {
	t.Parallel()
	engines, done := Engines()
	defer func() {
		if err := done(); err != nil {
			t.Error(err)
		}
	}()
	for _, sys := range []convergence.System{Rules(), engines} {
		open := sys.Open
		sys.Open = func(env convergence.Env) (convergence.Replica, error) {
			r, err := open(env)
			if err == nil {
				r.(*replica).store = deaf{r.(*replica).store}
			}
			return r, err
		}
		seeds := uint64(3)
		if sys.Name == "engine" { // each takes as long as ten of the others
			seeds = tier.Pick[uint64](1, 1, 3)
		}
		for seed := range seeds {
			found, err := convergence.Explore(t.Context(), sys, convergence.Options{Seed: seed, Replicas: 3, Schedules: 100, Steps: 60, ShrinkRuns: 200})
			if err != nil || found.Failure == nil {
				t.Fatalf("%s: nothing found: %v", sys.Name, err)
			}
			f := found.Failure
			failed := 0
			for range replays {
				v, _, err := convergence.Replay(sys, strings.NewReader(f.Script.String()))
				if err != nil {
					t.Fatal(err)
				}
				if v != nil && v.Kind == f.Violation.Kind {
					failed++
				}
			}
			if failed == 0 || sys.Name == "rules" && failed < replays {
				t.Errorf("%s, seed %d: printed, it failed in %d of %d runs:\n%s", sys.Name, seed, failed, replays, f)
			}
		}
	}
}

// TestPrintedClusterFailsAgain: the same for a cluster. What counts as a violation here depends on the names of the elements, which
// shrinking changes.
func TestPrintedClusterFailsAgain(t *testing.T) {
	t.Parallel()
	again := func(t *testing.T, s *script, runs int, run func(*script) (*convergence.Violation, error)) *script {
		t.Helper()
		v, err := run(s.filter(all))
		if v == nil || err != nil {
			t.Fatalf("the schedule does not fail: %v\n%s", err, s)
		}
		h := &shrinker{ctx: t.Context(), best: s, v: v, runs: runs, seeds: 1, run: run}
		if err := h.shrink(); err != nil {
			t.Fatal(err)
		}
		back, err := readScript(strings.NewReader(h.best.String()))
		if err != nil {
			t.Fatal(err)
		}
		if v, err := run(back); v == nil || v.Kind != h.v.Kind || err != nil {
			t.Fatalf("printed, it does not fail again: %v, %v\n%s", v, err, h.best)
		}
		return h.best
	}

	// A write of two elements, whatever the cluster makes of it.
	for seed := range uint64(20) {
		s := drawScript(seed, 5)
		s.steps = append(s.steps, step{n: 1 << 19, kind: "write", args: map[string]int{"via": 0, "w": 3, "dw": 3, "id": 0},
			ops: []stepOp{{verb: "add", element: "y"}, {verb: "add", element: "x"}}})
		best := again(t, s, shrinkRuns, func(s *script) (*convergence.Violation, error) {
			for _, t := range s.steps {
				if t.kind == "write" && slices.ContainsFunc(t.ops, func(o stepOp) bool { return o.element != t.ops[0].element }) {
					return &convergence.Violation{Kind: convergence.Lost}, nil
				}
			}
			return nil, nil
		})
		if len(best.steps) != 1 || len(best.steps[0].ops) != 2 || best.replicas != scriptLeast {
			t.Errorf("seed %d: there is more to take away:\n%s", seed, best)
		}
	}

	// A read that shows two elements.
	text := fmt.Sprintf("%s\nseed 3\nreplicas 3\n", scriptHead) + `1 client0 write via=0 w=2 dw=2 id=0 add=a add=b add=c
2 nemesis maintain at=1 work=0
3 client0 read via=1 r=2 batch=2
4 client0 write wait=100 via=1 w=2 dw=0 id=1 remove=c@3 add=d
5 client0 lookup via=0 r=2 ask=a ask=d
6 client0 read via=0 r=2 batch=1
`
	s, err := readScript(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	best := again(t, s, 60, func(s *script) (*convergence.Violation, error) {
		if v, err := runAlone(s); v != nil || err != nil {
			return nil, fmt.Errorf("%v, %w", v, err)
		}
		for _, t := range s.steps {
			if t.kind == "read" && strings.Contains(t.note, "a[") && strings.Contains(t.note, "b[") {
				return &convergence.Violation{Kind: convergence.Phantom}, nil
			}
		}
		return nil, nil
	})
	if len(best.steps) != 2 || len(best.steps[0].ops) != 2 {
		t.Errorf("there is more to take away:\n%s", best)
	}
}
