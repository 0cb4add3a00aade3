package convergence_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
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

// inFile runs a system that fails, and returns the file with its script, which must be readable.
func inFile(t *testing.T, sys convergence.System, o convergence.Options) string {
	t.Helper()
	f := runFake(t, sys, o)
	_, name, _ := strings.Cut(f.fatal, "CONVERGENCE_REPLAY=")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v; it said %s", err, f.fatal)
	}
	if _, err := convergence.ReadScript(strings.NewReader(string(text))); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
	return string(text)
}

// TestFilesHaveStacks: the file of a script has the violation and the stack.
func TestFilesHaveStacks(t *testing.T) {
	t.Setenv("CONVERGENCE_DIR", t.TempDir())
	text := inFile(t, trap("panics", springs), convergence.Options{})
	for _, want := range []string{"!! panicked", "\n# panicked at step", "\n# bigset/convergence_test.springs"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	forever := make(chan int)
	defer close(forever)
	text = inFile(t, trap("hangs", func() { <-forever }), convergence.Options{StepLimit: 10 * time.Millisecond, ShrinkRuns: 1})
	if !strings.Contains(text, "\n# hung at step") || !strings.Contains(text, "chan receive") {
		t.Errorf("got\n%s", text)
	}
}

// TestOpenIsWatched: an Open that does not return, or panics, ends the run with its stack.
func TestOpenIsWatched(t *testing.T) {
	forever := make(chan int)
	defer close(forever)
	for want, open := range map[string]func(){"chan receive": func() { <-forever }, "sprung": springs} {
		_, err := convergence.Explore(t.Context(), convergence.System{Name: "opens", Open: func(convergence.Env) (convergence.Replica, error) {
			open()
			return nil, nil
		}}, convergence.Options{StepLimit: 20 * time.Millisecond})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "convergence_test.TestOpenIsWatched") {
			t.Errorf("want %q, got %v", want, err)
		}
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

// TestKilledHasScript has a replica end another process: by a panic in a goroutine of its own, or as the system kills it. The next
// run writes the script. The replica does so late, in a schedule that follows from what earlier ones met.
func TestKilledHasScript(t *testing.T) {
	ends := map[string]func(){
		"sprung":         func() { go springs() },
		"signal: killed": func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) },
	}
	if how := os.Getenv(killedDir); how != "" {
		opened := 0
		sys := trap("killed", func() {
			if opened > 200 {
				ends[how]()
				time.Sleep(time.Minute)
			}
		})
		open := sys.Open
		sys.Open = func(env convergence.Env) (convergence.Replica, error) { opened++; return open(env) }
		convergence.Run(t, sys, convergence.Options{Seed: 9})
		return
	}
	for how := range ends {
		t.Run(how, func(t *testing.T) { killed(t, how) })
	}
}

func killed(t *testing.T, how string) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledHasScript$")
	cmd.Env = append(os.Environ(), killedDir+"="+how, "CONVERGENCE_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out)+err.Error(), how) {
		t.Fatalf("it did not end as it should: %v\n%s", err, out)
	}
	t.Setenv("CONVERGENCE_DIR", dir)
	f := &fakeT{ctx: t.Context()}
	sys := trap("killed", func() {}) // mended
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
	v, s, err := convergence.Replay(trap("killed", springs), in)
	if err != nil || v == nil || v.Kind != convergence.Panicked {
		t.Errorf("the script shows %v, %v", v, err)
	}
	for n := 50; ; n++ { // it is the schedule that Explore ran
		o := convergence.Options{Seed: 9}
		if same, err := convergence.Generate(sys, convergence.Options{Seed: 9, Shapes: []string{"deltas"}}, n); err != nil || n == 150 {
			t.Fatalf("no schedule has the seed %d, %v", s.Seed, err)
		} else if same.Seed != s.Seed {
			continue
		}
		want, err := convergence.Generate(sys, o, n)
		if err != nil || len(want.Steps) != len(s.Steps) || want.Steps[7].String() != s.Steps[7].String() {
			t.Errorf("schedule %d is, %v,\n%v\nthe file has\n%v", n, err, want, s)
		}
		break
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.running")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
