package bench

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"bigset/bench/system"
)

// TestClusterBack holds the time until a p99 is back to operations that were made up: slow ones until 700 ms after a fault, and one more than two seconds later.
func TestClusterBack(t *testing.T) {
	t.Parallel()
	from := time.Now()
	operations := func(slow func(at time.Duration) bool) *steady {
		s := &steady{}
		for at := time.Duration(0); at < 4*time.Second; at += 5 * time.Millisecond {
			took := time.Millisecond
			if slow(at) {
				took = 50 * time.Millisecond
			}
			s.all = append(s.all, timed{end: from.Add(at), took: took})
		}
		return s
	}
	for _, c := range []struct {
		name        string
		slow        func(at time.Duration) bool
		least, most time.Duration
	}{
		{"never slow", func(time.Duration) bool { return false }, 0, 0},
		{"slow at first", func(at time.Duration) bool { return at < 700*time.Millisecond }, 700 * time.Millisecond, 900 * time.Millisecond},
		{"slow again", func(at time.Duration) bool { return at > 2500*time.Millisecond && at < 2700*time.Millisecond }, 2700 * time.Millisecond, 2900 * time.Millisecond},
		{"slow for ever", func(time.Duration) bool { return true }, 4 * time.Second, 4 * time.Second},
	} {
		if got := operations(c.slow).back(from, from.Add(4*time.Second), 2*time.Millisecond); got < c.least || got > c.most {
			t.Errorf("%s: got %v, want %v to %v", c.name, got, c.least, c.most)
		}
	}
	// No answer at all is no recovery.
	if got := (&steady{}).back(from, from.Add(time.Second), time.Second); got != time.Second {
		t.Errorf("nothing answered: got %v", got)
	}
}

// TestClusterFigures counts errors, and only what ended within the interval.
func TestClusterFigures(t *testing.T) {
	t.Parallel()
	from := time.Now()
	s := &steady{all: []timed{{from.Add(-1), time.Second, system.ErrWrong}, {from, time.Millisecond, nil}, {from.Add(time.Millisecond), time.Millisecond, system.ErrWrong},
		{from.Add(time.Second), time.Second, system.ErrWrong}}}
	f, _ := s.figures(from, from.Add(time.Second))
	if f.Ops != 2 || *f.Errors != 1 || *f.P99 > 1100 {
		t.Errorf("got %d operations, %d errors, p99 %v µs", f.Ops, *f.Errors, *f.P99)
	}
}

func TestClusterConfig(t *testing.T) {
	t.Parallel()
	command := func(...string) *exec.Cmd { t.Error("a process was started"); return nil }
	for _, c := range []ClusterConfig{
		{},
		{Command: command, Parts: []string{"add", "odd"}},
		{Command: command, Rounds: -1},
		{Command: command, Span: -1},
		{Command: command, Elements: -1},
		{Command: command, FillBytes: -1},
		{Command: command, Keys: 20_500},
	} {
		if _, err := RunCluster(t.Context(), c); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}
