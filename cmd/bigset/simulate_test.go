package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"bigset/convergence"
	"bigset/internal/sim"
)

// TestSimulateJSON: the report has every kind of fault.
func TestSimulateJSON(t *testing.T) {
	r := call(t, "", "simulate", "--schedules", "22", "--json")
	var got sim.Report
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != exitOK {
		t.Fatalf("status %d, %v: %s", r.code, err, r.out)
	}
	if got.Schedules != 22 || got.Operations == 0 || got.Checks == 0 || got.Violations != 0 || len(got.Faults) != len(sim.Kinds) {
		t.Errorf("%+v", got)
	}
}

// TestSimulateViolated: a violation is in a file that can be replayed, and the status is 1.
func TestSimulateViolated(t *testing.T) {
	t.Chdir(t.TempDir())
	script, err := convergence.ReadScript(strings.NewReader("convergence script 1\nsystem rules\nseed 5\nreplicas 3\n1 do A add x\n"))
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	a := newApp(nil, &out, &errs)
	code := a.report(a.simulated(&sim.Report{Violations: 1, Failure: &convergence.Failure{
		Violation: &convergence.Violation{Kind: convergence.Lost}, Script: script,
	}}))
	if code != exitAbsent || !strings.Contains(errs.String(), "--replay bigset-violation-5.txt") {
		t.Errorf("status %d, %q", code, errs.String())
	}
	if _, err := os.Stat("bigset-violation-5.txt"); err != nil {
		t.Error(err)
	}
	if r := call(t, "", "simulate", "--replay", "bigset-violation-5.txt"); r.code != exitOK || r.out != "nothing is violated\n" {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{"--replay", "none.txt"}, {"--replicas", "9"}, {"--seconds", "-1"}} {
		if r := call(t, "", append([]string{"simulate"}, args...)...); r.code != exitError {
			t.Errorf("%v: status %d", args, r.code)
		}
	}
}
