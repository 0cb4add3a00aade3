package convergence_test

import (
	"fmt"
	"testing"
	"time"

	"bigset/convergence"
	"bigset/convergence/internal/model"
)

// TestCorrect runs the reference replica in each of its designs: nothing must be found.
func TestCorrect(t *testing.T) {
	for i, o := range model.Variants {
		t.Run(model.System(o).Name, func(t *testing.T) {
			r := convergence.Run(t, model.System(o), convergence.Options{Seed: uint64(i), Schedules: 5000})
			fmt.Println(r.Elapsed, r.Skipped, r.Steps, r.Never())
		})
	}
}

// TestBroken breaks the reference replica in each way: each must be found.
func TestBroken(t *testing.T) {
	for _, b := range model.Broken {
		t.Run(string(b.Bug), func(t *testing.T) {
			o := b.Of
			o.Bug = b.Bug
			start := time.Now()
			r, err := convergence.Explore(t.Context(), model.System(o), convergence.Options{Schedules: 5000})
			if err != nil {
				t.Fatal(err)
			}
			if r.Failure == nil {
				t.Fatalf("%s: not found in %d schedules, %v", b.What, r.Schedules, time.Since(start))
			}
			fmt.Printf("%s: schedule %d (%s), %v, %s\n", b.Bug, r.Schedules, r.Failure.Script.Shape, time.Since(start), r.Failure)
		})
	}
}
