package textbook

import (
	"maps"
	"slices"
	"strings"

	"bigset/convergence"
)

// setOptions select the variant of the observed-remove set.
type setOptions struct {
	contexts bool // clients give contexts
	causal   bool // a message waits for those that its author had
	gapless  bool // a message that comes with a gap before it is dropped
	gossip   bool // no messages, only anti-entropy
	repair   bool // anti-entropy
	split    bool // a replacing add sends the deaths in a message of their own
	relies   bool // removes kill what is present, and are not remembered: the net must deliver in causal order
	members  bool // actors are assigned by a list of members
	restored bool // a replica may come back with a backup
	bug      string
}

// orset keeps an element's live dots, and the dead ones forever.
type orset struct {
	env    convergence.Env
	o      setOptions
	actor  int
	n      uint64
	live   map[string][]dot
	dead   map[dot]bool
	known  map[dot]bool
	seen   clock // by author, how many operations were applied
	ops    []change
	have   map[dot]bool // by author and number
	wait   []change
	cache  map[string][]dot
	graves []dot // with a bug, the dead dots in the order in which they died
	list   *members
	log    func(c change) error // writes a change before it is applied; may be nil
}

// change is an operation as it is sent.
type change struct {
	author int
	seq    uint64
	deps   clock
	items  []item
}

type item struct {
	elem string
	add  dot // n is 0 for a remove
	dead []dot
}

func openSet(env convergence.Env, o setOptions) *orset {
	s := &orset{env: env, o: o, actor: env.ID + 8*env.Start, live: map[string][]dot{}, dead: map[dot]bool{}, known: map[dot]bool{}, have: map[dot]bool{}, seen: clock{}}
	s.n = env.Base
	if o.members {
		s.list = env.Shared.(*members)
		s.actor = s.list.join(o.bug)
	}
	switch o.bug {
	case "actor-mod-5":
		s.actor = env.ID % 5
	case "highest-live":
		s.actor = env.ID
	case "stale-cache":
		s.cache = map[string][]dot{}
	}
	return s
}

// Do implements convergence.Replica.
func (s *orset) Do(op convergence.Op) (convergence.Effect, error) { return s.do([]convergence.Op{op}) }

func (s *orset) do(ops []convergence.Op) (e convergence.Effect, err error) {
	c := change{author: s.actor, seq: s.seen[s.actor] + 1, deps: maps.Clone(s.seen)}
	for _, op := range ops {
		it, err := s.item(op)
		if err != nil {
			return e, err
		}
		c.items = append(c.items, it)
		if s.log != nil { // if so, it is the only operation
			if err := s.log(c); err != nil {
				if s.o.bug == "failed-half-done" {
					s.apply(it)
					s.seen[s.actor]++
					s.keep(c)
				}
				return e, err
			}
		}
		s.apply(it)
		tag := ""
		if it.add.n > 0 {
			tag = it.add.String()
		}
		e.Tags = append(e.Tags, tag)
	}
	s.seen[s.actor]++
	s.keep(c)
	if s.o.gossip {
		return e, nil
	}
	if s.o.split && len(c.items) == 1 && c.items[0].add.n > 0 {
		a, b := c, c
		a.items = []item{{elem: c.items[0].elem, add: c.items[0].add}}
		b.items = []item{{elem: c.items[0].elem, dead: c.items[0].dead}}
		e.Out = [][]byte{b.encode(), a.encode()}
		return e, nil
	}
	e.Out = [][]byte{c.encode()}
	return e, nil
}

// item turns a client's operation into what is sent.
func (s *orset) item(op convergence.Op) (it item, err error) {
	if s.o.bug == "ignores-case" {
		op.Elem = strings.ToLower(op.Elem)
	}
	it = item{elem: op.Elem, dead: slices.Clone(s.live[op.Elem])}
	if s.cache != nil && op.Kind == "remove" {
		it.dead = s.cache[op.Elem]
	}
	if op.Context != nil && s.o.bug != "contexts-ignored" {
		src := source{b: op.Context}
		ctx := src.dots()
		if err := src.end(); err != nil {
			return it, err
		}
		switch here := s.live[op.Elem]; {
		case op.Kind == "remove" && s.o.bug == "all-or-none" && !covers(ctx, here):
			ctx = nil
		case op.Kind == "remove" && s.o.bug == "one-takes-all" && slices.ContainsFunc(here, func(d dot) bool { return slices.Contains(ctx, d) }):
			ctx = append(slices.Clone(here), ctx...)
		}
		it.dead = ctx
	}
	if op.Kind == "add" {
		if s.o.bug == "present-skipped" && len(s.live[op.Elem]) > 0 {
			return item{elem: op.Elem}, nil
		}
		it.add = s.mint()
	}
	return it, nil
}

