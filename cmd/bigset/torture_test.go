package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"bigset/internal/testkit/tier"
	"bigset/internal/torture"
)

// TestTorture kills, stops, cuts off and wipes nodes of a cluster of real processes while clients are at work.
func TestTorture(t *testing.T) {
	if testing.Short() {
		t.Skip("processes for some seconds")
	}
	t.Parallel()
	dir := t.TempDir()
	r, err := torture.Run(t.Context(), torture.Options{Command: func(args ...string) *exec.Cmd { return command(t, args...) }, Dir: dir,
		Duration: tier.Pick(0, 6*time.Second, time.Minute), Clients: 4, Seed: tier.Random(t).Uint64(), Progress: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	if r.History.OK < 100 || r.History.Items < 50 || r.History.Repeats < 10 || r.History.Named < 100 || len(r.Faults) < 3 {
		t.Errorf("%d operations, %d elements acknowledged, %d changes sent again, %d adds compared, faults %v", r.History.OK, r.History.Items, r.History.Repeats, r.History.Named, r.Faults)
	}
}

// TestTortureFive does the same to five nodes, of which each owns a part of the sets and of the filters' slices.
func TestTortureFive(t *testing.T) {
	if !tier.Full() {
		t.Skip("five processes for a minute")
	}
	r, err := torture.Run(t.Context(), torture.Options{Command: func(args ...string) *exec.Cmd { return command(t, args...) }, Dir: t.TempDir(),
		Nodes: 5, Duration: time.Minute, Seed: tier.Random(t).Uint64(), Progress: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	if r.History.OK < 100 || r.History.Items < 50 || r.History.Settled == 0 || r.History.Named < 100 || r.History.AfterDrop == 0 || len(r.Faults) < 5 {
		t.Errorf("%d operations, %d elements acknowledged, %d changes sent again, which settled %d, %d adds compared, %d answers judged after a drop, faults %v", r.History.OK, r.History.Items,
			r.History.Repeats, r.History.Settled, r.History.Named, r.History.AfterDrop, r.Faults)
	}
	t.Logf("%d operations, %d elements acknowledged, %d changes sent again, which settled %d, faults %v", r.History.OK, r.History.Items, r.History.Repeats, r.History.Settled, r.Faults)
}

// TestFullDisks fills the disks of nodes beside other faults.
func TestFullDisks(t *testing.T) {
	if !tier.Full() {
		t.Skip("mounts a disk in memory for each node")
	}
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("only root on Linux may mount disks")
	}
	r, err := torture.Run(t.Context(), torture.Options{Command: func(args ...string) *exec.Cmd { return command(t, args...) }, Dir: t.TempDir(),
		Faults: []string{"full", "full", "kill", "roll-back", "slow"}, Duration: time.Minute, Clients: 4, Seed: tier.Random(t).Uint64(), Progress: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	if r.History.OK < 100 || r.History.Items < 50 || r.Faults["full"] == 0 {
		t.Errorf("%d operations, %d elements acknowledged, faults %v", r.History.OK, r.History.Items, r.Faults)
	}
	t.Logf("%d operations, %d elements acknowledged, faults %v", r.History.OK, r.History.Items, r.Faults)
}

// TestBornFromOne makes a cluster of a node with a large store and two empty ones.
func TestBornFromOne(t *testing.T) {
	if testing.Short() {
		t.Skip("processes for some seconds")
	}
	t.Parallel()
	for tries := 1; ; tries++ {
		b, err := torture.Birth(t.Context(), torture.Options{Command: func(args ...string) *exec.Cmd { return command(t, args...) }, Dir: t.TempDir(), Progress: t.Logf},
			tier.Pick(0, 20_000, 1_000_000), tier.Pick(0, 2_000, 100_000))
		if err != nil {
			t.Fatal(err)
		}
		if b.Added > 0 {
			break
		} else if tries == 3 { // on a busy machine the client may come too late
			t.Fatal("nothing was added while the cluster was born")
		}
	}
}

// TestLostDisks loses two disks of three at once, and then all, and starts the cluster again by the command for that.
func TestLostDisks(t *testing.T) {
	if !tier.Full() {
		t.Skip("fifteen processes")
	}
	r, err := torture.Restore(t.Context(), torture.Options{Command: func(args ...string) *exec.Cmd { return command(t, args...) }, Dir: t.TempDir(), Seed: 1, Progress: t.Logf}, 100_000, 20_000)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("whole %.1f s after the start with one disk of three, %.1f s with three backups", r.One.Seconds(), r.All.Seconds())
}

// TestRollingVersions rolls three processes from this version to the next one and back, under load.
func TestRollingVersions(t *testing.T) {
	if !tier.Full() {
		t.Skip("builds the program of the next version")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "next")
	if out, err := exec.Command("go", "build", "-tags", "nextversion", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := torture.Run(t.Context(), torture.Options{Command: func(args ...string) *exec.Cmd { return command(t, args...) }, Dir: dir,
		Next: func(args ...string) *exec.Cmd { return exec.Command(program, args...) }, Faults: []string{"roll"}, Duration: time.Second, Clients: 4,
		Seed: tier.Random(t).Uint64(), Progress: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	if r.History.OK < 100 || r.History.Items < 50 || r.Faults["roll"] == 0 {
		t.Errorf("%d operations, %d elements acknowledged, faults %v", r.History.OK, r.History.Items, r.Faults)
	}
	t.Logf("%d operations, %d elements acknowledged, %d rolls", r.History.OK, r.History.Items, r.Faults["roll"])
}
