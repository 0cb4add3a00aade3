package textbook

import (
	"maps"
	"slices"

	"bigset/convergence"
)

// phases is a 2P-set, or a grow-only set if nothing is removed. It sends its state or an operation.
type phases struct {
	added, removed map[string]bool
	state          bool
	gossip         bool
	bug            string
}

func openPhases(o phases) *phases {
	o.added, o.removed = map[string]bool{}, map[string]bool{}
	return &o
}

// Do implements convergence.Replica.
func (s *phases) Do(op convergence.Op) (e convergence.Effect, err error) {
	added, removed := map[string]bool{}, map[string]bool{}
	switch {
	case op.Kind == "add":
		added[op.Elem] = true
	case !s.added[op.Elem]:
		return e, convergence.ErrRefused
	default:
		removed[op.Elem] = true
	}
	maps.Copy(s.added, added)
	maps.Copy(s.removed, removed)
	switch {
	case s.gossip:
	case s.state:
		e.Out = [][]byte{encodePhases(s.added, s.removed)}
	default:
		e.Out = [][]byte{encodePhases(added, removed)}
	}
	return e, nil
}

func encodePhases(both ...map[string]bool) []byte {
	var b buffer
	for _, set := range both {
		b.num(uint64(len(set)))
		for _, elem := range slices.Sorted(maps.Keys(set)) {
			b.str(elem)
		}
	}
	return b
}

// Receive implements convergence.Replica.
func (s *phases) Receive(msg []byte) (durable bool, err error) {
	src := source{b: msg}
	for _, set := range []map[string]bool{s.added, s.removed} {
		for range src.count() {
			set[src.str()] = true
		}
	}
	return false, src.end()
}

// Read implements convergence.Replica.
func (s *phases) Read() (v convergence.View, err error) {
	for _, elem := range slices.Sorted(maps.Keys(s.added)) {
		if !s.removed[elem] {
			v.Items = append(v.Items, convergence.Item{Elem: elem})
		}
	}
	return page(v, s.bug), nil
}

// Close implements convergence.Replica.
func (s *phases) Close() error { return nil }

// phasesRepair is a phases with anti-entropy by states.
type phasesRepair struct{ *phases }

// Ask implements convergence.Repairer.
func (s phasesRepair) Ask() ([]byte, error) { return nil, nil }

// Answer implements convergence.Repairer.
func (s phasesRepair) Answer([]byte) ([][]byte, error) {
	return [][]byte{encodePhases(s.added, s.removed)}, nil
}

// removeWins is a set in which an add undoes the removes that its replica knew of. If an add names them, it may come before them;
// otherwise it undoes those that are present, and messages must come in causal order.
type removeWins struct {
	actor   int
	n       uint64
	names   bool
	added   map[string]bool
	removes map[string][]dot
	undone  map[dot]bool
	seen    clock
	wait    []change
	bug     string
}

func openRemoveWins(env convergence.Env, names bool, bug string) *removeWins {
	return &removeWins{actor: env.ID, names: names, bug: bug, added: map[string]bool{}, removes: map[string][]dot{}, undone: map[dot]bool{}, seen: clock{}}
}

// Do implements convergence.Replica.
func (s *removeWins) Do(op convergence.Op) (convergence.Effect, error) {
	c := change{author: s.actor, seq: s.seen[s.actor] + 1, deps: maps.Clone(s.seen)}
	it := item{elem: op.Elem}
	if op.Kind == "add" {
		it.dead = slices.Clone(s.removes[op.Elem])
	} else {
		s.n++
		it.add = dot{s.actor, s.n}
	}
	c.items = []item{it}
	s.all(c)
	return convergence.Effect{Out: [][]byte{c.encode()}}, nil
}

// Receive implements convergence.Replica.
func (s *removeWins) Receive(msg []byte) (durable bool, err error) {
	c, err := decodeChange(msg)
	if err != nil {
		return false, err
	}
	if s.names {
		s.all(c)
		return false, nil
	}
	s.wait = append(s.wait, c)
	for s.next() {
	}
	return false, nil
}

func (s *removeWins) next() bool {
	s.wait = slices.DeleteFunc(s.wait, func(c change) bool { return c.seq <= s.seen[c.author] })
	for _, c := range s.wait {
		due := c.seq == s.seen[c.author]+1
		for a, n := range c.deps {
			due = due && (a == c.author || n <= s.seen[a])
		}
		if due {
			s.all(c)
			return true
		}
	}
	return false
}

// all applies a change: here a dot names a remove, and the dead are the removes that an add undoes.
func (s *removeWins) all(c change) {
	s.seen[c.author] = max(s.seen[c.author], c.seq)
	for _, it := range c.items {
		if it.add.n > 0 {
			if !slices.Contains(s.removes[it.elem], it.add) {
				s.removes[it.elem] = append(s.removes[it.elem], it.add)
			}
			continue
		}
		s.added[it.elem] = true
		for _, d := range it.dead {
			s.undone[d] = true
		}
	}
}

// Read implements convergence.Replica.
func (s *removeWins) Read() (v convergence.View, err error) {
	for _, elem := range slices.Sorted(maps.Keys(s.added)) {
		if !slices.ContainsFunc(s.removes[elem], func(d dot) bool { return !s.undone[d] }) {
			v.Items = append(v.Items, convergence.Item{Elem: elem})
		}
	}
	return page(v, s.bug), nil
}

// Close implements convergence.Replica.
func (s *removeWins) Close() error { return nil }
