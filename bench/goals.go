package bench

import (
	"fmt"
	"math"
	"slices"

	"bigset/bench/run"
	"bigset/bench/spec"
	"bigset/bench/system"
)

// goal is what a workload must reach: a ratio between two rows, or a figure of one, at least or at most so much.
type goal struct {
	what   string // what the figure is
	of, to pick   // to is none when the goal is about one row
	have   func(of, to *Figures) (float64, bool)
	atMost bool
	limit  float64
	unit   string // after the figure, of goals about one row
	plain  bool   // it is only shown: there is nothing to reach
	why    string // the reason if it is missed, as far as it is known
}

// pick chooses rows: those of a workload, or a part of one, on a system.
type pick struct {
	workload, system string
	strategy         string // "" is the run's where rows have one
	smallest         bool   // the row with the fewest elements, instead of as many as the other one
}

func (p pick) none() bool { return p.workload == "" }

// rows returns the rows that are meant, in a run with that strategy.
func (p pick) rows(all []Row, strategy string) (rows []*Row) {
	if p.strategy != "" {
		strategy = p.strategy
	}
	for i := range all {
		r := &all[i]
		if r.Workload == p.workload && r.System == p.system && (r.Strategy == strategy || r.Strategy == "") {
			rows = append(rows, r)
		}
	}
	if p.smallest && len(rows) > 0 {
		least := slices.MinFunc(rows, func(a, b *Row) int { return a.Elements - b.Elements })
		return []*Row{least}
	}
	return rows
}

// verdict is how a goal was met.
type verdict struct {
	goal
	elements   int
	ratio      float64
	low, high  float64 // spread over the rounds
	met, known bool
}

// verdicts judges one goal for every row that it is about.
func (g goal) verdicts(all []Row, strategy string) (list []verdict) {
	for _, of := range g.of.rows(all, strategy) {
		to := &Row{}
		if !g.to.none() {
			others := g.to.rows(all, strategy)
			i := slices.IndexFunc(others, func(r *Row) bool {
				return g.to.smallest && r != of || !g.to.smallest && r.Elements == of.Elements
			})
			if i < 0 {
				continue
			}
			to = others[i]
		}
		list = append(list, g.judge(of, to))
	}
	return list
}

// judge takes the ratio of the medians, and as its spread the least and the greatest ratio of one round.
func (g goal) judge(of, to *Row) verdict {
	v := verdict{goal: g, elements: of.Elements, low: math.Inf(1), high: math.Inf(-1)}
	v.ratio, v.known = g.have(&of.Figures, &to.Figures)
	for i := range of.Rounds {
		other := &Figures{}
		if i < len(to.Rounds) {
			other = &to.Rounds[i]
		}
		if r, ok := g.have(&of.Rounds[i], other); ok {
			v.low, v.high = min(v.low, r), max(v.high, r)
		}
	}
	v.met = v.known && (g.atMost && v.ratio <= g.limit || !g.atMost && v.ratio >= g.limit)
	return v
}

func (v verdict) String() string {
	sign := ">="
	if v.atMost {
		sign = "<="
	}
	if v.plain && v.known {
		return fmt.Sprintf("%s: %s%s (%s..%s)", v.what, number(v.ratio), v.unit, number(v.low), number(v.high))
	}
	if !v.known {
		return fmt.Sprintf("%s: no figure (goal %s %s)", v.what, sign, number(v.limit))
	}
	word, have := "ok", number(v.ratio)
	if !v.met {
		word = "MISSED"
		if have == number(v.limit) { // by a hair
			have = fmt.Sprintf("%.3f", v.ratio)
		}
	}
	return fmt.Sprintf("%s: %s%s (%s..%s), goal %s %s%s: %s", v.what, have, v.unit, number(v.low), number(v.high),
		sign, number(v.limit), v.unit, word)
}

// Kinds of figure that goals are about.

func speed(of, to *Figures) (float64, bool) { return ratio(of.OpsPerSecond, to.OpsPerSecond) }

