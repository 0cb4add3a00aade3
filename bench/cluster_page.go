package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"bigset/bench/chart"
	"bigset/bench/report"
	"bigset/bench/run"
)

// Around is what clients observed around a fault, over time.
type Around struct {
	Workload string  `json:"workload"`
	Window   float64 `json:"window_s"` // length of a window
	// Ends contains the end of each window, in seconds since the first began. The other fields are about operations that ended within the
	// window. A P99 of 0 means no operation.
	Ends         []float64    `json:"ends_s"`
	OpsPerSecond []float64    `json:"ops_per_s"`
	P99          []float64    `json:"p99_us"`
	Errors       []uint64     `json:"errors"`
	Marks        []AroundMark `json:"marks"`
}

// AroundMark is something that happened.
type AroundMark struct {
	At   float64 `json:"at_s"` // since the first window began
	What string  `json:"what"`
}

// aroundWindow is the length of a window: it contains some hundred operations of the clients, enough for a meaningful p99.
const aroundWindow = 250 * time.Millisecond

// moment is an event while clients run.
type moment struct {
	at   time.Time
	what string
}

// around records what clients observed in an interval.
func (l *lab) around(workload string, s *steady, from, to time.Time, moments ...moment) {
	a := Around{Workload: workload, Window: aroundWindow.Seconds()}
	for at := from; !at.Add(aroundWindow).After(to); at = at.Add(aroundWindow) {
		h, errs := newHistogram(), uint64(0)
		for _, t := range s.between(at, at.Add(aroundWindow)) {
			_ = h.RecordValue(int64(min(t.took, latencyMax))) // in range
			if t.err != nil {
				errs++
			}
		}
		a.Ends = append(a.Ends, at.Add(aroundWindow).Sub(from).Seconds())
		a.OpsPerSecond = append(a.OpsPerSecond, float64(h.TotalCount())/aroundWindow.Seconds())
		a.P99, a.Errors = append(a.P99, float64(h.ValueAtPercentile(99))/1e3), append(a.Errors, errs)
	}
	for _, m := range moments {
		a.Marks = append(a.Marks, AroundMark{m.at.Sub(from).Seconds(), m.what})
	}
	l.arounds = append(l.arounds, a)
}

// WritePage writes the report as one self-contained HTML file.
func (r *ClusterReport) WritePage(w io.Writer) error { return report.WriteHTML(w, r.page()) }

func (r *ClusterReport) page() *report.Page {
	p := &report.Page{Title: "bigset bench cluster", About: fmt.Sprintf("Three nodes and a node alone, each a process on this machine, and stores in this process. %d cores are shared by all processes and the loader.\n\n"+
		"Figures are medians of %d rounds of %v; ratios are of two loads that were measured in turns in one run.", r.Machine.Cores, r.Config.Rounds, r.Config.Span)}
	p.Sections = append(p.Sections, r.judged())
	for _, part := range clusterPartNames() {
		if s := r.section(part); len(s.Tables) > 0 {
			p.Sections = append(p.Sections, s)
		}
	}
	p.Sections = append(p.Sections, report.Section{Title: "Machine, and how to run it again", Facts: r.Machine.Facts(),
		Code: fmt.Sprintf("bigset bench cluster --part %s --rounds %d --span %v --elements %d --fill %d --keys %d --seed %d\n", strings.Join(r.Config.Parts, ","),
			r.Config.Rounds, r.Config.Span, r.Config.Elements, r.Config.FillBytes, r.Config.Keys, r.Config.Seed)})
	return p
}

// judged is the section of all goals.
func (r *ClusterReport) judged() report.Section {
	s := report.Section{Title: "Goals"}
	for _, part := range r.parts() {
		for _, v := range judge(goals()[part], r.Results, "") {
			word := report.Fail
			switch v.State {
			case run.NoFigure:
				continue
			case run.Shown:
				word = "figure"
			case run.Met:
				word = report.Pass
			}
			s.Verdicts = append(s.Verdicts, report.Verdict{Word: word, What: v.Of.Row + " " + string(v.Of.System), Detail: v.String()})
		}
	}
	return s
}

// parts are the measured parts in their order.
func (r *ClusterReport) parts() []string {
	return slices.DeleteFunc(clusterPartNames(), func(part string) bool { return !slices.Contains(r.Config.Parts, part) })
}

// otherNames maps parts to the first words of their workloads, if those differ from the part's name.
var otherNames = map[string][]string{"filters": {"bloomd"}, "faults": {"kill", "stop"}}

// section is what was measured in a part.
func (r *ClusterReport) section(part string) report.Section {
	names := otherNames[part]
	if names == nil {
		names = []string{part}
	}
	of := func(workload string) bool {
		first, _, _ := strings.Cut(workload, "/")
		return slices.Contains(names, first)
	}
	s := report.Section{Title: part, OwnTime: true}
	t := report.Table{Head: clusterHead}
	rounds := chart.Chart{Title: "operations by round", Unit: "op/s", XLabel: "round", LogY: true}
	for i := range r.Results {
		row := &r.Results[i]
		if !of(row.Workload) {
			continue
		}
		t.Rows = append(t.Rows, clusterCells(row))
		line := chart.Line{Name: row.Workload + " " + row.System}
		for n, f := range row.Rounds {
			if f.OpsPerSecond > 0 {
				line.X, line.Y = append(line.X, float64(n+1)), append(line.Y, f.OpsPerSecond)
			}
		}
		if len(line.X) > 1 {
			rounds.Lines = append(rounds.Lines, line)
		}
	}
	if len(t.Rows) > 0 {
		s.Tables = append(s.Tables, t)
	}
	if len(rounds.Lines) > 0 {
		s.Charts = append(s.Charts, rounds)
	}
	for i := range r.Arounds {
		if a := &r.Arounds[i]; of(a.Workload) {
			s.Charts = append(s.Charts, a.charts()...)
		}
	}
	return s
}

// charts draws what clients observed.
func (a *Around) charts() []chart.Chart {
	var marks []chart.Mark
	for _, m := range a.Marks {
		marks = append(marks, chart.Mark{X: m.At, Text: m.What})
	}
	p99 := slices.Clone(a.P99)
	for i, v := range p99 {
		if v == 0 {
			p99[i] = math.NaN()
		}
	}
	errs := make([]float64, len(a.Errors))
	for i, n := range a.Errors {
		errs[i] = float64(n)
	}
	over := func(title, unit string, y []float64) chart.Chart {
		return chart.Chart{Title: a.Workload + ": " + title, Unit: unit, XLabel: "time", XUnit: "s", Marks: marks, Lines: []chart.Line{{Name: title, X: a.Ends, Y: y}}}
	}
	return []chart.Chart{over("operations", "op/s", a.OpsPerSecond), over("p99 of a window", "us", p99), over("errors in a window", "", errs)}
}
