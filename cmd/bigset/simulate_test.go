package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"bigset/convergence"
	"bigset/internal/sim"
)

// TestSimulateJSON: the report has these fields and no others, and every kind of fault.
func TestSimulateJSON(t *testing.T) {
	r := call(t, "", "simulate", "--schedules", "440", "--json")
	var got struct {
		Schedules, Operations, Checks, Violations *int
		Engines                                   int `json:"schedules_of_engines"`
		Clusters                                  int `json:"schedules_of_clusters"`
		Faults                                    map[string]int
	}
	d := json.NewDecoder(strings.NewReader(r.out))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil || r.code != exitOK || got.Schedules == nil || got.Operations == nil || got.Checks == nil || got.Violations == nil {
		t.Fatalf("status %d, %v: %s", r.code, err, r.out)
	}
	if *got.Schedules != 440 || *got.Operations == 0 || *got.Checks == 0 || *got.Violations != 0 || got.Engines != 10 || got.Clusters != 4 {
		t.Errorf("%s", r.out)
	}
	kinds := []string{"loss", "duplicate", "delay", "reorder", "partition", "crash", "crash-unsynced", "io-error", "disk-full", "copy", "copy-crash",
		"compaction", "rewrite", "stream-failover", "skew"}
	for _, k := range kinds {
		if _, has := got.Faults[k]; !has {
			t.Errorf("no count of %s", k)
		}
	}
	if len(got.Faults) != len(kinds) || got.Faults["loss"] == 0 || got.Faults["copy"] == 0 {
		t.Errorf("faults %v", got.Faults)
	}
}

// TestSimulateProgress: the live count tells of schedules, operations, states and each kind of fault.
func TestSimulateProgress(t *testing.T) {
	faults := map[string]int{}
	for i, k := range sim.Kinds {
		faults[k] = 100 + i
	}
	text := faultCounts(&sim.Report{Faults: faults})
	for i, k := range sim.Kinds {
		if !strings.Contains(text, fmt.Sprintf("%s %d", k, 100+i)) {
			t.Errorf("%s is not in %q", k, text)
		}
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
		code := a.report(a.simulated(&sim.Report{Violations: 1, Failure: &sim.Failure{
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
