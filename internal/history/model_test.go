package history

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bigset/internal/testkit/tier"
)

// fault is how a model breaks its promise on purpose.
type fault int

const (
	correct    fault = iota
	quorumOne        // writes are acknowledged by one replica
	readOne          // reads ask one replica
	forgetful        // replicas acknowledge removes and do not do them
	rolledBack       // a replica loses all at some time
	doubling         // a request that is sent again is done again
)

// replica is one of three: live dots with their elements, and dead dots, which never come back.
type replica struct {
	live map[int]string
	dead map[int]bool
}

// delta is an event of a write: a dot, 0 for none, and what it kills.
type delta struct {
	dot   int
	e     string
	kills []int
}

func (r *replica) apply(d delta) {
	for _, k := range d.kills {
		delete(r.live, k)
		r.dead[k] = true
	}
	if d.dot != 0 && !r.dead[d.dot] {
		r.live[d.dot] = d.e
	}
}

// model is a cluster of three replicas at W=2 and R=2, in which everything happens step by step.
type model struct {
	draw     func(lo, hi int) int
	fault    fault
	now      int
	rec      *Recorder
	replicas [3]replica
	dots     int
	flying   []*flight
	sent     []*flight // adds and removes that have ended, which can be sent again
	answered []*flight // that can be contexts
	clients  int
}

// flight is one operation in progress: which replicas it has reached, and what it carries.
type flight struct {
	op     *Op
	reads  bool
	minted bool
	deltas []delta
	left   []int // replicas that it can still reach, in their order
	got    int
	live   map[int]string // of a read: what it has seen
	dead   map[int]bool
	mint   func(r *replica) []delta
	first  *flight // the request that this one repeats
	ended  bool
	finish func(f *flight)
}

var (
	elements = []string{"x", "y"}
	verbs    = []string{"add", "add", "add both", "remove", "remove", "drop", "read", "read", "lookup", "again", "again"}
	orders   = [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
)

// runModel draws a history.
func runModel(draw func(lo, hi int) int, f fault) *Recorder {
	m := &model{draw: draw, fault: f}
	m.rec = New(func() time.Duration { return time.Duration(m.now) })
	for i := range m.replicas {
		m.replicas[i] = replica{map[int]string{}, map[int]bool{}}
	}
	for range draw(20, 200) {
		m.now++
		if f == rolledBack && draw(0, 30) == 0 {
			m.replicas[0] = replica{map[int]string{}, map[int]bool{}}
		}
		if len(m.flying) == 0 || m.now%30 < 12 && draw(0, 3) == 0 { // sometimes all operations can end
			m.begin()
		} else {
			m.advance(draw(0, len(m.flying)-1))
		}
	}
	return m.rec
}

// begin begins an operation of a new client.
func (m *model) begin() {
	m.clients++
	c := m.rec.Client(fmt.Sprint("client ", m.clients))
	e := elements[m.draw(0, len(elements)-1)]
	f := &flight{left: orders[m.draw(0, len(orders)-1)], live: map[int]string{}, dead: map[int]bool{}}
	var context *flight
	if len(m.answered) > 0 && m.draw(0, 3) > 0 {
		context = m.answered[m.draw(max(0, len(m.answered)-3), len(m.answered)-1)]
	}
	of := func(live map[int]string, e string) (dots []int) {
		for d, has := range live {
			if e == "" || has == e {
				dots = append(dots, d)
			}
		}
		return dots
	}
	removed := func(e string) func(r *replica) []delta {
		return func(r *replica) []delta {
			if context != nil {
				return []delta{{kills: of(context.live, e)}}
			}
			return []delta{{kills: of(r.live, e)}}
		}
	}
	var contextOp *Op
	if context != nil {
		contextOp = context.op
	}
	verb := verbs[m.draw(0, len(verbs)-1)]
	if verb == "again" && len(m.sent) == 0 {
		verb = "add"
	}
	switch verb {
	case "again":
		f.first = m.sent[m.draw(max(0, len(m.sent)-3), len(m.sent)-1)]
		f.op, f.mint = c.Again(f.first.op), f.first.mint
		if f.first.minted && m.fault != doubling {
			f.minted, f.deltas = true, f.first.deltas
		}
	case "add":
		f.op, f.mint = c.Add("s", e), func(r *replica) []delta { m.dots++; return []delta{{m.dots, e, of(r.live, e)}} }
	case "add both":
		f.op, f.mint = c.Add("s", elements...), func(r *replica) []delta {
			m.dots += 2
			return []delta{{m.dots - 1, "x", of(r.live, "x")}, {m.dots, "y", of(r.live, "y")}}
		}
	case "remove":
		f.op, f.mint = c.Remove("s", contextOp, e), removed(e)
	case "drop":
		f.op, f.mint = c.RemoveAll("s", contextOp), removed("")
	case "read":
		f.op, f.reads = c.Read("s"), true
		f.finish = func(f *flight) {
			for _, e := range elements {
				if dots := of(f.live, e); len(dots) > 0 {
					f.op.Saw(e)
					f.op.Event(e, text(dots))
				}
			}
		}
	case "lookup":
		f.op, f.reads = c.Lookup("s"), true
		f.finish = func(f *flight) {
			for d, has := range f.live {
				if has != e {
					delete(f.live, d)
				}
			}
			f.op.Answered(e, len(f.live) > 0)
			if dots := of(f.live, e); len(dots) > 0 {
				f.op.Event(e, text(dots))
			}
		}
	}
	m.flying = append(m.flying, f)
}

// text names dots.
func text(dots []int) string {
	slices.Sort(dots)
	return fmt.Sprint(dots)
}

// advance advances one operation by one event: it reaches a replica, or ends; one that has ended may still reach replicas.
func (m *model) advance(i int) {
	f := m.flying[i]
	need := 2
	if f.reads && m.fault == readOne || !f.reads && m.fault == quorumOne {
		need = 1
	}
	switch what := m.draw(0, 9); {
	case !f.ended && f.got >= need && what < 6:
		if f.reads {
			f.finish(f)
			m.answered = append(m.answered, f)
		} else if f.op.kind == add {
			for _, d := range f.deltas {
				f.op.Event(d.e, text([]int{d.dot}))
			}
		}
		f.op.End(OK, nil)
		f.ended = true
		m.ended(f)
	case !f.ended && what == 6 && m.draw(0, 2) == 0:
		outcome := Unknown
		if !f.minted && !f.reads {
			outcome = Fail
			f.left = nil
		}
		f.op.End(outcome, nil)
		f.ended = true
		m.ended(f)
	case f.ended && what == 6:
		f.left = nil // it never arrives
	case len(f.left) > 0:
		m.reach(f)
	}
	if f.ended && (f.reads || len(f.left) == 0) {
		m.flying = slices.Delete(m.flying, i, i+1)
	}
}

// ended keeps a request that may be sent again. One that did nothing is done by the next try, which all later ones repeat.
func (m *model) ended(f *flight) {
	if f.first == nil && (f.op.kind == add || f.op.kind == remove) {
		m.sent = append(m.sent, f)
	}
}

func (m *model) reach(f *flight) {
	r := &m.replicas[f.left[0]]
	f.left = f.left[1:]
	f.got++
	if !f.reads {
		if first := f.first; first != nil && !f.minted && first.minted && m.fault != doubling { // another try has done it
			f.minted, f.deltas = true, first.deltas
		}
		if !f.minted {
			f.minted, f.deltas = true, f.mint(r)
			if f.first != nil && !f.first.minted {
				f.first.minted, f.first.deltas = true, f.deltas
			}
		}
		for _, d := range f.deltas {
			if m.fault != forgetful || d.dot != 0 {
				r.apply(d)
			}
		}
		return
	}
	for d, e := range r.live {
		if !f.dead[d] {
			f.live[d] = e
		}
	}
	for d := range r.dead {
		f.dead[d] = true
		delete(f.live, d)
	}
}

// TestNeverAccused: a cluster that keeps its promises is never reported, whatever is unknown, late or half done.
func TestNeverAccused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, "n") }
		if err := runModel(draw, correct).Check().Err(); err != nil {
			t.Fatal(err)
		}
	})
	answers := 0
	for _, rec := range drawn(t, correct) {
		report := rec.Check()
		if err := report.Err(); err != nil {
			t.Fatal(err)
		}
		answers += report.Answers
	}
	if answers < histories() {
		t.Errorf("%d answers: the model does too little", answers)
	}
}

