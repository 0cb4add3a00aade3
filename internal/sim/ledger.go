package sim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"bigset"
	"bigset/clock"
	"bigset/convergence"
	"bigset/fold"
	"bigset/keyscheme"
)

// ledger is the oracle of a cluster: every event that any replica made, and which of them were acknowledged to clients.
type ledger struct {
	names  *names                    // of actors
	adds   map[clock.Dot]string      // to their elements
	kills  map[clock.Dot][]clock.Dot // of an event: the dots that it removes
	clears []*clock.Clock            // whole-set deletes

	marks marks // of a filter

	promises
	firm promises // those promises that no crash takes back
	disk promises // those promises that are on disk, where members are kept: no crash of all members takes them back
	loss loss
	kept bool // no crash and no loss of a disk takes back what was acknowledged

	violation *convergence.Violation // the first
	checks    int
	step      int // the last that began
}

// loss counts the crashes that have lost something, and how many of them lost a whole disk.
type loss struct{ crashes, wipes int }

// promises are the events that clients know to have happened, with the number of replicas that have them.
type promises struct {
	dots   map[clock.Dot]int
	clears map[*clock.Clock]int
}

func newPromises() promises { return promises{map[clock.Dot]int{}, map[*clock.Clock]int{}} }

func (p promises) clone() promises { return promises{maps.Clone(p.dots), maps.Clone(p.clears)} }

// still returns those of the promises that are also among others.
func (p promises) still(others promises) promises {
	p = p.clone()
	maps.DeleteFunc(p.dots, func(dot clock.Dot, _ int) bool { return others.dots[dot] == 0 })
	maps.DeleteFunc(p.clears, func(c *clock.Clock, _ int) bool { return others.clears[c] == 0 })
	return p
}

func newLedger(n *names) *ledger {
	return &ledger{names: n, adds: map[clock.Dot]string{}, kills: map[clock.Dot][]clock.Dot{}, promises: newPromises(), firm: newPromises(), disk: newPromises()}
}

func (l *ledger) violated(kind, format string, args ...any) {
	if l.violation == nil {
		l.violation = &convergence.Violation{Kind: kind, Step: l.step, Text: fmt.Sprintf(format, args...)}
	}
}

func dotOf(d bigset.Delta, item int) clock.Dot {
	return clock.Dot{Actor: d.Actor, Counter: d.First + uint64(item)}
}

// minted records a delta that a replica has made, or is about to receive. It may be recorded more than once.
func (l *ledger) minted(d bigset.Delta) {
	if !d.Clear.Empty() {
		l.clear(d.Clear)
	}
	for i, it := range d.Items {
		dot := dotOf(d, i)
		if _, known := l.kills[dot]; known {
			if it.Kind == keyscheme.OpAdd && l.adds[dot] != string(it.Element) {
				l.violated(convergence.TagReused, "%s is of %q and of %q", l.names.dot(dot), l.adds[dot], it.Element)
			}
			continue
		}
		l.kills[dot] = it.Context
		if it.Kind == keyscheme.OpAdd {
			l.adds[dot] = string(it.Element)
		}
	}
}

// clear returns the whole-set delete of a clock.
func (l *ledger) clear(c *clock.Clock) *clock.Clock {
	for _, known := range l.clears {
		if known.Equal(c) {
			return known
		}
	}
	c = c.Clone()
	l.clears = append(l.clears, c)
	return c
}

// promise records that a client was answered that w replicas have a delta; firm says that it is on disk.
func (l *ledger) promise(d bigset.Delta, w int, firm bool) {
	to := []promises{l.promises}
	if firm || l.kept {
		to = append(to, l.firm)
	}
	if firm {
		to = append(to, l.disk)
	}
	for _, p := range to {
		if !d.Clear.Empty() {
			c := l.clear(d.Clear)
			p.clears[c] = max(p.clears[c], w)
		}
		for i := range d.Items {
			p.dots[dotOf(d, i)] = max(p.dots[dotOf(d, i)], w)
		}
	}
}

// lossy records a crash that may have lost what was not synced.
func (l *ledger) lossy() {
	l.loss.crashes++
	l.promises = l.firm.clone()
}

// outage records a crash of all members, after which everything that was not acknowledged as on disk may be lost.
func (l *ledger) outage(marksOnDisk bool) {
	l.loss.crashes++
	l.promises, l.firm = l.disk.clone(), l.disk.clone()
	for _, life := range l.marks.lives {
		if !marksOnDisk {
			life.acked, life.news = map[string]bool{}, map[string]int{}
		}
	}
}

