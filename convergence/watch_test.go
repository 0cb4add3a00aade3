package convergence_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"bigset/convergence"
	"bigset/convergence/internal/textbook"
)

// trap is a set whose second add does something bad.
func trap(name string, spring func()) convergence.System {
	sys := alter(altered{do: func(s *altered, op convergence.Op) error {
		if s.adds == 2 && op.Kind == "add" {
			spring()
		}
		return nil
	}})
	sys.Name = name
	return sys
}

func springs() { panic("sprung") }

// TestPanicHasStack: a panic is shrunk, its step is marked, and the stack shows the replica's function and not the kit's.
func TestPanicHasStack(t *testing.T) {
	f := explore(t, trap("panics", springs), convergence.Options{}).Failure
	if f == nil || f.Violation.Kind != convergence.Panicked || len(f.Script.Steps) != 2 {
		t.Fatalf("got %v", f)
	}
	text := f.String()
	if !strings.Contains(text, "!! panicked") || !strings.Contains(text, "convergence_test.springs") || strings.Contains(text, "runtime.gopanic") || strings.Contains(text, "watched") {
		t.Errorf("got %s", text)
	}
}

// TestHangHasScript: a step that does not end is given up, with its script and where it hangs.
func TestHangHasScript(t *testing.T) {
	t.Parallel()
	forever := make(chan int)
	defer close(forever)
	f := explore(t, trap("hangs", func() { <-forever }), convergence.Options{StepLimit: 50 * time.Millisecond}).Failure
	if f == nil || f.Violation.Kind != convergence.Hung || len(f.Script.Steps) > 3 || !strings.Contains(f.Violation.Stack, "chan receive") {
		t.Fatalf("got %v", f)
	}
}

// TestWorkers finds the same with one worker and with three, and does the same.
func TestWorkers(t *testing.T) {
	for _, sys := range []convergence.System{textbook.Correct()[0], textbook.Bugs()[7].Broken, textbook.Bugs()[23].Broken} {
		var first *convergence.Report
		for _, workers := range []int{1, 3} {
			r := explore(t, sys, convergence.Options{Seed: 5, Schedules: 200, Workers: workers})
			if first == nil {
				first = r
			} else if !reflect.DeepEqual(first.Stats, r.Stats) || !reflect.DeepEqual(first.Failure, r.Failure) {
				t.Errorf("%s: one worker and three differ:\n%+v\n%v\n%+v\n%v", sys.Name, first.Stats, first.Failure, r.Stats, r.Failure)
			}
		}
	}
}

const killedDir = "CONVERGENCE_TEST_KILLED"

// TestKilledHasScript has a replica panic in a goroutine of its own, in another process. The next run writes the script.
func TestKilledHasScript(t *testing.T) {
	sys := trap("killed", func() {
		go springs()
		time.Sleep(time.Minute)
	})
	if os.Getenv(killedDir) != "" {
		convergence.Run(t, sys, convergence.Options{Seed: 9})
		return
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledHasScript$")
	cmd.Env = append(os.Environ(), killedDir+"=1", "CONVERGENCE_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "sprung") {
		t.Fatalf("it did not end by a panic: %v\n%s", err, out)
	}
	t.Setenv("CONVERGENCE_DIR", dir)
	f := &fakeT{ctx: t.Context()}
	sys = trap("killed", func() {}) // mended
	convergence.Run(f, sys, convergence.Options{Seed: 9, Schedules: 1})
	scripts, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(scripts) != 1 || !strings.Contains(f.log, "CONVERGENCE_REPLAY="+scripts[0]) {
		t.Fatalf("scripts %v, %v; it said %s", scripts, err, f.log)
	}
	in, err := os.Open(scripts[0])
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	v, _, err := convergence.Replay(trap("killed", springs), in)
	if err != nil || v == nil || v.Kind != convergence.Panicked {
		t.Errorf("the script shows %v, %v", v, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.running")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
