package convergence_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"bigset/convergence"
	"bigset/convergence/internal/textbook"
	"bigset/internal/testkit/tier"
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
	if !strings.Contains(text, "!! panicked") || !strings.Contains(text, "convergence_test.springs") || strings.Contains(text, "runtime.gopanic") || strings.Contains(text, "convergence.(*world)") || strings.Contains(text, "watched") {
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
	text = inFile(t, trap("hangs", func() { <-forever }), convergence.Options{StepLimit: 100 * time.Millisecond, ShrinkRuns: 1})
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
		}}, convergence.Options{StepLimit: 100 * time.Millisecond})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "convergence_test.TestOpenIsWatched") {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestHangHasScript: a step that does not end is abandoned, with its script and the place where it hangs.
func TestHangHasScript(t *testing.T) {
	t.Parallel()
	forever := make(chan int)
	defer close(forever)
	f := explore(t, trap("hangs", func() { <-forever }), convergence.Options{StepLimit: 100 * time.Millisecond}).Failure
	if f == nil || f.Violation.Kind != convergence.Hung || len(f.Script.Steps) > 3 || !strings.Contains(f.Violation.Stack, "chan receive") || !strings.Contains(f.Script.String(), "!! hung") || !strings.Contains(f.Script.String(), "shows {a[") {
		t.Fatalf("got %v", f)
	}
}

const stoppedChild = "CONVERGENCE_TEST_STOPPED"

// TestStoppedIsNotHung stops a process for longer than the limit, while it works in a call of a replica. No call has hung.
func TestStoppedIsNotHung(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	if os.Getenv(stoppedChild) != "" {
		stopped, called := false, false
		r := explore(t, trap("stopped", func() {
			if called {
				return
			}
			called = true
			fmt.Println("stop here")
			last, since := time.Now(), time.Now()
			for now := last; now.Sub(since) < limit/10 || !stopped && now.Sub(since) < limit/2; last = now { // until it was stopped, and some ticks after that
				time.Sleep(time.Millisecond)
				if now = time.Now(); now.Sub(last) > limit {
					stopped, since = true, now
				}
			}
		}), convergence.Options{Schedules: 20, Workers: 1, StepLimit: limit})
		if r.Failure != nil || !stopped {
			t.Errorf("stopped: %v; %v", stopped, r.Failure)
		}
		return
	}
	for tries := 1; ; tries++ {
		text, err := stoppedFor(t, limit)
		if err == nil {
			break
		} else if tries == 10 { // on a busy machine the stop may come too late, and the call may take long
			t.Fatalf("%v: it printed\n%s", err, text)
		}
	}
}

// stoppedFor runs TestStoppedIsNotHung in another process and stops that for longer than a limit.
func stoppedFor(t *testing.T, limit time.Duration) (printed string, err error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestStoppedIsNotHung$")
	cmd.Env = append(os.Environ(), stoppedChild+"=yes")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for line := ""; line != "stop here\n"; {
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatalf("%v: it printed %q", err, line)
		}
	}
	time.Sleep(limit / 10) // some ticks of the limit have passed
	cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(2 * limit)
	cmd.Process.Signal(syscall.SIGCONT)
	text, _ := io.ReadAll(lines)
	return string(text), cmd.Wait()
}

