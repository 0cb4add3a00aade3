package sim_test

import (
	"testing"

	"bigset/convergence"
	"bigset/internal/sim"
)

func TestRules(t *testing.T) {
	convergence.Run(t, sim.Rules(), convergence.Options{Seed: 1, Schedules: 1000})
}

func TestEngines(t *testing.T) {
	sys, done := sim.Engines()
	convergence.Run(t, sys, convergence.Options{Seed: 1, Schedules: 100})
	if err := done(); err != nil {
		t.Error(err)
	}
}
