package convergence

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// T is the part of testing.TB that Run needs.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

// Environment variables that Run reads. They override the options, even of tests that run together with others in one command.
const (
	envSeed      = "CONVERGENCE_SEED"      // Options.Seed
	envSchedules = "CONVERGENCE_SCHEDULES" // Options.Schedules
	envSeconds   = "CONVERGENCE_SECONDS"   // Options.Duration
	envReplay    = "CONVERGENCE_REPLAY"    // a script to replay instead
	envWorkers   = "CONVERGENCE_WORKERS"   // Options.Workers
	envDir       = "CONVERGENCE_DIR"       // where scripts of failures are written; by default the folder for temporary files
)

// Run runs generated schedules over a system. If one violates the specification, Run fails the test with a short script that shows
// the violation. It also writes the script to a file, with the violation and the stack of a panic as comments: a later run replays
// it if CONVERGENCE_REPLAY names the file. If the process ends in a schedule, the next Run of the system writes that schedule's
// script, and logs where it is.
func Run(t T, sys System, o Options) *Report {
	t.Helper()
	if file := os.Getenv(envReplay); file != "" {
		return runReplay(t, sys, o, file)
	}
	if err := o.fromEnv(); err != nil {
		t.Fatalf("%v", err)
	}
	if sys.check() == nil {
		if names := killed(sys, o); len(names) > 0 {
			said := fmt.Sprintf("convergence: an earlier process ended, or was ended, in a schedule of system %s; to run it again: %s=%s",
				sys.Name, envReplay, strings.Join(names, ", or "+envReplay+"="))
			t.Logf("%s", said)
			fmt.Fprintln(os.Stderr, said) // at once: what t has logged is lost if this process ends too
		}
		file := startRunning(sys, o.Seed)
		defer file.end()
		o.before = file.begin
	}
	o.until = beforeDeadline(t)
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

// beforeDeadline returns the time at which a test has to end its work so that it can still report its findings; zero means never.
func beforeDeadline(t T) time.Time {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if at, ok := d.Deadline(); ok {
			return at.Add(-time.Until(at)/10 - time.Second)
		}
	}
	return time.Time{}
}

func runReplay(t T, sys System, o Options, file string) *Report {
	t.Helper()
	o, err := o.withDefaults()
	if err != nil {
		t.Fatalf("%v", err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatalf("convergence: %s: %v", envReplay, err)
	}
	defer in.Close()
	v, s, err := replay(sys, in, o.StepLimit)
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