// TestSlowIsNotHung: a step of many calls may take longer than the limit, a call may not. A replay has the limit of Run.
func TestSlowIsNotHung(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	slow := convergence.System{Name: "slow", Open: func(env convergence.Env) (convergence.Replica, error) {
		r, err := OpenORSet(env)
		return &altered{Replica: r, do: func(*altered, convergence.Op) error { time.Sleep(limit / 150); return nil }}, err
	}}
	forever := make(chan int)
	defer close(forever)
	for _, c := range []struct {
		sys    convergence.System
		script string
		want   string
	}{{slow, "1 fill A 310", ""}, {trap("hangs", func() { <-forever }), "1 do A add a\n2 do A add b", convergence.Hung}} {
		file := filepath.Join(t.TempDir(), "script.txt")
		if err := os.WriteFile(file, []byte("convergence script 1\nsystem "+c.sys.Name+"\nseed 1\nreplicas 1\n"+c.script+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		for tries := 1; ; tries++ {
			f := &fakeT{ctx: t.Context()}
			began := time.Now()
			func() {
				defer func() { recover() }()
				convergence.RunReplay(f, c.sys, convergence.Options{StepLimit: limit}, file)
			}()
			took := time.Since(began)
			if took >= limit && strings.Contains(f.fatal, "hung at step") == (c.want == convergence.Hung) && (c.want == "" || took <= 3*limit) {
				break
			} else if tries == 5 { // on a busy machine a call may take long
				t.Fatalf("%s: %v, it said %s", c.sys.Name, took, f.fatal)
			}
		}
	}
}

// TestCores: the default is one worker for each core, except for systems that must run alone.
func TestCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for _, alone := range []bool{false, true} {
		var running, most atomic.Int64
		sys := convergence.System{Name: "cores", Alone: alone, Open: func(env convergence.Env) (convergence.Replica, error) {
			r, err := OpenORSet(env)
			if env.ID > 0 {
				return r, err
			}
			n := running.Add(1)
			for limit := time.Now().Add(100 * time.Millisecond); n == 1 && running.Load() == 1 && most.Load() < 2 && time.Now().Before(limit); {
				time.Sleep(time.Millisecond)
			}
			most.Store(max(most.Load(), running.Load()))
			return leaver{r, func() { running.Add(-1) }}, err
		}}
		for tries := 1; tries == 1 || !alone && most.Load() == 1 && tries <= 5; tries++ { // on a busy machine the second worker may be late
			explore(t, sys, convergence.Options{Schedules: 20})
		}
		if got := most.Load(); (got == 1) != alone {
			t.Errorf("alone %v: %d at once", alone, got)
		}
	}
}

// TestCloseIsJudged: a replica that panics or fails when it is closed is reported, at the end of a schedule or when it leaves.
func TestCloseIsJudged(t *testing.T) {
	closes := func(close func() error) convergence.System {
		return convergence.System{Name: "closes", Open: func(env convergence.Env) (convergence.Replica, error) {
			r, err := OpenORSet(env)
			return closer{r, close}, err
		}}
	}
	fails := func() error { return errors.New("still busy") }
	for _, c := range []struct {
		close        func() error
		script, kind string
		step         int
	}{
		{fails, "1 do A add a\n2 read A\n", convergence.Failed, 2},
		{func() error { springs(); return nil }, "1 do A add a\n", convergence.Panicked, 1},
		{fails, "1 do A add a\n2 gone A\n3 read B\n", convergence.Failed, 2},
		{func() error { return nil }, "1 do A add a\n2 gone A\n3 read B\n", "", 0},
	} {
		v, script := replay(t, closes(c.close), c.script)
		switch {
		case v == nil || c.kind == "":
			if v != nil || c.kind != "" {
				t.Errorf("want %q, got %v", c.kind, v)
			}
		case v.Kind != c.kind || v.Step != c.step || !strings.Contains(script, "!! "+c.kind):
			t.Errorf("want %s at step %d, got %v\n%s", c.kind, c.step, v, script)
		case c.kind == convergence.Panicked && !strings.Contains(v.Stack, "convergence_test.springs"):
			t.Errorf("stack %s", v.Stack)
		}
	}
	if _, err := convergence.Explore(t.Context(), closes(fails), convergence.Options{}); err == nil || !strings.Contains(err.Error(), "does not close: still busy") {
		t.Errorf("got %v", err)
	}
}

type closer struct {
	convergence.Replica
	close func() error
}

func (s closer) Close() error { return s.close() }

// TestWorkers finds the same with one worker and with three, and does the same.
func TestWorkers(t *testing.T) {
	for _, sys := range []convergence.System{textbook.Correct()[0], textbook.Bugs()[7].Broken, textbook.Bugs()[23].Broken} {
		var first *convergence.Report
		for _, workers := range []int{1, 3} {
			r := explore(t, sys, convergence.Options{Seed: 5, Schedules: tier.Pick(60, 200, 200), Workers: workers})
			if first == nil {
				first = r
			} else if !reflect.DeepEqual(first.Stats, r.Stats) || !reflect.DeepEqual(first.Failure, r.Failure) {
				t.Errorf("%s: one worker and three differ:\n%+v\n%v\n%+v\n%v", sys.Name, first.Stats, first.Failure, r.Stats, r.Failure)
			}
		}
	}
}

const killedDir = "CONVERGENCE_TEST_KILLED"

// TestKilledHasScript lets a replica end another process: by a panic in a goroutine of its own, or by a signal. The next run writes
// the script. The replica does so late, in a schedule that depends on what earlier ones reached.
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
		sys.Alone = true
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
	run := func() string {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledHasScript$")
		cmd.Env = append(os.Environ(), killedDir+"="+how, "CONVERGENCE_DIR="+dir)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out)+err.Error(), how) {
			t.Fatalf("it did not end as it should: %v\n%s", err, out)
		}
		return string(out)
	}
	run()
	// A second process that ends in the same way first reports what ended the first one, even without -v.
	said := run()
	again, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(again) != 1 || !strings.Contains(said, "CONVERGENCE_REPLAY="+again[0]) {
		t.Fatalf("scripts %v, %v; it said\n%s", again, err, said)
	}
	os.Remove(again[0])
	t.Setenv("CONVERGENCE_DIR", dir)
	f := &fakeT{ctx: t.Context()}
	sys := trap("killed", func() {}) // repaired
	sys.Alone = true                 // as it was: with one worker it is the last schedule that ended the process
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
