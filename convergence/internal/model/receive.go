package model

import (
	"fmt"
	"slices"
)

// Receive implements convergence.Replica.
func (r *replica) Receive(msg []byte) (durable bool, err error) {
	if r.fault != "" {
		return false, fmt.Errorf("model: disk: %s", r.fault)
	}
	d := decoder{b: msg}
	switch kind := d.byte(); kind {
	case msgDelta:
		m := d.delta()
		if err := d.end(); err != nil {
			return false, err
		}
		return r.receiveDelta(m), nil
	case msgFacts:
		f := d.facts()
		if err := d.end(); err != nil {
			return false, err
		}
		r.receiveFacts(&f)
	case msgClock:
		clock := d.dots()
		if err := d.end(); err != nil {
			return false, err
		}
		r.seen.union(&clock)
	case msgElement:
		f := d.facts()
		if err := d.end(); err != nil {
			return false, err
		}
		r.takeElement(&f)
	default:
		return false, errMalformed
	}
	r.commit()
	return false, nil
}

// receiveDelta applies a delta in one batch. What was already present and durable is acknowledged at once.
func (r *replica) receiveDelta(d delta) (durable bool) {
	before, known := r.state, r.seen
	duplicate := len(d.items) > 0
	for i := range d.items {
		duplicate = duplicate && d.items[i].kind != opClear && known.has(d.items[i].dot)
		r.apply(d.items[i], d.stamp, &known)
		if r.bug != "id-not-replicated" {
			r.remember(d.items[i])
		}
		if r.bug == "batch-torn" {
			r.commit()
		}
	}
	if duplicate && r.bug == "duplicate-acked-early" || r.bug == "ack-before-sync" {
		r.commitDelta(&before, d)
		return true
	}
	same := len(before.done) == len(r.done) && before.seen == r.seen && before.dead == r.dead && len(before.keys) == len(r.keys) && len(before.unresolved) == len(r.unresolved)
	if same && len(r.log) == 0 {
		return true
	}
	r.commitDelta(&before, d)
	return false
}

// apply does one operation: first its context kills, whatever is known of its dot; then its key is stored if its dot is new.
func (r *replica) apply(it item, stamp int64, known *dots) {
	if it.kind == opClear {
		r.applyClear(&it.ctx)
		return
	}
	if r.bug == "seen-delta-ignored" && known.has(it.dot) {
		return
	}
	fresh := !r.has(known, it.dot)
	if !it.wide {
		r.applyContext(it, stamp)
	}
	if it.kind == opAdd {
		r.put(key{it.elem, it.dot, stamp}, known)
	} else {
		s := from(it.dot)
		r.kill(&s)
	}
	if it.wide && (fresh || !r.isUnresolved(it.dot)) {
		r.unresolved = append(slices.Clip(r.unresolved), wide{it.elem, it.dot, it.ctx, it.kind == opAdd})
	}
	r.settle()
}

func (r *replica) isUnresolved(d dot) bool {
	return slices.ContainsFunc(r.unresolved, func(o wide) bool { return o.dot == d })
}

func (r *replica) applyContext(it item, stamp int64) {
	switch {
	case r.bug == "add-does-not-replace" && it.kind == opAdd:
		return
	case r.bug == "remove-forgets-unseen" && it.kind == opRemove:
		it.ctx.intersect(&r.seen)
	case r.bug == "remove-without-context" && it.kind == opRemove:
		v := r.visible(it.elem)
		it.ctx.union(&v)
	case r.bug == "last-writer-wins" && it.kind == opRemove:
		for _, k := range r.keys {
			if k.elem == it.elem && k.stamp < stamp {
				it.ctx.add(k.dot)
			}
		}
	}
	r.kill(&it.ctx)
}

func (r *replica) applyClear(ctx *dots) {
	switch r.bug {
	case "clear-takes-all":
		all := *ctx
		for _, k := range r.keys {
			all.add(k.dot)
		}
		r.kill(&all)
	case "clear-forgets":
		r.keys = slices.DeleteFunc(slices.Clone(r.keys), func(k key) bool { return ctx.has(k.dot) })
	default:
		r.kill(ctx)
	}
	r.settle()
}

// settle resolves the wide contexts whose events have all been seen.
func (r *replica) settle() {
	for i := 0; i < len(r.unresolved); i++ {
		o := r.unresolved[i]
		switch {
		case r.bug == "wide-dropped-when-dead" && o.add && r.dead.has(o.dot):
		case o.ctx.within(&r.seen) || r.bug == "wide-forgotten-early":
			for _, k := range r.keys {
				if k.elem == o.elem && o.ctx.has(k.dot) {
					r.dead.add(k.dot)
				}
			}
		default:
			continue
		}
		r.unresolved = slices.Delete(slices.Clone(r.unresolved), i, i+1)
		i--
	}
}

// receiveFacts applies keys with their dots, and deaths. Unresolved operations come with the Dead of their sender.
func (r *replica) receiveFacts(f *facts) {
	for _, k := range f.keys {
		r.put(k, &r.seen)
	}
	r.takeUnresolved(f.unresolved)
	r.kill(&f.dead)
	if r.bug == "ae-missing-is-dead" {
		for _, k := range f.keys {
			f.asked.remove(k.dot)
		}
		f.asked.minus(&r.seen)
		r.kill(&f.asked)
	}
	r.settle()
}

func (r *replica) takeUnresolved(list []wide) {
	for _, o := range list {
		if !r.isUnresolved(o.dot) {
			r.unresolved = append(slices.Clip(r.unresolved), o)
		}
	}
}

// takeElement sets an element to what a reader saw, as a broken read repair does.
func (r *replica) takeElement(f *facts) {
	for _, k := range f.keys {
		r.seen.add(k.dot)
		r.dead.remove(k.dot)
		r.insert(k)
	}
}
