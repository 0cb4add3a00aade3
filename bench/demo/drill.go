package demo

import (
	"context"
	"errors"

	"bigset/convergence"
	"bigset/internal/sim"
)

// Drill is what the fault drill did and found. It runs schedules of clients' operations and faults over replicas that are real engines on
// disks in memory, alone and in whole clusters with coordinators. What replicas and quorums show is judged at all times, and at the end of
// each schedule, when all replicas must be equal.
type Drill struct {
	Replicas   int            `json:"replicas"`
	Planned    int            `json:"planned"` // schedules
	Schedules  int            `json:"schedules"`
	Engines    int            `json:"schedules_of_engines"`
	Clusters   int            `json:"schedules_of_clusters"`
	Operations int            `json:"operations"` // of clients
	Checks     int            `json:"checks"`     // states of replicas, and reads, that were judged
	Faults     map[string]int `json:"faults"`
	Finished   bool           `json:"finished"`

	Lost        int `json:"lost"`
	Resurrected int `json:"resurrected"`
	Diverged    int `json:"diverged"`
	Reused      int `json:"counters_reused"`
	Other       int `json:"other"` // violations of other kinds, such as an unexpected error or a damaged store

	Violation string `json:"violation,omitempty"` // the first violation, which ends the drill
	Script    string `json:"script,omitempty"`    // the shortened schedule that shows it: `bigset simulate --replay` reads it
}

const (
	drillReplicas = 3
	drillUsual    = 1_400 // schedules
	drillLeast    = 14    // at least this many include engines and clusters
	drillShrink   = 200   // runs to shorten a schedule with a violation
)

// drillFaults are the faults that the demonstration shows, of all that the simulation counts.
var drillFaults = []string{"loss", "duplicate", "delay", "reorder", "partition", "crash", "crash-unsynced", "io-error", "disk-full", "copy", "copy-crash",
	"compaction", "rewrite", "stream-failover", "skew"}

// drill runs schedules. It returns an error only if anything other than a violation ended them.
func drill(ctx context.Context, c Config, tell func(*Drill)) (*Drill, error) {
	planned := max(drillLeast, int(drillUsual*c.Scale)/drillLeast*drillLeast)
	tell(drilled(&sim.Report{}, planned))
	r, err := c.simulate(ctx, sim.Options{Seed: c.Seed, Schedules: planned, Replicas: drillReplicas, Stores: true, ShrinkRuns: drillShrink,
		Progress: func(r *sim.Report) { tell(drilled(r, planned)) }})
	d := drilled(r, planned)
	tell(d)
	if err == nil && ctx.Err() == nil && !d.Finished && d.broken() == 0 {
		err = errors.New("demo: the drill ended before all schedules were run")
	}
	return d, err
}

// drilled returns the contents of a report of the simulation; it retains no part of it.
func drilled(r *sim.Report, planned int) *Drill {
	d := &Drill{Replicas: drillReplicas, Planned: planned, Schedules: r.Schedules, Engines: r.Of("engines"), Clusters: r.Of("clusters"),
		Operations: r.Operations, Checks: r.Checks, Faults: map[string]int{}, Finished: r.Schedules >= planned}
	for _, k := range drillFaults {
		d.Faults[k] = r.Count(k)
	}
	if r.Failure == nil {
		d.Other = r.Violations // about which nothing is known
		return d
	}
	v := r.Failure.Violation
	d.Violation, d.Script = v.String(), r.Failure.Script
	switch v.Kind {
	case convergence.Lost:
		d.Lost = 1
	case convergence.Resurrected:
		d.Resurrected = 1
	case convergence.Diverged:
		d.Diverged = 1
	case convergence.TagReused:
		d.Reused = 1
	default:
		d.Other = 1
	}
	return d
}

// broken returns how many promises were broken.
func (d *Drill) broken() int { return d.Lost + d.Resurrected + d.Diverged + d.Reused + d.Other }
