package probe

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func TestTableFiles(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"1.sst": 10, "span.tmp": 5, "2.log": 100} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "span.tmp"), filepath.Join(dir, "3.sst")); err != nil {
		t.Skip(err)
	}
	if got := TableFiles(dir); got != 15 {
		t.Errorf("got %d bytes, want 15: a file with two names counts once", got)
	}
}

// TestProcessCPU checks that work of some milliseconds shows in the CPU time of this process, and that of no process is an error.
func TestProcessCPU(t *testing.T) {
	before, err := ProcessCPU(os.Getpid())
	if err != nil {
		if runtime.GOOS == "linux" {
			t.Fatal(err)
		}
		return
	}
	took, began := time.Duration(0), time.Now()
	for took < time.Millisecond && err == nil && time.Since(began) < time.Minute { // on a busy machine it is not this process that works
		for turn := time.Now(); time.Since(turn) < 5*time.Millisecond; {
		}
		var after time.Duration
		after, err = ProcessCPU(os.Getpid())
		took = after - before
	}
	if err != nil || took < time.Millisecond || took > time.Minute {
		t.Errorf("%v of CPU, %v", took, err)
	}
	if _, err := ProcessCPU(1 << 22); err == nil { // above all numbers of processes
		t.Error("the CPU time of no process is known")
	}
}