func cpu(of, to *Figures) (float64, bool) {
	if of.CPUMicros == nil || to.CPUMicros == nil {
		return 0, false
	}
	return ratio(*of.CPUMicros, *to.CPUMicros)
}

func latency(of, to *Figures) (float64, bool) {
	if of.P50 == nil || to.P50 == nil {
		return 0, false
	}
	return ratio(*of.P50, *to.P50)
}

// tail is the ratio of the slowest of a hundred operations.
func tail(of, to *Figures) (float64, bool) {
	if of.P99 == nil || to.P99 == nil {
		return 0, false
	}
	return ratio(*of.P99, *to.P99)
}

// loggedAndFlushed is what writes cause by themselves, without what compactions do with the elements that were there.
func loggedAndFlushed(of, to *Figures) (float64, bool) {
	if of.BytesWAL == nil || of.BytesFlush == nil || to.BytesWAL == nil || to.BytesFlush == nil {
		return 0, false
	}
	return ratio(float64(*of.BytesWAL+*of.BytesFlush), float64(*to.BytesWAL+*to.BytesFlush))
}

func milliseconds(of, _ *Figures) (float64, bool) {
	if of.P50 == nil {
		return 0, false
	}
	return *of.P50 / 1000, true
}

func ratio(a, b float64) (float64, bool) { return a / b, b > 0 }

func countRatio(a, b *uint64) (float64, bool) {
	if a == nil || b == nil {
		return 0, false
	}
	return ratio(float64(*a), float64(*b))
}

// beside is a goal about bigset's speed beside that of another row on the same elements.
func beside(what, workload, other string, limit float64) goal {
	return goal{what: what, of: pick{workload: workload, system: system.NameBigset}, to: pick{workload: other, system: system.NamePebble},
		have: speed, limit: limit}
}

// goals are what each workload must reach that is no file: files have assertions.
func goals(workload, strategy string) []goal {
	switch workload {
	case "filter":
		return filterGoals()
	case "contexts":
		return contextGoals()
	case "small-sets":
		return smallSetGoals()
	case "drop":
		return dropGoals()
	case "checkpoint":
		return checkpointGoals()
	case "recover":
		return recoverGoals()
	case "clock":
		return clockGoals()
	case "quorum-read":
		return quorumReadGoals()
	case "anti-entropy":
		return antiEntropyGoals()
	case "handoff":
		return handoffGoals()
	case "bloom-hot":
		return bloomHotGoals()
	case "bloom-durable":
		return bloomDurableGoals()
	case "bloom-fpp":
		return bloomFPPGoals()
	case "bloom-flush":
		return bloomFlushGoals()
	case "bloom-fault":
		return bloomFaultGoals()
	case "bloom-many":
		return bloomManyGoals()
	case "bloom-crowd":
		return bloomCrowdGoals()
	case "bloom-big":
		return bloomBigGoals()
	}
	return nil
}

// verdictOf returns the verdict of a workload file's assertion as that of a goal.
func verdictOf(v run.Verdict) verdict {
	as := func(r spec.Ref) pick {
		return pick{workload: r.Row, system: string(r.System), strategy: r.Strategy, smallest: r.Smallest}
	}
	g := goal{what: v.Means, of: as(v.Of), to: as(v.To), atMost: v.AtMost, limit: v.Limit, why: v.Why}
	return verdict{goal: g, elements: v.Elements, ratio: v.Value, low: v.Low, high: v.High, met: v.State == run.Met, known: v.State != run.NoFigure}
}

// number writes a figure with as many digits as say something.
func number(v float64) string {
	switch {
	case math.IsInf(v, 0) || math.IsNaN(v):
		return "-"
	case v != 0 && math.Abs(v) < 0.1:
		return fmt.Sprintf("%.3f", v)
	case math.Abs(v) < 10:
		return fmt.Sprintf("%.2f", v)
	case math.Abs(v) < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
