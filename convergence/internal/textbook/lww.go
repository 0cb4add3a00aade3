package textbook

import (
	"maps"
	"slices"

	"bigset/convergence"
)

// lww keeps the last operation on each element.
type lww struct {
	env    convergence.Env
	spec   convergence.LastWriterWins
	strict bool // its clock never stands still
	ticks  bool // receiving counts as an event of its own
	byKey  bool // each element has a clock of its own
	bug    string
	now    int64
	last   map[string]written
}

type written struct {
	time   int64
	author int
	add    bool
}

func openLWW(env convergence.Env, s lww) *lww {
	s.env, s.last = env, map[string]written{}
	return &s
}

func (s *lww) time(elem string) int64 {
	wall := s.env.Now()
	if s.byKey {
		s.now = s.last[elem].time
	}
	if s.bug == "rounds-time" {
		wall -= wall % 20_000
	}
	switch s.spec.Time {
	case convergence.TimeWall:
		return wall
	case convergence.TimeLamport:
		s.now++
		if s.bug == "version-of-8-bits" {
			s.now %= 256
		}
	case convergence.TimeHybrid:
		s.now = max(wall, s.now+1)
	default:
		if s.strict {
			s.now++
		}
		s.now = max(wall, s.now)
	}
	return s.now
}

// Do implements convergence.Replica.
func (s *lww) Do(op convergence.Op) (convergence.Effect, error) {
	w := written{s.time(op.Elem), s.env.ID, op.Kind == "add"}
	s.put(op.Elem, w)
	var b buffer
	b.str(op.Elem)
	b.num(uint64(w.time))
	b.num(uint64(w.author))
	if w.add {
		b.num(1)
	} else {
		b.num(0)
	}
	return convergence.Effect{Out: [][]byte{b}}, nil
}

// Receive implements convergence.Replica.
func (s *lww) Receive(msg []byte) (durable bool, err error) {
	src := source{b: msg}
	elem, time, author, add := src.str(), int64(src.num()), int(src.num()), src.num() == 1
	if err := src.end(); err != nil {
		return false, err
	}
	if s.bug == "time-as-float" {
		time = int64(float64(time))
	}
	if s.bug == "drops-what-is-ahead" && time > s.env.Now() {
		return false, nil
	}
	if (s.spec.Time == convergence.TimeLamport || s.spec.Time == convergence.TimeHybrid) && s.bug != "clock-not-joined" {
		s.now = max(s.now, time)
		if s.ticks {
			s.now++
		}
	}
	s.put(elem, written{time, author, add})
	return false, nil
}

func (s *lww) put(elem string, w written) {
	if old, ok := s.last[elem]; !ok || s.decides(w, old) {
		s.last[elem] = w
	}
}

func (s *lww) decides(a, b written) bool {
	if a.time != b.time {
		return a.time > b.time
	}
	switch s.spec.Tie {
	case convergence.TieAdd:
		return a.add && !b.add
	case convergence.TieRemove:
		return !a.add && b.add
	case convergence.TieAny: // odd replicas before even ones
		if a.author%2 != b.author%2 {
			return a.author%2 == 1
		}
	}
	if s.bug == "ties-by-arrival" {
		return true
	}
	return a.author > b.author || a.author == b.author && a.add && !b.add
}

// Read implements convergence.Replica.
func (s *lww) Read() (v convergence.View, err error) {
	for _, elem := range slices.Sorted(maps.Keys(s.last)) {
		if s.last[elem].add {
			v.Items = append(v.Items, convergence.Item{Elem: elem})
		}
	}
	return page(v, s.bug), nil
}

// Close implements convergence.Replica.
func (s *lww) Close() error { return nil }
