package convergence_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"bigset/convergence"
	"bigset/convergence/internal/model"
	"bigset/convergence/internal/textbook"
	"bigset/internal/testkit/tier"
)

// causal is an ORSet that holds a message back until all messages have come that its author had applied.
type causal struct {
	*ORSet
	seen    [8]int // by author, how many operations were applied
	waiting []causalMessage
	room    int // how many messages wait; the oldest go when there are more
}

type causalMessage struct {
	Author int
	Seen   [8]int // of the author, with this one
	Body   []byte
}

func (s *causal) Do(op convergence.Op) (convergence.Effect, error) {
	e, err := s.ORSet.Do(op)
	if err != nil {
		return e, err
	}
	s.seen[s.env.ID]++
	msg, err := json.Marshal(causalMessage{s.env.ID, s.seen, e.Out[0]})
	e.Out = [][]byte{msg}
	return e, err
}

func (s *causal) Receive(msg []byte) (durable bool, err error) {
	var m causalMessage
	if err := json.Unmarshal(msg, &m); err != nil {
		return false, err
	}
	s.waiting = append(s.waiting, m)
	for s.next() {
	}
	if len(s.waiting) > 0 {
		s.env.Sometimes("message waits")
	}
	if n := len(s.waiting); n > s.room {
		s.waiting = s.waiting[n-s.room:]
	}
	return false, nil
}

// next applies a message that is ready to be applied.
func (s *causal) next() bool {
	s.waiting = slices.DeleteFunc(s.waiting, func(m causalMessage) bool { return m.Seen[m.Author] <= s.seen[m.Author] })
	for _, m := range s.waiting {
		due := true
		for a, n := range m.Seen {
			due = due && (n <= s.seen[a] || a == m.Author && n == s.seen[a]+1)
		}
		if due {
			s.seen[m.Author]++
			_, err := s.ORSet.Receive(m.Body)
			return err == nil
		}
	}
	return false
}

// TestBuffers has replicas that hold messages back. With Buffers the kit waits for them until what they wait for has come, and no
// longer; without it the kit does not wait, and names Buffers as the declaration to use.
func TestBuffers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		buffers bool
		room    int
		ok      bool
	}{{true, 1 << 20, true}, {false, 1 << 20, false}, {true, 1, false}} {
		r := explore(t, convergence.System{Name: "causal", Buffers: c.buffers, Open: func(env convergence.Env) (convergence.Replica, error) {
			s, err := OpenORSet(env)
			return &causal{ORSet: s.(*ORSet), room: c.room}, err
		}}, convergence.Options{Schedules: tier.Pick(200, 200, 5000)})
		if (r.Failure == nil) != c.ok || r.Sometimes["message waits"] == 0 {
			t.Errorf("buffers %v, room for %d: waited %d times, %v", c.buffers, c.room, r.Sometimes["message waits"], r.Failure)
		}
		if f := r.Failure; f != nil && slices.Contains(f.Others, "Buffers") == c.buffers {
			t.Errorf("it rests on %q, accepted is %q", f.Rests, f.Others)
		}
	}
}

// deaf is an ORSet that accepts only one message.
type deaf struct {
	*ORSet
	given int
}

func (s *deaf) Receive(msg []byte) (bool, error) {
	if s.given++; s.given > 1 {
		return false, nil
	}
	return s.ORSet.Receive(msg)
}

// TestBuffersAreJudged: with Buffers a message must have its effect when all messages that its author knew of have come, not only
// at the end.
func TestBuffersAreJudged(t *testing.T) {
	sys := convergence.System{Name: "deaf", Buffers: true, Open: func(env convergence.Env) (convergence.Replica, error) {
		s, err := OpenORSet(env)
		return &deaf{ORSet: s.(*ORSet)}, err
	}}
	v, script := replay(t, sys, "1 do A add a\n2 deliver 1.0 B\n3 do A add b\n4 deliver 3.0 B\n5 read B\n")
	if v == nil || v.Kind != convergence.Lost || v.Step != 4 {
		t.Errorf("got %v\n%s", v, script)
	}
}

// TestNothingAccepts: a failure says so if no other declaration accepts it, and names what a replica with goroutines needs.
func TestNothingAccepts(t *testing.T) {
	const goroutines = "Quieter, or package bubble"
	sys := convergence.System{Name: "deaf", Open: func(env convergence.Env) (convergence.Replica, error) {
		s, err := OpenORSet(env)
		return &deaf{ORSet: s.(*ORSet)}, err
	}}
	f := explore(t, sys, convergence.Options{}).Failure
	if f == nil || !strings.Contains(f.String(), "no other declaration accepts it\n") || !strings.Contains(f.String(), goroutines) {
		t.Errorf("got %v", f)
	}
	sys.Within = func(schedule func(wait func())) { schedule(func() {}) }
	if f := explore(t, sys, convergence.Options{}).Failure; f == nil || strings.Contains(f.String(), goroutines) {
		t.Errorf("its goroutines are waited for: got %v", f)
	}
}

// TestCausalNet: the net delivers each message once, and messages of different authors in another order than they were sent.
func TestCausalNet(t *testing.T) {
	all := textbook.Correct()
	sys := all[slices.IndexFunc(all, func(s convergence.System) bool { return s.CausalNet })]
	r := explore(t, sys, convergence.Options{Schedules: 100})
	if r.Failure != nil || r.Faults["duplicate"] != 0 || r.Faults["reorder"] == 0 {
		t.Errorf("%v, %v", r.Faults, r.Failure)
	}
}

