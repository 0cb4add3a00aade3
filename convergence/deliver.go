package convergence

import (
	"bytes"
	"fmt"
	"slices"
)

func (w *world) send(m *message) {
	if w.step != nil {
		m.step = w.step.N
	}
	m.copy = bytes.Clone(m.data)
	if w.sys.CausalNet {
		m.after = w.nodes[m.from].hadEver.clone()
	}
	from := w.at(m.step)
	from.msgs = append(from.msgs, m)
}

// tell sends the messages of an operation. Together they carry the operation.
func (w *world) tell(n *node, group, deps bitset, out [][]byte) {
	w.stats.sent += len(out)
	if len(out) > 0 {
		w.h.sent.union(&group)
	} else if !w.canRepair {
		group.each(func(i int) bool { w.h.loud.remove(i); return true })
	}
	all := make([]*message, len(out))
	for i, data := range out {
		all[i] = &message{to: -1, from: n.id, data: data, sure: group, maybe: n.maybe.clone(), deps: deps, all: all, parts: n.parts}
		w.send(all[i])
	}
}

// sendOwn sends a message that belongs to no operation, or to an earlier one. It may carry anything that its author has ever known.
func (w *world) sendOwn(n *node, data []byte) {
	m := &message{to: -1, from: n.id, data: data, maybe: n.maybe.clone()}
	if !w.sys.CausalNet {
		w.send(m)
		return
	}
	w.owned++
	m.own, m.deps = w.owned, n.maybe.clone()
	w.send(m)
	n.take(m, n.sure.within(&n.durable))
}

// take records that a replica has a message that a replica sent by itself.
func (n *node) take(m *message, durable bool) {
	n.had.add(m.own)
	n.hadEver.add(m.own)
	if durable {
		n.hadKept.add(m.own)
	}
}

func (w *world) deliverStep(s *Step) error {
	list := w.at(s.Ref).msgs
	if s.Sub >= len(list) {
		return fmt.Errorf("%w: no such message", errSkip)
	}
	m := list[s.Sub]
	to := s.B
	if m.to >= 0 {
		to = m.to
	}
	switch {
	case w.nodes[to].gone:
		return fmt.Errorf("%w: it is not there", errSkip)
	case w.apart(m.from, to):
		return fmt.Errorf("%w: partitioned", errSkip)
	case !w.due(m, w.nodes[to]):
		return fmt.Errorf("%w: not its turn", errSkip)
	}
	w.countDelivery(m, to)
	if err := w.deliver(m, w.nodes[to]); err != nil {
		w.stats.Errors++
		w.say("%v", err)
	}
	return nil
}

// due reports whether the net would deliver a message to a replica now.
func (w *world) due(m *message, n *node) bool {
	if !w.sys.CausalNet || m.repair {
		return true
	}
	known := m.sure.within(&n.sure)
	if m.own > 0 {
		known = n.had.has(m.own)
	}
	return !known && m.life[n.id] != n.start && m.next(n) && m.after.within(&n.had) && w.preceded(m, n, &w.h.sent)
}

// next reports whether a replica has the messages that the same operation sent before this one.
func (m *message) next(n *node) bool {
	for _, o := range m.all {
		if o == m {
			break
		}
		if o.life[n.id] != n.start {
			return false
		}
	}
	return true
}

// preceded reports whether a replica surely has all that a message's author knew of. Only the events in count matter.
func (w *world) preceded(m *message, n *node, count *bitset) bool {
	return commonWithin(&m.deps, count, &n.sure)
}

// deliver delivers a message to a replica, and records what the replica surely has afterwards.
func (w *world) deliver(m *message, n *node) error {
	w.call(n)
	n.touched = true
	m.seen[n.id]++
	n.newest = max(n.newest, m.step)
	w.find(m.intact("after it had sent it", w.nodes[m.from]))
	durable, err := n.rep.Receive(m.data)
	w.settleDown()
	w.find(m.intact("that it was given", n))
	n.maybe.union(&m.maybe)
	// One of several messages may come without the others. One that a replica sends by itself may carry a part of an operation.
	n.parts = n.parts || m.parts || len(m.all) > 1 || m.sure.empty() && !m.repair
	n.mixed = n.mixed || m.repair || n.parts
	w.lww.tick(w.h, n)
	w.collect(n)
	if err != nil {
		return err
	}
	w.stats.Deliveries++
	if m.repair || w.sys.BestEffort {
		return nil
	}
	m.life[n.id], m.kept[n.id] = n.start, durable
	n.arrived.union(&m.sure)
	if m.own > 0 {
		n.take(m, durable)
	}
	if !slices.ContainsFunc(m.all, func(o *message) bool { return o.life[n.id] != n.start }) {
		n.waiting = append(n.waiting, m)
		w.drain(n)
	}
	return nil
}

// collect takes what a replica has sent by itself.
func (w *world) collect(n *node) {
	if n.sender == nil || n.closed {
		return
	}
	for _, data := range n.sender.Sent() {
		w.stats.own++
		w.sendOwn(n, data)
	}
}

// find records a violation found in the middle of a step.
func (w *world) find(v *Violation) {
	if w.found == nil {
		w.found = v
	}
}

// drain records the effects of messages that a replica has no reason to hold back: with System.Buffers, those whose author knew of
// nothing that may be missing at the replica.
func (w *world) drain(n *node) {
	for again := true; again && len(n.waiting) > 0; {
		again = false
		n.waiting = slices.DeleteFunc(n.waiting, func(m *message) bool {
			if w.sys.Buffers {
				if !w.preceded(m, n, &w.h.loud) {
					return false
				}
				again = true
			}
			w.took(m, n)
			return true
		})
	}
}

// took records that a replica has what a message and its siblings carry.
func (w *world) took(m *message, n *node) {
	n.learn(&m.sure)
	if !slices.ContainsFunc(m.all, func(o *message) bool { return !o.kept[n.id] }) {
		w.acknowledge(n, &m.sure)
	}
}