// wiped records that a replica has lost its disk. It is filled from all other replicas before it answers again. So what one of
// those has acknowledged as well still holds; what only the lost disk had is gone.
func (l *ledger) wiped() {
	l.loss.wipes++
	if l.lossy(); l.kept {
		return
	}
	maps.DeleteFunc(l.firm.dots, func(_ clock.Dot, w int) bool { return w < 2 })
	maps.DeleteFunc(l.firm.clears, func(_ *clock.Clock, w int) bool { return w < 2 })
	l.promises = l.firm.clone()
}

// question is a quorum read, or a look-up, in progress.
type question struct {
	l        *ledger
	promised promises // when it began
	firm     promises // those promises that hold although a crash has lost something since
	loss     loss
	most     int // it must show what more replicas than this have: N-R
}

func (l *ledger) ask(n, r int) *question {
	return &question{l, l.promises.clone(), l.firm.clone(), l.loss, n - r}
}

// killed reports whether anything that happened so far removes a dot.
func (l *ledger) killed(dot clock.Dot) bool {
	return l.killedBy(dot, func(clock.Dot) bool { return true }, func(*clock.Clock) bool { return true })
}

// killedBy reports whether a dot is removed by an event, or a whole-set delete, that a function accepts.
func (l *ledger) killedBy(dot clock.Dot, event func(clock.Dot) bool, clear func(*clock.Clock) bool) bool {
	for by, kills := range l.kills {
		for _, k := range kills {
			if k == dot && event(by) {
				return true
			}
		}
	}
	for _, c := range l.clears {
		if c.Contains(dot) && clear(c) {
			return true
		}
	}
	return false
}

// answered judges what a read showed of the elements in about; nil means all elements.
func (q *question) answered(shown []fold.Element, about []string) {
	l := q.l
	l.checks++
	if q.loss != l.loss {
		q.promised = q.firm.still(l.firm)
	}
	has := map[clock.Dot]bool{}
	for i, el := range shown {
		if i > 0 && about == nil && bytes.Compare(shown[i-1].Name, el.Name) >= 0 {
			l.violated(convergence.Disorder, "a read shows %q after %q", el.Name, shown[i-1].Name)
		}
		for _, dot := range el.Dots {
			has[dot] = true
			l.known(dot, string(el.Name))
			if l.killedBy(dot, func(by clock.Dot) bool { return q.promised.dots[by] > q.most },
				func(c *clock.Clock) bool { return q.promised.clears[c] > q.most }) {
				l.violated(convergence.Resurrected, "a read shows %q by %s, which was removed", el.Name, l.names.dot(dot))
			}
		}
	}
	for dot, w := range q.promised.dots {
		element, add := l.adds[dot]
		if !add || w <= q.most || has[dot] || l.killed(dot) || about != nil && !slices.Contains(about, element) {
			continue
		}
		l.violated(convergence.Lost, "a read does not show %q by %s, which %d replicas acknowledged", element, l.names.dot(dot), w)
	}
}

// known checks that an element was added with a dot.
func (l *ledger) known(dot clock.Dot, element string) {
	if l.adds[dot] != element {
		l.violated(convergence.Phantom, "%q is shown by %s, which did not add it", element, l.names.dot(dot))
	}
}

// final judges one replica after everything was exchanged.
func (l *ledger) final(node string, st bigset.State, shown []fold.Element) {
	l.checks++
	live := map[clock.Dot]bool{}
	for _, el := range shown {
		for _, dot := range el.Dots {
			live[dot] = true
			l.known(dot, string(el.Name))
		}
	}
	left := st.Seen.Clone()
	if left.Subtract(st.Dead); left.Len() != uint64(len(live)) {
		l.violated(convergence.Unverifiable, "%s has %d live dots and shows %d", node, left.Len(), len(live))
	}
	// A crash may lose what was not synced, except the key of an add that a repair has brought elsewhere.
	sure := func(by clock.Dot) bool { return st.Seen.Contains(by) && (l.loss.crashes == 0 || l.firm.dots[by] > 0) }
	for dot, element := range l.adds {
		switch {
		case live[dot] && (!left.Contains(dot)):
			l.violated(convergence.Unverifiable, "%s shows %q by %s, and does not have it live", node, element, l.names.dot(dot))
		case live[dot] && l.killedBy(dot, sure, func(c *clock.Clock) bool { return l.firm.clears[c] > 0 }):
			l.violated(convergence.Resurrected, "%s shows %q by %s at the end, which was removed", node, element, l.names.dot(dot))
		case !live[dot] && !l.killed(dot) && (st.Seen.Contains(dot) || l.dots[dot] > 0):
			l.violated(convergence.Lost, "%s does not show %q by %s at the end", node, element, l.names.dot(dot))
		}
	}
}
