package report_test

import (
	"fmt"
	"math"
	"strings"

	"bigset/bench/report"
)

// hostile are texts that would do something if they were taken for markup, script, style or directions.
var hostile = []string{
	`<script>window.harmed=1</script>`, `</script><script>window.harmed=1</script>`, `"><img src=x onerror="window.harmed=1">`,
	`' onmouseover='window.harmed=1`, `]]><!--`, `--><script>window.harmed=1</script>`, `</title><script>window.harmed=1</script>`,
	`</style><script>window.harmed=1</script>`, "&lt;b&gt;", "a\x00b\x1b[31m\x7f", "\xff\xfe\xc0", "\u202egnirts\u2066", "javascript:window.harmed=1",
	"{{.}}${1}`", "=1+1", strings.Repeat("long", 200), strings.Repeat("many words ", 60), "\u2028\u2029", "日本語 🎉",
}

// hostilePage has hostile texts wherever a page has a text.
func hostilePage() *report.Page {
	p := &report.Page{Title: strings.Join(hostile[:8], " "), About: strings.Join(hostile, "\n\n")}
	for i, h := range hostile {
		other := hostile[(i+1)%len(hostile)]
		p.Sections = append(p.Sections, report.Section{
			Title: h, Text: h, Code: h,
			Verdicts: []report.Verdict{{Word: report.Word(h), What: other, Detail: h}},
			Facts:    []report.Fact{{Name: h, Value: other}},
			Tables:   []report.Table{{Title: h, Head: []string{h, other, h}, Rows: [][]string{{h, other}, {other, h, h, h}}, Note: h}},
			Charts: []report.Chart{{
				Title: h, Unit: h, XLabel: h, XUnit: []string{"s", h}[i%2], Stacked: i%3 == 0,
				Lines: []report.Line{{Name: h, X: []float64{1, 2, 3}, Y: []float64{1, 5, 2}}, {Name: other, X: []float64{1, 2, 4}, Y: []float64{1, 5, 2}}},
				Marks: []report.Mark{{X: 2, Text: h}, {X: 2.1, Text: other}},
			}},
		})
	}
	return p
}

var nan, inf = math.NaN(), math.Inf(1)

