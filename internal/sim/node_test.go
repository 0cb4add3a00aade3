package sim

import (
	"flag"
	"testing"

	"bigset/internal/testkit/tier"
)

var memberSeed = flag.Uint64("sim.members", 0, "run this schedule of a cluster of members alone")

// TestMembers: nothing is violated in clusters whose members agree on epochs, and the interesting states were met.
func TestMembers(t *testing.T) {
	t.Parallel()
	schedules := tier.Pick[uint64](20, 100, 1200)
	first := uint64(1)
	if *memberSeed != 0 {
		first, schedules = *memberSeed, 1
	}
	r, some := newReport(), map[string]int{}
	for seed := first; seed < first+schedules; seed++ {
		s := drawMembers(seed)
		v, err := runScript(s, r, some)
		if err != nil {
			t.Fatal(err)
		}
		if v != nil && *memberSeed == 0 {
			t.Fatalf("seed %d, which -sim.members=%d shrinks: %v\n%s", seed, seed, v, s)
		}
		if v != nil {
			f, err := explainCluster(t.Context(), s, v)
			t.Fatalf("seed %d: %v, %v", seed, f, err)
		}
	}
	t.Logf("%+v, states %v", *r, some)
	tier.Count(t, "schedules-of-members", int(schedules))
	if schedules < 100 {
		return
	}
	for _, kind := range []string{"loss", "duplicate", "delay", "partition", "crash", "crash-unsynced"} {
		if r.Faults[kind] == 0 {
			t.Errorf("no fault of kind %s", kind)
		}
	}
	for _, state := range []string{"acknowledged", "unknown", "retried", "read", "looked up", "wiped", "made whole", "another epoch", "another incarnation",
		"cluster: this member could not be filled, it is tried again"} {
		if some[state] == 0 {
			t.Errorf("%s was never met", state)
		}
	}
}
