package textbook

import (
	"maps"
	"slices"

	"bigset/convergence"
)

// sortedLog is a set whose operations name those that they follow. Each replica sorts them topologically, ties by a hash, and the last one
// on an element decides.
type sortedLog struct {
	env   convergence.Env
	n     uint64
	log   map[dot]entry
	order []dot // of arrival
	heads map[dot]bool
	wait  []entry
	bug   string
}

type entry struct {
	name  dot
	after []dot
	elem  string
	add   bool
}

func openSortedLog(env convergence.Env, bug string) *sortedLog {
	return &sortedLog{env: env, bug: bug, log: map[dot]entry{}, heads: map[dot]bool{}}
}

// Do implements convergence.Replica.
func (s *sortedLog) Do(op convergence.Op) (convergence.Effect, error) {
	s.n++
	o := entry{dot{s.env.ID, s.n}, slices.SortedFunc(maps.Keys(s.heads), order), op.Elem, op.Kind == "add"}
	s.append(o)
	var b buffer
	b.dot(o.name)
	b.dots(o.after)
	b.str(o.elem)
	if o.add {
		b.num(1)
	} else {
		b.num(0)
	}
	return convergence.Effect{Out: [][]byte{b}}, nil
}

func (s *sortedLog) append(o entry) {
	s.log[o.name] = o
	s.order = append(s.order, o.name)
	for _, d := range o.after {
		delete(s.heads, d)
	}
	s.heads[o.name] = true
}

// Receive implements convergence.Replica. An operation waits for those that it follows.
func (s *sortedLog) Receive(msg []byte) (durable bool, err error) {
	src := source{b: msg}
	s.wait = append(s.wait, entry{src.dot(), src.dots(), src.str(), src.num() == 1})
	for again := true; again; {
		again = false
		s.wait = slices.DeleteFunc(s.wait, func(o entry) bool {
			if s.knows(o.name) {
				return true
			}
			if slices.ContainsFunc(o.after, func(d dot) bool { return !s.knows(d) }) {
				return false
			}
			s.append(o)
			again = true
			return true
		})
	}
	return false, src.end()
}

func (s *sortedLog) knows(d dot) bool {
	_, ok := s.log[d]
	return ok
}

// sorted returns the operations in their order.
func (s *sortedLog) sorted() (list []dot) {
	if s.bug == "log-by-arrival" {
		return s.order
	}
	left, next, ready := map[dot]int{}, map[dot][]dot{}, []dot(nil)
	for d, o := range s.log {
		if left[d] = len(o.after); left[d] == 0 {
			ready = append(ready, d)
		}
		for _, a := range o.after {
			next[a] = append(next[a], d)
		}
	}
	for len(ready) > 0 {
		d := slices.MinFunc(ready, func(a, b dot) int {
			if scramble(a) < scramble(b) {
				return -1
			}
			return 1
		})
		ready = slices.DeleteFunc(ready, func(o dot) bool { return o == d })
		list = append(list, d)
		for _, o := range next[d] {
			if left[o]--; left[o] == 0 {
				ready = append(ready, o)
			}
		}
	}
	return list
}

// Read implements convergence.Replica.
func (s *sortedLog) Read() (convergence.View, error) {
	shown := map[string]bool{}
	for _, d := range s.sorted() {
		if o := s.log[d]; o.add {
			shown[o.elem] = true
		} else {
			delete(shown, o.elem)
		}
	}
	return convergence.ViewOf(slices.Collect(maps.Keys(shown))), nil
}

// Close implements convergence.Replica.
func (s *sortedLog) Close() error { return nil }

func sortedLogs(bug string) convergence.System {
	return convergence.System{Name: "lww-sorted-log", Buffers: true, Spec: convergence.LastWriterWins{Time: convergence.TimeAny}, Open: func(env convergence.Env) (convergence.Replica, error) {
		return openSortedLog(env, bug), nil
	}}
}
