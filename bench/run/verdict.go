package run

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"bigset/bench/result"
	"bigset/bench/spec"
	"bigset/compaction"
)

// State is the result of an assertion.
type State string

// The states.
const (
	Met      State = "met"
	Missed   State = "missed"
	Shown    State = "shown"     // the assertion has no limit
	NoFigure State = "no figure" // a row or a figure is missing: the system did not run, or the figure is unknown for it
)

// Verdict is the result of an assertion at one size.
type Verdict struct {
	spec.Assertion
	State    State
	Elements int     // of the first row; 0 if there is no figure
	Value    float64 // from the medians of the rounds, and percentiles of all rounds together
	// Low and High are the least and greatest value of one round.
	Low, High float64
}

// Judge judges the assertions of a workload for every size that has rows. The strategy is the run's; "" means default.
func Judge(w *spec.Workload, rows []result.Row, strategy string) (list []Verdict) {
	if strategy == "" {
		strategy = compaction.Default().Name()
	}
	for _, a := range w.Assertions {
		before := len(list)
		for _, of := range named(rows, a.Of, strategy) {
			to := &result.Row{}
			if a.To != (spec.Ref{}) {
				if to = other(named(rows, a.To, strategy), a, of); to == nil {
					continue
				}
			}
			list = append(list, judge(a, of, to))
		}
		if len(list) == before {
			list = append(list, Verdict{Assertion: a, State: NoFigure})
		}
	}
	return list
}

// named returns the rows that a reference refers to.
func named(rows []result.Row, ref spec.Ref, strategy string) (list []*result.Row) {
	if ref.Strategy != "" {
		strategy = ref.Strategy
	}
	for i := range rows {
		r := &rows[i]
		if r.Workload == ref.Row && r.System == string(ref.System) && (r.Strategy == strategy || r.Strategy == "") {
			list = append(list, r)
		}
	}
	if ref.Smallest && len(list) > 0 {
		return []*result.Row{slices.MinFunc(list, func(a, b *result.Row) int { return a.Elements - b.Elements })}
	}
	return list
}

// other returns the row to compare a row with, or nil. It is the row of the same size; if one side is the smallest size, the other side is
// the largest.
func other(list []*result.Row, a spec.Assertion, of *result.Row) (best *result.Row) {
	for _, r := range list {
		switch {
		case a.To.Smallest && !a.Of.Smallest: // list contains only the smallest
			if r != of {
				return r
			}
		case a.Of.Smallest && !a.To.Smallest:
			if r != of && (best == nil || r.Elements > best.Elements) {
				best = r
			}
		case r.Elements == of.Elements:
			return r
		}
	}
	return best
}

// judge compares two rows. The value is that of their medians. The spread pairs rounds that ran in turns, by their numbers: a round that
// only one row has, because the run was interrupted, has no value.
func judge(a spec.Assertion, of, to *result.Row) Verdict {
	v := Verdict{Assertion: a, State: NoFigure, Elements: of.Elements, Low: math.Inf(1), High: math.Inf(-1)}
	var known bool
	v.Value, known = value(a, &of.Figures, &to.Figures, of.Elements, to.Elements)
	for i := range of.Rounds {
		beside := &result.Figures{}
		if i < len(to.Rounds) {
			beside = &to.Rounds[i]
		}
		if x, ok := value(a, &of.Rounds[i], beside, of.Elements, to.Elements); ok {
			v.Low, v.High = min(v.Low, x), max(v.High, x)
		}
	}
	if !known {
		return Verdict{Assertion: a, State: NoFigure, Elements: of.Elements}
	}
	if v.Low > v.High { // no single round has the figure
		v.Low, v.High = v.Value, v.Value
	}
	v.State = Missed
	if a.Shown {
		v.State = Shown
	} else if a.AtMost && v.Value <= a.Limit || !a.AtMost && v.Value >= a.Limit {
		v.State = Met
	}
	return v
}

// value returns the value of an assertion, and whether it is known.
func value(a spec.Assertion, of, to *result.Figures, ofSize, toSize int) (float64, bool) {
	x, ok := figure(of, a.Of.Figure, ofSize)
	if !ok || a.To == (spec.Ref{}) {
		return x, ok
	}
	y, ok := figure(to, a.To.Figure, toSize)
	switch {
	case !ok:
		return 0, false
	case a.Minus:
		return max(0, x-y), true
	}
	return x / y, y > 0
}

// Below garbageMin the default strategy ignores a set, and above garbageShare of the live keys it rewrites a set that is written.
const (
	garbageMin   = 4096
	garbageShare = 0.3
)

// figure returns a figure of a row of a size by its name in spec.Figures, and whether it is known.
func figure(f *result.Figures, name string, size int) (float64, bool) {
	of := func(a, b string, both func(a, b float64) float64) (float64, bool) {
		x, known := f.Named(a)
		y, too := f.Named(b)
		return both(x, y), known && too
	}
	switch name {
	case "bytes_below_log":
		return of("bytes_written", "bytes_wal", func(all, log float64) float64 { return all - log })
	case "bytes_direct":
		return of("bytes_wal", "bytes_flush", func(log, flush float64) float64 { return log + flush })
	case "garbage":
		return of("keys_dead", "keys_live", func(dead, live float64) float64 { return dead / max(garbageMin, garbageShare*live) })
	case "seconds":
		v, ok := of("ops", "ops_per_s", func(ops, rate float64) float64 { return ops / rate })
		return v, ok && f.OpsPerSecond > 0
	case "heap_each":
		v, ok := f.Named("heap_bytes")
		return v / float64(max(1, size)), ok
	}
	return f.Named(name)
}

// String returns the verdict in a line: the subject, the value, its spread, the limit and the state.
func (v Verdict) String() string {
	sign := ">="
	if v.AtMost {
		sign = "<="
	}
	if v.State == NoFigure {
		return fmt.Sprintf("%s: no figure (wanted %s %.4g)", v.Means, sign, v.Limit)
	}
	return strings.TrimSpace(fmt.Sprintf("%s: %.4g (%.4g..%.4g), wanted %s %.4g: %s", v.Means, v.Value, v.Low, v.High, sign, v.Limit, v.State))
}
