package convergence

import (
	"bytes"
	"errors"
	"fmt"
)

// restart ends a replica, in one of four ways, and opens it again.
func (w *world) restart(n *node, s *Step) (*Violation, error) {
	d, ok := n.rep.(Durable)
	if !ok {
		return nil, fmt.Errorf("%w: not durable", errSkip)
	}
	from := w.at(s.Ref).backup
	gone := s.Kind == "wipe" || s.Kind == "restore"
	switch {
	case s.Kind == "restore" && from == nil:
		return nil, fmt.Errorf("%w: no backup", errSkip)
	case gone && !w.expendable(n) && !(s.Kind == "restore" && w.catchesUp(n)):
		return nil, fmt.Errorf("%w: others need it", errSkip)
	}
	disk, err := w.end(n, d, s)
	if err != nil {
		return bad(Failed, "replica %c: %s: %v", letter(n.id), s.Kind, err), nil
	}
	switch s.Kind {
	case "wipe":
		disk = nil
		n.lose(&noEvents, &noEvents)
	case "restore":
		disk = from.disk
		n.lose(&from.durable, &from.maybe)
		_, copies := n.rep.(Copier)
		n.joining, n.refill = copies, copies
	default:
		n.sure, n.ids, n.had = n.durable.clone(), n.idsKept.clone(), n.hadKept.clone()
		n.joining = n.joining || n.refill
	}
	if gone {
		w.forgetCopies(n)
	}
	n.touched = true
	v := w.start(n, disk, s.Kind == "restore")
	if s.Kind == "crash" {
		w.doubtBatches(n)
	}
	return v, nil
}

// end stops or crashes a replica, and breaks the copies and reads that used it.
func (w *world) end(n *node, d Durable, s *Step) (disk any, err error) {
	n.closed = true
	if s.Kind == "restart" {
		if f, ok := n.rep.(DiskFaulter); ok {
			if err := f.DiskFault(""); err != nil {
				return nil, err
			}
		}
		if disk, err = d.Stop(); err == nil {
			w.synced(n)
		}
		w.stats.Faults["restart"]++
	} else {
		disk, err = d.Crash(s.Arg)
		w.countCrash(n, s)
	}
	for _, c := range w.copies {
		if c := c[n.id]; c != nil { // its own copies ended with it
			c.c, c.done = nil, false
		}
	}
	for to, c := range w.copies[n.id] {
		if c != nil && c.c != nil && to != n.id {
			c.c.Cut()
			c.forget()
			w.nodes[to].touched = true
		}
	}
	for _, r := range w.reads {
		r.lost(n.id)
	}
	return disk, err
}

func (c *copying) forget() {
	if c != nil {
		c.c = nil
	}
}

// lose records that a replica may have lost what it knew, and has to be filled again.
func (n *node) lose(durable, maybe *bitset) {
	n.sure, n.durable, n.maybe = durable.clone(), durable.clone(), maybe.clone()
	n.ids, n.idsKept, n.doubts = bitset{}, bitset{}, nil
	n.had, n.hadKept = bitset{}, bitset{}
	n.joining, n.refill, n.mixed = true, true, true
}

func (w *world) forgetCopies(n *node) {
	for _, c := range w.copies {
		c[n.id] = nil
	}
}

// expendable reports whether a replica may lose its data: the others can fill it, all of them are whole, and everything that any
// replica ever acknowledged is durable at one of them.
func (w *world) expendable(n *node) bool {
	if _, ok := n.rep.(Copier); !ok || len(w.living()) < 3 {
		return false
	}
	for _, m := range w.nodes {
		if m.joining {
			return false
		}
	}
	for i, acks := range w.h.acks {
		if acks != 0 && !w.durableElsewhere(n, i) {
			return false
		}
	}
	return true
}

func (w *world) leave(n *node) error {
	l, ok := n.rep.(Leaver)
	if !ok || !w.expendable(n) {
		return fmt.Errorf("%w: others need it", errSkip)
	}
	if err := l.Leave(); err != nil {
		return fmt.Errorf("%w: %w", errSkip, err)
	}
	n.lose(&noEvents, &n.maybe)
	w.forgetCopies(n)
	for to, c := range w.copies[n.id] {
		if c != nil && c.c != nil {
			c.c.Cut()
			c.forget()
			w.nodes[to].touched = true
		}
	}
	for _, r := range w.reads {
		r.lost(n.id)
	}
	n.touched = true
	w.stats.Faults["leave"]++
	return nil
}

