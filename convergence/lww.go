package convergence

import (
	"math"
	"math/rand/v2"
	"strconv"
)

// LastWriterWins is the set in which the operation with the highest time on an element decides. The kit derives the times itself,
// so it detects a time that a replica rounds or makes up.
type LastWriterWins struct {
	Tie  Tie
	Time Time
}

// Tie says which of two operations with equal times decides.
type Tie int

const (
	// TieReplica: the operation of the replica with the higher number. Between two operations of one replica either may decide, if
	// all replicas decide alike.
	TieReplica Tie = iota
	TieAdd         // the add
	TieRemove      // the remove
	TieAny         // one of them, by the system's own rule: all replicas must decide alike
)

// Time says which time an operation has.
type Time int

const (
	// TimeWall: what Env.Now returns.
	TimeWall Time = iota
	// TimeLamport: a number above those of all operations on the element that the replica has, including those that its disk has
	// brought back. Whether all elements share one clock, and how much it adds for messages, is up to the replica.
	TimeLamport
	// TimeMonotonic: what Env.Now returns, or the time of the replica's last operation if that is later, or one more. It may go
	// back when the replica is opened again.
	TimeMonotonic
	// TimeHybrid: what Env.Now returns, or a time above those of all operations on the element that the replica has, including those
	// that its disk has brought back, if that is later. All elements may share one clock.
	TimeHybrid
	// TimeAny: any time above those of all operations that the replica has. The operations of all replicas are in some order, the same
	// at each replica, in which what a replica had comes before what it did: a log that is sorted topologically, or by a primary.
	// Tie does not matter.
	TimeAny
)

// String returns the constant's name.
func (t Tie) String() string { return name(int(t), "TieReplica", "TieAdd", "TieRemove", "TieAny") }

// String returns the constant's name.
func (t Time) String() string {
	return name(int(t), "TimeWall", "TimeLamport", "TimeMonotonic", "TimeHybrid", "TimeAny")
}

func name(i int, names ...string) string {
	if i < 0 || i >= len(names) {
		return strconv.Itoa(i)
	}
	return names[i]
}

// byTime returns how times decide by a specification, if they do.
func byTime(spec Spec) (s LastWriterWins, ok bool) {
	switch m := spec.(type) {
	case LastWriterWins:
		return m, true
	case LWWMap:
		return LastWriterWins(m), true
	case ORMap:
		return LastWriterWins(m), true
	}
	return s, false
}

// Gen implements Spec.
func (LastWriterWins) Gen(r *rand.Rand, elems []string) Op { return addOrRemove(r, elems) }

// Judge implements Spec.
func (s LastWriterWins) Judge(r *Reading) *Violation {
	return r.verdict(
		func(e string) bool {
			return r.any(e, "add", &r.must, func(i int) bool {
				return !r.any(e, "remove", &r.may, func(j int) bool { return !s.after(r.h, i, j) })
			})
		},
		func(e string) bool {
			return r.any(e, "add", &r.may, func(i int) bool {
				return !r.any(e, "remove", &r.must, func(j int) bool { return s.after(r.h, j, i) })
			})
		})
}

// after reports whether operation i surely wins over j.
func (s LastWriterWins) after(h *history, i, j int) bool {
	a, b := &h.events[i], &h.events[j]
	if s.counts() && !a.fresh && h.heard[i].has(j) {
		return true
	}
	return a.early > b.late || a.early == b.late && s.favours(a, b)
}

func removes(e *Event) bool { return e.Op.Kind == "remove" || e.Op.Kind == "delete" }

// favours reports whether a wins over b if their times are equal.
func (s LastWriterWins) favours(a, b *Event) bool {
	switch s.Tie {
	case TieReplica:
		return a.Replica > b.Replica
	case TieAdd:
		return removes(b) && !removes(a)
	case TieRemove:
		return removes(a) && !removes(b)
	}
	return false
}

// counts reports whether the times of replicas depend on the messages that they receive.
func (s LastWriterWins) counts() bool {
	return s.Time == TimeLamport || s.Time == TimeHybrid || s.Time == TimeAny
}

// times sets the earliest and the latest time of an operation of replica n.
func (s LastWriterWins) times(h *history, n *node, e *Event) {
	if s.Time == TimeAny { // only what the replica had is surely before it
		e.late = math.MaxInt64
		return
	}
	base := e.Stamp
	if s.Time == TimeLamport {
		base = 1
	}
	e.early, e.late = base, base
	if s.Time == TimeWall {
		return
	}
	if s.counts() {
		n.late = max(n.late, base-1) + 1
		e.late = n.late
	}
	for i := range h.events {
		o := &h.events[i]
		switch {
		case s.counts(): // a clock of each element is a correct one, too
			if !e.fresh && o.Op.Elem == e.Op.Elem && n.sure.has(i) {
				e.early = max(e.early, o.early+1)
			}
		case o.Replica == n.id:
			e.late = max(e.late, o.late+1)
			if n.sure.has(i) && n.since.has(i) {
				e.early = max(e.early, o.early)
			}
		}
	}
}

// tick records that a replica received a message: it may count that, in addition to the times in the message.
func (s LastWriterWins) tick(h *history, n *node) {
	if !s.counts() || s.Time == TimeAny {
		return
	}
	n.maybe.each(func(i int) bool {
		n.late = max(n.late, h.events[i].late)
		return true
	})
	n.late++
}
