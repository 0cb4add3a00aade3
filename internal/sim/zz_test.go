package sim_test

import (
	"testing"
	"fmt"
	"bigset/convergence"
	"bigset/internal/sim"
)
func TestZZ(t *testing.T) {
	for _, steps := range []int{70, 300, 700} {
	r := convergence.Run(t, sim.Rules(), convergence.Options{Seed: 3, Schedules: 1000*70/steps, Steps:steps})
	fmt.Println(steps, r.Schedules, r.Operations, r.Deliveries, r.Checks, r.Elapsed)
	}
	sys, done := sim.Engines()
	for _, steps := range []int{70, 300,700} {
	r := convergence.Run(t, sys, convergence.Options{Seed: 3, Schedules: 400*70/steps, Steps:steps})
	fmt.Println(steps, r.Schedules, r.Operations, r.Deliveries, r.Checks, r.Elapsed)
	}
	if err := done(); err != nil {
		t.Error(err)
	}
}
