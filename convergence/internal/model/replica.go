package model

import (
	"fmt"
	"slices"

	"bigset/convergence"
)

// replica implements convergence.Replica and, with the corresponding options, all of its optional interfaces.
type replica struct {
	env   convergence.Env
	o     Options
	bug   Bug
	actor uint8

	state
	durable state   // what a crash leaves
	log     []state // after each batch since the last sync
	span    []key   // what the rewriter has read; nil when it is idle
	fault   string  // the disk fails
}

// state is what is on disk. Its lists are never changed in place, so that a copy of it is a snapshot.
type state struct {
	seen, dead dots
	keys       []key  // by element and dot; of live dots, and of dead ones that were not dropped yet
	unresolved []wide // operations whose wide context is not resolved
	done       []item // with IDs: operations that have one, with the dots that they took
	copies     [8]*progress
	life       int   // of the actor
	ctr        uint8 // the last counter that the actor used
	reserved   uint8 // with Reserve: the last counter that it may use
	joining    bool
	filled     uint8 // while joining: the replicas from which a copy is complete, as bits
}

type key struct {
	elem  string
	dot   dot
	stamp int64
}

// wide is an operation that kills what its context covers of its element.
type wide struct {
	elem string
	dot  dot
	ctx  dots
	add  bool
}

// has reports whether the clock covers a dot.
func (r *replica) has(s *dots, d dot) bool {
	if r.bug == "max-clock" {
		return s[d.actor]>>(d.ctr-1) != 0
	}
	return s.has(d)
}

// covered reports whether an unresolved operation kills a dot of an element.
func (s *state) covered(elem string, d dot) bool {
	for i := range s.unresolved {
		if s.unresolved[i].elem == elem && s.unresolved[i].ctx.has(d) {
			return true
		}
	}
	return false
}

func (s *state) live(k key) bool { return !s.dead.has(k.dot) && !s.covered(k.elem, k.dot) }

// visible returns the live dots of an element.
func (s *state) visible(elem string) (v dots) {
	for _, k := range s.keys {
		if k.elem == elem && s.live(k) {
			v.add(k.dot)
		}
	}
	return v
}

func (r *replica) kill(set *dots) {
	r.seen.union(set)
	r.dead.union(set)
}

// put stores a key, with its dot, unless the dot is known.
func (r *replica) put(k key, known *dots) {
	if r.has(known, k.dot) && !(r.o.Scrub && r.damaged(k.dot)) {
		return
	}
	if r.bug == "concurrent-add-lost" {
		for _, o := range r.keys {
			if o.elem == k.elem && r.live(o) && (o.dot.actor < k.dot.actor || o.dot.actor == k.dot.actor && o.dot.ctr < k.dot.ctr) {
				r.dead.add(o.dot)
			}
		}
	}
	r.seen.add(k.dot)
	r.insert(k)
}

func (r *replica) insert(k key) {
	i, found := slices.BinarySearchFunc(r.keys, k, compare)
	if !found {
		r.keys = slices.Insert(slices.Clone(r.keys), i, k)
	}
}

func compare(a, b key) int {
	switch {
	case a.elem != b.elem:
		if a.elem < b.elem {
			return -1
		}
		return 1
	case a.dot.actor != b.dot.actor:
		return int(a.dot.actor) - int(b.dot.actor)
	}
	return int(a.dot.ctr) - int(b.dot.ctr)
}

// damaged reports whether a dot is seen, not dead, and without a key.
func (r *replica) damaged(d dot) bool {
	return r.seen.has(d) && !r.dead.has(d) && !slices.ContainsFunc(r.keys, func(k key) bool { return k.dot == d })
}

// Do implements convergence.Replica.
func (r *replica) Do(op convergence.Op) (convergence.Effect, error) {
	return r.DoBatch([]convergence.Op{op})
}

// DoBatch implements convergence.Batcher.
func (r *replica) DoBatch(ops []convergence.Op) (e convergence.Effect, err error) {
	switch {
	case r.joining:
		return e, convergence.ErrNotReady
	case r.fault != "":
		return e, fmt.Errorf("model: disk: %s", r.fault)
	}
	if e, ok := r.again(ops); ok {
		return e, nil
	}
	before, tags := r.state, make([]string, len(ops))
	d := delta{stamp: r.env.Now()}
	for i := range ops {
		if r.bug == "batch-reversed" {
			i = len(ops) - 1 - i
		}
		it, done, err := r.item(ops[i], len(d.items) > 0)
		if err != nil {
			r.state = before
			return e, err
		}
		it.id = ops[i].ID
		r.remember(it)
		if !done {
			continue
		}
		known := r.seen
		if r.bug == "one-dot-per-batch" && len(d.items) > 0 {
			known.remove(it.dot)
		}
		r.apply(it, d.stamp, &known)
		d.items = append(d.items, it)
		if it.kind != opClear {
			tags[i] = it.dot.tag()
		}
		if r.bug == "batch-torn" {
			r.commit()
		}
	}
	r.commitDelta(&before, d)
	e = convergence.Effect{Tags: tags, Durable: r.bug == "ack-before-sync"}
	if len(tags) == 1 {
		e.Tag = tags[0]
	}
	if len(d.items) > 0 {
		e.Out = [][]byte{d.append(nil)}
	}
	return e, nil
}

