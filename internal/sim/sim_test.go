package sim_test

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"bigset/convergence"
	"bigset/internal/sim"
)

var seedFlag = flag.Uint64("sim.seed", 1, "schedules follow from it")

// shards is how many runs go on beside each other. Together they are 10,000 schedules of the rules, 1,000 of engines, and
// 200 of whole clusters.
const (
	shards         = 2
	shardSchedules = 5600
	operationsMin  = 1_000_000
)

// TestSimulation: nothing is violated, and every kind of fault was met.
func TestSimulation(t *testing.T) {
	schedules := shardSchedules
	if testing.Short() {
		schedules = 112
	}
	reports := make([]*sim.Report, shards)
	t.Run("shards", func(t *testing.T) {
		for i := range reports {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				r, err := sim.Run(t.Context(), sim.Options{Seed: *seedFlag*shards + uint64(i), Schedules: schedules})
				if err != nil {
					t.Fatal(err)
				}
				if r.Failed() {
					t.Fatalf("%s", r.Failure)
				}
				reports[i] = r
			})
		}
	})
	if t.Failed() {
		return
	}
	operations := 0
	for _, r := range reports {
		operations += r.Operations
		t.Logf("%+v", *r)
		if r.Schedules != schedules {
			t.Errorf("%d schedules, want %d", r.Schedules, schedules)
		}
		for _, k := range sim.Kinds {
			if r.Faults[k] == 0 && !testing.Short() {
				t.Errorf("no fault of kind %s", k)
			}
		}
	}
	if operations < operationsMin && !testing.Short() {
		t.Errorf("%d operations, want %d", operations, operationsMin)
	}
}

// TestCopies: copies end and are cut, go on from their notes, begin again where the note is of another incarnation of the source, and
// fill replicas that have lost or given up their data.
func TestCopies(t *testing.T) {
	r, err := convergence.Explore(t.Context(), sim.Rules(), convergence.Options{Seed: *seedFlag, Schedules: 400, Replicas: 3, Steps: 180})
	if err != nil || r.Failure != nil {
		t.Fatal(err, r.Failure)
	}
	for _, state := range []string{"copy done", "copy resumed", "copy fetched what had not come by its chunks", "two copies into one replica"} {
		if r.Sometimes[state] == 0 {
			t.Errorf("never: %s", state)
		}
	}
	if r.Sometimes["copy noted"] <= r.Sometimes["copy resumed"] {
		t.Errorf("every one of %d notes was resumed", r.Sometimes["copy noted"])
	}
	for _, kind := range []string{"copy-cut", "copy-crash", "leave", "wipe", "restore"} {
		if r.Faults[kind] == 0 {
			t.Errorf("no fault of kind %s", kind)
		}
	}
	t.Logf("%v %v", r.Sometimes, r.Faults)
}

// TestReplay: a script is run again by the system that it names, and a violation is found in it again.
func TestReplay(t *testing.T) {
	for _, system := range []string{"rules", "engine"} {
		script := fmt.Sprintf("convergence script 1\nsystem %s\nseed 1\nreplicas 3\n1 do A add x\n2 deliver 1.0 B\n3 exchange messages\n", system)
		v, s, err := sim.Replay(strings.NewReader(script))
		if err != nil || v != nil {
			t.Fatalf("%s: %v, %v", system, v, err)
		}
		if text := s.String(); !strings.Contains(text, "B shows {x") {
			t.Errorf("%s: B shows nothing: %s", system, text)
		}
	}
	if v, _, err := sim.Replay(strings.NewReader("convergence script 1\nsystem cluster\nseed 3\nreplicas 3\n")); err != nil || v != nil {
		t.Errorf("cluster: %v, %v", v, err)
	}
	for _, rest := range []string{"replicas 2\n", "replicas 3\n1 do A add x\n"} {
		if _, _, err := sim.Replay(strings.NewReader("convergence script 1\nsystem cluster\nseed 3\n" + rest)); !errors.Is(err, convergence.ErrScript) {
			t.Errorf("a script of a cluster with %q: %v", rest, err)
		}
	}
	if _, _, err := sim.Replay(strings.NewReader("convergence script 1\nsystem other\nreplicas 1\n")); err == nil {
		t.Error("a script of another system was run")
	}
}

// TestOptions: what can't be is refused.
func TestOptions(t *testing.T) {
	for _, o := range []sim.Options{{Replicas: 2}, {Replicas: 8}, {Schedules: -1}, {Duration: -1}} {
		if _, err := sim.Run(t.Context(), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}