// retrying is an ORSet that recognizes operations by their ids.
type retrying struct {
	*ORSet
	done   map[string][]byte // by id: the message
	forget bool
}

type idMessage struct {
	ID   string
	Body []byte
}

func (s *retrying) Do(op convergence.Op) (convergence.Effect, error) {
	if msg, ok := s.done[op.ID]; ok && !s.forget {
		return convergence.Effect{Out: [][]byte{msg}}, nil
	}
	e, err := s.ORSet.Do(op)
	if err != nil {
		return e, err
	}
	msg, err := json.Marshal(idMessage{op.ID, e.Out[0]})
	s.done[op.ID] = msg
	return convergence.Effect{Out: [][]byte{msg}}, err
}

func (s *retrying) Receive(msg []byte) (durable bool, err error) {
	var m idMessage
	if err := json.Unmarshal(msg, &m); err != nil {
		return false, err
	}
	s.done[m.ID] = msg
	return s.ORSet.Receive(m.Body)
}

// TestRetries has replicas that recognize operations by their ids, and some that only claim to, which are detected.
func TestRetries(t *testing.T) {
	t.Parallel()
	sys := func(forget, retries bool) convergence.System {
		return convergence.System{Name: "retrying", Retries: retries, Open: func(env convergence.Env) (convergence.Replica, error) {
			s, err := OpenORSet(env)
			return &retrying{s.(*ORSet), map[string][]byte{}, forget}, err
		}}
	}
	r := explore(t, sys(false, true), convergence.Options{Schedules: tier.Pick(200, 200, 5000)})
	for _, state := range []string{"retry answered as before", "retry where the first try was not known"} {
		if r.Failure != nil || r.Sometimes[state] == 0 {
			t.Errorf("%s: %d times, %v", state, r.Sometimes[state], r.Failure)
		}
	}
	if r := explore(t, sys(true, false), convergence.Options{Schedules: tier.Pick(200, 200, 5000)}); r.Failure != nil {
		t.Errorf("nobody asks twice: %v", r.Failure)
	}
	f := explore(t, sys(true, true), convergence.Options{}).Failure
	if f == nil || !slices.Contains([]string{convergence.Repeated, convergence.Resurrected, convergence.Lost}, f.Violation.Kind) || !strings.Contains(f.String(), " retry ") {
		t.Errorf("got %v", f)
	}
}

// batching is an altered set that also takes batches.
type batching struct{ *altered }

func (s batching) DoBatch(ops []convergence.Op) (all convergence.Effect, err error) {
	for _, op := range ops {
		e, err := s.Do(op)
		if err != nil {
			return all, err
		}
		all.Tags, all.Out = append(all.Tags, e.Tag), append(all.Out, e.Out...)
	}
	return all, nil
}

// TestShrinkPasses shows a phantom after three adds, whatever they are. No unnecessary element, operation or context may be left.
func TestShrinkPasses(t *testing.T) {
	sys := convergence.System{Name: "batching", Open: func(env convergence.Env) (convergence.Replica, error) {
		r, err := OpenORSet(env)
		return batching{&altered{Replica: r, read: func(s *altered, v convergence.View) (convergence.View, error) {
			if s.adds >= 3 {
				v.Items = append(v.Items, convergence.Item{Elem: "zebra"})
			}
			return v, nil
		}}}, err
	}}
	count := func(s *convergence.Script) (ops, ctx, elems int) {
		names := map[string]bool{}
		for _, step := range s.Steps {
			for _, o := range step.Ops {
				ops++
				ctx += min(o.Ctx, 1)
				names[o.Op.Elem] = true
			}
		}
		return ops, ctx, len(names)
	}
	contexts, elements := 0, 0
	for seed := range uint64(40) {
		o := convergence.Options{Seed: seed, Shapes: []string{"mixed-all"}, Replicas: 1, Elements: []string{"a", "b", "c", "d", "e"}}
		f := explore(t, sys, o).Failure
		raw, err := convergence.Generate(sys, o, 0)
		if err != nil || f == nil {
			t.Fatal(f, err)
		}
		_, ctx, elems := count(raw)
		contexts, elements = contexts+ctx, max(elements, elems)
		if ops, ctx, elems := count(f.Script); ops != 3 || ctx != 0 || elems != 1 {
			t.Errorf("seed %d: %d operations, %d contexts, %d elements are left:\n%v", seed, ops, ctx, elems, f)
		}
	}
	if contexts == 0 || elements < 3 {
		t.Errorf("there was little to shrink: %d contexts, %d elements", contexts, elements)
	}
}

// TestSwarm counts long schedules without a class of faults: many if classes are switched off, few otherwise.
func TestSwarm(t *testing.T) {
	lacks := func(shape, kind string) (n int) {
		for i := range 200 {
			s, err := convergence.Generate(model.System(model.Options{}), convergence.Options{Shapes: []string{shape}, Steps: 600, Replicas: 3}, i)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Steps) > 300 && !strings.Contains(s.String(), " "+kind+" ") {
				n++
			}
		}
		return n
	}
	for _, kind := range []string{"ask", "partition"} {
		if off, on := lacks("mixed", kind), lacks("mixed-all", kind); off < on+10 {
			t.Errorf("%s is lacking in %d of 200 schedules, without swarm testing in %d", kind, off, on)
		}
	}
}