func covers(ctx, here []dot) bool {
	return !slices.ContainsFunc(here, func(d dot) bool { return !slices.Contains(ctx, d) })
}

func (s *orset) mint() dot {
	s.n++
	switch s.o.bug {
	case "counter-wraps":
		s.n %= 256
	case "counter-of-16-bits":
		s.n %= 1 << 16
	case "counter-of-32-bits":
		s.n %= 1 << 32
	case "highest-live":
		s.n = 1
		for _, dots := range s.live {
			for _, d := range dots {
				if d.actor == s.actor {
					s.n = max(s.n, d.n+1)
				}
			}
		}
	}
	return dot{s.actor, s.n}
}

// apply applies the effect of an operation.
func (s *orset) apply(it item) {
	for _, d := range it.dead {
		if !s.o.relies {
			s.bury(d)
		}
		s.drop(it.elem, d)
	}
	if prefix, ok := map[string]string{"prefix": it.elem, "below-a-path": it.elem + "/"}[s.o.bug]; ok && it.add.n == 0 {
		for elem, dots := range s.live {
			if strings.HasPrefix(elem, prefix) {
				for _, d := range dots {
					s.dead[d] = true
				}
				delete(s.live, elem)
			}
		}
	}
	if it.add.n == 0 {
		return
	}
	if s.o.bug == "by-element" && s.known[it.add] {
		s.live[it.elem] = nil
	}
	s.known[it.add] = true
	if !s.dead[it.add] && !slices.Contains(s.live[it.elem], it.add) {
		dots := append(slices.Clone(s.live[it.elem]), it.add)
		slices.SortFunc(dots, order)
		s.live[it.elem] = dots
	}
}

// bury remembers that a dot is dead.
func (s *orset) bury(d dot) {
	if s.o.bug == "tombstones-of-100" && !s.dead[d] {
		if s.graves = append(s.graves, d); len(s.graves) > 100 {
			delete(s.dead, s.graves[0])
			s.graves = s.graves[1:]
		}
	}
	s.dead[d] = true
}

func (s *orset) drop(elem string, d dot) {
	if dots := without(s.live[elem], func(o dot) bool { return o == d }); len(dots) > 0 {
		s.live[elem] = dots
	} else {
		delete(s.live, elem)
	}
}

func (c *change) encode() []byte {
	var b buffer
	b.dot(dot{c.author, c.seq})
	b.clock(c.deps)
	b.num(uint64(len(c.items)))
	for _, it := range c.items {
		b.str(it.elem)
		b.dot(it.add)
		b.dots(it.dead)
	}
	return b
}

func decodeChange(msg []byte) (c change, err error) {
	src := source{b: msg}
	d := src.dot()
	c = change{author: d.actor, seq: d.n, deps: src.clock()}
	for range src.count() {
		c.items = append(c.items, item{src.str(), src.dot(), src.dots()})
	}
	return c, src.end()
}

// Receive implements convergence.Replica.
func (s *orset) Receive(msg []byte) (durable bool, err error) {
	c, err := decodeChange(msg)
	if err != nil {
		return false, err
	}
	switch s.o.bug {
	case "decodes-in-place":
		msg[0] = 100
	case "counter-as-float":
		for i := range c.items {
			c.items[i].add.n = uint64(float64(c.items[i].add.n))
		}
	}
	return false, s.take(c)
}

