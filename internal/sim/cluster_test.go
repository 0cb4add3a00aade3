package sim

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"bigset/internal/testkit/tier"
)

var clusterSeed = flag.Uint64("sim.cluster", 0, "run this schedule of a cluster alone")

// TestClusters: nothing is violated, and the interesting states were reached.
func TestClusters(t *testing.T) {
	t.Parallel()
	schedules := tier.Pick[uint64](30, 50, 200)
	first := uint64(1)
	if *clusterSeed != 0 {
		first, schedules = *clusterSeed, 1
	}
	r := newReport()
	for seed := first; seed < first+schedules; seed++ {
		s := drawScript(seed, clusterSize(seed, 0))
		v, err := runScript(s, r)
		if err != nil {
			t.Fatal(err)
		}
		if v != nil {
			f, err := explainCluster(t.Context(), s, v, 0)
			t.Fatalf("seed %d: %v, %v", seed, f, err)
		}
	}
	r.ran(kindClusters, r.Schedules, 0)
	r.met(t)
}

// TestClusterRepeats: a seed does the same again, and prints the same script. Steps that end a process or break its disk are left
// out, because the engine's own goroutines determine which writes they hit.
func TestClusterRepeats(t *testing.T) {
	timed := []string{"power", "crash", "wipe", "restart", "put-back", "io-error", "disk-full", "outage"}
	for seed := uint64(1); seed <= tier.Pick[uint64](10, 10, 200); seed++ {
		var did [2]string
		for i := range did {
			r := newReport()
			s := drawMembers(seed)
			if seed%2 == 0 {
				s = drawScript(seed, clusterSize(seed, 0))
			}
			s = s.filter(func(_ int, t *step) bool { return !slices.Contains(timed, t.kind) })
			if v, err := runScript(s, r); v != nil || err != nil {
				t.Fatal(v, err)
			}
			r.Mechanisms["compaction"] += r.Mechanisms["rewrite"] // which of the two it was depends on the engine's goroutines, too
			delete(r.Mechanisms, "rewrite")
			did[i] = fmt.Sprintf("%v %v %d operations, %d checks, turns %x\n%s", r.Faults, r.Mechanisms, r.Operations, r.Checks, r.trace, s)
		}
		if did[0] != did[1] {
			t.Errorf("seed %d did\n%s\nand then\n%s", seed, did[0], did[1])
		}
		if raw := hexActor.FindString(did[0]); raw != "" {
			t.Errorf("seed %d shows an actor as %s:\n%s", seed, raw, did[0])
		}
	}
}
