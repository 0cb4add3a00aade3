package textbook

import (
	"maps"
	"slices"

	"bigset/convergence"
)

// deltaRemoveWins is a remove-wins set of deltas. An element has dots of adds and of removes; an operation replaces those that are
// present, and the element is present while all of its dots are adds. A remove that finds no dot is refused.
type deltaRemoveWins struct {
	env  convergence.Env
	n    uint64
	dots map[string]map[dot]bool // true for an add
	seen map[dot]bool
}

func openDeltaRemoveWins(env convergence.Env) *deltaRemoveWins {
	return &deltaRemoveWins{env: env, n: env.Base, dots: map[string]map[dot]bool{}, seen: map[dot]bool{}}
}

// Do implements convergence.Replica.
func (s *deltaRemoveWins) Do(op convergence.Op) (e convergence.Effect, err error) {
	if op.Kind == "remove" && len(s.dots[op.Elem]) == 0 {
		return e, convergence.ErrRefused
	}
	s.n++
	var b buffer
	b.str(op.Elem)
	b.str(op.Kind)
	b.dot(dot{s.env.ID, s.n})
	b.dots(slices.Collect(maps.Keys(s.dots[op.Elem])))
	_, err = s.Receive(b)
	return convergence.Effect{Out: [][]byte{b}}, err
}

// Receive implements convergence.Replica.
func (s *deltaRemoveWins) Receive(msg []byte) (durable bool, err error) {
	src := source{b: msg}
	elem, kind, d, replaced := src.str(), src.str(), src.dot(), src.dots()
	if err := src.end(); err != nil {
		return false, err
	}
	if s.dots[elem] == nil {
		s.dots[elem] = map[dot]bool{}
	}
	for _, r := range replaced {
		delete(s.dots[elem], r)
		s.seen[r] = true
	}
	if !s.seen[d] {
		s.seen[d] = true
		s.dots[elem][d] = kind == "add"
	}
	return false, nil
}

// Read implements convergence.Replica.
func (s *deltaRemoveWins) Read() (convergence.View, error) {
	var list []string
	for elem, dots := range s.dots {
		if len(dots) > 0 && !slices.Contains(slices.Collect(maps.Values(dots)), false) {
			list = append(list, elem)
		}
	}
	return convergence.ViewOf(list), nil
}

// Close implements convergence.Replica.
func (s *deltaRemoveWins) Close() error { return nil }
