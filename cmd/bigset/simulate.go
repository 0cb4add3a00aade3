package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
replicas that fail over. Of 440 schedules 10 run over real engines on file systems in memory, 4 are of whole clusters of engines with
coordinators, hints, read repair, copies and clocks that jump, two of these of members that agree on epochs and lose their disks, the
others run over the rules alone. What replicas and quorums show is judged all the time; at the end of a schedule all replicas must be
equal. Nothing touches the data folder.

The first violation ends the run. It is shortened, shown, and written to a file that --replay takes. An engine has goroutines of its
own: its schedules, and those of clusters, do not always fail again. A replay runs ten times, and says how often something was
violated.
Exit status 1 says that something was violated.`,
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
	f.IntVar(&o.Schedules, "schedules", 0, "how many schedules (default: 44,000, or no limit with --seconds)")
	f.IntVar(&seconds, "seconds", 0, "end after this time (default: no limit)")
	f.Uint64Var(&o.Seed, "seed", 1, "schedules follow from it")
	f.IntVar(&o.Replicas, "replicas", 0, "replicas of each schedule, 3 to 7 (default: a mixture)")
	f.StringVar(&replay, "replay", "", "run the schedule in this file instead")
	_ = cmd.MarkFlagFilename("replay") // there is such a flag
	return cmd
}

// faultCounts writes how many faults there were of each kind.
func faultCounts(r *sim.Report) string {
	var parts []string
	for _, k := range sim.Kinds {
		parts = append(parts, fmt.Sprintf("%s %d", k, r.Faults[k]))
	}
	return strings.Join(parts, ", ")
}

func (a *app) simulating(r *sim.Report) {
	a.progress.show("%s, %s, %s checked; %s", count(uint64(r.Schedules), "schedule"), count(uint64(r.Operations), "operation"),
		count(uint64(r.Checks), "state"), faultCounts(r))
}

// simulated prints what schedules did and found.
func (a *app) simulated(r *sim.Report) error {
	var err error
	if a.json {
		err = json.NewEncoder(a.out).Encode(r)
	} else {
		_, err = fmt.Fprintf(a.out, "%s (%s over the rules, %s over engines, %s of clusters), %s, %s checked\nfaults: %s\n%s\n",
			count(uint64(r.Schedules), "schedule"), bench.Thousands(uint64(r.Schedules-r.Engines-r.Clusters)),
			bench.Thousands(uint64(r.Engines)), bench.Thousands(uint64(r.Clusters)), count(uint64(r.Operations), "operation"), count(uint64(r.Checks), "state"), faultCounts(r), count(uint64(r.Violations), "violation"))
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
