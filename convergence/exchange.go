package convergence

import (
	"errors"
	"fmt"
	"slices"
)

// A copy that runs alone has to be done after copyStepsMax steps, plus copyStepsOp for each operation of the schedule.
const (
	copyStepsMax = 1000
	copyStepsOp  = 4
)

// exchange ends all faults, delivers everything to every replica, and checks that all replicas are equal and show what they must.
func (w *world) exchange(mode string) (*Violation, error) {
	if mode != "messages" && mode != "repair" && mode != "copies" {
		return nil, fmt.Errorf("%w: unknown mode", errSkip)
	}
	if w.bulk > bulkMax && !w.sys.BestEffort {
		return nil, fmt.Errorf("%w: too many bytes", errSkip)
	}
	if len(w.living()) == 0 {
		return nil, fmt.Errorf("%w: all replicas have left", errSkip)
	}
	w.side = 0
	w.countLost()
	w.forget()
	for _, n := range w.living() {
		if f, ok := n.rep.(DiskFaulter); ok {
			n.faulty = false
			if err := f.DiskFault(""); err != nil {
				return bad(Failed, "replica %c: %v", letter(n.id), err), nil
			}
		}
	}
	if err := w.fill(); err != nil {
		return bad(NeverReady, "%v", err), nil
	}
	if err := w.exchangeBy(mode); err != nil {
		return bad(Failed, "exchange by %s: %v", mode, err), nil
	}
	w.stats.Sometimes["everything exchanged by "+mode]++
	var must, may bitset
	for _, n := range w.living() {
		must.union(&n.sure)
		must.union(&n.durable)
		may.union(&n.maybe)
	}
	if !w.canRepair {
		w.h.dropFailed(&must)
	}
	for _, n := range w.living() {
		n.sure, n.maybe = must.clone(), may.clone()
		n.loose, n.touched = map[string]bool{}, true
	}
	w.damaged = false
	if v := w.look(); v != nil {
		return v, nil
	}
	return w.equal()
}

// forget, in some schedules, loses for good the messages of operations that their author lost in a crash, or took away when it
// left, before any of them was delivered. Only systems with anti-entropy can guarantee anything then, so only their messages are
// lost.
func (w *world) forget() {
	if !w.canRepair || w.s.Seed%2 == 0 {
		return
	}
	for i := range w.made {
		w.made[i].msgs = slices.DeleteFunc(w.made[i].msgs, func(m *message) bool {
			from := w.nodes[m.from]
			unheard := m.seen == [replicasMax]int{} && !m.repair && m.to < 0
			gone := unheard && !m.sure.empty() && (from.gone || !m.sure.within(&from.sure))
			if gone {
				w.lost, w.failed = true, true
				w.stats.Faults["loss-for-good"]++
			}
			return gone
		})
	}
}

// fill copies data to the replicas that lost theirs until they answer.
func (w *world) fill() error {
	for _, n := range w.living() {
		if !n.joining {
			continue
		}
		if w.damaged {
			if err := w.repairRounds(); err != nil {
				return err
			}
		}
		for _, m := range w.living() {
			if m != n && !m.joining {
				if err := w.copyAll(m, n); err != nil {
					return err
				}
			}
		}
		if _, err := n.rep.Read(); errors.Is(err, ErrNotReady) {
			return fmt.Errorf("replica %c is not ready although all others were copied to it", letter(n.id))
		}
		n.joining = false
	}
	return nil
}

func (w *world) copyAll(from, to *node) error {
	for range copyStepsMax + copyStepsOp*len(w.h.events) {
		if err := w.copyStep(from, to); err != nil {
			return err
		}
		if w.copies[from.id][to.id].done {
			return nil
		}
	}
	return fmt.Errorf("the copy from %c to %c does not end", letter(from.id), letter(to.id))
}

func (w *world) exchangeBy(mode string) error {
	repairs := w.canRepair
	if mode == "repair" && !repairs {
		mode = "messages"
	}
	if mode == "messages" && w.sys.BestEffort {
		mode = "repair"
		w.say("by anti-entropy")
	}
	if _, ok := w.living()[0].rep.(Copier); mode == "copies" && !ok {
		mode = "messages"
	}
	// Only anti-entropy heals damage, and an operation that was answered by an error has no message.
	if repairs && (mode == "repair" || w.damaged || w.failed) {
		if err := w.repairRounds(); err != nil {
			return err
		}
	}
	switch mode {
	case "messages":
		if err := w.deliverAll(); err != nil || !repairs || !w.failed {
			return err
		}
		// What has come by anti-entropy may have waited until now for these messages, and no message brings it to the others.
		return w.repairRounds()
	case "copies":
		for range 2 {
			for _, a := range w.living() {
				for _, b := range w.living() {
					if a != b {
						if err := w.copyAll(a, b); err != nil {
							return err
						}
					}
				}
			}
		}
	}
	return nil
}

