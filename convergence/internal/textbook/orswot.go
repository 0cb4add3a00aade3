package textbook

import (
	"maps"
	"slices"

	"bigset/convergence"
)

// stateOptions select the variant of the set without tombstones.
type stateOptions struct {
	own      bool // an add replaces only its replica's older one, and a client's context covers a remove, as in Riak
	untagged bool // adds have no names
	gossip   bool // states travel only as answers
	repair   bool // states travel as messages and as answers
	bug      string
}

// orswot is an observed-remove set without tombstones: a dot that its clock covers and its entries do not contain is dead.
type orswot struct {
	env      convergence.Env
	o        stateOptions
	actor    int
	clock    clock
	entries  map[string][]dot
	deferred []deferred
}

// deferred is a remove whose context covers dots that have not come yet.
type deferred struct {
	elem string
	ctx  clock
}

func openState(env convergence.Env, o stateOptions) *orswot {
	s := &orswot{env: env, o: o, actor: env.ID, clock: clock{}, entries: map[string][]dot{}}
	return s
}

// Do implements convergence.Replica.
func (s *orswot) Do(op convergence.Op) (e convergence.Effect, err error) {
	ctx := maps.Clone(s.clock)
	if s.o.own && op.Context != nil && s.o.bug != "contexts-ignored" {
		src := source{b: op.Context}
		if ctx = src.clock(); src.end() != nil {
			return e, errMalformed
		}
	}
	switch {
	case op.Kind == "remove":
		s.remove(deferred{op.Elem, ctx})
	case s.o.bug == "present-skipped" && len(s.entries[op.Elem]) > 0:
	default:
		s.clock[s.actor]++
		d := dot{s.actor, s.clock[s.actor]}
		old := s.entries[op.Elem]
		if s.o.own {
			old = without(old, func(o dot) bool { return o.actor != s.actor })
		}
		s.put(op.Elem, append(without(s.entries[op.Elem], func(o dot) bool { return slices.Contains(old, o) }), d))
		e.Tag = d.String()
		if s.o.untagged {
			e.Tag = ""
		}
	}
	if !s.o.gossip {
		e.Out = [][]byte{s.encode()}
	}
	return e, nil
}

// remove kills what the context covers, now and when more of it arrives.
func (s *orswot) remove(d deferred) {
	s.put(d.elem, without(s.entries[d.elem], d.ctx.has))
	if !d.ctx.within(s.clock) {
		s.deferred = append(s.deferred, d)
	}
}

func (s *orswot) put(elem string, dots []dot) {
	if len(dots) == 0 {
		delete(s.entries, elem)
		return
	}
	slices.SortFunc(dots, order)
	s.entries[elem] = dots
}

func (s *orswot) encode() []byte {
	var b buffer
	b.clock(s.pruned())
	b.num(uint64(len(s.entries)))
	for _, elem := range slices.Sorted(maps.Keys(s.entries)) {
		b.str(elem)
		b.dots(s.entries[elem])
	}
	b.num(uint64(len(s.deferred)))
	for _, d := range s.deferred {
		b.str(d.elem)
		b.clock(d.ctx)
	}
	return b
}

// pruned returns the clock.
func (s *orswot) pruned() clock {
	if s.o.bug != "clocks-pruned" || len(s.clock) <= 2 {
		return s.clock
	}
	c := maps.Clone(s.clock)
	least := slices.MinFunc(slices.Sorted(maps.Keys(c)), func(a, b int) int { return int(c[a]) - int(c[b]) })
	delete(c, least)
	return c
}

// Receive implements convergence.Replica.
func (s *orswot) Receive(msg []byte) (durable bool, err error) {
	src := source{b: msg}
	o := &orswot{clock: src.clock(), entries: map[string][]dot{}}
	for range src.count() {
		elem := src.str()
		o.entries[elem] = src.dots()
	}
	for range src.count() {
		o.deferred = append(o.deferred, deferred{src.str(), src.clock()})
	}
	if err := src.end(); err != nil {
		return false, err
	}
	s.merge(o)
	return false, nil
}

func (s *orswot) merge(o *orswot) {
	if s.o.bug == "dominated-skipped" && o.clock.within(s.clock) {
		return
	}
	elems := map[string]bool{}
	for elem := range s.entries {
		elems[elem] = true
	}
	for elem := range o.entries {
		elems[elem] = true
	}
	for elem := range elems {
		mine, theirs := s.entries[elem], o.entries[elem]
		both := s.o.bug == "both-sides-stay" && len(mine) > 0 && len(theirs) > 0
		left := without(mine, func(d dot) bool { return o.clock.has(d) && !slices.Contains(theirs, d) && !both })
		for _, d := range theirs {
			if !slices.Contains(left, d) && (!s.clock.has(d) || both) {
				left = append(left, d)
			}
		}
		s.put(elem, left)
	}
	s.clock.join(o.clock)
	waiting := s.deferred
	if s.o.bug != "deferred-unmerged" {
		waiting = append(waiting, o.deferred...)
	}
	s.deferred = nil
	for _, d := range waiting {
		if s.o.bug == "deferred-once" {
			s.put(d.elem, without(s.entries[d.elem], d.ctx.has))
		} else if !s.knows(d) {
			s.remove(d)
		}
	}
}

// knows reports whether the replica already waits for the same remove.
func (s *orswot) knows(d deferred) bool {
	return slices.ContainsFunc(s.deferred, func(o deferred) bool { return o.elem == d.elem && maps.Equal(o.ctx, d.ctx) })
}

// Read implements convergence.Replica.
func (s *orswot) Read() (v convergence.View, err error) {
	var ctx buffer
	ctx.clock(s.clock)
	for _, elem := range slices.Sorted(maps.Keys(s.entries)) {
		it := convergence.Item{Elem: elem, Tags: tags(s.entries[elem])}
		if s.o.untagged {
			it.Tags = nil
		}
		if s.o.own {
			it.Context = ctx
		}
		v.Items = append(v.Items, it)
	}
	if s.o.own {
		v.Ranges = []convergence.Range{{Context: ctx}}
	}
	return v, nil
}

// Close implements convergence.Replica.
func (s *orswot) Close() error { return nil }

// Fingerprint implements convergence.Fingerprinter.
func (s *orswot) Fingerprint() string {
	o := *s
	o.deferred = nil
	return string(o.encode())
}

// states is a set with anti-entropy by whole states.
type states struct{ *orswot }

// Ask implements convergence.Repairer.
func (s states) Ask() ([]byte, error) { return nil, nil }

// Answer implements convergence.Repairer.
func (s states) Answer([]byte) ([][]byte, error) { return [][]byte{s.encode()}, nil }
