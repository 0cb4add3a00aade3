package convergence_test

import (
	"slices"
	"testing"

	"bigset/convergence"
)

// late is an ORSet that sends what it has done later, when something happens.
type late struct {
	*ORSet
	when      string
	held, out [][]byte
}

func (s *late) Do(op convergence.Op) (convergence.Effect, error) {
	e, err := s.ORSet.Do(op)
	s.held, e.Out = append(s.held, e.Out...), nil
	return e, err
}

func (s *late) Sent() [][]byte {
	out := s.out
	s.out = nil
	return out
}

func (s *late) now(when string) {
	if s.when == when {
		s.out, s.held = append(s.out, s.held...), nil
	}
}

func (s *late) Maintain(n int) (string, error) {
	if n == 3 {
		s.now("Maintain")
	}
	return "timer", nil
}

// lateDisk is a late that sends what its disk has.
type lateDisk struct{ *late }

func (s lateDisk) Sync() error {
	s.now("Sync")
	return nil
}

func (s lateDisk) Crash(int) (any, error) { return s.late, nil }
func (s lateDisk) Stop() (any, error)     { return s.late, s.Sync() }

// lateAgain is a late that sends everything that it has, again and again.
type lateAgain struct {
	*late
	all map[string]bool
}

func (s lateAgain) Do(op convergence.Op) (convergence.Effect, error) {
	e, err := s.ORSet.Do(op)
	for _, msg := range e.Out {
		s.all[string(msg)] = true
	}
	e.Out = nil
	return e, err
}

func (s lateAgain) Receive(msg []byte) (bool, error) {
	s.all[string(msg)] = true
	return s.ORSet.Receive(slices.Clone(msg))
}

func (s lateAgain) Ask() ([]byte, error) {
	for msg := range s.all {
		if s.when == "Ask" {
			s.out = append(s.out, []byte(msg))
		}
	}
	return nil, nil
}

func (s lateAgain) Answer([]byte) ([][]byte, error) { return nil, nil }

// TestTimers: what replicas send when a timer expires, or when they have synced, is sent and delivered in each exchange.
func TestTimers(t *testing.T) {
	for _, when := range []string{"Maintain", "Sync", "Ask", "never", "never asked"} {
		r := explore(t, convergence.System{Name: "late", Open: func(env convergence.Env) (convergence.Replica, error) {
			r, err := OpenORSet(env)
			s := &late{ORSet: r.(*ORSet), when: when}
			if disk, ok := env.Disk.(*late); ok {
				s.ORSet, s.held = disk.ORSet, append(disk.out, disk.held...)
			}
			switch when {
			case "Sync":
				return lateDisk{s}, err
			case "Ask", "never asked":
				return lateAgain{s, map[string]bool{}}, err
			}
			return s, err
		}}, convergence.Options{Schedules: 40, ShrinkRuns: 20})
		if found := r.Failure != nil; found != (when == "never" || when == "never asked") {
			t.Errorf("it sends when %s: %v", when, r.Failure)
		}
	}
}
