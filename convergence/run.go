package convergence

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
)

// T is the part of testing.TB that Run needs.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

// Environment variables that Run reads. They go before the options, also of tests that are run with others by one command.
const (
	envSeed      = "CONVERGENCE_SEED"      // Options.Seed
	envSchedules = "CONVERGENCE_SCHEDULES" // Options.Schedules
	envSeconds   = "CONVERGENCE_SECONDS"   // Options.Duration
	envReplay    = "CONVERGENCE_REPLAY"    // a script to replay instead
	envWorkers   = "CONVERGENCE_WORKERS"   // Options.Workers
	envDir       = "CONVERGENCE_DIR"       // where scripts of failures are written; the folder for temporary files otherwise
)

// Run runs generated schedules over a system and fails the test when one violates its specification, with a short script that
// shows it. The script is also written to a file, with what it violates and the stack of a panic as comments: the environment variable
// CONVERGENCE_REPLAY gives it to a later run. When the process ends in a schedule, the next Run of the system writes that schedule's
// script, and logs where it is.
func Run(t T, sys System, o Options) *Report {
	t.Helper()
	if file := os.Getenv(envReplay); file != "" {
		return runReplay(t, sys, file)
	}
	if err := o.fromEnv(); err != nil {
		t.Fatalf("%v", err)
	}
	if sys.check() == nil {
		for _, name := range killed(sys, o) {
			t.Logf("an earlier process ended in a schedule of this system; to see it again: %s=%s", envReplay, name)
		}
		file := startRunning(sys, o.Seed)
		defer file.end()
		o.before = file.begin
	}
	r, err := Explore(t.Context(), sys, o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if r.Failure != nil {
		t.Fatalf("seed %d, schedule %d: %v\n%s", o.Seed, r.Schedules, r.Failure, "replay: "+envReplay+"="+saveScript(sys, r.Failure.Script, r.Failure.Violation))
	}
	t.Logf("%d schedules, %d operations, %d checks in %v; faults %v; reached %v; never %v", r.Schedules, r.Operations, r.Checks,
		r.Elapsed.Round(time.Millisecond), r.Faults, r.Sometimes, r.Never())
	return r
}

func runReplay(t T, sys System, file string) *Report {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatalf("convergence: %s: %v", envReplay, err)
	}
	defer in.Close()
	v, s, err := Replay(sys, in)
	switch {
	case err != nil:
		t.Fatalf("%s: %v", file, err)
	case v != nil:
		t.Fatalf("%s: %v\n\n%s", file, v, s)
	}
	t.Logf("%s: nothing is violated\n\n%s", file, s)
	return &Report{System: sys.Name, Stats: *newStats()}
}

func (o *Options) fromEnv() (err error) {
	read := func(name string, set func(n uint64)) {
		text := os.Getenv(name)
		if text == "" || err != nil {
			return
		}
		n, e := strconv.ParseUint(text, 10, 63)
		if e != nil {
			err = fmt.Errorf("convergence: %s: want a number, have %q", name, text)
			return
		}
		set(n)
	}
	read(envSeed, func(n uint64) { o.Seed = n })
	read(envSeconds, func(n uint64) { o.Duration, o.Schedules = time.Duration(n)*time.Second, 0 })
	read(envWorkers, func(n uint64) { o.Workers = int(n) })
	read(envSchedules, func(n uint64) { o.Schedules = int(n) })
	return err
}
