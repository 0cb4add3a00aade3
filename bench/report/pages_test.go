package report_test

import (
	"fmt"
	"strings"

	"bigset/bench/chart"
	"bigset/bench/chart/charttest"
	"bigset/bench/report"
)

// hostilePage has hostile texts wherever a page has a text.
func hostilePage() *report.Page {
	p := &report.Page{Title: strings.Join(charttest.Hostile[:8], " "), About: strings.Join(charttest.Hostile, "\n\n")}
	for i, h := range charttest.Hostile {
		other := charttest.Hostile[(i+1)%len(charttest.Hostile)]
		p.Sections = append(p.Sections, report.Section{
			Title: h, Text: h, Code: h,
			Verdicts: []report.Verdict{{Word: report.Word(h), What: other, Detail: h}},
			Facts:    []report.Fact{{Name: h, Value: other}},
			Tables:   []report.Table{{Title: h, Head: []string{h, other, h}, Rows: [][]string{{h, other}, {other, h, h, h}}, Note: h}},
			Charts:   charttest.HostileCharts()[i : i+1],
		})
	}
	return p
}

func oddPage() *report.Page {
	return &report.Page{Title: "Charts with little to draw", Sections: []report.Section{{Charts: charttest.Odd()}, {Title: "A wide table", Tables: []report.Table{wideTable()}}}}
}

func wideTable() report.Table {
	t := report.Table{Title: "Wide"}
	var row []string
	for i := range 30 {
		t.Head, row = append(t.Head, fmt.Sprintf("column %d", i)), append(row, fmt.Sprint(i*12345))
	}
	t.Rows = [][]string{row, {}, {"text", "-1"}}
	return t
}

// largePage has an hour of 60 columns of 4 runs with a value a second, and noise that does not compress.
func largePage() *report.Page {
	p := &report.Page{Title: "An hour"}
	state := uint64(1)
	random := func() float64 {
		state = state*6364136223846793005 + 1442695040888963407
		return float64(state>>11) / (1 << 53)
	}
	s := report.Section{Title: "All"}
	for c := range 60 {
		column := chart.Chart{Title: fmt.Sprintf("column %d", c), Unit: "op/s", XLabel: "time", XUnit: "s", Marks: exampleMarks}
		for r := range 4 {
			l := chart.Line{Name: fmt.Sprintf("run %d", r)}
			for i := range 3600 {
				l.X, l.Y = append(l.X, float64(i)), append(l.Y, 1e4*(1+random()))
			}
			column.Lines = append(column.Lines, l)
		}
		s.Charts = append(s.Charts, column)
	}
	p.Sections = append(p.Sections, s)
	return p
}
