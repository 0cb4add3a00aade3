package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"bigset/bench"
)

// TestBenchCluster runs everything that bench cluster measures, tiny: every goal must have a figure, and no process may be left.
func TestBenchCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("processes for some seconds")
	}
	t.Parallel()
	var started []*exec.Cmd
	r, err := bench.RunCluster(t.Context(), bench.ClusterConfig{Short: true, Dir: t.TempDir(), Command: func(args ...string) *exec.Cmd {
		started = append(started, command(t, args...))
		return started[len(started)-1]
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range started {
		if c.ProcessState == nil {
			t.Errorf("process %d was not waited for", c.Process.Pid)
		}
	}
	var table, object bytes.Buffer
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if text := table.String(); strings.Contains(text, "not measured") || strings.Contains(text, "no figure") || strings.Contains(text, "not served") {
		t.Errorf("something was not measured:\n%s", text)
	}
	for _, row := range r.Results {
		if row.Errors != nil && *row.Errors > 0 {
			t.Errorf("%s on %s: %d errors", row.Workload, row.System, *row.Errors)
		}
	}
	if err := r.WriteJSON(&object); err != nil || !bytes.Contains(object.Bytes(), []byte(`"workload": "kill/replay"`)) {
		t.Errorf("JSON: %v\n%s", err, object.String())
	}
}
