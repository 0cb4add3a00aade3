package convergence

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// run does what a step says. The error errSkip, alone or wrapped, says that the step can't be done now.
func (w *world) run(s *Step) (*Violation, error) {
	a, b := w.nodes[s.A], w.nodes[s.B]
	if w.away(s) {
		return nil, fmt.Errorf("%w: it is not there", errSkip)
	}
	switch s.Kind {
	case "do":
		return w.operate(a, s.N, s.Ops)
	case "both":
		return w.both(a, s.Ops)
	case "dies":
		return w.dies(a, s)
	case "fill", "strip":
		return w.populate(a, s.Arg, newFiller(w.spec, w.s.Seed, s.Kind == "strip"))
	case "churn":
		return w.churn(a, s.Arg, s.Word)
	case "bulk":
		return w.batchOf(a, s.Arg)
	case "spread":
		return nil, w.spread(s.Ref, b)
	case "gone":
		return w.leaveForGood(a)
	case "join":
		return w.join(a)
	case "retry":
		return w.retry(a, s.Ref)
	case "read":
		a.touched = true
	case "deliver":
		return nil, w.deliverStep(s)
	case "sync":
		return nil, w.sync(a)
	case "crash", "restart", "wipe", "restore":
		return w.restart(a, s)
	case "leave":
		return nil, w.leave(a)
	case "backup":
		return nil, w.backup(a, s)
	case "maintain":
		return nil, w.maintain(a, s.Arg)
	case "damage":
		return nil, w.damage(a, s.Word)
	case "fault":
		return nil, w.fault(a, s.Word)
	case "ask":
		return nil, w.ask(a, s.N)
	case "answer":
		return nil, w.answer(b, s)
	case "copy":
		return nil, w.copyStep(a, b)
	case "cut":
		return nil, w.cut(a, b)
	case "quorum", "open":
		return w.openRead(s)
	case "chunk", "replace", "finish":
		return w.readStep(s)
	case "partition":
		w.side = s.Set
		w.stats.Faults["partition"]++
	case "heal":
		w.side = 0
	case "skew":
		a.skew += int64(s.Arg)
		w.stats.Faults["skew"]++
	case "exchange":
		return w.exchange(s.Word)
	default:
		return nil, fmt.Errorf("%w: unknown kind", errSkip)
	}
	return nil, nil
}

// operate runs a client's operation, or a batch of them. first is the number of the step in which the client asked for it first.
func (w *world) operate(n *node, first int, list []ScriptOp) (*Violation, error) {
	ops, from, err := w.prepare(n, first, list)
	if err != nil {
		return nil, err
	}
	if w.sys.refusing && n.lacks(ops) {
		return nil, fmt.Errorf("%w: nothing to remove", errSkip)
	}
	w.lww.tick(w.h, n)
	w.call(n)
	e, err := n.effect(ops)
	n.touched = true
	if v := unchanged(n, ops, from, list); v != nil {
		return v, nil
	}
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrNotReady) {
		w.stats.Sometimes["operation refused"]++
		return nil, fmt.Errorf("%w: %w", errSkip, err)
	}
	if err == nil && len(e.Tags) > 0 && len(e.Tags) != len(ops) {
		return bad(Failed, "%d operations have %d tags", len(ops), len(e.Tags)), nil
	}
	unsure := err != nil || w.step.Kind == "dies"
	if unsure {
		e = Effect{}
	}
	if v := w.settle(n, first, list, ops, from, e, unsure); v != nil {
		return v, nil
	}
	w.stats.Operations += len(ops)
	if unsure {
		w.failed = true
	}
	if err != nil {
		w.stats.Errors++
		w.say("%v", err)
	}
	return nil, nil
}

// lacks reports whether an operation removes what its replica does not show.
func (n *node) lacks(ops []Op) bool {
	view, _ := n.rep.Read()
	return slices.ContainsFunc(ops, func(op Op) bool {
		_, shown := view.find(op.Elem)
		return (op.Kind == "remove" || op.Kind == "delete") && !shown
	})
}

// unchanged checks that a replica has not changed the contexts, nor the views that the operations had seen.
func unchanged(n *node, ops []Op, from []*seenView, list []ScriptOp) *Violation {
	for i, op := range ops {
		if op.Context != nil && !bytes.Equal(op.Context, from[i].forOp(list[i])) {
			return bad(Changed, "replica %c changed the context that it was given with %s %s", letter(n.id), op.Kind, show(op.Elem))
		}
		if v := from[i].intact(n); v != nil {
			return v
		}
	}
	return nil
}