func histories() int { return tier.Pick(200, 400, 50_000) }

// drawn makes many histories of a model.
func drawn(t *testing.T, f fault) iter.Seq2[int, *Recorder] {
	r := tier.Random(t)
	return func(yield func(int, *Recorder) bool) {
		for i := range histories() {
			if !yield(i, runModel(func(lo, hi int) int { return lo + r.IntN(hi-lo+1) }, f)) {
				return
			}
		}
	}
}

// againUntil draws again until enough was seen.
func againUntil(draw func() iter.Seq2[int, *Recorder], enough func() bool) iter.Seq2[int, *Recorder] {
	return func(yield func(int, *Recorder) bool) {
		for {
			for i, rec := range draw() {
				if !yield(i, rec) {
					return
				}
			}
			if enough() {
				return
			}
		}
	}
}

// TestAgainstDefinitions: for clusters that break their promises, the checker finds what the definitions of the package give,
// judged one by one; and each fault is found.
func TestAgainstDefinitions(t *testing.T) {
	t.Parallel()
	for f, kinds := range map[fault][]Kind{correct: nil, quorumOne: {Lost, Stale}, readOne: {Lost, Stale}, forgetful: {Resurrected}, rolledBack: {Lost}, doubling: {Doubled, Resurrected}} {
		found := map[Kind]int{}
		lacks := func(k Kind) bool { return found[k] == 0 }
		batches := 0
		for _, rec := range againUntil(func() iter.Seq2[int, *Recorder] { return drawn(t, f) }, func() bool {
			batches++ // some faults rarely show as some kinds: then more is drawn
			return !slices.ContainsFunc(kinds, lacks) || batches == 20
		}) {
			want, got := naive(rec), map[string]bool{}
			report := rec.Check()
			for _, v := range report.Violations {
				found[v.Kind]++
				kind := v.Kind
				if kind == Stale {
					kind = Lost
				}
				got[string(kind)+" "+v.Item] = true
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("fault %d: got %v, want %v\n%s", f, got, want, report)
			}
		}
		for _, k := range kinds {
			if found[k] == 0 {
				t.Errorf("fault %d was never found as %s: %v", f, k, found)
			}
		}
	}
}

