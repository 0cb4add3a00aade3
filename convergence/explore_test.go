package convergence_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"bigset/convergence"
	"bigset/convergence/internal/textbook"
	"bigset/internal/testkit/tier"
)

// altered is an ORSet whose answers a test changes.
type altered struct {
	convergence.Replica
	adds int
	read func(s *altered, v convergence.View) (convergence.View, error)
	do   func(s *altered, op convergence.Op) error
}

func (s *altered) Do(op convergence.Op) (convergence.Effect, error) {
	if op.Kind == "add" {
		s.adds++
	}
	if s.do != nil {
		if err := s.do(s, op); err != nil {
			return convergence.Effect{}, err
		}
	}
	return s.Replica.Do(op)
}

func (s *altered) Read() (convergence.View, error) {
	v, err := s.Replica.Read()
	if err == nil && s.read != nil {
		return s.read(s, v)
	}
	return v, err
}

func alter(a altered) convergence.System {
	return convergence.System{Name: "altered", Open: func(env convergence.Env) (convergence.Replica, error) {
		r, err := OpenORSet(env)
		s := a
		s.Replica = r
		return &s, err
	}}
}

func explore(t *testing.T, sys convergence.System, o convergence.Options) *convergence.Report {
	t.Helper()
	r, err := convergence.Explore(t.Context(), sys, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestShrinkKeepsTheKind has a replica that fails in two ways: it shows a phantom after its third add, and panics at a remove after
// its first. A shorter version of a schedule with a phantom may well panic, and must not count.
func TestShrinkKeepsTheKind(t *testing.T) {
	sys := alter(altered{
		read: func(s *altered, v convergence.View) (convergence.View, error) {
			if s.adds >= 3 {
				v.Items = append(v.Items, convergence.Item{Elem: "zebra"})
			}
			return v, nil
		},
		do: func(s *altered, op convergence.Op) error {
			if s.adds == 1 && op.Kind == "remove" {
				panic("an add and a remove")
			}
			return nil
		},
	})
	want, found := map[string]int{convergence.Phantom: 3, convergence.Panicked: 2}, map[string]int{}
	for seed := range tier.Pick[uint64](20, 20, 60) {
		raw := explore(t, sys, convergence.Options{Seed: seed, ShrinkRuns: 1, Shapes: []string{"mixed-all"}}).Failure
		f := explore(t, sys, convergence.Options{Seed: seed, Shapes: []string{"mixed-all"}}).Failure
		if raw == nil || f == nil {
			t.Fatal("not found")
		}
		kind := raw.Violation.Kind
		found[kind]++
		if n := len(f.Script.Steps); f.Violation.Kind != kind || n != want[kind] || f.Script.Replicas != 1 || !f.Shrunk {
			t.Errorf("seed %d: %s was shrunk to %d steps of %d replicas:\n%v", seed, kind, n, f.Script.Replicas, f)
		}
		v, _, err := convergence.Replay(sys, strings.NewReader(f.Script.String()))
		if err != nil || v == nil || v.Kind != kind {
			t.Errorf("seed %d: the replay shows %v, %v", seed, v, err)
		}
	}
	if len(found) != 2 {
		t.Errorf("found %v, want phantoms and panics", found)
	}
}

// TestFlaky has replicas that do not replay: every seventh hides what was added.
func TestFlaky(t *testing.T) {
	opened := 0
	sys := convergence.System{Name: "flaky", Alone: true, Open: func(env convergence.Env) (convergence.Replica, error) {
		opened++
		wrong := opened%7 == 0
		r, err := OpenORSet(env)
		return &altered{Replica: r, read: func(s *altered, v convergence.View) (convergence.View, error) {
			if wrong && s.adds > 0 {
				v.Items = nil
			}
			return v, nil
		}}, err
	}}
	f := explore(t, sys, convergence.Options{Replicas: 2, Replays: 20}).Failure
	if f == nil || f.Runs != 20 || f.Failed == 0 || f.Failed == 20 {
		t.Fatalf("got %+v", f)
	}
	if want := fmt.Sprintf("failed in %d of 20 more runs", f.Failed); !strings.Contains(f.String(), want) {
		t.Errorf("want %q in %s", want, f)
	}
	if len(f.Script.Steps) > 3 {
		t.Errorf("shrunk to %d steps", len(f.Script.Steps))
	}
}

// TestErrorsAreUnknown has a replica that answers some adds by an error, and does not do them: both outcomes are allowed.
func TestErrorsAreUnknown(t *testing.T) {
	sys := alter(altered{do: func(s *altered, op convergence.Op) error {
		if s.adds%3 == 0 && op.Kind == "add" {
			return errors.New("no answer")
		}
		return nil
	}})
	r := explore(t, sys, convergence.Options{Schedules: tier.Pick(200, 200, 5000)})
	if r.Failure != nil || r.Errors == 0 {
		t.Fatalf("%d errors, %v", r.Errors, r.Failure)
	}
}

// TestDisorder shows an element twice.
func TestDisorder(t *testing.T) {
	sys := alter(altered{read: func(s *altered, v convergence.View) (convergence.View, error) {
		if len(v.Items) > 1 {
			v.Items[0], v.Items[1] = v.Items[1], v.Items[0]
		}
		return v, nil
	}})
	if f := explore(t, sys, convergence.Options{}).Failure; f == nil || f.Violation.Kind != convergence.Disorder {
		t.Fatalf("got %v", f)
	}
}

// TestDisorderOfValues shows the values of a register backwards.
func TestDisorderOfValues(t *testing.T) {
	sys := correct(t, "mv-register")
	open := sys.Open
	sys.Open = func(env convergence.Env) (convergence.Replica, error) {
		r, err := open(env)
		return &altered{Replica: r, read: func(_ *altered, v convergence.View) (convergence.View, error) {
			for i := range v.Items {
				slices.Reverse(v.Items[i].Values)
			}
			return v, nil
		}}, err
	}
	if f := explore(t, sys, convergence.Options{}).Failure; f == nil || f.Violation.Kind != convergence.Disorder || f.Rests == "" {
		t.Fatalf("got %v", f)
	}
}

// TestZeroCounters: a counter that is 0 is equal to one that is not shown, and no other is.
func TestZeroCounters(t *testing.T) {
	script := "1 do A inc a value=7\n2 do A dec a value=7\n3 do A inc b value=2\n4 maintain A 0\n5 exchange messages\n"
	if v, s := replay(t, correct(t, "pn-counter-sparse"), script); v != nil || !strings.Contains(s, "B shows {a=0 b=2}") || !strings.Contains(s, "A shows {b=2}") {
		t.Errorf("got %v\n%s", v, s)
	}
	// One that a refused operation named is shown as 0, and as nothing else.
	for shown, want := range map[string]string{"0": "", "1": convergence.Phantom} {
		sys := convergence.System{Name: "constant", Spec: convergence.Counter{}, Open: func(convergence.Env) (convergence.Replica, error) { return constant(shown), nil }}
		if v, s := replay(t, sys, "1 read A\n"); (v == nil) != (want == "") || v != nil && v.Kind != want {
			t.Errorf("got %v\n%s", v, s)
		}
	}
	same := convergence.Counter{}.Same
	view := func(elem, value string) convergence.View {
		return convergence.View{Items: []convergence.Item{{Elem: elem, Values: []string{value}}}}
	}
	if same(view("a", "1"), view("a", "2")) || same(view("a", "1"), view("b", "1")) || same(view("a", "1"), convergence.View{}) || !same(view("a", "0"), view("b", "-0")) {
		t.Error("counters are not compared as numbers")
	}
	if (convergence.Register{}).Same(view("a", "1"), convergence.View{}) || !(convergence.Register{}).Same(convergence.View{Items: []convergence.Item{{Elem: "a"}}}, convergence.View{}) {
		t.Error("a register without values is not one that is not shown")
	}
}

// correct returns a textbook type by its name.
func correct(t *testing.T, name string) convergence.System {
	t.Helper()
	for _, sys := range textbook.Correct() {
		if sys.Name == name {
			return sys
		}
	}
	t.Fatalf("there is no %s", name)
	return convergence.System{}
}

// TestNever: what a kind of system can't reach is not reported as missing.
func TestNever(t *testing.T) {
	for _, name := range []string{"pn-counter", "or-set-gossip", "or-set-causal-net"} {
		if r := explore(t, correct(t, name), convergence.Options{Schedules: 200}); len(r.Never()) > 0 {
			t.Errorf("%s: %v", name, r.Never())
		}
	}
	r := explore(t, correct(t, "or-set-log-gossip"), convergence.Options{Schedules: 1})
	if !slices.Contains(r.Never(), "loss-for-good") {
		t.Errorf("that nothing was lost for good is not said: %v", r.Never())
	}
	// A copy of one step can't be cut.
	short := convergence.System{Name: "short", Open: func(env convergence.Env) (convergence.Replica, error) {
		r, err := OpenORSet(env)
		return &atOnce{ORSet: r.(*ORSet)}, err
	}}
	if r := explore(t, short, convergence.Options{Schedules: 100}); r.Failure != nil || len(r.Never()) > 0 || r.Sometimes["copy done"] == 0 {
		t.Errorf("a copy of one step: %v, %v", r.Never(), r.Failure)
	}
}

// atOnce is a set that copies everything in one step.
type atOnce struct {
	*ORSet
	from *ORSet
}

func (s *atOnce) CopyFrom(src convergence.Replica) (convergence.Copy, bool, error) {
	s.from = src.(*atOnce).ORSet
	return s, false, nil
}

func (s *atOnce) Step() (done bool, err error) {
	maps.Copy(s.adds, s.from.adds)
	maps.Copy(s.removed, s.from.removed)
	return true, nil
}

func (s *atOnce) Cut() error { return nil }

// TestManyElements: if a test names its elements, some schedules use them all.
func TestManyElements(t *testing.T) {
	sys := alter(altered{read: func(_ *altered, v convergence.View) (convergence.View, error) {
		v.Items = v.Items[:min(len(v.Items), 9)]
		return v, nil
	}})
	elems := strings.Split("abcdefghijkl", "")
	for n, found := range map[int]bool{9: false, 12: true} {
		f := explore(t, sys, convergence.Options{Schedules: 250, Elements: elems[:n]}).Failure
		if (f != nil) != found || found && (f.Violation.Kind != convergence.Lost || len(f.Script.Steps) > 11) {
			t.Errorf("of %d elements 9 are shown: %v", n, f)
		}
	}
}

// TestShrinkingEnds: shrinking ends by its time and by its context, with the script that it has found by then.
func TestShrinkingEnds(t *testing.T) {
	wrong := func() bool { return false }
	sys := alter(altered{do: func(s *altered, op convergence.Op) error {
		if s.adds == 3 && op.Kind == "add" {
			wrong()
			panic("three")
		}
		return nil
	}})
	f := explore(t, sys, convergence.Options{ShrinkTime: 1}).Failure
	if f == nil || !f.Cut || f.Shrunk || !strings.Contains(f.String(), "ended early") {
		t.Errorf("after a nanosecond: %v", f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := 0
	wrong = func() bool {
		if failed++; failed == 6 {
			cancel()
		}
		return true
	}
	sys.Alone = true
	r, err := convergence.Explore(ctx, sys, convergence.Options{})
	if f = r.Failure; err != nil || f == nil || !f.Cut || failed > 12 {
		t.Errorf("after %d failures: %v, %v", failed, f, err)
	}
	if f = explore(t, sys, convergence.Options{}).Failure; f == nil || f.Cut || len(f.Script.Steps) != 3 {
		t.Errorf("without an end: %v", f)
	}
}

// TestPace: clocks advance by the pace of the system, and jump by steps.
func TestPace(t *testing.T) {
	for pace, step := range map[time.Duration]time.Duration{0: time.Microsecond, time.Second: time.Second, time.Hour: time.Hour} {
		var at []int64
		sys := convergence.System{Name: "paced", Pace: pace, Open: func(env convergence.Env) (convergence.Replica, error) {
			r, err := OpenORSet(env)
			return &altered{Replica: r, do: func(*altered, convergence.Op) error { at = append(at, env.Now()); return nil }}, err
		}}
		replay(t, sys, "1 do A add a\n3 do A add a\n4 skew A -2500\n5 do A add a\n")
		if got := []int64{at[1] - at[0], at[2] - at[1]}; got[0] != 2*int64(step) || got[1] != -int64(step)/2 || at[0] < 0 {
			t.Errorf("pace %v: at %v", pace, at)
		}
	}
}

// TestSpecifications holds an observed-remove set to specifications other than its own.
func TestSpecifications(t *testing.T) {
	t.Parallel()
	sys := convergence.System{Name: "or-set", Open: OpenORSet}
	for name, c := range map[string]struct {
		spec convergence.Spec
		ok   bool
	}{
		"grow-only": {convergence.GrowOnly{}, true}, "remove-wins": {convergence.RemoveWins{}, false},
		"two-phase": {convergence.TwoPhase{}, false}, "last-writer-wins": {convergence.LastWriterWins{}, false},
		"add-wins": {convergence.AddWins{}, true}, "default": {nil, true},
	} {
		sys.Spec = c.spec
		if r := explore(t, sys, convergence.Options{Schedules: tier.Pick(100, 100, 5000)}); (r.Failure == nil) != c.ok {
			t.Errorf("%s: got %v, want success %v", name, r.Failure, c.ok)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []convergence.Options{{Replicas: 9}, {Schedules: -1}, {Shapes: []string{"square"}}} {
		if _, err := convergence.Explore(t.Context(), convergence.System{Name: "x", Open: OpenORSet}, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	broken := convergence.System{Name: "x", Open: func(convergence.Env) (convergence.Replica, error) { return nil, errors.New("no disk") }}
	if _, err := convergence.Explore(t.Context(), broken, convergence.Options{}); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("got %v", err)
	}
}

// TestExploreEnds is ended by time, and by its context; it reports on the way.
func TestExploreEnds(t *testing.T) {
	sys := convergence.System{Name: "or-set", Open: OpenORSet}
	told := 0
	for took := 300 * time.Millisecond; told == 0; took *= 2 { // on a busy machine that may be too short for any
		r := explore(t, sys, convergence.Options{Duration: took, Progress: func(r *convergence.Report) { told = r.Schedules }})
		if r.Schedules < told || told == 0 && took > 10*time.Second {
			t.Fatalf("progress of %d schedules, ran %d in %v", told, r.Schedules, took)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := convergence.Explore(ctx, sys, convergence.Options{}); err != nil || r.Schedules != 0 {
		t.Errorf("ran %d schedules, %v", r.Schedules, err)
	}
}

// fakeT records what Run reports of a failure.
type fakeT struct {
	ctx        context.Context
	fatal, log string
}

type stop struct{}

func (f *fakeT) Helper()                         {}
func (f *fakeT) Context() context.Context        { return f.ctx }
func (f *fakeT) Logf(format string, args ...any) { f.log += fmt.Sprintf(format, args...) }
func (f *fakeT) Fatalf(format string, args ...any) {
	f.fatal += fmt.Sprintf(format, args...)
	panic(stop{})
}

func runFake(t *testing.T, sys convergence.System, o convergence.Options) (f *fakeT) {
	f = &fakeT{ctx: t.Context()}
	defer func() {
		if p := recover(); p != nil && p != (stop{}) {
			panic(p)
		}
	}()
	convergence.Run(f, sys, o)
	return f
}

// TestRun fails with a script, and replays it from its file.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CONVERGENCE_DIR", dir)
	bad := alter(altered{read: func(s *altered, v convergence.View) (convergence.View, error) {
		if s.adds > 1 {
			v.Items = nil
		}
		return v, nil
	}})
	f := runFake(t, bad, convergence.Options{Schedules: 50})
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) != 1 || !strings.Contains(f.fatal, "CONVERGENCE_REPLAY="+files[0]) || !strings.Contains(f.fatal, "do A add") {
		t.Fatalf("files %v, %v; said %s", files, err, f.fatal)
	}
	t.Setenv("CONVERGENCE_REPLAY", files[0])
	if f := runFake(t, bad, convergence.Options{Schedules: 50}); !strings.Contains(f.fatal, files[0]+": lost at step") {
		t.Errorf("the replay says %s", f.fatal)
	}
	if f := runFake(t, alter(altered{}), convergence.Options{Schedules: 50}); f.fatal != "" || !strings.Contains(f.log, "nothing is violated") {
		t.Errorf("the replay of what was mended says %s%s", f.fatal, f.log)
	}
	if err := os.WriteFile(files[0], []byte("nonsense"), 0o666); err != nil {
		t.Fatal(err)
	}
	if f := runFake(t, bad, convergence.Options{Schedules: 50}); !strings.Contains(f.fatal, "bad script: line 1") {
		t.Errorf("the replay of nonsense says %s", f.fatal)
	}
	t.Setenv("CONVERGENCE_REPLAY", "")
	t.Setenv("CONVERGENCE_SCHEDULES", "many")
	if f := runFake(t, bad, convergence.Options{Schedules: 50}); !strings.Contains(f.fatal, `CONVERGENCE_SCHEDULES: want a number, have "many"`) {
		t.Errorf("it says %s", f.fatal)
	}
}

// TestEnvironment: variables override the options. A time replaces a number of schedules, unless there is a number, too.
func TestEnvironment(t *testing.T) {
	given := convergence.Options{Seed: 1, Schedules: 50, Workers: 1, Steps: 9}
	for _, c := range []struct {
		env  map[string]string
		want convergence.Options
	}{
		{nil, given},
		{map[string]string{"SEED": "7", "WORKERS": "3"}, convergence.Options{Seed: 7, Schedules: 50, Workers: 3, Steps: 9}},
		{map[string]string{"SECONDS": "60"}, convergence.Options{Seed: 1, Duration: time.Minute, Workers: 1, Steps: 9}},
		{map[string]string{"SECONDS": "60", "SCHEDULES": "8"}, convergence.Options{Seed: 1, Schedules: 8, Duration: time.Minute, Workers: 1, Steps: 9}},
	} {
		for _, name := range []string{"SEED", "WORKERS", "SECONDS", "SCHEDULES"} {
			t.Setenv("CONVERGENCE_"+name, c.env[name])
		}
		if o, err := given.FromEnv(); err != nil || !reflect.DeepEqual(o, c.want) {
			t.Errorf("%v: %+v, %v", c.env, o, err)
		}
	}
}

// TestOddElements: if a set loses what is not UTF-8, as one that sends JSON does, the failure says so. Other failures do not.
func TestOddElements(t *testing.T) {
	for hinted, lost := range map[bool]func(elem string) bool{
		true:  func(elem string) bool { return !utf8.ValidString(elem) },
		false: func(string) bool { return true },
	} {
		sys := alter(altered{read: func(_ *altered, v convergence.View) (convergence.View, error) {
			v.Items = slices.DeleteFunc(v.Items, func(it convergence.Item) bool { return lost(it.Elem) })
			return v, nil
		}})
		f := explore(t, sys, convergence.Options{}).Failure
		if f == nil || f.Violation.Kind != convergence.Lost || strings.Contains(f.String(), "is not UTF-8") != hinted {
			t.Errorf("want a hint: %v, got %v", hinted, f)
		}
	}
}