// deliverAll delivers every message of an operation to every replica, oldest first, or newest first at every other replica, or in the
// order of System.CausalNet.
// Replicas may send more messages by themselves when they receive these, so it repeats, as often as anti-entropy does.
func (w *world) deliverAll() error {
	backwards := w.rand.IntN(2) == 0 && !w.sys.CausalNet
	given := 0
	if backwards && len(w.broadcasts()) > 1 {
		w.say("newest message first at %s", everyOther(w.living()))
	}
	for range len(w.nodes) + 2 {
		w.timers(true)
		all := w.broadcasts()[given:]
		if len(all) == 0 {
			break
		}
		given += len(all)
		for _, n := range w.living() {
			if backwards { // at every other replica
				slices.Reverse(all)
			}
			if err := w.deliverList(all, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// everyOther returns the letters of every other replica, beginning with the first.
func everyOther(nodes []*node) string {
	var set uint32
	for i := 0; i < len(nodes); i += 2 {
		set |= 1 << nodes[i].id
	}
	return letters(set)
}

// broadcasts returns all messages that are for every replica, in the order in which they were sent.
func (w *world) broadcasts() (all []*message) {
	for i := range w.made {
		for _, m := range w.made[i].msgs {
			if !m.repair && m.to < 0 {
				all = append(all, m)
			}
		}
	}
	return all
}

func (w *world) deliverList(all []*message, n *node) error {
	for again := true; again; {
		again = false
		for _, m := range all {
			if !w.due(m, n) {
				continue
			}
			if err := w.deliver(m, n); err != nil {
				return fmt.Errorf("replica %c does not take the message of step %d: %w", letter(n.id), m.step, err)
			}
			again = again || w.sys.CausalNet
			if !w.sys.CausalNet && !w.lost {
				n.learn(&m.sure)
			}
		}
	}
	return nil
}

// timerKinds is how many kinds of background work the kit asks a Sender for, when it lets timers expire.
const timerKinds = 4

// timers lets replicas that send by themselves send what waits for their disk or for a timer. With asks they may also do so in Ask; what
// they ask is lost.
func (w *world) timers(asks bool) {
	for _, n := range w.living() {
		if n.sender == nil || n.joining {
			continue
		}
		w.call(n)
		if d, ok := n.rep.(Durable); ok {
			d.Sync()
		}
		if m, ok := n.rep.(Maintainer); ok {
			for i := range timerKinds {
				m.Maintain(i)
			}
		}
		if r, ok := n.rep.(Repairer); ok && asks {
			r.Ask()
		}
		w.collect(n)
	}
}

// deliverOwn delivers what replicas have sent by themselves in this exchange, from a number on, and what they send in response. It
// returns how many messages there are.
func (w *world) deliverOwn(given int) (int, error) {
	for range len(w.nodes) + 2 {
		for _, n := range w.living() {
			w.collect(n)
		}
		all := w.made[w.pos].msgs[given:]
		if len(all) == 0 {
			break
		}
		given += len(all)
		for _, n := range w.living() {
			if err := w.deliverList(all, n); err != nil {
				return given, err
			}
		}
	}
	return given, nil
}

// repairRounds lets every replica ask every other, and loses nothing, also of what replicas then send by themselves.
func (w *world) repairRounds() error {
	given := len(w.made[w.pos].msgs)
	for range len(w.nodes) + 2 {
		w.timers(false)
		for _, a := range w.living() {
			for _, b := range w.living() {
				if a == b {
					continue
				}
				if err := w.repairPair(a, b); err != nil {
					return err
				}
			}
		}
		var err error
		if given, err = w.deliverOwn(given); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) repairPair(a, b *node) error {
	w.call(a)
	data, err := a.rep.(Repairer).Ask()
	if err != nil {
		return fmt.Errorf("replica %c can't ask: %w", letter(a.id), err)
	}
	q := question{from: a.id, step: w.step.N, data: data, copy: slices.Clone(data)}
	w.call(b)
	out, err := b.rep.(Repairer).Answer(data)
	w.find(q.intact("that it was given", b))
	if err != nil {
		return fmt.Errorf("replica %c does not answer: %w", letter(b.id), err)
	}
	b.maybe.union(&a.maybe)
	w.lww.tick(w.h, b)
	for _, msg := range out {
		if err := w.deliver(&message{to: a.id, from: b.id, data: msg, copy: slices.Clone(msg), maybe: b.maybe.clone(), repair: true, parts: b.parts}, a); err != nil {
			return fmt.Errorf("replica %c does not take an answer: %w", letter(a.id), err)
		}
	}
	return nil
}

// equal checks that all replicas show the same and, if they have fingerprints, that these are equal.
func (w *world) equal() (*Violation, error) {
	first := w.living()[0]
	want, err := first.rep.Read()
	if err != nil {
		return bad(Failed, "replica %c does not answer a read: %v", letter(first.id), err), nil
	}
	for _, n := range w.living()[1:] {
		w.call(n)
		have, err := n.rep.Read()
		if err != nil {
			return bad(Failed, "replica %c does not answer a read: %v", letter(n.id), err), nil
		}
		if !w.same(want, have) {
			return bad(Diverged, "%c shows %s, %c shows %s", letter(first.id), want, letter(n.id), have), nil
		}
		a, ok := first.rep.(Fingerprinter)
		b, ok2 := n.rep.(Fingerprinter)
		if ok && ok2 && a.Fingerprint() != b.Fingerprint() {
			return bad(Diverged, "%c and %c show the same, but their fingerprints differ: %s", letter(first.id), letter(n.id), w.dumps(first, n)), nil
		}
	}
	return nil, nil
}

// same reports whether two views mean the same.
func (w *world) same(a, b View) bool {
	if c, ok := w.spec.(Comparer); ok {
		return c.Same(a, b)
	}
	return slices.EqualFunc(a.Items, b.Items, sameItem)
}

func sameItem(a, b Item) bool {
	if a.Elem != b.Elem || len(a.Tags) != len(b.Tags) || !slices.Equal(a.Values, b.Values) {
		return false
	}
	for _, t := range a.Tags {
		if !contains(b.Tags, t) {
			return false
		}
	}
	return true
}

func (w *world) dumps(nodes ...*node) (s string) {
	for _, n := range nodes {
		switch r := n.rep.(type) {
		case Dumper:
			s += fmt.Sprintf("%c: %s ", letter(n.id), r.Dump())
		case Fingerprinter:
			s += fmt.Sprintf("%c: %.200q ", letter(n.id), r.Fingerprint())
		}
	}
	return s
}
