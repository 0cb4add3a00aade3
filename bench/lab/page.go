package lab

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"bigset/bench"
	"bigset/bench/chart"
	"bigset/bench/report"
	"bigset/bench/run"
	"bigset/bench/sample"
	"bigset/bench/sample/view"
	"bigset/bench/spec"
)

// WritePage writes the report as one self-contained HTML file.
func (r *Result) WritePage(w io.Writer) error { return report.WriteHTML(w, r.Page()) }

// Page returns the report, for callers that add to it.
func (r *Result) Page() *report.Page {
	var names []string
	for _, w := range r.workloads {
		names = append(names, w.Name)
	}
	p := &report.Page{Title: "bigset bench run: " + strings.Join(names, ", "), About: r.about()}
	p.Sections = append(p.Sections, r.verdicts(), r.table())
	for _, w := range r.workloads {
		p.Sections = append(p.Sections, r.drawn(w)...)
	}
	for _, w := range r.workloads {
		p.Sections = append(p.Sections, report.Section{Title: "Workload " + w.Name, Text: w.About, Code: w.Source})
	}
	return &report.Page{Title: p.Title, About: p.About, Sections: append(p.Sections, r.machine())}
}

// drawn returns the sections with the charts of a workload.
func (r *Result) drawn(w *spec.Workload) []report.Section {
	return append(r.overSize(w), r.overTime(w)...)
}

// Plot is a chart of the report with a name of its own in lower-case letters, digits and hyphens. The name is the chart's title, after that
// of the workload if the report has several.
type Plot struct {
	Name  string
	Chart *chart.Chart
}

// Plots returns all charts of the report.
func (r *Result) Plots() (list []Plot) {
	names := map[string]int{}
	for _, w := range r.workloads {
		for _, s := range r.drawn(w) {
			for i := range s.Charts {
				name := s.Charts[i].Title
				if len(r.workloads) > 1 {
					name = w.Name + " " + name
				}
				name = strings.Join(notInNames.Split(strings.ToLower(name), -1), "-")
				if names[name]++; names[name] > 1 {
					name = fmt.Sprintf("%s-%d", name, names[name])
				}
				list = append(list, Plot{name, &s.Charts[i]})
			}
		}
	}
	return list
}

var notInNames = regexp.MustCompile(`[^a-z0-9]`)

func (r *Result) about() string {
	about := "Systems and strategies take turns in each round, on stores of their own, and do the same operations. Figures of the table are medians of the rounds, percentiles are over all of them; " +
		"what is drawn over time is the last round of each."
	notes := r.notes()
	if len(r.Results) == 0 {
		notes = append(notes, noRows)
	}
	return strings.Join(append([]string{about}, notes...), "\n\n")
}

// verdicts is the section with the results of the assertions, and which rows are reliable.
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
		s.Verdicts = append(s.Verdicts, report.Verdict{Word: word, What: v.Workload + ": " + v.what(), Detail: v.found()})
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

// overSize draws the latencies of a workload's rows over the size of the sets, if there are several sizes.
func (r *Result) overSize(w *spec.Workload) []report.Section {
	s := report.Section{Title: "Latency over size of " + w.Name, Text: "Medians of calls; both axes are logarithmic. A flat line is a cost that does not depend on the size."}
	for _, name := range w.Rows() {
		c := chart.Chart{Title: name + ", p50 over size", Unit: "us", XLabel: "elements", LogX: true, LogY: true}
		for i := range r.Results {
			row := &r.Results[i]
			if row.Workload != name || row.P50 == nil {
				continue
			}
			label := strings.TrimSpace(row.System + " " + row.Strategy)
			k := slices.IndexFunc(c.Lines, func(l chart.Line) bool { return l.Name == label })
			if k < 0 {
				k = len(c.Lines)
				c.Lines = append(c.Lines, chart.Line{Name: label})
			}
			c.Lines[k].X, c.Lines[k].Y = append(c.Lines[k].X, float64(row.Elements)), append(c.Lines[k].Y, *row.P50)
		}
		if slices.ContainsFunc(c.Lines, func(l chart.Line) bool { return len(l.X) > 1 }) {
			s.Charts = append(s.Charts, c)
		}
	}
	if len(s.Charts) == 0 {
		return nil
	}
	return []report.Section{s}
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
	if phases := ramps(w); len(phases) > 0 {
		if c := overLoad(runs, phases); len(c.Lines) > 0 {
			sections = append(sections, report.Section{Title: "Latency over load",
				Text:   "What was sampled while the rate changed, by the operations of that moment: medians of neighbours, with the least and the greatest.",
				Charts: []chart.Chart{c}})
		}
	}
	sections = append(sections, view.Sections(runs)...)
	for i := range sections {
		if len(r.workloads) > 1 {
			sections[i].Title = w.Name + ": " + sections[i].Title
		}
		sections[i].OwnTime = len(r.workloads) > 1
	}
	return sections
}

