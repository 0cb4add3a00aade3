package convergence_test

import (
	"fmt"
	"strings"
	"testing"

	"bigset/convergence"
)

// replay runs a script that a test has written.
func replay(t *testing.T, sys convergence.System, steps string) (*convergence.Violation, string) {
	t.Helper()
	head := fmt.Sprintf("convergence script 1\nsystem %s\nseed 1\nreplicas 3\n", sys.Name)
	v, s, err := convergence.Replay(sys, strings.NewReader(head+steps))
	if err != nil {
		t.Fatal(err)
	}
	return v, s.String()
}

func wantLines(t *testing.T, script string, lines ...string) {
	t.Helper()
	flat := strings.Join(strings.Fields(script), " ")
	for _, line := range lines {
		if !strings.Contains(flat, line) {
			t.Errorf("want %q in\n%s", line, script)
		}
	}
}

// TestJoins: a replica that joins is opened at that step, receives nothing before it, and is equal at the end.
func TestJoins(t *testing.T) {
	var opened []string
	sys := convergence.System{Name: "joins", Open: func(env convergence.Env) (convergence.Replica, error) {
		opened = append(opened, fmt.Sprintf("%c at %d", 'A'+env.ID, (env.Now()-clockBegins)/1000))
		return OpenORSet(env)
	}}
	v, script := replay(t, sys, `1 do A add a
2 deliver 1.0 C
3 join C
4 deliver 1.0 C
5 do C add b
6 join C
7 deliver 5.0 A
8 gone C
9 join C
10 exchange messages
`)
	if v != nil || fmt.Sprint(opened) != "[A at 0 B at 0 C at 3]" {
		t.Errorf("opened %v, %v", opened, v)
	}
	wantLines(t, script, "2 deliver 1.0 C # skipped: it is not there", "3 join C # C shows {}", "4 deliver 1.0 C # C shows {a[0-1]}", "6 join C # skipped: it has joined",
		"9 join C # skipped: it has joined, or has left", "10 exchange messages # newest message first at A; A shows {a[0-1] b[2-1]}; B shows {a[0-1] b[2-1]}")
}

// TestGone: a replica that has left for good is closed once, receives nothing, and takes no part in the exchange. Two stay.
func TestGone(t *testing.T) {
	closed := map[int]int{}
	sys := convergence.System{Name: "gone", Open: func(env convergence.Env) (convergence.Replica, error) {
		r, err := OpenORSet(env)
		return leaver{r, func() { closed[env.ID]++ }}, err
	}}
	v, script := replay(t, sys, `1 do A add a
2 gone A
3 do A add b
4 deliver 1.0 B
5 gone B
6 exchange messages
`)
	if v != nil || fmt.Sprint(closed) != "map[0:1 1:1 2:1]" {
		t.Errorf("closed %v, %v", closed, v)
	}
	wantLines(t, script, "3 do A add b # skipped: it is not there", "4 deliver 1.0 B # B shows {a[0-1]}", "5 gone B # skipped", "6 exchange messages # B shows {a[0-1]}; C shows {a[0-1]}")
}

type leaver struct {
	convergence.Replica
	close func()
}

func (s leaver) Close() error { s.close(); return nil }

// teller is an outbox whose operations are not durable, although its disk keeps them, and that sends nothing again. By anti-entropy
// it sends what it has done, or only what it has done since it was opened.
type teller struct {
	*outbox
	since int
}

func (s teller) Do(op convergence.Op) (convergence.Effect, error) {
	e, err := s.outbox.Do(op)
	e.Durable = false
	return e, err
}

func (s teller) Unsent() ([][]byte, error)       { return nil, nil }
func (s teller) Ask() ([]byte, error)            { return nil, nil }
func (s teller) Answer([]byte) ([][]byte, error) { return (*s.sent)[s.since:], nil }
func (s teller) Crash(int) (disk any, err error) { return s.outbox, nil }
func (s teller) Stop() (disk any, err error)     { return s.outbox, nil }

// TestLostForGood: in scripts of odd seeds, an undelivered message is lost with its author's memory, or with its author. What the
// author's disk has kept, anti-entropy must bring. What left with the author must not be shown.
func TestLostForGood(t *testing.T) {
	for _, c := range []struct {
		seed      int
		sinceOpen bool
		steps     string
		ok        bool
	}{
		{1, false, "1 do A add a\n2 crash A 4\n3 exchange messages", true},
		{1, true, "1 do A add a\n2 crash A 4\n3 exchange messages", false},
		{2, true, "1 do A add a\n2 crash A 4\n3 exchange messages", true},
		{1, true, "1 do A add a\n2 deliver 1.0 B\n3 crash A 4\n4 exchange messages", true},
		{1, true, "1 do A add a\n2 sync A\n3 crash A 4\n4 exchange messages", true},
		{1, false, "1 do A add a\n2 gone A\n3 exchange messages", true},
	} {
		sys := convergence.System{Name: "tells", Open: func(env convergence.Env) (convergence.Replica, error) {
			r, err := openOutbox(env, true)
			s := teller{outbox: r.(*outbox)}
			if c.sinceOpen {
				s.since = len(*s.sent)
			}
			return s, err
		}}
		script := fmt.Sprintf("convergence script 1\nsystem tells\nseed %d\nreplicas 3\n%s\n", c.seed, c.steps)
		v, s, err := convergence.Replay(sys, strings.NewReader(script))
		if err != nil || (v == nil) != c.ok {
			t.Errorf("%+v: got %v, %v\n%s", c, v, err, s)
		}
	}
}
