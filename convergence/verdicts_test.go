package convergence_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigset/convergence"
	"bigset/convergence/internal/textbook"
	"bigset/internal/testkit/tier"
)

// held is a set that holds a lock in its operations, and when it is closed. A panic leaves the lock held.
type held struct {
	*ORSet
	mu     sync.Mutex
	sprung bool
	closed *atomic.Int32 // how many were closed after a panic
}

func (s *held) Do(op convergence.Op) (convergence.Effect, error) {
	s.mu.Lock()
	if op.Kind == "remove" {
		s.sprung = true
		springs()
	}
	e, err := s.ORSet.Do(op)
	s.mu.Unlock()
	return e, err
}

func (s *held) Close() error {
	if s.sprung {
		s.closed.Add(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil
}

// TestPanicWithLock: a panic that leaves a lock held is reported as a panic, and shrinking does not wait for the lock.
func TestPanicWithLock(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	var closed atomic.Int32
	began := time.Now()
	f := explore(t, convergence.System{Name: "held", Open: func(env convergence.Env) (convergence.Replica, error) {
		r, err := OpenORSet(env)
		return &held{ORSet: r.(*ORSet), closed: &closed}, err
	}}, convergence.Options{StepLimit: limit, ShrinkTime: 10 * limit}).Failure
	if f == nil || f.Violation.Kind != convergence.Panicked || len(f.Script.Steps) != 1 || !strings.HasPrefix(f.Violation.Stack, "bigset/convergence_test.springs") {
		t.Fatalf("got %v", f)
	}
	if took := time.Since(began); took > 10*limit || closed.Load() > 0 {
		t.Errorf("it took %v, and %d replicas were closed after they had panicked", took, closed.Load())
	}
}

// TestViolationBeforeHang: a violation after which a replica does not close is reported in the place of the hang, with what the steps did.
func TestViolationBeforeHang(t *testing.T) {
	t.Parallel()
	forever := make(chan int)
	defer close(forever)
	sys := alter(altered{read: func(s *altered, v convergence.View) (convergence.View, error) {
		if len(v.Items) > 1 {
			v.Items = v.Items[:1]
		}
		return v, nil
	}})
	open := sys.Open
	sys.Open = func(env convergence.Env) (convergence.Replica, error) {
		r, err := open(env)
		return closer{r, func() error { <-forever; return nil }}, err
	}
	script := "convergence script 1\nsystem " + sys.Name + "\nseed 1\nreplicas 1\n1 do A add a\n2 do A add b\n"
	f := replayFile(t, sys, script, convergence.Options{StepLimit: 50 * time.Millisecond})
	if !strings.Contains(f, "lost at step 2") || !strings.Contains(f, "1 do A add a # a is") || !strings.Contains(f, "!! lost") {
		t.Errorf("it said %s", f)
	}
}

// replayFile replays a script as Run does, and returns what it said.
func replayFile(t *testing.T, sys convergence.System, script string, o convergence.Options) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script.txt")
	if err := os.WriteFile(file, []byte(script), 0o666); err != nil {
		t.Fatal(err)
	}
	f := &fakeT{ctx: t.Context()}
	func() {
		defer func() { recover() }()
		convergence.RunReplay(f, sys, o, file)
	}()
	return strings.Join(strings.Fields(f.fatal), " ")
}

// keeper is a set that shows its own list of tags of an element, and changes it in place.
type keeper struct {
	tags []string
	copy bool
}

func (s *keeper) Do(op convergence.Op) (e convergence.Effect, err error) {
	if op.Kind == "add" {
		e.Tag = "t" + op.ID
		s.tags = append(s.tags, e.Tag)
	} else {
		s.tags = slices.DeleteFunc(s.tags, func(string) bool { return true })
	}
	return e, nil
}

func (s *keeper) Receive([]byte) (bool, error) { return false, nil }
func (s *keeper) Close() error                 { return nil }
func (s *keeper) Read() (v convergence.View, err error) {
	if s.copy {
		return convergence.ViewOfTags(map[string][]string{"a": s.tags}), nil
	}
	if len(s.tags) > 0 {
		v.Items = []convergence.Item{{Elem: "a", Tags: s.tags}}
	}
	return v, nil
}

// TestViewsAreKept: ViewOfTags copies the tags, and a view whose tags change after it was returned is reported as such.
func TestViewsAreKept(t *testing.T) {
	for _, copies := range []bool{true, false} {
		sys := convergence.System{Name: "keeper", Open: func(convergence.Env) (convergence.Replica, error) { return &keeper{copy: copies}, nil }}
		v, script := replay(t, sys, "1 do A add a\n2 do A remove a\n")
		if (v == nil) != copies || v != nil && (v.Kind != convergence.Changed || !strings.Contains(v.Text, "changed the tags [t1.0] of a in a view")) {
			t.Errorf("it copies %v: %v\n%s", copies, v, script)
		}
	}
}

// genPanics is a specification whose Gen panics for the element b.
type genPanics struct {
	convergence.AddWins
	at string
}

func (s genPanics) Gen(r *rand.Rand, elems []string) convergence.Op {
	if slices.Contains(elems, s.at) {
		springs()
	}
	return s.AddWins.Gen(r, elems)
}

// TestGenPanics: a panic of a specification is an error that names the schedule.
func TestGenPanics(t *testing.T) {
	for at, want := range map[string]string{"b": "schedule 0: its Spec's Gen panicked: sprung", "a": "sprung"} {
		sys := convergence.System{Name: "gen", Open: OpenORSet, Spec: genPanics{at: at}}
		r, err := convergence.Explore(t.Context(), sys, convergence.Options{Elements: []string{"b"}})
		if at == "a" {
			r, err = convergence.Explore(t.Context(), sys, convergence.Options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "convergence_test.springs") || r.Failure != nil {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestOptionsAreBounded: options with which scripts could not be read back are refused.
func TestOptionsAreBounded(t *testing.T) {
	sys := convergence.System{Name: "bounded", Open: OpenORSet}
	for _, o := range []convergence.Options{{Steps: 10_001}, {Elements: make([]string, 10_001)}, {Elements: []string{strings.Repeat("x", 100_001)}}} {
		if _, err := convergence.Explore(t.Context(), sys, o); err == nil || !strings.Contains(err.Error(), "readable again") {
			t.Errorf("got %v", err)
		}
	}
	// The longest schedule can be read.
	s, err := convergence.Generate(sys, convergence.Options{Steps: 10_000, Replicas: 8, Shapes: []string{"backwards-twice"}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := convergence.ReadScript(strings.NewReader(s.String())); err != nil {
		t.Errorf("%d steps: %v", len(s.Steps), err)
	}
}

// volatile is a last-writer-wins set whose disk has everything at once except its Lamport clock.
type volatile struct {
	env  convergence.Env
	disk *volatileDisk
	kept bool
	own  bool // its own operations are applied whatever their time
}

type volatileDisk struct {
	Last map[string]stamped
	now  int
}

type stamped struct {
	Elem         string
	Add          bool
	Time, Author int
}

func (s *volatile) Do(op convergence.Op) (convergence.Effect, error) {
	s.disk.now++
	w := stamped{op.Elem, op.Kind == "add", s.disk.now, s.env.ID}
	if s.take(w); s.own {
		s.disk.Last[w.Elem] = w
	}
	msg, err := json.Marshal(w)
	return convergence.Effect{Durable: true, Out: [][]byte{msg}}, err
}

func (s *volatile) Receive(msg []byte) (durable bool, err error) {
	var w stamped
	err = json.Unmarshal(msg, &w)
	s.disk.now = max(s.disk.now, w.Time)
	s.take(w)
	return true, err
}

func (s *volatile) take(w stamped) {
	if old := s.disk.Last[w.Elem]; w.Time > old.Time || w.Time == old.Time && w.Author > old.Author {
		s.disk.Last[w.Elem] = w
	}
}

func (s *volatile) Read() (convergence.View, error) {
	var list []string
	for e, w := range s.disk.Last {
		if w.Add {
			list = append(list, e)
		}
	}
	return convergence.ViewOf(list), nil
}

func (s *volatile) Crash(int) (any, error) {
	if !s.kept {
		s.disk.now = 0
	}
	return s.disk, nil
}

func (s *volatile) Stop() (any, error) { return s.Crash(0) }
func (s *volatile) Sync() error        { return nil }
func (s *volatile) Close() error       { return nil }

// TestClockSurvives: a Lamport clock has to be above the times of what the disk has brought back. In the second script the replica itself
// shows what it must, and only the times tell that B's add is older than A's remove.
func TestClockSurvives(t *testing.T) {
	for _, c := range []struct {
		own    bool
		script string
	}{
		{false, "1 do A add a\n2 crash A 0\n3 do A remove a\n"},
		{true, "1 do A add a\n2 do A add a\n3 do A add a\n4 crash A 0\n5 do A remove a\n6 do B add a\n7 deliver 5.0 B\n"},
	} {
		for _, kept := range []bool{true, false} {
			sys := convergence.System{Name: "volatile", Spec: convergence.LastWriterWins{Time: convergence.TimeLamport}, Open: func(env convergence.Env) (convergence.Replica, error) {
				s := &volatile{env: env, disk: &volatileDisk{Last: map[string]stamped{}}, kept: kept, own: c.own}
				if d, ok := env.Disk.(*volatileDisk); ok {
					s.disk = d
				}
				return s, nil
			}}
			v, ran := replay(t, sys, c.script)
			if (v == nil) != kept || v != nil && v.Kind != convergence.Resurrected {
				t.Errorf("the clock is kept: %v; %v\n%s", kept, v, ran)
			}
		}
	}
}

// TestDeclarationsEndInTime: other declarations are not tried after the time of a test, and a verdict then does not say that none accepts.
func TestDeclarationsEndInTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	names, all := convergence.Accepting(ctx, correct(t, "or-set-causal-net"), time.Now().Add(-time.Second))
	if len(names) > 0 || all {
		t.Errorf("after the end: %v, all %v", names, all)
	}
	if names, all = convergence.Accepting(ctx, correct(t, "or-set-causal-net"), time.Time{}); !slices.Contains(names, "CausalNet") || !all {
		t.Errorf("before it: %v, all %v", names, all)
	}
}

// TestOwnMessagesAreDelivered: what a replica sends by itself in a sync, or again after a crash, is delivered in the middle of schedules.
func TestOwnMessagesAreDelivered(t *testing.T) {
	for name, kind := range map[string]string{"or-set-log-cut": "sync", "or-set-causal-net-outbox": "crash"} {
		found := 0
		for n := range 60 {
			s, err := convergence.Generate(correct(t, name), convergence.Options{Replicas: 2, Shapes: []string{"unsynced"}}, n)
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range s.Steps {
				if step.Kind == "deliver" && s.Steps[step.Ref-1].Kind == kind {
					found++
				}
			}
		}
		if found < 20 {
			t.Errorf("%s: %d deliveries of what was sent in a %s", name, found, kind)
		}
	}
}

// TestEitherOrder: sets whose verdict depends on which of two clients was first are accepted.
func TestEitherOrder(t *testing.T) { accepts(t, "-parallel") }

// TestClockOfElement: the times of an element need not be above those of others, also if two clients name both at once.
func TestClockOfElement(t *testing.T) {
	for name, step := range map[string]string{
		"lww-TimeLamport-TieReplica-by-key":          "4 do A add b",
		"lww-TimeLamport-TieReplica-by-key-parallel": "4 both A add a; add b",
	} {
		v, script := replay(t, correct(t, name), "1 do A add a\n2 do A add a\n3 do A add a\n"+step+"\n5 do B remove b\n6 deliver 5.0 A\n")
		if v != nil {
			t.Errorf("%v\n%s", v, script)
		}
	}
}

// TestAnswerThatWaits: an answer of anti-entropy waits at B for a message that comes only at the end. The message of what it contains was
// lost for good, so only anti-entropy brings it to A.
func TestAnswerThatWaits(t *testing.T) {
	const script = `convergence script 1
system or-set-log-cut
seed 6559586748590935885
replicas 2
1 do A add a
2 deliver 1.0 B
3 do A add a
4 ask B
5 dies B 2 remove a
6 answer 4 A
7 dies A 4 add a
8 deliver 6.0 A
9 exchange messages
`
	if v, s, err := convergence.Replay(correct(t, "or-set-log-cut"), strings.NewReader(script)); v != nil || err != nil {
		t.Errorf("%v %v\n%v", v, err, s)
	}
}

// TestCausalNetOwn: a causal net delivers what replicas send by themselves, or again.
func TestCausalNetOwn(t *testing.T) { accepts(t, "or-set-causal-net-") }

func accepts(t *testing.T, names string) {
	t.Helper()
	found := 0
	for _, sys := range textbook.Correct() {
		if !strings.Contains(sys.Name, names) {
			continue
		}
		found++
		if r := explore(t, sys, convergence.Options{Schedules: tier.Pick(15, 25, 400)}); r.Failure != nil {
			t.Errorf("%s: %v", sys.Name, r.Failure)
		}
	}
	if found < 2 {
		t.Errorf("%d sets with %s", found, names)
	}
}

// TestParts: an operation may send several messages, and a replica may have received some of them.
func TestParts(t *testing.T) {
	for _, c := range []struct{ name, steps string }{
		// A causal net delivers them in order, and before everything that a replica sends that has one of them.
		{"or-set-causal-net-each", "1 do A add a; add a\n2 deliver 1.1 B\n3 exchange messages\n"},
		{"or-set-causal-net-each", "1 do A add a; add b\n2 deliver 1.0 C\n3 do C add a\n4 deliver 3.0 B\n5 exchange messages\n"},
		// A replica that has a part of a batch may pass it on.
		{"orswot-each", "1 do C add a; add a\n2 deliver 1.0 B\n3 do B add b\n4 deliver 3.0 A\n"},
		// What a replica sends by itself may have a part of an operation: here that it replaces, without that it adds.
		{"or-set-split-sends", "1 do B add a\n2 deliver 1.1 A\n3 do A add a\n4 deliver 3.0 B\n"},
	} {
		if v, script := replay(t, correct(t, c.name), c.steps); v != nil {
			t.Errorf("%v\n%s", v, script)
		}
	}
}
