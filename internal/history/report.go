package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrViolated is wrapped by errors of [Report.Err].
var ErrViolated = errors.New("history: a promise was broken")

// Report is the result of checking a history.
type Report struct {
	Violations []Violation

	Operations int
	OK         int
	Unknown    int
	Failed     int
	Items      int // elements and keys whose add or mark was acknowledged
	NeverRead  int // those that were in no answered request that began after the first acknowledgement
	Answers    int // elements and keys in answers
	Repeats    int // operations that repeated a request
	Settled    int // requests whose outcome a repeat made known
	AfterDrop  int // answers about keys of a filter that were marked after a drop of it was over, and that no later drop can explain
	Named      int // elements of which an answer said by which adds it had them
}

func (r *Report) count(o *Op) {
	r.Operations++
	r.Named += len(o.events)
	if o.first != nil {
		r.Repeats++
	}
	switch o.outcome {
	case OK:
		r.OK++
	case Fail:
		r.Failed++
	default:
		r.Unknown++
	}
	if o.kind == read || o.kind == lookup || o.kind == check {
		r.Answers += len(o.items) + len(o.absent)
	}
}

func (r *Report) countItem(k *known, g *group, it *item) {
	if len(k.acks) == 0 {
		return
	}
	r.Items++
	later := func(o *Op) bool { return o.begin > k.acks[0] }
	if (len(g.reads) == 0 || !later(g.reads[len(g.reads)-1])) && !slices.ContainsFunc(it.absent, later) && !slices.ContainsFunc(it.present, later) {
		r.NeverRead++
	}
}

// countAfterDrop counts the answers about a key that a drop of its filter, now over, no longer explains.
func (r *Report) countAfterDrop(k *known, g *group, it *item) {
	first := forever
	for _, o := range g.dropped {
		first = min(first, o.over())
	}
	if first == forever {
		return
	}
	for _, o := range slices.Concat(it.present, it.absent) {
		if a := k.missed(g, o.begin, o.end); a != nil && a.begin > first {
			r.AfterDrop++
		}
	}
}

// aroundMax is the number of operations that a report shows for one violation.
const aroundMax = 12

func (r *Report) add(g *group, it *item, v Violation) {
	v.Name, v.Item = g.name, it.name
	all := append(append(slices.Clone(it.adds), it.removes...), g.dropped...)
	all = append(append(all, it.absent...), it.answers(g)...)
	near := func(o *Op) int64 { return max(o.begin-v.answer.end, v.answer.begin-o.end, 0) }
	slices.SortStableFunc(all, func(a, b *Op) int { return int(min(1, max(-1, near(a)-near(b)))) })
	keep := []*Op{v.answer}
	for _, o := range append([]*Op{v.why}, all...) {
		if o != nil && len(keep) < aroundMax && !slices.Contains(keep, o) {
			keep = append(keep, o)
			if o.context != nil && !slices.Contains(keep, o.context) {
				keep = append(keep, o.context)
			}
		}
	}
	slices.SortStableFunc(keep, byBegin)
	v.around = keep
	r.Violations = append(r.Violations, v)
}

// Err returns nil, or an error with the whole report.
func (r *Report) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n%s", ErrViolated, r)
}

// violationsMax is the number of violations in a report's text.
const violationsMax = 10

// String is for people: the figures, then each violation with the operations around it.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d operations (%d ok, %d unknown, %d failed), %d items acknowledged, %d of them never read, %d answers, %d violations\n",
		r.Operations, r.OK, r.Unknown, r.Failed, r.Items, r.NeverRead, r.Answers, len(r.Violations))
	for i := range r.Violations {
		if i == violationsMax {
			fmt.Fprintf(&b, "and %d more\n", len(r.Violations)-i)
			break
		}
		b.WriteString(r.Violations[i].String())
	}
	return b.String()
}

// reasons say what each kind means for the marked answer.
var reasons = map[Kind]string{
	Lost:        "the answer does not have it, although it was acknowledged before (+), and nothing can have taken it",
	Stale:       "the answer does not have it, although it was acknowledged before (+), and a later answer has it again",
	Resurrected: "the answer has it, although its removal was acknowledged before (+), and nothing can have brought it",
	Invented:    "the answer has it, although no add of it had begun",
	Duplicate:   "the answer has it twice",
	Doubled:     "the answer names another add than an earlier one (+), although one request has added it",
	Denied:      "the answer is no, although it was acknowledged before (+), and nothing can have taken it",
}

// String names the answer (>) and the operations around it, by their beginning.
func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %q of %q: %s\n", v.Kind, v.Item, v.Name, reasons[v.Kind])
	for _, o := range v.around {
		mark := ' '
		switch o {
		case v.answer:
			mark = '>'
		case v.why:
			mark = '+'
		}
		fmt.Fprintf(&b, "  %c %s\n", mark, o.describe(v.Item))
	}
	return b.String()
}

// describe returns an operation on one line, as it concerns an item.
func (o *Op) describe(item string) string {
	end := "…"
	if o.end != forever {
		end = clockText(o.end)
	}
	text := fmt.Sprintf("%12s - %-12s %s: %s", clockText(o.begin), end, o.client.name, kindNames[o.kind])
	switch o.kind {
	case read, lookup, check:
		if slices.Contains(o.items, item) {
			text += ", has it"
		} else {
			text += ", does not have it"
		}
		if len(o.items) > 1 {
			text += fmt.Sprintf(" (%d in all)", len(o.items))
		}
	default:
		if len(o.items) > 1 {
			text += fmt.Sprintf(" (one of %d)", len(o.items))
		}
	}
	if o.context != nil {
		text += ", context of " + o.context.client.name + " at " + clockText(o.context.begin)
	} else if o.kind == remove || o.kind == removeAll {
		text += ", no context"
	}
	if o.tries != nil {
		text += fmt.Sprintf(", %d tries", len(o.tries))
	}
	text += ": " + o.outcome.String()
	if o.err != nil {
		text += ", " + o.err.Error()
	}
	return text
}

func clockText(ns int64) string { return time.Duration(ns).Round(time.Microsecond).String() }