func (s *orset) take(c change) error {
	switch {
	case s.o.causal:
		s.wait = append(s.wait, c)
		for s.next() {
		}
	case s.o.gapless && c.seq != s.seen[c.author]+1: // a gap, or known
	case s.o.bug == "gone-ignored" && !s.list.there[c.author]:
	case s.o.bug == "own-ignored" && c.author%8 == s.env.ID:
	default:
		if s.log != nil {
			if err := s.log(c); err != nil {
				return err
			}
		}
		s.all(c)
	}
	return nil
}

func (s *orset) all(c change) {
	s.seen[c.author] = max(s.seen[c.author], c.seq)
	s.keep(c)
	for _, it := range c.items {
		s.apply(it)
	}
}

// keep stores a change, once.
func (s *orset) keep(c change) {
	if d := (dot{c.author, c.seq}); !s.have[d] {
		s.have[d] = true
		s.ops = append(s.ops, c)
	}
}

// next applies a message that is ready to be applied.
func (s *orset) next() bool {
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

// Read implements convergence.Replica.
func (s *orset) Read() (v convergence.View, err error) {
	v.Items = make([]convergence.Item, 0, len(s.live))
	for _, elem := range sorted(s.live) {
		it := convergence.Item{Elem: elem, Tags: tags(s.live[elem])}
		if s.o.contexts {
			var b buffer
			b.dots(s.live[elem])
			it.Context = b
		}
		v.Items = append(v.Items, it)
	}
	if s.cache != nil {
		s.cache = maps.Clone(s.live)
	}
	if s.o.contexts {
		v.Ranges = []convergence.Range{{Context: []byte{0}}}
	}
	switch most := len(v.Items); s.o.bug {
	case "shows-three":
		v.Items = v.Items[:min(most, 3)]
	case "page-of-1000":
		v.Items = v.Items[:min(most, 1000)]
	}
	return v, nil
}

// Close implements convergence.Replica.
func (s *orset) Close() error {
	if s.list != nil {
		delete(s.list.there, s.actor)
	}
	return nil
}

// Fingerprint implements convergence.Fingerprinter.
func (s *orset) Fingerprint() string {
	var b buffer
	for _, elem := range sorted(s.live) {
		b.str(elem)
		b.dots(s.live[elem])
	}
	if !s.o.relies {
		b.dots(slices.SortedFunc(maps.Keys(s.dead), order))
	}
	return string(b)
}

// batches is a set that takes several operations at once.
type batches struct{ *orset }

// DoBatch implements convergence.Batcher.
func (s batches) DoBatch(ops []convergence.Op) (convergence.Effect, error) {
	e, err := s.do(ops)
	if err == nil && s.o.bug == "batch-by-map" {
		byIndex := map[int]item{}
		for i, it := range s.ops[len(s.ops)-1].items {
			byIndex[i] = it
		}
		for _, it := range byIndex {
			s.apply(item{elem: it.elem, dead: it.dead})
			if it.add.n > 0 {
				delete(s.dead, it.add)
				s.apply(item{elem: it.elem, add: it.add})
			}
		}
	}
	return e, err
}

// gossips is a set with anti-entropy: an answer has the operations that are missing at the other replica, or all of them.
type gossips struct{ *orset }

// Ask implements convergence.Repairer.
func (s gossips) Ask() ([]byte, error) {
	if s.o.bug == "equal-live" {
		return s.shown(), nil
	}
	var b buffer
	b.clock(s.seen)
	return b, nil
}

func (s gossips) shown() []byte {
	var b buffer
	for _, elem := range sorted(s.live) {
		b.str(elem)
	}
	return b
}

// Answer implements convergence.Repairer.
func (s gossips) Answer(ask []byte) (out [][]byte, err error) {
	have := clock{}
	if s.o.bug != "equal-live" {
		src := source{b: ask}
		if have = src.clock(); src.end() != nil {
			return nil, errMalformed
		}
	} else if string(ask) == string(s.shown()) {
		return nil, nil
	}
	for _, c := range s.ops {
		if c.seq > have[c.author] && (s.o.bug != "own-only" || c.author%8 == s.env.ID) {
			out = append(out, c.encode())
		}
	}
	if s.o.bug == "first-neighbour" {
		s.ops = nil
	}
	return out, nil
}
