package bench

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"sync"

	"bigset/bench/run"
	"bigset/bench/screen"
	"bigset/bench/spec"
	"bigset/bench/spec/parser"
)

//go:embed goals.yaml
var goalsText []byte

// goals are the goals of the workloads without a file, and of the parts of a cluster.
var goals = sync.OnceValue(func() map[string][]spec.Assertion {
	all, err := parser.Goals("goals.yaml", goalsText, append(workloadNames(), clusterPartNames()...))
	if err != nil {
		panic(err) // the file is part of the program
	}
	return all
})

// assertions are the goals of the workload.
func (w *workload) assertions() []spec.Assertion {
	if w.file != nil {
		return w.file.Assertions
	}
	return goals()[w.Name]
}

// verdict is the result of a goal.
type verdict struct{ run.Verdict }

// judge judges goals for all rows that they concern.
func judge(list []spec.Assertion, rows []Row, strategy string) (verdicts []verdict) {
	for _, v := range run.Judge(&spec.Workload{Assertions: list}, rows, strategy) {
		verdicts = append(verdicts, verdict{v})
	}
	return verdicts
}

// besides returns the speed of a row relative to another. Both systems must occur only once.
func besides(row, other *Row) verdict {
	ref := func(r *Row) spec.Ref {
		return spec.Ref{Figure: "ops_per_s", Row: r.Workload, System: spec.System(r.System), Strategy: r.Strategy}
	}
	return judge([]spec.Assertion{{Of: ref(row), To: ref(other), Shown: true}}, []Row{*row, *other}, "")[0]
}

// rowOf returns the row of a workload on a system at a size, or nil.
func rowOf(rows []Row, workload, system string, elements int) *Row {
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Workload == workload && r.System == system && r.Elements == elements })
	if i < 0 {
		return nil
	}
	return &rows[i]
}

func (v verdict) String() string {
	sign := ">="
	if v.AtMost {
		sign = "<="
	}
	have := fmt.Sprintf("%s: %s (%s)", v.Means, v.number(v.Value), v.spread())
	switch v.State {
	case run.NoFigure:
		if v.Shown {
			return v.Means + ": no figure"
		}
		return fmt.Sprintf("%s: no figure (goal %s %s)", v.Means, sign, v.number(v.Limit))
	case run.Shown:
		return have
	case run.Met:
		return fmt.Sprintf("%s, goal %s %s: ok", have, sign, v.number(v.Limit))
	}
	if v.Unit() == "" && number(v.Value) == number(v.Limit) { // equal after rounding
		have = fmt.Sprintf("%s: %.3f (%s)", v.Means, v.Value, v.spread())
	}
	return fmt.Sprintf("%s, goal %s %s: MISSED", have, sign, v.number(v.Limit))
}

// number writes a value of the goal, with its unit if it has one.
func (v verdict) number(x float64) string { return Amount(v.Unit(), x, number) }

// Amount writes a value in a unit of spec.Assertion.Unit; plain writes values without a unit.
func Amount(unit string, x float64, plain func(float64) string) string {
	switch unit {
	case "us":
		return screen.Micros(x)
	case "B":
		return screen.Bytes(x)
	}
	return plain(x)
}

// spread writes the least and the greatest value of a round, in the unit in which number writes the value.
func (v verdict) spread() string {
	scale := 1.0
	switch unit := v.Unit(); {
	case unit == "us" && v.Value >= 1e7:
		scale = 1e6
	case unit == "us" && v.Value >= 1000:
		scale = 1000
	case unit == "B":
		for scale < 1<<40 && v.Value/scale >= 999.5 {
			scale *= 1024
		}
	}
	return number(v.Low/scale) + ".." + number(v.High/scale)
}

// number writes a figure with its significant digits.
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
