package convergence

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// away reports whether a step needs a replica that has left for good, or has not joined yet. It reports false for a join, which
// needs no replica.
func (w *world) away(s *Step) bool {
	if s.Kind == "join" {
		return false
	}
	for _, c := range kinds[s.Kind] {
		switch {
		case c == 'A' && w.nodes[s.A].gone, c == 'B' && w.nodes[s.B].gone:
			return true
		case c == 'S' && s.Kind != "partition":
			for i, n := range w.nodes {
				if n.gone && s.Set>>i&1 != 0 {
					return true
				}
			}
		}
	}
	return false
}

// living returns the replicas that have joined and have not left for good.
func (w *world) living() (list []*node) {
	for _, n := range w.nodes {
		if !n.gone {
			list = append(list, n)
		}
	}
	return list
}

// leaveForGood closes a replica. What only that replica knew is lost, except messages in transit.
func (w *world) leaveForGood(n *node) (*Violation, error) {
	if _, ok := n.rep.(Copier); ok || w.damaged || len(w.living()) < 3 {
		return nil, fmt.Errorf("%w: others need it", errSkip)
	}
	n.gone = true
	w.stats.Faults["gone"]++
	return w.closeNode(n), nil
}

// join opens a replica in the middle of a schedule. It starts empty, and receives everything by exchange.
func (w *world) join(n *node) (*Violation, error) {
	if n.rep != nil {
		return nil, fmt.Errorf("%w: it has joined, or has left for good", errSkip)
	}
	n.gone, n.touched = false, true
	w.stats.Sometimes[joined]++
	return w.start(n, nil, false), nil
}

// joiners returns the replicas that join, as bits.
func (s *Script) joiners() (set uint32) {
	for i := range s.Steps {
		if s.Steps[i].Kind == "join" {
			set |= 1 << s.Steps[i].A
		}
	}
	return set
}

// dies runs operations at a replica that loses power before their messages leave and any client is answered.
func (w *world) dies(n *node, s *Step) (*Violation, error) {
	_, resends := n.rep.(Resender)
	if _, durable := n.rep.(Durable); !durable || !resends && !w.canRepair {
		return nil, fmt.Errorf("%w: nothing would bring what it did", errSkip)
	}
	if v, err := w.operate(n, s.N, s.Ops); v != nil || err != nil {
		return v, err
	}
	w.stats.Faults["crash-in-operation"]++
	return w.restart(n, &Step{N: s.N, Kind: "crash", A: s.A, Arg: s.Arg})
}

// resend sends the messages that may not have left before a replica restarted.
func (w *world) resend(n *node) *Violation {
	r, ok := n.rep.(Resender)
	if !ok || n.start == 1 {
		return nil
	}
	list, err := r.Unsent()
	if err != nil {
		return bad(Failed, "replica %c does not return its unsent messages: %v", letter(n.id), err)
	}
	for _, data := range list {
		w.sendOwn(n, data)
	}
	return nil
}

// fillElem names the elements of a fill, all of the same length.
func fillElem(i int) string { return fmt.Sprintf("n%05d", i) }

// filler proposes operations of one kind, one for each element.
type filler struct {
	spec Spec
	kind string
	*rand.Rand
}

// newFiller returns a filler of the kind that the Spec proposes most often, or second most often; "" if it proposes only one.
func newFiller(spec Spec, seed uint64, second bool) *filler {
	f := &filler{spec: spec, Rand: rand.New(rand.NewPCG(seed, 2))}
	count := map[string]int{}
	for range 100 {
		op := spec.Gen(f.Rand, []string{"a"})
		if count[op.Kind]++; count[op.Kind] > count[f.kind] {
			f.kind = op.Kind
		}
	}
	if second {
		delete(count, f.kind)
		f.kind = ""
		for _, kind := range slices.Sorted(maps.Keys(count)) {
			if count[kind] > count[f.kind] {
				f.kind = kind
			}
		}
	}
	return f
}

func (f *filler) op(elem string) (op Op) {
	for range fillTries {
		if op = f.spec.Gen(f.Rand, []string{elem}); op.Kind == f.kind {
			break
		}
	}
	return op
}

// fillTries is how often a Spec is asked for an operation of a filler's kind.
const fillTries = 60

// populate does an operation on each of many elements at a replica.
func (w *world) populate(n *node, count int, fill *filler) (*Violation, error) {
	if fill.kind == "" {
		return nil, fmt.Errorf("%w: the Spec has no second kind of operation", errSkip)
	}
	here := w.here(n)
	return w.operateMany(n, count, func(i int) (Op, *seenView) { return fill.op(fillElem(i)), here })
}

