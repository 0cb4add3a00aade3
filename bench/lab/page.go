package lab

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"bigset/bench"
	"bigset/bench/report"
	"bigset/bench/run"
	"bigset/bench/sample"
	"bigset/bench/spec"
)

// WritePage writes the report: one file of HTML that needs nothing else.
func (r *Result) WritePage(w io.Writer) error { return report.WriteHTML(w, r.Page()) }

// Page returns the report, for those who add to it.
func (r *Result) Page() *report.Page {
	var names []string
	for _, w := range r.workloads {
		names = append(names, w.Name)
	}
	p := &report.Page{Title: "bigset bench run: " + strings.Join(names, ", "), About: r.about()}
	p.Sections = append(p.Sections, r.verdicts(), r.table())
	for _, w := range r.workloads {
		p.Sections = append(p.Sections, r.overTime(w)...)
	}
	for _, w := range r.workloads {
		p.Sections = append(p.Sections, report.Section{Title: "Workload " + w.Name, Text: w.About, Code: w.Source})
	}
	return &report.Page{Title: p.Title, About: p.About, Sections: append(p.Sections, r.machine())}
}

func (r *Result) about() string {
	about := "Systems and strategies take turns in each round, on stores of their own, and do the same operations. Figures of the table are medians of the rounds; " +
		"what is drawn over time is the last round of each."
	if r.Interrupted {
		about += "\n\nThe run was interrupted: this is what was measured until then."
	}
	return about
}

// verdicts is what came of the assertions, and which rows can be believed.
func (r *Result) verdicts() report.Section {
	s := report.Section{Title: "Verdict"}
	for _, v := range r.Verdicts {
		word := report.Pass
		switch {
		case v.State == run.NoFigure:
			word = "no figure"
		case v.Unclear():
			word = "unclear"
		case v.State == run.Missed:
			word = report.Fail
		}
		s.Verdicts = append(s.Verdicts, report.Verdict{Word: word, What: v.Workload + ": " + cmp.Or(v.Means, v.That), Detail: v.text()})
	}
	for i := range r.Results {
		row := &r.Results[i]
		share, known := spread(row)
		if !known {
			continue
		}
		word := report.Steady
		if share > steadyShare {
			word = report.Noisy
		}
		s.Verdicts = append(s.Verdicts, report.Verdict{Word: word, What: strings.Join(cells(row)[:2], ", "),
			Detail: fmt.Sprintf("speeds of %d rounds within %.0f %% of the median", len(row.Rounds), 100*share)})
	}
	if len(s.Verdicts) == 0 {
		s.Text = "The workloads have no assertions, and there are fewer than three rounds."
	}
	return s
}

func (r *Result) table() report.Section {
	t := report.Table{Head: tableHead}
	for i := range r.Results {
		t.Rows = append(t.Rows, cells(&r.Results[i]))
	}
	return report.Section{Title: "Figures", Tables: []report.Table{t}}
}

// overTime draws the series of a workload: its systems in the same charts, on one time axis.
func (r *Result) overTime(w *spec.Workload) (sections []report.Section) {
	var runs []*sample.Series
	for _, s := range r.Series {
		if s.Name == w.Name || strings.HasPrefix(s.Name, w.Name+" ") {
			runs = append(runs, s)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	if ramps(w) {
		sections = append(sections, report.Section{Title: "Latency over load", Text: "Each point is a second of a run whose rate changes.",
			Charts: []report.Chart{overLoad(runs)}})
	}
	sections = append(sections, sample.Sections(runs)...)
	for i := range sections {
		if len(r.workloads) > 1 {
			sections[i].Title = w.Name + ": " + sections[i].Title
		}
		sections[i].OwnTime = len(r.workloads) > 1
	}
	return sections
}

// ramps reports whether a workload has a rate that changes.
func ramps(w *spec.Workload) bool {
	return slices.ContainsFunc(w.Phases, func(p spec.Phase) bool {
		return slices.ContainsFunc(p.Roles, func(role spec.Role) bool { return role.RateEnd > 0 })
	})
}

// overLoad draws the latencies of runs over the operations that were done in the same second.
func overLoad(runs []*sample.Series) report.Chart {
	c := report.Chart{Title: "p99 over load", Unit: "us", XLabel: "operations a second", XUnit: "op/s", LogY: true}
	for i, s := range runs {
		ops, _, _ := s.Values("ops")
		p99, _, _ := s.Values("p99")
		type point struct{ x, y float64 }
		var points []point
		for k := range min(len(ops), len(p99)) {
			if ops[k] > 0 && !math.IsNaN(p99[k]) {
				points = append(points, point{ops[k], p99[k]})
			}
		}
		slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
		line := report.Line{Name: s.Name, Style: i + 1}
		for _, p := range points {
			line.X, line.Y = append(line.X, p.x), append(line.Y, p.y)
		}
		c.Lines = append(c.Lines, line)
	}
	return c
}

// machine says where it was measured, on what data, and that all did the same.
func (r *Result) machine() report.Section {
	m, c := r.Machine, r.Config
	s := report.Section{Title: "Machine and run", Text: sample.DataAndMemory(r.data), Facts: []report.Fact{
		{Name: "processor", Value: fmt.Sprintf("%s, %d cores", m.CPU, m.Cores)}, {Name: "system", Value: m.OS + "/" + m.Arch + ", " + m.Go},
		{Name: "seed", Value: fmt.Sprint(max(1, c.Seed))},
	}}
	seen := map[string]bool{}
	for _, row := range r.Results {
		if row.StreamHash != "" && !seen[row.Workload+row.StreamHash] {
			seen[row.Workload+row.StreamHash] = true
			s.Facts = append(s.Facts, report.Fact{Name: "operations of " + row.Workload + ", " + bench.Thousands(uint64(row.Elements)) + " elements", Value: "hash " + row.StreamHash})
		}
	}
	return s
}