// prepare gives operations their contexts, and returns the views that they have seen.
func (w *world) prepare(n *node, first int, list []ScriptOp) ([]Op, []*seenView, error) {
	here := w.here(n)
	ops, from := make([]Op, len(list)), make([]*seenView, len(list))
	for i, o := range list {
		ops[i], from[i] = o.Op, here
		ops[i].ID = opID(first, i)
		v := here
		if o.Ctx > 0 {
			v = w.at(o.Ctx).view
		}
		if v == nil || o.Ctx > 0 && v.loose[o.Op.Elem] || o.Op.Kind == "clear" && len(v.loose) > 0 {
			return nil, nil, fmt.Errorf("%w: no context", errSkip)
		}
		if o.Ctx == 0 {
			if it, ok := here.find(o.Op.Elem); ok {
				here.keep(it)
			}
			continue
		}
		if ctx := v.forOp(o); ctx != nil {
			ops[i].Context = bytes.Clone(ctx)
			if len(ctx) == 0 { // not nil, which means no context
				ops[i].Context = []byte{}
			}
			from[i] = v
			n.maybe.union(&v.maybe) // a context carries what its reader had seen
		}
	}
	here.maybe = n.maybe.clone()
	return ops, from, nil
}

// opID names an operation by the step in which a client asked for it first, and its place in that step.
func opID(step, i int) string {
	b := strconv.AppendInt(make([]byte, 0, 16), int64(step), 10)
	return string(strconv.AppendInt(append(b, '.'), int64(i), 10))
}

// here is what a client sees at a replica now, or may see if the replica is not read.
func (w *world) here(n *node) *seenView {
	s := &seenView{sure: n.sure.clone(), maybe: n.maybe.clone(), loose: n.loose, unread: true}
	if w.step.Unread {
		return s
	}
	if view, err := n.rep.Read(); err == nil {
		s.View, s.unread = view, false
	}
	return s
}

func (n *node) effect(ops []Op) (Effect, error) {
	if len(ops) == 1 {
		e, err := n.rep.Do(ops[0])
		if e.Tags == nil && e.Tag != "" {
			e.Tags = []string{e.Tag}
		}
		return e, err
	}
	b, ok := n.rep.(Batcher)
	if !ok {
		return Effect{}, fmt.Errorf("%w: no batches here", ErrRefused)
	}
	return b.DoBatch(ops)
}

// forOp returns the context that the view gives for an operation; nil if it has none.
func (v *seenView) forOp(o ScriptOp) []byte {
	if o.Op.Kind == "clear" {
		return v.Whole
	}
	if it, ok := v.find(o.Op.Elem); ok {
		return it.Context
	}
	return v.View.context(o.Op.Elem)
}

// remember records the events of a step and what they may have reached. With unsure they may have happened or not.
func (w *world) remember(n *node, ops []Op, from []*seenView, e Effect, unsure bool) *Violation {
	var group bitset
	batch := 0
	if len(ops) > 1 {
		w.batches++
		batch = w.batches
	}
	for i, op := range ops {
		ev := Event{Op: op, Replica: n.id, Step: w.step.N, Stamp: w.now(n), Failed: unsure, batch: batch, life: n.start}
		if e.Tags != nil {
			ev.Tag = e.Tags[i]
			w.tagged = w.tagged || ev.Tag != ""
		}
		if ev.Tag != "" {
			if old, ok := w.h.owner[ev.Tag]; ok {
				return bad(TagReused, "replica %c gives the tag %s to %s %q, which %s %q of step %d has", letter(n.id), ev.Tag, op.Kind, op.Elem,
					w.h.events[old].Op.Kind, w.h.events[old].Op.Elem, w.h.events[old].Step)
			}
			w.h.owner[ev.Tag] = len(w.h.events)
			if !w.step.many() {
				w.say("%s is %s", show(op.Elem), ev.Tag)
			}
		}
		w.countConcurrent(n, op)
		ev.fresh = w.forgets(n, op)
		w.lww.times(w.h, n, &ev)
		o := w.observed(op, from[i], ops[i].Context == nil, &group)
		if w.own && op.Kind == "add" {
			o.replaces = n.id
		}
		heard := &n.since
		if w.lww.counts() { // what is on its disk has its time there
			heard = &n.sure
		}
		group.add(w.h.record(ev, &o, heard))
	}
	n.maybe.union(&group)
	if unsure {
		if w.step.Kind != "dies" {
			n.doubts = append(n.doubts, doubt{group: group, failed: true})
		}
		group = bitset{}
	}
	w.done(n, group, e)
	return nil
}