// operateMany does operations at a replica, one by one. next returns the i-th, and what its client sees.
func (w *world) operateMany(n *node, count int, next func(i int) (Op, *seenView)) (*Violation, error) {
	for i := range count {
		op, here := next(i)
		op.ID = opID(w.step.N, i)
		w.lww.tick(w.h, n)
		w.call(n)
		e, err := n.effect([]Op{op})
		n.touched = true
		switch {
		case errors.Is(err, ErrRefused) || errors.Is(err, ErrNotReady):
			w.stats.Sometimes["operation refused"]++
			if w.step.Kind == "churn" { // the others would pile up
				return nil, nil
			}
			continue
		case err != nil:
			w.failed, e = true, Effect{}
			w.stats.Errors++
		}
		if w.bulk > bulkMax && !w.sys.BestEffort { // they will not be delivered
			e.Out = nil
		}
		if v := w.remember(n, []Op{op}, []*seenView{here}, e, err != nil); v != nil {
			return v, nil
		}
		w.stats.Operations++
		for _, data := range e.Out {
			w.bulk += len(data) * len(w.nodes)
		}
	}
	return nil, nil
}

// bulkMax is the most bytes of a fill's messages that are ever delivered: if each message is a whole state, a thousand of them
// would take as long as a thousand schedules.
const bulkMax = 1 << 19

// spread delivers all messages of a step to a replica.
func (w *world) spread(step int, n *node) error {
	list := w.at(step).msgs
	if len(list) == 0 || w.bulk > bulkMax {
		return fmt.Errorf("%w: no messages, or too many bytes", errSkip)
	}
	for sub := range list {
		err := w.deliverStep(&Step{Ref: step, Sub: sub, B: n.id})
		if err != nil {
			return err
		}
	}
	return nil
}

// both runs the operations of two clients concurrently in one replica.
func (w *world) both(n *node, list []ScriptOp) (*Violation, error) {
	if !w.sys.Parallel || len(list) != 2 {
		return nil, fmt.Errorf("%w: not safe for two clients at once", errSkip)
	}
	ops, from, err := w.prepare(n, w.step.N, list)
	if err != nil {
		return nil, err
	}
	w.lww.tick(w.h, n)
	effects, errs, done := make([]Effect, 2), make([]error, 2), make(chan *Violation, 2)
	w.call(n)
	for i := range ops {
		go func() {
			done <- w.guard(func() *Violation {
				effects[i], errs[i] = n.effect(ops[i : i+1])
				return nil
			})
		}()
	}
	var v *Violation
	for range ops {
		if p := <-done; p != nil {
			v = p
			v.Text = "two clients at once: " + v.Text
		}
	}
	n.touched = true
	if v == nil {
		v = unchanged(n, ops, from, list)
	}
	if v != nil {
		return v, nil
	}
	w.stats.Sometimes["two clients at once"]++
	return w.unordered(n, ops, from, effects, errs), nil
}

// unordered records what two clients at once did. Either may have been first, so neither surely knew of the other's operation.
func (w *world) unordered(n *node, ops []Op, from []*seenView, effects []Effect, errs []error) *Violation {
	var events []int
	before := &seenView{sure: n.sure.clone(), maybe: n.maybe.clone(), loose: n.loose, unread: true}
	for i := range ops {
		if errors.Is(errs[i], ErrRefused) || errors.Is(errs[i], ErrNotReady) {
			continue
		}
		if ops[i].Context == nil {
			from[i] = before
		}
		if errs[i] != nil {
			effects[i], w.failed = Effect{}, true
			w.stats.Errors++
		}
		events = append(events, len(w.h.events))
		if v := w.remember(n, ops[i:i+1], from[i:i+1], effects[i], errs[i] != nil); v != nil {
			return v
		}
		w.stats.Operations++
	}
	if len(events) < 2 {
		return nil
	}
	for k, i := range events {
		w.h.guess[i].add(events[1-k])
	}
	a, b := &w.h.events[events[0]], &w.h.events[events[1]]
	a.late = max(a.late, b.late)
	if b.late = a.late; a.Op.Elem == b.Op.Elem { // otherwise the times of b do not depend on a
		b.early = a.early
	}
	w.h.heard[events[1]].remove(events[0])
	if a.Failed || b.Failed || effects[0].Durable != effects[1].Durable { // one of them may be lost, and what the other found undone with it
		for _, i := range events {
			w.h.seen[i] = bitset{}
		}
	}
	w.together(n)
	return nil
}

// together records that each message of the step may carry whatever its replica knew after the step, and that the messages have
// their effects when all of them have come: what the first client undid, the second did not find.
func (w *world) together(n *node) {
	list := w.at(w.step.N).msgs
	var deps, group bitset
	for _, m := range list {
		deps.union(&m.deps)
		group.union(&m.sure)
	}
	group.each(func(i int) bool { deps.remove(i); return true })
	for _, m := range list {
		m.maybe = n.maybe.clone()
		m.deps, m.sure, m.all = deps, group, list
	}
}

// intact checks that no replica has changed a message: neither its author, after sending it, nor the replica that received it last.
func (m *message) intact(who string, n *node) *Violation {
	if bytes.Equal(m.data, m.copy) {
		return nil
	}
	return bad(Changed, "replica %c changed the bytes of the message of step %d %s", letter(n.id), m.step, who)
}
