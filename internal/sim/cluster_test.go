package sim

import (
	"flag"
	"fmt"
	"slices"
	"testing"
)

var clusterSeed = flag.Uint64("sim.cluster", 0, "run this schedule of a cluster alone")

// TestClusters: nothing is violated, and the interesting states were met.
func TestClusters(t *testing.T) {
	t.Parallel()
	schedules := uint64(200)
	if testing.Short() {
		schedules = 30
	}
	first := uint64(1)
	if *clusterSeed != 0 {
		first, schedules = *clusterSeed, 1
	}
	r, some := newReport(), map[string]int{}
	for seed := first; seed < first+schedules; seed++ {
		s := drawScript(seed, clusterSize(seed, 0))
		v, err := runScript(s, r, some)
		if err != nil {
			t.Fatal(err)
		}
		if v != nil {
			f, err := explainCluster(t.Context(), s, v, 0)
			t.Fatalf("seed %d: %v, %v", seed, f, err)
		}
	}
	t.Logf("%+v, states %v", *r, some)
	if schedules < 200 {
		return
	}
	for _, kind := range Kinds {
		if r.Faults[kind] == 0 && kind != "reorder" {
			t.Errorf("no fault of kind %s", kind)
		}
	}
	for _, state := range []string{"acknowledged", "unknown", "retried", "read", "looked up", "no read", "not-sent", "hint-replayed", "hint-expired",
		"repaired", "exchanged", "wiped", "made whole", "copy broken off", "store failed and was opened again"} {
		if some[state] == 0 {
			t.Errorf("%s was never met", state)
		}
	}
}

// TestClusterRepeats: a seed does the same again. Steps that end a process or break its disk are left out: which writes they meet depends on the engine's own
// goroutines.
func TestClusterRepeats(t *testing.T) {
	timed := []string{"power", "crash", "wipe", "restart", "put-back", "io-error", "disk-full"}
	for seed := uint64(1); seed <= 20; seed++ {
		var did [2]string
		for i := range did {
			r, some := newReport(), map[string]int{}
			s := drawScript(seed, clusterSize(seed, 0)).filter(func(_ int, t *step) bool { return !slices.Contains(timed, t.kind) })
			if v, err := runScript(s, r, some); v != nil || err != nil {
				t.Fatal(v, err)
			}
			r.Faults["compaction"] += r.Faults["rewrite"] // which of them it was, the engine's goroutines decide, too
			delete(r.Faults, "rewrite")
			did[i] = fmt.Sprint(*r, some)
		}
		if did[0] != did[1] {
			t.Errorf("seed %d did\n%s\nand then\n%s", seed, did[0], did[1])
		}
	}
}
