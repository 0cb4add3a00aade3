package convergence_test

import (
	"slices"
	"strings"
	"testing"

	"bigset/convergence"
)

// shrunk is an ORSet that gives contexts, takes any operation, and panics when a test says so.
type shrunk struct {
	*ORSet
	fails func(s *shrunk, op convergence.Op) bool
	ops   int
	reads int
	given int
}

func (s *shrunk) Do(op convergence.Op) (convergence.Effect, error) {
	s.ops++
	if s.fails(s, op) {
		panic("it fails")
	}
	if op.Kind == "inc" || op.Kind == "dec" {
		op.Kind = "add"
	}
	return s.ORSet.Do(op)
}

// DoBatch implements convergence.Batcher.
func (s *shrunk) DoBatch(ops []convergence.Op) (all convergence.Effect, err error) {
	for _, op := range ops {
		e, err := s.Do(op)
		if err != nil {
			return all, err
		}
		all.Tags, all.Out = append(all.Tags, e.Tag), append(all.Out, e.Out...)
	}
	return all, nil
}

func (s *shrunk) Read() (convergence.View, error) {
	s.reads++
	v, err := s.ORSet.Read()
	for i := range v.Items {
		v.Items[i].Context = []byte(v.Items[i].Elem)
	}
	return v, err
}

// Receive counts messages.
func (s *shrunk) Receive(msg []byte) (bool, error) {
	s.given++
	return s.ORSet.Receive(msg)
}

// skew returns how far the replica's clock is off at step n.
func (s *shrunk) skew(n int64) int64 { return s.env.Now() - clockBegins - n*1000 }

// clockBegins is what the clocks of replicas show before the first step.
const clockBegins = 395_812_000<<32 - 35_000

// TestShrinks has a script for each thing that shrinking does, and the script that must be left.
func TestShrinks(t *testing.T) {
	second := func(s *shrunk, _ convergence.Op) bool { return s.ops == 2 }
	for _, c := range []struct {
		what   string
		fails  func(s *shrunk, op convergence.Op) bool
		script string
		want   string
	}{
		{"steps go that are not needed", second, "replicas 1|1 do A add a|2 read A|3 read A|4 do A add a|5 do A add a", "replicas 1|1 do A add a|4 do A add a"},
		{"a context of another view does as well", func(_ *shrunk, op convergence.Op) bool { return op.Kind == "remove" && op.Context != nil },
			"replicas 1|1 do A add a|2 do A add b|3 do A remove a ctx=2", "replicas 1|1 do A add a|3 do A remove a ctx=1"},
		{"a message of another step does as well", func(s *shrunk, op convergence.Op) bool { return op.Kind == "remove" && s.given == 2 },
			"replicas 2|1 do A add a|2 do A add a|3 deliver 1.0 B|4 deliver 2.0 B|5 do B remove a", "replicas 1|1 do A add a|3 deliver 1.0 A|4 deliver 1.0 A|5 do A remove a"},
		{"two jumps of a clock are one", func(s *shrunk, _ convergence.Op) bool { return s.skew(4) == 2000 },
			"replicas 1|1 skew A 5000|2 read A|3 skew A -3000|4 do A add a", "replicas 1|3 skew A 2000|4 do A add a"},
		{"a jump is a small one", func(s *shrunk, _ convergence.Op) bool { return s.skew(2) < 0 },
			"replicas 1|1 skew A -17000|2 do A add a", "replicas 1|1 skew A -1000|2 do A add a"},
		{"an argument is 1", func(_ *shrunk, op convergence.Op) bool { return len(op.Arg) > 0 }, "replicas 1|1 do A inc a value=987654", "replicas 1|1 do A inc a value=1"},
		{"an argument is half as long, and again", func(_ *shrunk, op convergence.Op) bool { return len(op.Arg) > 1 }, "replicas 1|1 do A inc a value=98765432", "replicas 1|1 do A inc a value=98"},
		{"a fill has no more than is needed", func(s *shrunk, _ convergence.Op) bool { return s.ops == 7 }, "replicas 1|1 fill A 300", "replicas 1|1 fill A 7"},
		{"a strip has no more than is needed", func(s *shrunk, _ convergence.Op) bool { return s.ops == 7 }, "replicas 1|1 strip A 300", "replicas 1|1 strip A 7"},
		{"a bulk has no more than is needed", func(s *shrunk, _ convergence.Op) bool { return s.ops == 7 }, "replicas 1|1 bulk A 300", "replicas 1|1 bulk A 7"},
		{"a churn has no more than is needed", func(s *shrunk, _ convergence.Op) bool { return s.ops == 7 }, "replicas 1|1 churn A 300 long-name", "replicas 1|1 churn A 7 a"},
		{"counters start at 0", second, "replicas 1|base 253|1 do A add a|2 do A add a", "replicas 1|1 do A add a|2 do A add a"},
		{"counters do not start at 0 where that matters", func(s *shrunk, _ convergence.Op) bool { return s.ops == 2 && s.env.Base > 0 },
			"replicas 1|base 253|1 do~ A add a|2 do~ A add a", "replicas 1|base 253|1 do A add a|2 do A add a"},
		{"somebody reads", second, "replicas 1|1 do~ A add a|2 do~ A add a", "replicas 1|1 do A add a|2 do A add a"},
		{"nobody reads where that matters", func(s *shrunk, _ convergence.Op) bool { return s.ops == 2 && s.reads == 0 },
			"replicas 1|1 do~ A add a|2 do~ A add a", "replicas 1|1 do~ A add a|2 do~ A add a"},
		{"what one of six replicas does another one can do", second, "replicas 6|1 read A|2 do F add a|3 do F add a", "replicas 1|2 do A add a|3 do A add a"},
		{"what two of six replicas do one can do", func(s *shrunk, _ convergence.Op) bool { return s.env.Replicas > 1 && len(s.adds) == 1 },
			"replicas 6|1 do C add a|2 deliver 1.0 F|3 do F add a", "replicas 2|1 do A add a|3 do A add a"},
		{"elements have names of one letter", second, "replicas 1|1 do A add hex:ff00|2 do A add long-name", "replicas 1|1 do A add a|2 do A add a"},
		{"a batch has no more than is needed", func(s *shrunk, op convergence.Op) bool { return op.Kind == "remove" },
			"replicas 1|1 do A add a; add b; remove c", "replicas 1|1 do A remove a"},
		{"a join goes that is not needed", second, "replicas 2|1 join B|2 do B add a|3 do B add a", "replicas 1|2 do A add a|3 do A add a"},
	} {
		t.Run(c.what, func(t *testing.T) {
			sys := convergence.System{Name: "shrunk", Open: func(env convergence.Env) (convergence.Replica, error) {
				r, err := OpenORSet(env)
				return &shrunk{ORSet: r.(*ORSet), fails: c.fails}, err
			}}
			text := "convergence script 1|system shrunk|seed 1|"
			s, err := convergence.ReadScript(strings.NewReader(strings.ReplaceAll(text+c.script, "|", "\n")))
			if err != nil {
				t.Fatal(err)
			}
			s, v := convergence.Shrink(sys, s)
			got := strings.TrimPrefix(strings.ReplaceAll(strings.TrimSpace(s.String()), "\n", "|"), text)
			if v == nil || v.Kind != convergence.Panicked || got != c.want {
				t.Errorf("got  %s\nwant %s, %v", got, c.want, v)
			}
		})
	}
}

