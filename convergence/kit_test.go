package convergence_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"bigset/convergence"
	"bigset/convergence/internal/model"
	"bigset/internal/testkit/tier"
)

// TestCorrect runs the reference replica in each of its designs: nothing must be found, and everything must be reached.
func TestCorrect(t *testing.T) {
	schedules := tier.Pick(300, 350, 5000)
	share := tier.ShareOf(t, 2, 2)
	for i, o := range model.Variants {
		if !share.Has(i) {
			continue
		}
		t.Run(model.System(o).Name, func(t *testing.T) {
			t.Parallel()
			r := convergence.Run(t, model.System(o), convergence.Options{Seed: uint64(i), Schedules: schedules})
			if never := r.Never(); len(never) > 0 {
				t.Errorf("never reached: %v", never)
			}
			if r.Schedules < schedules || r.Checks < r.Operations || r.Skipped > r.Steps {
				t.Errorf("too little was done: %+v", r.Stats)
			}
		})
	}
}

const (
	brokenSchedules = 1000
	brokenTime      = time.Minute
)

// TestBroken breaks the reference replica in each way. The kit must find every bug, and the script that it prints must show the bug
// again when it is read back. CONVERGENCE_SEED tries other schedules.
func TestBroken(t *testing.T) {
	var seed uint64
	if text := os.Getenv("CONVERGENCE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	if len(model.Broken) != 61 {
		t.Fatalf("%d broken replicas, want 61", len(model.Broken))
	}
	share := tier.ShareOf(t, 3, 3)
	for i, b := range model.Broken {
		if !share.Has(i) {
			continue
		}
		t.Run(string(b.Bug), func(t *testing.T) {
			t.Parallel()
			o := b.Of
			o.Bug = b.Bug
			sys := model.System(o)
			r, err := convergence.Explore(t.Context(), sys, convergence.Options{Seed: seed, Schedules: brokenSchedules, Duration: brokenTime})
			if err != nil {
				t.Fatal(err)
			}
			f := r.Failure
			if f == nil {
				t.Fatalf("%s: not found in %d schedules, %v", b.What, r.Schedules, r.Elapsed)
			}
			if f.Failed != f.Runs || len(f.Script.Steps) > 25 {
				t.Errorf("it failed in %d of %d runs, and was shrunk from %d to %d steps", f.Failed, f.Runs, f.Steps, len(f.Script.Steps))
			}
			v, _, err := convergence.Replay(sys, strings.NewReader(f.Script.String()))
			if err != nil || v == nil || v.Kind != f.Violation.Kind {
				t.Errorf("the replay shows %v, %v", v, err)
			}
			t.Logf("%s: schedule %d, %v\n%v", b.What, r.Schedules, r.Elapsed.Round(time.Millisecond), f)
			o.Bug = ""
			correct := *f.Script
			correct.System = model.System(o).Name
			if v, _, err := convergence.Replay(model.System(o), strings.NewReader(correct.String())); v != nil || err != nil {
				t.Errorf("the correct replica fails it too: %v, %v", v, err)
			}
		})
	}
}