// commitDelta makes one batch of what was applied, or two if the clock and the keys are written separately.
func (r *replica) commitDelta(before *state, d delta) {
	after := r.state
	switch r.bug {
	case "clock-before-key":
		r.state.keys = before.keys
		r.commit()
	case "key-before-clock":
		r.seen, r.dead, r.ctr = before.seen, before.dead, before.ctr
		r.commit()
	case "no-op-mints":
		if len(d.items) == 0 {
			if k, ok := r.mint(); ok {
				s := from(k)
				r.kill(&s)
				after = r.state
			}
		}
	}
	r.state = after
	r.commit()
}

// item turns an operation into what is sent: with its dot, and the dots that it kills. It reports whether anything has to be done.
func (r *replica) item(op convergence.Op, more bool) (it item, ok bool, err error) {
	c, err := decodeContext(op.Context)
	if err == nil && op.Elem == "" && op.Kind != "clear" {
		err = errMalformed // "" is where a copy or a stream begins
	}
	if err != nil {
		return it, false, fmt.Errorf("%w: %w", convergence.ErrRefused, err)
	}
	it = item{elem: op.Elem}
	switch op.Kind {
	case "clear":
		it.kind, it.ctx = opClear, c.clock
		if op.Context == nil {
			it.ctx = r.seen
		}
		return it, true, nil
	case "add":
		it.kind = opAdd
	case "remove":
		it.kind = opRemove
	default:
		return it, false, fmt.Errorf("%w: unknown operation %q", convergence.ErrRefused, op.Kind)
	}
	switch {
	case op.Context == nil:
		it.ctx = r.visible(op.Elem)
	case c.elem != op.Elem && !(c.wide && c.elem == ""):
		return it, false, fmt.Errorf("%w: a context of another element", convergence.ErrRefused)
	default:
		if err := r.resolve(&it, c); err != nil {
			return it, false, err
		}
	}
	if it.kind == opRemove && it.ctx.empty() {
		return it, false, nil
	}
	if r.bug == "one-dot-per-batch" && more {
		it.dot = dot{r.actor, r.ctr}
		return it, true, nil
	}
	if it.dot, ok = r.mint(); !ok {
		return it, false, fmt.Errorf("%w: no dots left", convergence.ErrRefused)
	}
	return it, true, nil
}

// resolve applies the context that a client gave.
func (r *replica) resolve(it *item, c context) error {
	it.ctx = c.dots
	if !c.wide {
		if r.bug == "context-of-coordinator" {
			own := r.visible(it.elem)
			it.ctx.union(&own)
		}
		return nil
	}
	if r.o.KeepContexts {
		it.ctx.union(&c.clock)
		it.wide = true
		return nil
	}
	if !c.clock.within(&r.seen) {
		if r.bug != "wide-joins-seen" {
			return fmt.Errorf("%w: this replica has not seen what the client has", convergence.ErrRefused)
		}
		r.seen.union(&c.clock)
	}
	v := r.visible(it.elem)
	if r.bug == "context-crosses-elements" {
		for _, k := range r.keys {
			if r.live(k) {
				v.add(k.dot)
			}
		}
	}
	v.intersect(&c.clock)
	it.ctx.union(&v)
	return nil
}

// mint returns the next dot.
func (r *replica) mint() (dot, bool) {
	next := r.ctr + 1
	if r.bug == "counter-from-base" {
		for next = 1; next <= counters && r.seen.has(dot{r.actor, next}); next++ {
		}
	}
	if next > counters || int(r.life) >= lives {
		return dot{}, false
	}
	if r.o.Reserve && next > r.reserved {
		r.reserved = min(next+3, counters)
		r.durable.reserved = r.reserved
	}
	r.ctr = next
	return dot{r.actor, next}, true
}

// Close implements convergence.Replica.
func (r *replica) Close() error { return nil }

// Fingerprint implements convergence.Fingerprinter.
func (r *replica) Fingerprint() string { return r.Dump() }

// Dump implements convergence.Dumper.
func (r *replica) Dump() string {
	var live []string
	for _, k := range r.keys {
		if r.live(k) {
			live = append(live, k.elem+"@"+k.dot.tag())
		}
	}
	return fmt.Sprintf("seen %v dead %v live %v", tags(&r.seen), tags(&r.dead), live)
}

func tags(s *dots) (names []string) {
	for _, d := range s.list() {
		names = append(names, d.tag())
	}
	return names
}
