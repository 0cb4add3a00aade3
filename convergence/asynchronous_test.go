package convergence_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bigset/convergence"
	"bigset/internal/testkit/tier"
)

// shared is an ORSet for two concurrent clients. A hasty one releases the lock between reading its counter and writing it.
type shared struct {
	*ORSet
	mu      sync.Mutex
	hasty   bool
	springs string
}

func (s *shared) Do(op convergence.Op) (convergence.Effect, error) {
	s.env.Sometimes("an operation begins")
	if s.springs != "" && op.Elem == s.springs {
		springs()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasty && op.Kind == "add" {
		next := s.next
		s.mu.Unlock()
		for range 20 {
			runtime.Gosched()
		}
		s.mu.Lock()
		s.next = next
	}
	return s.ORSet.Do(op)
}

// TestTwoClients: two concurrent clients detect a counter that both read, and accept a replica that serializes them.
func TestTwoClients(t *testing.T) {
	t.Parallel()
	for _, hasty := range []bool{false, true} {
		r := explore(t, convergence.System{Name: "shared", Parallel: true, Open: func(env convergence.Env) (convergence.Replica, error) {
			s, err := OpenORSet(env)
			return &shared{ORSet: s.(*ORSet), hasty: hasty}, err
		}}, convergence.Options{Schedules: tier.Pick(200, 200, 5000)})
		if (r.Failure != nil) != hasty || r.Sometimes["two clients at once"] == 0 {
			t.Fatalf("hasty %v: %d times two at once, %v", hasty, r.Sometimes["two clients at once"], r.Failure)
		}
		if f := r.Failure; f != nil && (f.Violation.Kind != convergence.TagReused || !strings.Contains(f.String(), " both ") || f.Runs < 10 || !strings.Contains(f.Rests, "Effect.Tag") || !strings.Contains(f.Rests, "; Parallel: ")) {
			t.Errorf("got %v", f)
		}
	}
}

// TestTwoClientsPanic: a panic of one of two clients has its stack.
func TestTwoClientsPanic(t *testing.T) {
	sys := convergence.System{Name: "both", Parallel: true, Open: func(env convergence.Env) (convergence.Replica, error) {
		s, err := OpenORSet(env)
		return &shared{ORSet: s.(*ORSet), springs: "b"}, err
	}}
	v, script := replay(t, sys, "1 both A add a; add b\n")
	if v == nil || v.Kind != convergence.Panicked || v.Text != "two clients at once: sprung" || !strings.HasPrefix(v.Stack, "bigset/convergence_test.springs") || strings.Contains(v.Stack, "guard") {
		t.Errorf("got %v\n%s", v, script)
	}
}

// puller is an ORSet whose operations only announce what they did. A replica that misses it asks for it, and one that has it
// answers: by messages of its own.
type puller struct {
	*ORSet
	parcels map[string][]byte // by tag
	out     [][]byte
	silent  bool
}

type pullMessage struct {
	What, Tag string
	Body      []byte
}

func (s *puller) Do(op convergence.Op) (convergence.Effect, error) {
	e, err := s.ORSet.Do(op)
	tag := e.Tag
	if tag == "" {
		tag = fmt.Sprintf("%d-%d-%d", s.env.ID, s.env.Start, len(s.parcels))
	}
	s.parcels[tag] = e.Out[0]
	s.say("have", tag, nil)
	e.Out = nil
	return e, err
}

func (s *puller) say(what, tag string, body []byte) {
	msg, _ := json.Marshal(pullMessage{what, tag, body})
	s.out = append(s.out, msg)
}

func (s *puller) Receive(msg []byte) (bool, error) {
	var m pullMessage
	if err := json.Unmarshal(msg, &m); err != nil {
		return false, err
	}
	have, ok := s.parcels[m.Tag]
	switch {
	case m.What == "have" && !ok:
		s.say("want", m.Tag, nil)
	case m.What == "want" && ok && !s.silent:
		s.say("parcel", m.Tag, have)
	case m.What == "parcel" && !ok:
		s.parcels[m.Tag] = m.Body
		return s.ORSet.Receive(m.Body)
	}
	return false, nil
}

func (s *puller) Sent() [][]byte {
	out := s.out
	s.out = nil
	return out
}

// TestSends: what replicas send by themselves is delivered, and so is what they send in response.
func TestSends(t *testing.T) {
	for _, silent := range []bool{false, true} {
		r := explore(t, convergence.System{Name: "puller", Open: func(env convergence.Env) (convergence.Replica, error) {
			s, err := OpenORSet(env)
			return &puller{ORSet: s.(*ORSet), parcels: map[string][]byte{}, silent: silent}, err
		}}, convergence.Options{Schedules: tier.Pick(200, 200, 5000)})
		if (r.Failure != nil) != silent {
			t.Errorf("silent %v: %v", silent, r.Failure)
		}
		if r.Failure == nil && (r.Deliveries == 0 || len(r.Never()) > 0) {
			t.Errorf("%d deliveries, never %v", r.Deliveries, r.Never())
		}
	}
}

// queued is an ORSet that takes messages in a goroutine.
type queued struct {
	mu    sync.Mutex
	inner *ORSet
	in    chan []byte
	busy  atomic.Int64
}

func (s *queued) work() {
	for msg := range s.in {
		runtime.Gosched()
		s.mu.Lock()
		s.inner.Receive(msg)
		s.mu.Unlock()
		s.busy.Add(-1)
	}
}

func (s *queued) Do(op convergence.Op) (convergence.Effect, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner.Do(op)
}

func (s *queued) Receive(msg []byte) (bool, error) {
	s.busy.Add(1)
	s.in <- slices.Clone(msg)
	return false, nil
}

func (s *queued) Read() (convergence.View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner.Read()
}

func (s *queued) Close() error {
	close(s.in)
	return nil
}

// quiet is a queued that reports when it is quiet.
type quiet struct{ *queued }

func (s quiet) Quiet() bool { return s.busy.Load() == 0 }

// TestQuiet: the kit waits for a replica that receives in a goroutine, if it reports when it is quiet. Otherwise the replica is
// reported as wrong.
func TestQuiet(t *testing.T) {
	for _, says := range []bool{true, false} {
		r := explore(t, convergence.System{Name: "queued", Open: func(env convergence.Env) (convergence.Replica, error) {
			s, err := OpenORSet(env)
			q := &queued{inner: s.(*ORSet), in: make(chan []byte, 10_000)}
			go q.work()
			if says {
				return quiet{q}, err
			}
			return q, err
		}}, convergence.Options{Schedules: 100, ShrinkRuns: 100})
		if (r.Failure == nil) != says {
			t.Errorf("it says when it is quiet: %v; got %v", says, r.Failure)
		}
	}
}

// TestShare: the replicas of a schedule share a value, and no two schedules do.
func TestShare(t *testing.T) {
	made := 0
	sys := convergence.System{Name: "sharing", Alone: true, Share: func() any { made++; return &[8]bool{} }, Open: func(env convergence.Env) (convergence.Replica, error) {
		there := env.Shared.(*[8]bool)
		if there[env.ID] {
			t.Errorf("replica %d was opened in this schedule before", env.ID)
		}
		there[env.ID] = true
		return OpenORSet(env)
	}}
	if r := explore(t, sys, convergence.Options{Schedules: 50}); r.Failure != nil || made != 51 {
		t.Errorf("%d values, %v", made, r.Failure)
	}
}

// outbox is an ORSet whose disk has its operations at once, and that sends them again when it comes back.
type outbox struct {
	*ORSet
	sent   *[][]byte
	forget bool
}

func openOutbox(env convergence.Env, forget bool) (convergence.Replica, error) {
	r, err := OpenORSet(env)
	s := &outbox{ORSet: r.(*ORSet), sent: &[][]byte{}, forget: forget}
	if disk, ok := env.Disk.(*outbox); ok {
		s.ORSet, s.sent = disk.ORSet, disk.sent
	}
	return s, err
}

func (s *outbox) Do(op convergence.Op) (convergence.Effect, error) {
	e, err := s.ORSet.Do(op)
	e.Durable = true
	*s.sent = append(*s.sent, e.Out...)
	return e, err
}

func (s *outbox) Sync() error            { return nil }
func (s *outbox) Crash(int) (any, error) { return s, nil }
func (s *outbox) Stop() (any, error)     { return s, nil }
func (s *outbox) Unsent() ([][]byte, error) {
	if s.forget {
		return nil, nil
	}
	return *s.sent, nil
}

// TestResends: a power cut before messages leave loses nothing for a replica with an outbox, and is detected if the outbox is
// empty.
func TestResends(t *testing.T) {
	t.Parallel()
	for _, forget := range []bool{false, true} {
		r := explore(t, convergence.System{Name: "outbox", Open: func(env convergence.Env) (convergence.Replica, error) { return openOutbox(env, forget) }}, convergence.Options{Schedules: tier.Pick(200, 200, 5000)})
		if (r.Failure != nil) != forget || r.Faults["crash-in-operation"] == 0 {
			t.Errorf("it forgets: %v; %d crashes in operations, %v", forget, r.Faults["crash-in-operation"], r.Failure)
		}
	}
}

// FuzzORSet shows how a set is used with go test -fuzz.
func FuzzORSet(f *testing.F) {
	f.Add([]byte("some schedule"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		convergence.Fuzz(t, convergence.System{Name: "or-set", Open: OpenORSet}, convergence.Options{}, data)
	})
}

// TestFuzzFinds: bytes make schedules that find something.
func TestFuzzFinds(t *testing.T) {
	sys := alter(altered{do: func(s *altered, op convergence.Op) error {
		if s.adds == 3 {
			panic("three")
		}
		return nil
	}})
	defer func() {
		if p := recover(); p != (stop{}) {
			t.Errorf("nothing was found: %v", p)
		}
	}()
	t.Setenv("CONVERGENCE_DIR", t.TempDir())
	for i := range byte(50) {
		convergence.Fuzz(&fakeT{ctx: t.Context()}, sys, convergence.Options{}, []byte{i, 2, 3, 4, 5, 6, 7, 8, i, 10, 11, 12})
	}
}