// done records that a replica has surely done a group of events, and sends its messages.
func (w *world) done(n *node, group bitset, e Effect) {
	deps := n.maybe.clone()
	if w.sys.CausalNet {
		deps = n.sure.clone()
		deps.union(&n.arrived)
	}
	group.each(func(i int) bool { deps.remove(i); return true }) // a message does not wait for its own events
	n.learn(&group)
	if e.Durable {
		w.acknowledge(n, &group)
	}
	w.drain(n)
	w.tell(n, group, deps, e.Out)
}

// learn records events that a replica did or received by their messages.
func (n *node) learn(group *bitset) {
	n.sure.union(group)
	n.ids.union(group)
	n.since.union(group)
}

// observed returns what the author of an operation had seen: a view, and, if the operation named no context, earlier operations of
// its batch.
func (w *world) observed(op Op, v *seenView, none bool, group *bitset) observation {
	o := observation{sure: v.sure.clone(), maybe: v.maybe.clone(), view: &v.View, exact: w.tagged && !v.unread, replaces: -1}
	if none {
		o.sure.union(group)
		o.maybe.union(group)
		o.group = group.clone()
	}
	if op.Kind == "clear" {
		o.exact = o.exact && !slices.ContainsFunc(v.Items, func(it Item) bool { return len(it.Tags) == 0 })
	} else if it, shown := v.find(op.Elem); shown {
		o.exact = o.exact && len(it.Tags) > 0
	}
	return o
}

func (w *world) acknowledge(n *node, set *bitset) {
	n.durable.union(set)
	n.idsKept.union(set)
	n.idsKept.intersect(&n.ids)
	set.each(func(i int) bool {
		w.h.acks[i] |= 1 << n.id
		return true
	})
}

func (w *world) sync(n *node) error {
	d, ok := n.rep.(Durable)
	if !ok {
		return fmt.Errorf("%w: not durable", errSkip)
	}
	n.touched = true
	if err := d.Sync(); err != nil {
		w.stats.Errors++
		return fmt.Errorf("%w: %w", errSkip, err)
	}
	w.synced(n)
	return nil
}

// synced records that everything that a replica has is durable.
func (w *world) synced(n *node) {
	w.acknowledge(n, &n.sure)
	n.hadKept = n.had.clone()
	n.refill = n.joining
	for _, row := range w.copies {
		switch c := row[n.id]; {
		case c == nil:
		case c.done:
			row[n.id] = nil
		case c.c != nil:
			c.floor = c.promise.clone()
		}
	}
}

func (w *world) maintain(n *node, arg int) error {
	m, ok := n.rep.(Maintainer)
	if !ok {
		return fmt.Errorf("%w: no background work", errSkip)
	}
	what, err := m.Maintain(arg)
	if err != nil {
		return fmt.Errorf("%w: %w", errSkip, err)
	}
	if n.touched = true; what != "" {
		w.stats.Faults[what]++
		w.say("%s", what)
	}
	return nil
}

func (w *world) fault(n *node, kind string) error {
	f, ok := n.rep.(DiskFaulter)
	if !ok {
		return fmt.Errorf("%w: its disk can't fail", errSkip)
	}
	if n.faulty = kind != "ok"; !n.faulty {
		return f.DiskFault("")
	}
	w.stats.Faults[kind]++
	return f.DiskFault(kind)
}

// damage loses an element at one replica, if another one has it for certain.
func (w *world) damage(n *node, elem string) error {
	d, ok := n.rep.(Damager)
	if !ok || n.joining {
		return fmt.Errorf("%w: no damage here", errSkip)
	}
	here := func(i int) bool { return n.maybe.has(i) && w.h.adds.has(i) }
	safe := true
	for _, m := range w.nodes {
		safe = safe && !m.loose[elem] && !m.joining
	}
	w.h.on(elem).each(func(i int) bool {
		safe = safe && (!here(i) || w.durableElsewhere(n, i))
		return safe
	})
	if !safe {
		return fmt.Errorf("%w: it would be lost", errSkip)
	}
	if had, err := d.Damage(elem); err != nil || !had {
		return fmt.Errorf("%w: nothing to damage", errSkip)
	}
	w.h.on(elem).each(func(i int) bool {
		if w.h.adds.has(i) {
			n.sure.remove(i)
			n.durable.remove(i)
			w.h.acks[i] &^= 1 << n.id
			for _, c := range w.copies[n.id] {
				if c != nil {
					c.promise.remove(i)
					c.floor.remove(i)
				}
			}
		}
		return true
	})
	n.loose[elem], n.touched, w.damaged = true, true, true
	w.stats.Faults["damage"]++
	return nil
}

// durableElsewhere reports whether a replica other than n has event i for certain.
func (w *world) durableElsewhere(n *node, i int) bool {
	for _, m := range w.nodes {
		if m != n && !m.joining && !m.gone && m.durable.has(i) {
			return true
		}
	}
	return false
}
