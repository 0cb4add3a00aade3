package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"bigset/internal/testkit/tier"
)

var memberSeed = flag.Uint64("sim.members", 0, "run this schedule of a cluster of members alone")

// TestMembers: nothing is violated in clusters whose members agree on epochs, and the interesting states were reached.
func TestMembers(t *testing.T) {
	t.Parallel()
	const all = 1200
	schedules := tier.Pick[uint64](20, 100, all)
	first := 1 + uint64(tier.Turn(t))*schedules%all // others at each turn: twelve consecutive pushes run all
	if *memberSeed != 0 {
		first, schedules = *memberSeed, 1
	}
	r := newReport()
	for seed := first; seed < first+schedules; seed++ {
		s := drawMembers(seed)
		v, err := runScript(s, r)
		if err != nil {
			t.Fatal(err)
		}
		if v != nil && *memberSeed == 0 {
			t.Fatalf("seed %d, which -sim.members=%d shrinks: %v\n%s", seed, seed, v, s)
		}
		if v != nil {
			f, err := explainCluster(t.Context(), s, v, 0)
			t.Fatalf("seed %d: %v, %v", seed, f, err)
		}
	}
	tier.Count(t, "schedules-of-members", int(schedules))
	r.ran(kindMembers, r.Schedules, 0)
	r.met(t)
}

// stories are schedules for single rules, with members x, b and c.
var stories = map[string]string{
	// x writes, and b gets it late. c, which has it, loses its disk and is filled from b: b must no longer accept it once c has its
	// copy.
	"late": `1 nemesis delay via=$x at=b seconds=6
2 nemesis write apart=1 via=$x w=3 dw=3 id=0 add=a
3 nemesis wipe wait=300 at=c seconds=0
4 nemesis read wait=6500 via=$c r=1 batch=1
5 nemesis read wait=1000 via=$c r=1 batch=1
`,
	// The same, but b has agreed to the new epoch and does not hear that it is committed.
	"deaf": `1 nemesis deaf at=b seconds=9
2 nemesis delay via=$x at=b seconds=6
3 nemesis write apart=1 via=$x w=3 dw=3 id=0 add=a
4 nemesis wipe wait=300 at=c seconds=0
5 nemesis read wait=6500 via=$c r=1 batch=1
6 nemesis read wait=1000 via=$c r=1 batch=1
`,
	// b has missed a write, and refuses the hint because x does not hear of the epoch.
	"hint": `1 nemesis deaf at=x seconds=9
2 nemesis refuse via=$x at=b
3 nemesis refuse via=$x at=b
4 nemesis refuse via=$x at=b
5 nemesis write apart=1 via=$x w=2 dw=2 id=0 add=a
6 nemesis wipe wait=300 at=c seconds=0
`,
}

// TestStories: each story ends well, whichever member plays which part.
func TestStories(t *testing.T) {
	t.Parallel()
	share := tier.ShareOf(t, 2, 2)
	for name, text := range stories {
		for _, w := range []int{2, 3} {
			for seed := range tier.Pick[uint64](2, 2, 10) {
				if !share.Has(int(seed)) {
					continue
				}
				for _, p := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
					var names []string
					for i, who := range []string{"x", "b", "c"} {
						names = append(names, "=$"+who, fmt.Sprint("=", coordinators+p[i]), "="+who, fmt.Sprint("=", p[i]))
					}
					steps := strings.NewReplacer(names...).Replace(text)
					s, err := readScript(strings.NewReader(fmt.Sprintf("%s\nseed %d\nreplicas 3\nmembers 3 %d\n%s", scriptHead, seed, w, steps)))
					if err != nil {
						t.Fatal(err)
					}
					if v, err := runAlone(s); v != nil || err != nil {
						t.Errorf("%s: %v, %v\n%s", name, v, err, s)
					}
				}
			}
		}
	}
}
