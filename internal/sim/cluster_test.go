package sim

import (
	"flag"
	"fmt"
	"testing"
)

var clusterSeed = flag.Uint64("sim.cluster", 0, "run this schedule of a cluster alone")

// TestClusters: nothing is violated, and the interesting states were met.
func TestClusters(t *testing.T) {
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
		v, err := runCluster(seed, clusterSize(seed, 0), r, some)
		if err != nil {
			t.Fatal(err)
		}
		if v != nil {
			t.Fatalf("seed %d: %v", seed, v)
		}
	}
	t.Logf("%+v, states %v", *r, some)
	if schedules < 200 {
		return
	}
	for _, kind := range []string{"loss", "duplicate", "delay", "partition", "crash", "crash-unsynced", "compaction", "stream-failover"} {
		if r.Faults[kind] == 0 {
			t.Errorf("no fault of kind %s", kind)
		}
	}
	for _, state := range []string{"acknowledged", "unknown", "retried", "read", "looked up", "no read", "not-sent", "hint-replayed", "repaired", "exchanged"} {
		if some[state] == 0 {
			t.Errorf("%s was never met", state)
		}
	}
}

// TestClusterRepeats: a seed does the same again, mostly. What a power cut leaves depends on goroutines of the engine.
func TestClusterRepeats(t *testing.T) {
	const seeds = 20
	same := 0
	for seed := uint64(1); seed <= seeds; seed++ {
		var did [2]string
		for i := range did {
			r, some := newReport(), map[string]int{}
			if v, err := runCluster(seed, clusterSize(seed, 0), r, some); v != nil || err != nil {
				t.Fatal(v, err)
			}
			did[i] = fmt.Sprint(*r, some)
		}
		if did[0] == did[1] {
			same++
		}
	}
	if same < seeds/2 {
		t.Errorf("%d of %d schedules repeat", same, seeds)
	}
}
