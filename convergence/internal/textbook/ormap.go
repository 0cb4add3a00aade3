package textbook

import (
	"cmp"
	"maps"
	"slices"

	"bigset/convergence"
)

// unlink keeps the puts of a key that no later operation has observed.
func unlink(s *cells, v value) {
	switch s.bug {
	case "deletes-take-all":
		if v.kind == "delete" {
			s.now[v.elem] = nil
		}
	case "early-deletes-forgotten":
		v.over = without(v.over, func(d dot) bool { return !s.known[d] })
	}
	replace(s, v)
	s.now[v.elem] = slices.DeleteFunc(s.now[v.elem], func(o value) bool { return o.kind == "delete" })
}

func latest(s *cells, list []value) []string {
	best := slices.MaxFunc[[]value]
	if s.bug == "earliest-shown" {
		best = slices.MinFunc[[]value]
	}
	return []string{best(list, func(a, b value) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.author, b.author), cmp.Compare(a.name.n, b.name.n))
	}).arg}
}

func orMap(bug string) convergence.System {
	return convergence.System{Name: "or-map", Spec: convergence.ORMap{}, Open: func(env convergence.Env) (convergence.Replica, error) {
		s := openCells(env, bug, unlink, latest)
		s.observes = true
		return s, nil
	}}
}

// registerMap is a map as in Akka: an observed-remove set of keys without tombstones, and beside it a last-writer-wins register for each
// key. A register that was deleted comes back with a concurrent put of its key, if another replica still has it.
type registerMap struct {
	env  convergence.Env
	keys *orswot
	regs map[string]register
}

// register is what a key has.
type register struct {
	time  int64
	by    int
	value string
}

func openRegisterMap(env convergence.Env) *registerMap {
	return &registerMap{env: env, keys: openState(env, stateOptions{}), regs: map[string]register{}}
}

// Do implements convergence.Replica.
func (s *registerMap) Do(op convergence.Op) (e convergence.Effect, err error) {
	kind := "remove"
	if op.Kind == "put" {
		time := s.env.Now()
		if old, ok := s.regs[op.Elem]; ok {
			time = max(time, old.time+1)
		}
		kind, s.regs[op.Elem] = "add", register{time, s.env.ID, string(op.Arg)}
	} else {
		delete(s.regs, op.Elem)
	}
	_, err = s.keys.Do(convergence.Op{Kind: kind, Elem: op.Elem})
	return e, err
}

// Ask implements convergence.Repairer.
func (s *registerMap) Ask() ([]byte, error) { return nil, nil }

// Answer implements convergence.Repairer.
func (s *registerMap) Answer([]byte) ([][]byte, error) {
	var b buffer
	b.str(string(s.keys.encode()))
	b.num(uint64(len(s.regs)))
	for _, key := range slices.Sorted(maps.Keys(s.regs)) {
		r := s.regs[key]
		b.str(key)
		b.num(uint64(r.time))
		b.num(uint64(r.by))
		b.str(r.value)
	}
	return [][]byte{b}, nil
}

// Receive implements convergence.Replica.
func (s *registerMap) Receive(msg []byte) (durable bool, err error) {
	src := source{b: msg}
	if _, err := s.keys.Receive([]byte(src.str())); err != nil {
		return false, err
	}
	for range src.count() {
		key, r := src.str(), register{int64(src.num()), int(src.num()), src.str()}
		old, ok := s.regs[key]
		if !ok || r.time > old.time || r.time == old.time && r.by > old.by {
			s.regs[key] = r
		}
	}
	maps.DeleteFunc(s.regs, func(key string, _ register) bool { return len(s.keys.entries[key]) == 0 })
	return false, src.end()
}

// Read implements convergence.Replica.
func (s *registerMap) Read() (v convergence.View, err error) {
	for _, key := range slices.Sorted(maps.Keys(s.regs)) {
		v.Items = append(v.Items, convergence.Item{Elem: key, Values: []string{s.regs[key].value}})
	}
	return v, nil
}

// Close implements convergence.Replica.
func (s *registerMap) Close() error { return nil }

func registerMaps() convergence.System {
	return convergence.System{Name: "or-map-registers", BestEffort: true, Spec: convergence.ORMap{Time: convergence.TimeHybrid}, Open: func(env convergence.Env) (convergence.Replica, error) {
		return openRegisterMap(env), nil
	}}
}
