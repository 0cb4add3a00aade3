package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bigset/bench"
	"bigset/convergence"
	"bigset/internal/sim"
)

// simulate returns the command that runs schedules of faults over replicas in memory.
func (a *app) simulate() *cobra.Command {
	var o sim.Options
	var seconds int
	var replay string
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Look for a schedule of faults that breaks a promise",
		Long: `Run generated schedules of operations and faults over replicas: messages that are lost, doubled, late and out of order,
partitions, crashes with and without what was not synced, disks that fail or are full, copies, background work, reads of several
replicas that fail over. There are four kinds of schedules: over the rules alone; over real engines on file systems in memory; of whole
clusters of engines with coordinators, hints, read repair, copies and clocks that jump; and of clusters whose members agree on epochs,
lose their disks, and hold bloom filters. What replicas and quorums show is checked all the time; at the end of a schedule all replicas
must be equal. The data folder is not touched.

With --schedules 5 of 110 run over engines, 3 are of clusters and 2 of members, each rounded up, and the others run over the rules. Without
it each kind takes its share of the time: rules a half, engines and members a fifth each, clusters a tenth. The n-th schedule of a kind
follows from the seed, whatever else runs.

The report counts every fault and mechanism. It names those that were never met, and those that were met less often than is usual for
this number of schedules.

The first violation ends the run. It is shrunk, printed, and written to a file that --replay takes. An engine has goroutines of its
own, so its schedules, and those of clusters, do not always fail again. A replay runs ten times, and reports how many runs violated
something. The exit status is 1 if something was violated.`,
		Example: `  bigset simulate --seconds 60
  bigset simulate --schedules 100000 --seed 7 --json
  bigset simulate --replay bigset-violation-7.txt`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if replay != "" {
				return a.replay(cmd, replay)
			}
			o.Duration = time.Duration(seconds) * time.Second
			o.Progress = a.simulating
			r, err := sim.Run(cmd.Context(), o)
			a.progress.clear()
			if errors.Is(err, sim.ErrOptions) {
				return usage(cmd, "%w", err)
			}
			return errors.Join(err, a.simulated(r))
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Schedules, "schedules", 0, "how many schedules (default: 11,000, or no limit with --seconds)")
	f.IntVar(&seconds, "seconds", 0, "end after this time (default: no limit)")
	f.Uint64Var(&o.Seed, "seed", 1, "schedules follow from it")
	f.IntVar(&o.Replicas, "replicas", 0, "replicas of each schedule, 3 to 7 (default: a mixture)")
	f.StringVar(&replay, "replay", "", "run the schedule in this file instead")
	_ = cmd.MarkFlagFilename("replay") // the flag exists
	return cmd
}

// kindNames describes the schedules of each kind.
var kindNames = map[string]string{"rules": "over the rules", "engines": "over engines", "clusters": "of clusters", "members": "of members"}

// counts formats the count of each name, in the order of names. Names that never occurred are listed separately.
func counts(of map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if of[name] > 0 {
			parts = append(parts, name+" "+bench.Thousands(uint64(of[name])))
		}
	}
	return orNothing(parts)
}

func orNothing(parts []string) string {
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

func (a *app) simulating(r *sim.Report) {
	a.progress.show("%s, %s, %s checked; %s", count(uint64(r.Schedules), "schedule"), count(uint64(r.Operations), "operation"),
		count(uint64(r.Checks), "state"), counts(r.Faults))
}

// simulationText formats what schedules did and found.
func simulationText(r *sim.Report) string {
	var kinds []string
	for _, k := range sim.Kinds {
		kinds = append(kinds, fmt.Sprintf("%s %s in %.1f s", bench.Thousands(uint64(r.Of(k))), kindNames[k], r.Kinds[k].Seconds))
	}
	var below []string
	for _, s := range r.Below {
		below = append(below, s.String())
	}
	return fmt.Sprintf("%s in %.1f s, seed %d: %s\n%s, %s checked, %s of %s skipped\nfaults: %s\nmechanisms: %s\nshapes: %s\nnever met: %s\nbelow their floors: %s\n%s\n",
		count(uint64(r.Schedules), "schedule"), r.Seconds, r.Seed, strings.Join(kinds, ", "),
		count(uint64(r.Operations), "operation"), count(uint64(r.Checks), "state"), bench.Thousands(uint64(r.Skipped)), count(uint64(r.Steps), "step"),
		counts(r.Faults), counts(r.Mechanisms), counts(r.Shapes), orNothing(r.Never), orNothing(below), count(uint64(r.Violations), "violation"))
}

// simulated prints what schedules did and found.
func (a *app) simulated(r *sim.Report) error {
	var err error
	if a.json {
		err = json.NewEncoder(a.out).Encode(r)
	} else {
		_, err = fmt.Fprint(a.out, simulationText(r))
	}
	if !r.Failed() {
		return err
	}
	file := fmt.Sprintf("bigset-violation-%d.txt", r.Failure.Seed)
	if e := os.WriteFile(file, []byte(r.Failure.Script), 0o644); e != nil {
		err = errors.Join(err, e)
	}
	fmt.Fprintf(a.errs, "%s\nrun it again: bigset simulate --replay %s\n", r.Failure, file)
	return errors.Join(err, errViolated)
}

// replay runs the schedule of a file.
func (a *app) replay(cmd *cobra.Command, file string) (err error) {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	r, err := sim.Replay(in)
	switch {
	case errors.Is(err, convergence.ErrScript):
		return usage(cmd, "--replay %s: %w", file, err)
	case err != nil:
		return err
	}
	if _, err := fmt.Fprintf(a.errs, "%s\n", r.Script); err != nil {
		return err
	}
	if r.Violation == nil {
		_, err = fmt.Fprintf(a.out, "nothing is violated in %d runs\n", r.Runs)
		return err
	}
	if _, err := fmt.Fprintf(a.out, "violated in %d of %d runs: %v\n", r.Failed, r.Runs, r.Violation); err != nil {
		return err
	}
	return errViolated
}
