package sim_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bigset/convergence"
	"bigset/internal/sim"
	"bigset/internal/testkit/tier"
)

var seedFlag = flag.Uint64("sim.seed", 1, "schedules follow from it")

// shards is the number of concurrent runs. Together they are 440 schedules at a push: 20 over engines, 12 of whole clusters, 8 of
// members, and the others over the rules. In a full run they are 22,000.
const shards = 2

// TestSimulation: nothing is violated, and every kind of fault was reached.
func TestSimulation(t *testing.T) {
	t.Parallel()
	schedules := tier.Pick(220, 220, 11_000)
	operationsMin := tier.Pick(0, 8_000, 400_000) // of clients
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
		for _, kind := range sim.Kinds {
			tier.Count(t, "schedules-of-"+kind, r.Of(kind))
		}
		tier.Count(t, "operations", r.Operations)
		t.Logf("%+v", *r)
		if r.Schedules != schedules || r.Of("engines") != schedules/22 {
			t.Errorf("%d schedules, of them %d of engines; want %d", r.Schedules, r.Of("engines"), schedules)
		}
		for _, s := range r.Below {
			t.Errorf("below its floor: %s", s)
		}
		for _, of := range []map[string]int{r.Faults, r.Mechanisms} {
			for name := range of {
				if known, _ := sim.Sight(name); !known {
					t.Errorf("what is met as %q has no name", name)
				}
			}
		}
		t.Logf("never met: %v", r.Never) // what is expected a dozen times has a floor
	}
	if operations < operationsMin {
		t.Errorf("%d operations, want %d", operations, operationsMin)
	}
}

// TestCopies: copies end and are interrupted, go on from their notes, start again if the note is of another incarnation of the
// source, and fill replicas that have lost or given up their data.
func TestCopies(t *testing.T) {
	t.Parallel()
	r, err := convergence.Explore(t.Context(), sim.Rules(), convergence.Options{Seed: *seedFlag, Schedules: tier.Pick(200, 200, 400), Replicas: 3, Steps: 180})
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

// TestReplay: a script is run again by the system that it names.
func TestReplay(t *testing.T) {
	for system, script := range map[string]string{
		"rules":   "convergence script 1\nsystem rules\nseed 1\nreplicas 3\n1 do A add x\n2 deliver 1.0 B\n3 exchange messages\n",
		"engine":  "convergence script 1\nsystem engine\nseed 1\nreplicas 3\n1 do A add x\n2 deliver 1.0 B\n3 exchange messages\n",
		"cluster": "cluster script 1\nseed 3\nreplicas 3\n1 client0 write via=0 w=2 dw=2 id=0 add=x\n2 client0 read via=1 r=2 batch=1\n",
	} {
		r, err := sim.Replay(strings.NewReader(script))
		if err != nil || r.Violation != nil || r.Failed != 0 || r.Runs != 10 {
			t.Fatalf("%s: %+v, %v", system, r, err)
		}
		if !strings.Contains(r.Script, "B shows {x") && !strings.Contains(r.Script, "shows x[") {
			t.Errorf("%s: nothing is shown: %s", system, r.Script)
		}
	}
	if _, err := sim.Replay(strings.NewReader("convergence script 1\nsystem other\nreplicas 1\n")); err == nil {
		t.Error("a script of another system was run")
	}
}

// TestReplayedBefore runs schedules that were once reported as violations, rightly or wrongly. None is one.
func TestReplayedBefore(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/replay/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v, %v", paths, err)
	}
	share := tier.ShareOf(t, 2, 2)
	for i, path := range paths {
		if !share.Has(i) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := sim.Replay(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if r.Failed != 0 {
			t.Errorf("%s: %+v", path, r)
		}
	}
}

// TestClusterScript: text that is not a script of a cluster is refused.
func TestClusterScript(t *testing.T) {
	for _, rest := range []string{
		"", "replicas 1\n", "replicas 8\n", "seed x\n", "1 client0 read via=0 r=1 batch=1\n",
		"replicas 3\n1 client9 read via=0 r=1 batch=1\n", "replicas 3\n1 client0 other via=0\n", "replicas 3\n0 client0 read via=0 r=1 batch=1\n",
		"replicas 3\n1 client0 read via=0 r=4 batch=1\n", "replicas 3\n1 client0 read via=0 r=1\n", "replicas 3\n1 client0 read via=0 r=1 batch=1 add=x\n",
		"replicas 3\n1 client0 write via=0 w=1 dw=1 id=0 add=\n", "replicas 3\n1 client0 write via=0 w=1 dw=1 id=0 add=x@1\n",
		"replicas 3\n1 nemesis crash at=3 keep=0 seconds=1\n",
		"members 3 2\nreplicas 3\n", "replicas 3\nmembers 1 1\n", "replicas 3\nmembers 3 1\n", "replicas 3\nmembers 3 4\n", "replicas 3\nmembers 8 5\n",
	} {
		if _, err := sim.Replay(strings.NewReader("cluster script 1\nseed 3\n" + rest)); !errors.Is(err, convergence.ErrScript) {
			t.Errorf("%q: %v", rest, err)
		}
	}
	if _, err := sim.Replay(strings.NewReader("cluster script 2\nseed 3\nreplicas 3\n")); !errors.Is(err, convergence.ErrScript) {
		t.Errorf("another version: %v", err)
	}
}

// TestOptions: invalid options are refused.
func TestOptions(t *testing.T) {
	for _, o := range []sim.Options{{Replicas: 2}, {Replicas: 8}, {Schedules: -1}, {Duration: -1}} {
		if _, err := sim.Run(t.Context(), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

// TestStores: without schedules over the rules alone there are those of engines and of clusters, in their proportion, and progress
// is reported for both.
func TestStores(t *testing.T) {
	t.Parallel()
	told := 0
	r, err := sim.Run(t.Context(), sim.Options{Seed: *seedFlag, Schedules: 17, Replicas: 3, Stores: true, Progress: func(r *sim.Report) { told = r.Of("clusters") }})
	if err != nil || r.Failed() {
		t.Fatal(err, r.Failure)
	}
	if r.Schedules != 17 || r.Of("engines") != 13 || r.Of("clusters") != 4 || told != 4 {
		t.Errorf("%d schedules, %d over engines, %d of clusters, of which %d were told", r.Schedules, r.Of("engines"), r.Of("clusters"), told)
	}
	if _, err := sim.Run(t.Context(), sim.Options{ShrinkRuns: -1}); !errors.Is(err, sim.ErrOptions) {
		t.Errorf("-1 runs: %v", err)
	}
}