// naive judges each answer by the definitions.
func naive(r *Recorder) map[string]bool {
	var ops []*Op
	for _, c := range r.clients {
		for i := range c.slabs {
			for j := range c.slabs[i] {
				ops = append(ops, &c.slabs[i][j])
			}
		}
	}
	ops, tries := merged(ops)
	bad := map[string]bool{}
	for _, e := range elements {
		if doubled(ops, tries, e) {
			bad["doubled "+e] = true
		}
		concerns := func(o *Op) bool { return o.outcome != Fail && (o.kind == removeAll || slices.Contains(o.items, e)) }
		for _, answer := range ops {
			switch {
			case answer.kind != read && answer.kind != lookup:
			case slices.Contains(answer.items, e):
				if invented(ops, e, answer) {
					bad["invented "+e] = true
				} else if slices.ContainsFunc(ops, func(x *Op) bool { return surelyDead(ops, concerns, e, answer, x) }) {
					bad["resurrected "+e] = true
				}
			case answer.outcome == OK && (answer.kind == read || slices.Contains(answer.absent, e)):
				for _, a := range ops {
					if a.kind == add && a.outcome == OK && concerns(a) && a.end < answer.begin && !excused(ops, concerns, a, answer) {
						bad["lost "+e] = true
					}
				}
			}
		}
	}
	return bad
}

// merged returns the operations with one for all tries of a request, and the tries of each.
func merged(ops []*Op) (out []*Op, tries map[*Op][]*Op) {
	tries = map[*Op][]*Op{}
	for _, o := range ops {
		if o.first != nil {
			continue
		}
		one := *o
		one.outcome, one.begin, one.end = Fail, forever, forever
		for _, try := range ops {
			if try != o && try.first != o {
				continue
			}
			tries[&one] = append(tries[&one], try)
			if try.outcome == Fail {
				continue
			}
			one.begin = min(one.begin, try.begin)
			if one.outcome != OK {
				one.outcome = Unknown
			}
			if try.outcome == OK {
				one.outcome, one.end = OK, min(one.end, try.end)
			}
		}
		if one.outcome == Fail {
			one.begin, one.end = o.begin, o.end
		}
		out = append(out, &one)
	}
	return out, tries
}

// doubled reports whether two answers to one request name different adds of an element, or two answers of any kind, if one request has added it.
func doubled(ops []*Op, tries map[*Op][]*Op, e string) bool {
	differ := func(some []*Op) bool {
		texts := map[string]bool{}
		for _, o := range some {
			for _, v := range o.events {
				if v.item == e {
					texts[v.text] = true
				}
			}
		}
		return len(texts) > 1
	}
	adds, all := 0, []*Op{}
	for _, o := range ops {
		all = append(all, tries[o]...)
		if o.kind != add {
			continue
		}
		if differ(tries[o]) {
			return true
		}
		if o.outcome != Fail && slices.Contains(o.items, e) {
			adds++
		}
	}
	return adds == 1 && differ(all)
}

func invented(ops []*Op, e string, answer *Op) bool {
	return !slices.ContainsFunc(ops, func(a *Op) bool {
		return a.kind == add && a.outcome != Fail && slices.Contains(a.items, e) && a.begin <= answer.end
	})
}

// excused reports whether some remove can have taken an add before an answer.
func excused(ops []*Op, concerns func(*Op) bool, a, answer *Op) bool {
	return slices.ContainsFunc(ops, func(x *Op) bool {
		if x.kind != remove && x.kind != removeAll || !concerns(x) || x.begin > answer.end {
			return false
		}
		switch {
		case x.context != nil:
			return a.begin <= x.context.end
		case x.outcome == Unknown:
			return true
		}
		return a.begin <= x.end
	})
}

// surelyDead reports whether, because of a remove, an answer can't have an element.
func surelyDead(ops []*Op, concerns func(*Op) bool, e string, answer, x *Op) bool {
	if x.kind != remove && x.kind != removeAll || !concerns(x) || x.outcome != OK || x.context == nil || x.end >= answer.begin ||
		x.context.outcome != OK || !slices.Contains(x.context.items, e) {
		return false
	}
	adds := 0
	for _, o := range ops {
		if o.kind == add && concerns(o) {
			adds++
		}
	}
	if adds == 1 {
		return true
	}
	for _, o := range ops {
		if o.kind != add && o.kind != remove && o.kind != removeAll || !concerns(o) {
			continue
		}
		acked := o.outcome == OK && o.end < answer.begin
		if o.begin <= x.context.end && !acked {
			return false
		}
		if o.kind == add && o.begin <= answer.end && (o.outcome != OK || o.end >= x.context.begin) {
			return false
		}
	}
	return true
}
