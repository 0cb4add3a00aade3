package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset/bench/report"
	"bigset/bench/system"
	"bigset/server/cluster"
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

// TestClusterWhole: a cluster is loaded only when each node serves, is complete, reaches the others, and knows which filters exist, without which it creates none.
func TestClusterWhole(t *testing.T) {
	t.Parallel()
	good := func() *cluster.Status {
		return &cluster.Status{Epoch: 2, Serves: true, Sets: true, Filters: true, Listed: true, Members: []cluster.MemberStatus{{Up: true, Epoch: 2, Sets: true, Filters: true}}}
	}
	if !whole(good()) {
		t.Error("a node that is ready is not whole")
	}
	for what, change := range map[string]func(s *cluster.Status){
		"does not serve": func(s *cluster.Status) { s.Serves = false }, "copies sets": func(s *cluster.Status) { s.Sets = false },
		"copies filters": func(s *cluster.Status) { s.Filters = false }, "knows no filters": func(s *cluster.Status) { s.Listed = false },
		"does not reach a node": func(s *cluster.Status) { s.Members[0].Up = false }, "has hints": func(s *cluster.Status) { s.Members[0].Hints = 1 },
		"is ahead of a node": func(s *cluster.Status) { s.Epoch = 3 },
	} {
		s := good()
		if change(s); whole(s) {
			t.Errorf("a node that %s is whole", what)
		}
	}
}

// TestClusterPage draws what clients met around a fault: gaps where nothing was answered, the errors, and the marks.
func TestClusterPage(t *testing.T) {
	t.Parallel()
	from := time.Now()
	s := &steady{}
	for at := time.Duration(0); at < 2*time.Second; at += 10 * time.Millisecond {
		if at >= 500*time.Millisecond && at < time.Second {
			continue // nothing is answered
		}
		s.all = append(s.all, timed{from.Add(at), time.Millisecond, nil})
	}
	s.all[0].err = system.ErrWrong
	l := &lab{}
	l.around("kill", s, from, from.Add(2*time.Second), moment{from.Add(500 * time.Millisecond), "node c is killed"})
	a := l.arounds[0]
	if len(a.Ends) != 8 || a.OpsPerSecond[0] != 100 || a.OpsPerSecond[2] != 0 || a.P99[2] != 0 || a.P99[0] < 990 || a.Errors[0] != 1 || a.Errors[1] != 0 || a.Marks[0].At != 0.5 {
		t.Errorf("%+v", a)
	}
	if charts := a.charts(); len(charts) != 3 || !math.IsNaN(charts[1].Lines[0].Y[2]) || a.P99[2] != 0 {
		t.Errorf("%+v", charts)
	}
	r := &ClusterReport{Config: ClusterConfig{Parts: clusterPartNames(), Rounds: 2}, Arounds: l.arounds, Results: []Row{
		{Workload: "kill/after", System: systemCluster, Figures: Figures{OpsPerSecond: 3000, Errors: new(uint64(0))}},
		{Workload: "bloomd/check-64-16", System: systemCluster, Figures: Figures{OpsPerSecond: 3000}, Rounds: []Figures{{OpsPerSecond: 2000}, {OpsPerSecond: 4000}}},
	}}
	p := r.page()
	var titles []string
	for _, s := range p.Sections {
		titles = append(titles, fmt.Sprintf("%s %d", s.Title, len(s.Charts)))
	}
	if want := []string{"Goals 0", "filters 1", "faults 3", "Machine, and how to run it again 0"}; !slices.Equal(titles, want) {
		t.Errorf("sections %q, want %q", titles, want)
	}
	if v := p.Sections[0].Verdicts; len(v) != 1 || v[0].Word != report.Pass || v[0].What != "kill/after cluster" {
		t.Errorf("verdicts %+v", v)
	}
	var page bytes.Buffer
	if err := r.WritePage(&page); err != nil || !strings.Contains(page.String(), "kill/after cluster") {
		t.Errorf("%d bytes, %v", page.Len(), err)
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
