package convergence_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"bigset/convergence"
	"bigset/internal/testkit/tier"
)

// halfway is a grow-only set that sends everything it has. On a full disk it does in memory as much of an operation as part says,
// and answers with an error.
type halfway struct {
	disk, all map[string]bool
	part      int // how many operations of a failing batch it does; -1 is all, and on the disk, too
	flips     bool
	full      bool
	failed    []string
}

func openHalfway(env convergence.Env, part int, flips bool) (convergence.Replica, error) {
	s := &halfway{disk: map[string]bool{}, part: part, flips: flips}
	if old, ok := env.Disk.(map[string]bool); ok {
		s.disk = old
	}
	s.all = maps.Clone(s.disk)
	return s, nil
}

func (s *halfway) Do(op convergence.Op) (convergence.Effect, error) {
	return s.DoBatch([]convergence.Op{op})
}

func (s *halfway) DoBatch(ops []convergence.Op) (e convergence.Effect, err error) {
	if slices.ContainsFunc(ops, func(op convergence.Op) bool { return op.Kind != "add" }) {
		return e, convergence.ErrRefused
	}
	if s.full {
		err = errors.New("disk full")
	}
	for i, op := range ops {
		switch {
		case s.full && s.part >= 0 && i >= s.part:
			continue
		case s.full && s.part >= 0 && !s.all[op.Elem]:
			s.failed = append(s.failed, op.Elem)
		}
		s.all[op.Elem] = true
	}
	return e, err
}

func (s *halfway) Receive(msg []byte) (bool, error) {
	var list [][]byte
	err := json.Unmarshal(msg, &list)
	for _, e := range list {
		s.all[string(e)] = true
	}
	return false, err
}

func (s *halfway) Ask() ([]byte, error) { return nil, nil }

func (s *halfway) Answer([]byte) ([][]byte, error) {
	var list [][]byte
	for e := range s.all {
		list = append(list, []byte(e))
	}
	msg, err := json.Marshal(list)
	return [][]byte{msg}, err
}

func (s *halfway) Read() (convergence.View, error) {
	return convergence.ViewOf(slices.Collect(maps.Keys(s.all))), nil
}

func (s *halfway) Close() error { return nil }

func (s *halfway) DiskFault(kind string) error { s.full = kind != ""; return nil }

func (s *halfway) Sync() error {
	if s.full {
		return errors.New("disk full")
	}
	maps.Copy(s.disk, s.all)
	if s.flips {
		for _, e := range s.failed {
			delete(s.disk, e)
		}
	}
	return nil
}

func (s *halfway) Crash(int) (any, error) { return s.disk, nil }
func (s *halfway) Stop() (any, error)     { return s.disk, s.Sync() }

// TestFailedOperations: an operation that was answered by an error is done wholly or not at all, and what was shown stays.
func TestFailedOperations(t *testing.T) {
	for name, c := range map[string]struct {
		part  int
		flips bool
		want  string
	}{
		"not-done":    {part: 0},
		"done":        {part: -1},
		"one-of-many": {part: 1, want: convergence.Torn},
		"flips":       {part: 100, flips: true, want: convergence.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			o := convergence.Options{}
			if c.want == "" {
				o.Schedules = tier.Pick(300, 300, 5000)
			}
			r := explore(t, convergence.System{Name: name, BestEffort: true, Open: func(env convergence.Env) (convergence.Replica, error) {
				return openHalfway(env, c.part, c.flips)
			}}, o)
			switch f := r.Failure; {
			case f == nil && c.want == "":
				if c.part != 0 && r.Sometimes["failed operation was done"] == 0 {
					t.Error("no failed operation was seen to be done")
				}
			case f == nil || f.Violation.Kind != c.want:
				t.Errorf("want %q, got %v", c.want, f)
			}
		})
	}
}