// changer is an ORSet that changes bytes that belong to the kit.
type changer struct {
	*shrunk
	how  string
	sent [][]byte
}

func (s *changer) Do(op convergence.Op) (convergence.Effect, error) {
	switch {
	case s.how == "sent" && len(s.sent) > 0:
		s.sent[0][0] = 'x'
	case s.how == "context" && op.Context != nil:
		op.Context[0]++
	}
	e, err := s.shrunk.Do(op)
	s.sent = append(s.sent, e.Out...)
	return e, err
}

func (s *changer) Receive(msg []byte) (bool, error) {
	durable, err := s.shrunk.Receive(slices.Clone(msg))
	if s.how == "given" {
		msg[len(msg)-1] = ' '
	}
	return durable, err
}

// asker is a changer with anti-entropy, which has nothing to ask for.
type asker struct {
	*changer
	asked []byte
}

func (s *asker) Ask() ([]byte, error) {
	s.asked = []byte("what is new?")
	return s.asked, nil
}

func (s *asker) Answer(ask []byte) ([][]byte, error) {
	if s.how == "question" {
		ask[0] = 'W'
	}
	return s.sent, nil
}

func (s *asker) Do(op convergence.Op) (convergence.Effect, error) {
	if s.how == "asked" && s.asked != nil {
		s.asked[0] = 'W'
	}
	return s.changer.Do(op)
}

// TestChanged: a replica that changes a message that it has received or sent, or a context, is reported.
func TestChanged(t *testing.T) {
	for how, want := range map[string]string{
		"": "", "given": "replica B changed the bytes of the message of step 1 that it was given",
		"sent":     "replica A changed the bytes of the message of step 1 after it had sent it",
		"context":  "replica A changed the context that it was given with remove a",
		"question": "replica B changed the bytes of the question of step 3 that it was given",
		"asked":    "replica A changed the bytes of the question of step 3 after it had sent it",
	} {
		sys := convergence.System{Name: "changes", Open: func(env convergence.Env) (convergence.Replica, error) {
			r, err := OpenORSet(env)
			return &asker{changer: &changer{shrunk: &shrunk{ORSet: r.(*ORSet), fails: func(*shrunk, convergence.Op) bool { return false }}, how: how}}, err
		}}
		v, script := replay(t, sys, "1 do A add a\n2 do A add b\n3 ask A\n4 deliver 1.0 B\n5 do A remove a ctx=1\n6 answer 3 B\n7 exchange messages\n")
		if (v == nil) != (want == "") || v != nil && (v.Kind != convergence.Changed || v.Text != want) {
			t.Errorf("%s: got %v\n%s", how, v, script)
		}
	}
}
