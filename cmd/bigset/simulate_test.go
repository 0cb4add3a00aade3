package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"bigset/convergence"
	"bigset/internal/sim"
)

// TestSimulateJSON: the report has these fields and no others, and a count of every fault and mechanism.
func TestSimulateJSON(t *testing.T) {
	r := call(t, "", "simulate", "--schedules", "110", "--seed", "5", "--json")
	var got struct {
		Seed, Schedules, Operations, Steps, Skipped, Checks, Violations *int
		Seconds                                                         float64
		Kinds                                                           map[string]sim.Part
		Shapes, Faults, Mechanisms                                      map[string]int
		Never                                                           []string
		Below                                                           []sim.Shortage
	}
	d := json.NewDecoder(strings.NewReader(r.out))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil || r.code != exitOK {
		t.Fatalf("status %d, %v: %s", r.code, err, r.out)
	}
	for i, n := range []*int{got.Seed, got.Schedules, got.Operations, got.Steps, got.Skipped, got.Checks} {
		if n == nil || *n == 0 {
			t.Fatalf("number %d is missing: %s", i, r.out)
		}
	}
	if *got.Seed != 5 || *got.Schedules != 110 || *got.Violations != 0 || got.Seconds == 0 || len(got.Shapes) < 5 {
		t.Errorf("%s", r.out)
	}
	for kind, n := range map[string]int{"rules": 100, "engines": 5, "clusters": 3, "members": 2} {
		if got.Kinds[kind].Schedules != n || got.Kinds[kind].Seconds == 0 {
			t.Errorf("%s: %+v, want %d", kind, got.Kinds[kind], n)
		}
	}
	never := 0
	for _, of := range []map[string]int{got.Faults, got.Mechanisms} {
		for name, n := range of {
			known, expected := sim.Sight(name)
			if !known {
				t.Errorf("%s has no name", name)
			}
			if !expected { // few runs meet it, and it is not missed
				continue
			}
			if n > 0 == slices.Contains(got.Never, name) {
				t.Errorf("%s was met %d times; never met: %v", name, n, got.Never)
			}
			if n == 0 {
				never++
			}
		}
	}
	if len(got.Faults) < 20 || len(got.Mechanisms) < 40 || never != len(got.Never) {
		t.Errorf("%s", r.out)
	}
}

// TestSimulateText: the text has every fault and mechanism that was met, what was never met, and what is below its floor.
func TestSimulateText(t *testing.T) {
	kinds := map[string]*sim.Part{}
	for i, k := range sim.Kinds {
		kinds[k] = &sim.Part{Schedules: 1000 + i, Seconds: 2.26}
	}
	text := simulationText(&sim.Report{Seed: 7, Seconds: 9.04, Schedules: 4006, Kinds: kinds, Shapes: map[string]int{"mixed": 3}, Operations: 5, Steps: 1200, Skipped: 30,
		Checks: 1, Faults: map[string]int{"loss": 12345, "skew": 0}, Mechanisms: map[string]int{"hedge": 2, "copy": 3}, Never: []string{"skew", "rewrite"},
		Below: []sim.Shortage{{Name: "hedge", Count: 2, Floor: 40}}})
	want := `4,006 schedules in 9.0 s, seed 7: 1,000 over the rules in 2.3 s, 1,001 over engines in 2.3 s, 1,002 of clusters in 2.3 s, 1,003 of members in 2.3 s
5 operations, 1 state checked, 30 of 1,200 steps skipped
faults: loss 12,345
mechanisms: copy 3, hedge 2
shapes: mixed 3
never met: skew, rewrite
below their floors: hedge 2 of 40
0 violations
`
	if text != want {
		t.Errorf("%s", text)
	}
}

// TestSimulateViolated: a violation is in a file that can be replayed, and the status is 1.
func TestSimulateViolated(t *testing.T) {
	t.Chdir(t.TempDir())
	for seed, script := range []string{
		"convergence script 1\nsystem rules\nseed 0\nreplicas 3\n1 do A add x\n",
		"cluster script 1\nseed 1\nreplicas 3\n1 client0 write via=0 w=2 dw=2 id=0 add=x\n",
	} {
		var out, errs bytes.Buffer
		a := newApp(nil, &out, &errs)
		code := a.report(a.simulated(&sim.Report{Violations: 1, Kinds: map[string]*sim.Part{"rules": {}, "engines": {}, "clusters": {}, "members": {}}, Failure: &sim.Failure{
			Violation: &convergence.Violation{Kind: convergence.Lost}, Seed: uint64(seed), Script: script,
		}}))
		file := fmt.Sprintf("bigset-violation-%d.txt", seed)
		if code != exitAbsent || !strings.Contains(errs.String(), "--replay "+file) {
			t.Errorf("status %d, %q", code, errs.String())
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		if r := call(t, "", "simulate", "--replay", file); r.code != exitOK || r.out != "nothing is violated in 10 runs\n" {
			t.Errorf("%+v", r)
		}
	}
	for _, args := range [][]string{{"--replay", "none.txt"}, {"--replicas", "9"}, {"--seconds", "-1"}} {
		if r := call(t, "", append([]string{"simulate"}, args...)...); r.code != exitError {
			t.Errorf("%v: status %d", args, r.code)
		}
	}
}
