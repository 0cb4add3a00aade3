package convergence_test

import (
	"slices"
	"testing"

	"bigset/convergence"
	"bigset/convergence/internal/model"
	"bigset/convergence/internal/textbook"
)

// TestRareIsFavoured: what few schedules reach is reached more often when the explorer chooses than when all shapes have the same
// chance.
func TestRareIsFavoured(t *testing.T) {
	t.Parallel()
	even := slices.DeleteFunc(convergence.ShapeNames(), func(name string) bool { return name == "many" })
	count := func(shapes []string) (rare int) {
		r := explore(t, model.System(model.Options{}), convergence.Options{Seed: 3, Schedules: 600, Shapes: shapes})
		for _, kind := range []string{"restore", "wipe", "leave", "partition", "skew"} {
			rare += r.Faults[kind]
		}
		return rare
	}
	if chosen, same := count(nil), count(even); chosen < same+same/4 {
		t.Errorf("rare faults were met %d times, with even shapes %d times", chosen, same)
	}
}

// TestGenerateFollowsExplore: Generate makes the schedule that failed, even one that depends on what earlier ones reached.
func TestGenerateFollowsExplore(t *testing.T) {
	t.Parallel()
	all := textbook.Bugs()
	sys := all[slices.IndexFunc(all, func(b textbook.Bug) bool { return b.Name == "ties-by-arrival" })].Broken
	for seed := range uint64(20) {
		o := convergence.Options{Seed: seed, ShrinkRuns: 1}
		r := explore(t, sys, o)
		if r.Failure == nil || r.Schedules <= 60 {
			continue
		}
		s, err := convergence.Generate(sys, o, r.Schedules-1)
		if err != nil {
			t.Fatal(err)
		}
		for i, step := range r.Failure.Script.Steps {
			if got := s.Steps[i].String(); got != step.String() {
				t.Fatalf("seed %d, schedule %d: step %q was made as %q", seed, r.Schedules, step, got)
			}
		}
		return
	}
	t.Error("no seed fails late enough")
}