func (w *world) backup(n *node, s *Step) error {
	b, ok := n.rep.(Backuper)
	if !ok || n.joining {
		return fmt.Errorf("%w: no backups here", errSkip)
	}
	if err := w.sync(n); err != nil {
		return err
	}
	disk, err := b.Backup()
	if err != nil {
		return fmt.Errorf("%w: %w", errSkip, err)
	}
	w.made[w.pos].backup = &backup{disk: disk, durable: n.durable.clone(), maybe: n.maybe.clone()}
	w.stats.Faults["backup"]++
	return nil
}

// ask lets a replica ask for what it is missing.
func (w *world) ask(n *node, step int) error {
	r, ok := n.rep.(Repairer)
	if !ok {
		return fmt.Errorf("%w: no anti-entropy", errSkip)
	}
	data, err := r.Ask()
	if err != nil {
		return fmt.Errorf("%w: %w", errSkip, err)
	}
	w.at(step).ask = &question{from: n.id, step: step, data: data, copy: bytes.Clone(data), maybe: n.maybe.clone()}
	return nil
}

// intact checks that no replica has changed a question.
func (q *question) intact(who string, n *node) *Violation {
	if bytes.Equal(q.data, q.copy) {
		return nil
	}
	return bad(Changed, "replica %c changed the bytes of the question of step %d %s", letter(n.id), q.step, who)
}

func (w *world) answer(n *node, s *Step) error {
	q := w.at(s.Ref).ask
	if q == nil || q.from == n.id || w.apart(q.from, n.id) {
		return fmt.Errorf("%w: no question", errSkip)
	}
	return w.reply(n, q)
}

func (w *world) reply(n *node, q *question) error {
	r, ok := n.rep.(Repairer)
	if !ok {
		return fmt.Errorf("%w: no anti-entropy", errSkip)
	}
	w.find(q.intact("after it had sent it", w.nodes[q.from]))
	w.call(n)
	out, err := r.Answer(q.data)
	w.find(q.intact("that it was given", n))
	n.maybe.union(&q.maybe)
	w.lww.tick(w.h, n)
	n.touched = true
	if err != nil {
		return fmt.Errorf("%w: %w", errSkip, err)
	}
	for _, data := range out {
		w.send(&message{to: q.from, from: n.id, data: data, maybe: n.maybe.clone(), repair: true, parts: n.parts})
	}
	return nil
}

// copyStep does the next step of the copy from a to b.
func (w *world) copyStep(a, b *node) error {
	cp, ok := b.rep.(Copier)
	if !ok || a == b || w.apart(a.id, b.id) {
		return fmt.Errorf("%w: no copy", errSkip)
	}
	c := w.copies[a.id][b.id]
	if c == nil {
		c = &copying{}
		w.copies[a.id][b.id] = c
	}
	if c.c == nil {
		if err := w.beginCopy(a, b, cp, c); err != nil {
			return err
		}
	}
	w.call(a, b)
	done, err := c.c.Step()
	b.touched, b.mixed = true, true
	b.maybe.union(&a.maybe)
	w.lww.tick(w.h, b)
	if err != nil {
		c.c = nil
		return fmt.Errorf("%w: %w", errSkip, err)
	}
	if !done {
		w.stats.parts++
	} else {
		w.say("done")
		w.stats.Sometimes["copy done"]++
		b.sure.union(&c.promise)
		c.c, c.done = nil, true
	}
	return nil
}

// beginCopy begins or resumes a copy, and records what its target has when it is done.
func (w *world) beginCopy(a, b *node, cp Copier, c *copying) error {
	began, resumed, err := cp.CopyFrom(a.rep)
	if err != nil {
		w.stats.Sometimes["copy refused"]++
		return fmt.Errorf("%w: %w", errSkip, err)
	}
	c.c = began
	if w.step.Kind == "copy" {
		w.stats.Faults["copy"]++
	}
	for from, row := range w.copies {
		if o := row[b.id]; from != a.id && o != nil && o.c != nil {
			w.stats.Sometimes["two copies into one replica"]++
		}
	}
	if c.begun {
		w.stats.Sometimes["copy begun again after a cut"]++
	}
	if !c.begun {
		c.floor = a.sure.clone()
	}
	c.floor.intersect(&a.sure)
	c.promise = a.sure.clone()
	if c.begun && resumed {
		c.promise = c.floor.clone()
	}
	c.begun, c.done = true, false
	return nil
}

func (w *world) cut(a, b *node) error {
	c := w.copies[a.id][b.id]
	if c == nil || c.c == nil {
		return fmt.Errorf("%w: no copy", errSkip)
	}
	err := c.c.Cut()
	c.forget()
	b.touched = true
	w.stats.Faults["copy-cut"]++
	if err != nil && !errors.Is(err, errSkip) {
		w.say("%v", err)
	}
	return nil
}
