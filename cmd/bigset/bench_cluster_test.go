package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"bigset/bench"
	"bigset/internal/testkit/tier"
)

// TestBenchCluster runs what bench cluster measures, tiny: every goal must have a figure, and no process may be left. Parts that hurt nodes, whose clients wait for what
// other programs leave them of the machine, run in the full tier.
func TestBenchCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("processes for some seconds")
	}
	t.Parallel()
	var started []*exec.Cmd
	var parts []string
	last := "kill/replay"
	if !tier.Full() { // parts that take a second or two, by turns
		parts, last = []string{"filters"}, "bloomd/bulk"
		if tier.Turn(t)%2 == 0 {
			parts, last = []string{"transport", "add"}, "add/64-program"
		}
	}
	var r *bench.ClusterReport
	for _, span := range []time.Duration{0, 2 * time.Second} { // on a busy machine nothing may be done in the short one
		var err error
		if r, err = bench.RunCluster(t.Context(), bench.ClusterConfig{Short: true, Parts: parts, Span: span, Dir: t.TempDir(), Command: func(args ...string) *exec.Cmd {
			started = append(started, command(t, args...))
			return started[len(started)-1]
		}}); err != nil {
			t.Fatal(err)
		}
		var table bytes.Buffer
		if err := r.WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		if text := table.String(); !strings.Contains(text, "not measured") && !strings.Contains(text, "no figure") {
			break
		} else if span > 0 {
			t.Fatalf("something was not measured:\n%s", text)
		}
	}
	for _, c := range started {
		if c.ProcessState == nil {
			t.Errorf("process %d was not waited for", c.Process.Pid)
		}
	}
	var object, page bytes.Buffer
	for _, row := range r.Results {
		if tier.Full() && row.Errors != nil && *row.Errors > 0 {
			t.Errorf("%s on %s: %d errors", row.Workload, row.System, *row.Errors)
		}
	}
	if err := r.WriteJSON(&object); err != nil || !bytes.Contains(object.Bytes(), []byte(`"workload": "`+last)) {
		t.Errorf("JSON: %v\n%s", err, object.String())
	}
	if err := r.WritePage(&page); err != nil || !strings.Contains(page.String(), last) || tier.Full() && !strings.Contains(page.String(), "node c is killed") {
		t.Errorf("page of %d bytes: %v", page.Len(), err)
	}
}