// oddCharts are charts whose numbers leave little to draw.
func oddCharts() []report.Chart {
	line := func(name string, x, y []float64) report.Line { return report.Line{Name: name, X: x, Y: y} }
	four := []float64{0, 1, 2, 3}
	return []report.Chart{
		{Title: "no lines"},
		{Title: "no points", XUnit: "s", Lines: []report.Line{{Name: "empty"}}},
		{Title: "no points, stacked, logarithmic", LogX: true, LogY: true, Stacked: true, Lines: []report.Line{{Name: "empty"}}},
		{Title: "no values", XUnit: "s", Unit: "B", Lines: []report.Line{line("nothing", four, []float64{nan, nan, nan, nan})}},
		{Title: "one point", Unit: "op/s", Lines: []report.Line{line("one", []float64{5}, []float64{7})}},
		{Title: "one point at zero", Unit: "us", LogY: true, Lines: []report.Line{line("one", []float64{0}, []float64{0})}},
		{Title: "one point, stacked", Unit: "B", Stacked: true, Lines: []report.Line{line("one", []float64{5}, []float64{7}), line("two", []float64{6}, []float64{7})}},
		{Title: "all equal", Unit: "keys", Lines: []report.Line{line("same", four, []float64{42, 42, 42, 42})}},
		{Title: "all zero", Unit: "keys", Lines: []report.Line{line("zero", four, []float64{0, 0, 0, 0})}},
		{Title: "all equal, logarithmic", LogX: true, LogY: true, Lines: []report.Line{line("same", []float64{3, 3, 3}, []float64{42, 42, 42})}},
		{Title: "all negative", Unit: "B/s", Lines: []report.Line{line("below", four, []float64{-5e6, -3e6, -1e6, -4e6})}},
		{Title: "both signs", Unit: "1", Lines: []report.Line{line("around", four, []float64{-0.2, 0.3, -0.1, 0.4})}},
		{Title: "huge", Unit: "op/s", Lines: []report.Line{line("huge", four, []float64{1e300, -1e308, 1.7e308, 5e299})}},
		{Title: "huge, logarithmic", Unit: "us", LogY: true, LogX: true, Lines: []report.Line{line("huge", []float64{1e-308, 1, 1e100, 1e308}, []float64{5e-324, 1, 1e200, 1.7e308})}},
		{Title: "tiny", Lines: []report.Line{line("tiny", four, []float64{1e-12, 3e-12, 2e-12, 0})}},
		{Title: "infinite", XUnit: "s", Lines: []report.Line{line("infinite", []float64{0, inf, 2, 3, -inf}, []float64{inf, 1, -inf, 4, 5})}},
		{Title: "gaps", XUnit: "s", Lines: []report.Line{line("gaps", []float64{0, 1, 2, 3, 4, 5, 6}, []float64{1, nan, 3, nan, 5, 6, nan})}},
		{Title: "gaps, many points", XUnit: "s", Lines: []report.Line{gappy("gaps", 3000)}},
		{Title: "gaps, stacked", XUnit: "s", Stacked: true, Lines: []report.Line{line("a", four, []float64{1, nan, 3, 2}), line("b", []float64{1, 2, 5}, []float64{1, 1, 1})}},
		{Title: "unsorted", Lines: []report.Line{line("unsorted", []float64{3, 1, nan, 2, 0}, []float64{9, 1, 7, 4, 0})}},
		{Title: "lengths differ", Lines: []report.Line{{Name: "short", X: four, Y: []float64{1, 2}, Min: []float64{0}, Max: []float64{3, 3, 3, 3, 3}}}},
		{Title: "the same X twice", Lines: []report.Line{line("steps", []float64{0, 1, 1, 2, 2}, []float64{1, 1, 4, 4, 2}), line("other", []float64{0, 2}, []float64{3, 3})}},
		{Title: "band the wrong way round", Lines: []report.Line{{Name: "band", X: four, Y: []float64{2, 3, 4, 3}, Min: []float64{5, nan, 5, 1}, Max: []float64{1, 1, inf, 4}}}},
		{Title: "logarithmic with zeros", Unit: "us", LogX: true, LogY: true, Lines: []report.Line{line("some", []float64{0, 1, 10, 100, -5}, []float64{1, 0, 2000, 3e6, 1})}},
		{Title: "marks", XUnit: "s", XLabel: "time", Lines: []report.Line{gappy("a", 600)}, Marks: manyMarks()},
		{Title: "many lines", XUnit: "s", XLabel: "time", Unit: "op/s", Lines: manyLines(20, 50, false)},
		{Title: "many areas", XUnit: "s", XLabel: "time", Unit: "B", Stacked: true, Lines: manyLines(12, 50, true)},
	}
}

func gappy(name string, n int) report.Line {
	l := report.Line{Name: name}
	for i := range n {
		y := 10 + math.Sin(float64(i)/40)
		if i%500 < 20 {
			y = nan
		}
		l.X, l.Y = append(l.X, float64(i)), append(l.Y, y)
	}
	return l
}

func manyMarks() []report.Mark {
	marks := []report.Mark{{X: nan, Text: "nowhere"}, {X: -50, Text: "before"}, {X: 599, Text: "at the very end of all"}}
	for i := range 60 {
		marks = append(marks, report.Mark{X: float64(i * 10), Text: fmt.Sprintf("phase %d", i)})
	}
	return marks
}

func manyLines(n, points int, far bool) []report.Line {
	var list []report.Line
	for i := range n {
		l := report.Line{Name: fmt.Sprintf("line %d", i+1)}
		for j := range points {
			y := 1000 + 300*float64(i) + 100*math.Sin(float64(j)/5+float64(i))
			if far {
				y *= 1e4
			}
			l.X, l.Y = append(l.X, float64(j)), append(l.Y, y)
		}
		list = append(list, l)
	}
	return list
}

func oddPage() *report.Page {
	return &report.Page{Title: "Charts with little to draw", Sections: []report.Section{{Charts: oddCharts()}, {Title: "A wide table", Tables: []report.Table{wideTable()}}}}
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
		chart := report.Chart{Title: fmt.Sprintf("column %d", c), Unit: "op/s", XLabel: "time", XUnit: "s", Marks: exampleMarks}
		for r := range 4 {
			l := report.Line{Name: fmt.Sprintf("run %d", r)}
			for i := range 3600 {
				l.X, l.Y = append(l.X, float64(i)), append(l.Y, 1e4*(1+random()))
			}
			chart.Lines = append(chart.Lines, l)
		}
		s.Charts = append(s.Charts, chart)
	}
	p.Sections = append(p.Sections, s)
	return p
}