// ramps returns the names of the phases in which a rate changes.
func ramps(w *spec.Workload) (names []string) {
	for _, p := range w.Phases {
		if slices.ContainsFunc(p.Roles, func(role spec.Role) bool { return role.RateEnd > 0 }) {
			names = append(names, p.Name)
		}
	}
	return names
}

// point is one moment of a run: operations a second, and their p99.
type point struct{ ops, p99 float64 }

// loadBins bounds the points of a line of latency over load.
const loadBins = 40

// overLoad draws the latencies of runs over the rate of operations at the same moment of a phase. A run without such moments has no line:
// it ended before one, or the phase was shorter than the time between two samples.
func overLoad(runs []*sample.Series, phases []string) chart.Chart {
	c := chart.Chart{Title: "p99 over load", Unit: "us", XLabel: "operations a second", XUnit: "op/s", LogY: true}
	for i, s := range runs {
		line := chart.Line{Name: s.Name, Style: i + 1}
		points := moments(s, phases)
		if len(points) == 0 {
			continue
		}
		for bin := range slices.Chunk(points, (len(points)+loadBins-1)/loadBins) {
			middle := bin[len(bin)/2].ops
			slices.SortFunc(bin, func(a, b point) int { return cmp.Compare(a.p99, b.p99) })
			line.X, line.Y = append(line.X, middle), append(line.Y, bin[len(bin)/2].p99)
			line.Min, line.Max = append(line.Min, bin[0].p99), append(line.Max, bin[len(bin)-1].p99)
		}
		c.Lines = append(c.Lines, line)
	}
	return c
}

// moments returns the points of a series that lie in the given phases, sorted by load.
func moments(s *sample.Series, phases []string) (points []point) {
	at := s.At()
	ops, _, _ := s.Values("ops")
	p99, _, _ := s.Values("p99")
	for k := 1; k < min(len(at), len(ops), len(p99)); k++ {
		phase := ""
		for _, m := range s.Marks {
			if m.At <= at[k-1] {
				phase = m.Text
			} else if m.At < at[k] { // the point spans two phases
				phase = ""
			}
		}
		whole := !math.IsNaN(ops[k-1]) // otherwise the growth covers more than this moment
		if phase != "" && slices.Contains(phases, phase) && whole && ops[k] > 0 && !math.IsNaN(p99[k]) {
			points = append(points, point{ops[k], p99[k]})
		}
	}
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.ops, b.ops) })
	return points
}

// data returns the largest size of the tables of a store.
func (r *Result) data() (most uint64) {
	for _, row := range r.Results {
		for _, f := range row.Rounds {
			for _, n := range []*uint64{f.BytesOnDisk, f.BytesPeak} {
				if n != nil {
					most = max(most, *n)
				}
			}
		}
	}
	return most
}

// machine is the section about the machine and the data, with the proof that all systems did the same.
func (r *Result) machine() report.Section {
	s := report.Section{Title: "Machine and run", Text: sample.DataAndMemory(r.data()),
		Facts: r.Machine.Facts()}
	for _, w := range r.workloads {
		s.Facts = append(s.Facts, report.Fact{Name: "seed of " + w.Name, Value: fmt.Sprint(run.Options{Seed: r.Config.Seed}.SeedOf(w))})
	}
	seen := map[string]bool{}
	for _, row := range r.Results {
		if row.StreamHash != "" && !seen[row.Workload+row.StreamHash] {
			seen[row.Workload+row.StreamHash] = true
			s.Facts = append(s.Facts, report.Fact{Name: "operations of " + row.Workload + ", " + bench.Thousands(uint64(row.Elements)) + " elements", Value: "hash " + row.StreamHash})
		}
	}
	return s
}
