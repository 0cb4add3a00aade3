package charttest

import (
	"fmt"
	"math"
	"strings"

	"bigset/bench/chart"
)

// Hostile are texts that would do harm if they were interpreted as markup, script, style or text direction.
var Hostile = []string{
	`<script>window.harmed=1</script>`, `</script><script>window.harmed=1</script>`, `"><img src=x onerror="window.harmed=1">`,
	`' onmouseover='window.harmed=1`, `]]><!--`, `--><script>window.harmed=1</script>`, `</title><script>window.harmed=1</script>`,
	`</style><script>window.harmed=1</script>`, "&lt;b&gt;", "a\x00b\x1b[31m\x7f", "\xff\xfe\xc0", "\u202egnirts\u2066", "javascript:window.harmed=1",
	"{{.}}${1}`", "=1+1", strings.Repeat("long", 200), strings.Repeat("many words ", 60), "\u2028\u2029", "日本語 🎉",
}

// HostileCharts returns a chart for each hostile text. That text, or the next one, is used for every text of the chart.
func HostileCharts() (list []chart.Chart) {
	for i, h := range Hostile {
		other := Hostile[(i+1)%len(Hostile)]
		list = append(list, chart.Chart{
			Title: h, Unit: h, XLabel: h, XUnit: []string{"s", h}[i%2], Stacked: i%3 == 0,
			Lines: []chart.Line{{Name: h, X: []float64{1, 2, 3}, Y: []float64{1, 5, 2}}, {Name: other, X: []float64{1, 2, 4}, Y: []float64{1, 5, 2}}},
			Marks: []chart.Mark{{X: 2, Text: h}, {X: 2.1, Text: other}},
		})
	}
	return list
}

var nan, inf = math.NaN(), math.Inf(1)

// Odd returns charts whose numbers leave little to draw.
func Odd() []chart.Chart {
	line := func(name string, x, y []float64) chart.Line { return chart.Line{Name: name, X: x, Y: y} }
	four := []float64{0, 1, 2, 3}
	return []chart.Chart{
		{Title: "no lines"},
		{Title: "no points", XUnit: "s", Lines: []chart.Line{{Name: "empty"}}},
		{Title: "no points, stacked, logarithmic", LogX: true, LogY: true, Stacked: true, Lines: []chart.Line{{Name: "empty"}}},
		{Title: "no values", XUnit: "s", Unit: "B", Lines: []chart.Line{line("nothing", four, []float64{nan, nan, nan, nan})}},
		{Title: "one point", Unit: "op/s", Lines: []chart.Line{line("one", []float64{5}, []float64{7})}},
		{Title: "one point at zero", Unit: "us", LogY: true, Lines: []chart.Line{line("one", []float64{0}, []float64{0})}},
		{Title: "one point, stacked", Unit: "B", Stacked: true, Lines: []chart.Line{line("one", []float64{5}, []float64{7}), line("two", []float64{6}, []float64{7})}},
		{Title: "all equal", Unit: "keys", Lines: []chart.Line{line("same", four, []float64{42, 42, 42, 42})}},
		{Title: "all zero", Unit: "keys", Lines: []chart.Line{line("zero", four, []float64{0, 0, 0, 0})}},
		{Title: "all equal, logarithmic", LogX: true, LogY: true, Lines: []chart.Line{line("same", []float64{3, 3, 3}, []float64{42, 42, 42})}},
		{Title: "all negative", Unit: "B/s", Lines: []chart.Line{line("below", four, []float64{-5e6, -3e6, -1e6, -4e6})}},
		{Title: "both signs", Unit: "1", Lines: []chart.Line{line("around", four, []float64{-0.2, 0.3, -0.1, 0.4})}},
		{Title: "huge", Unit: "op/s", Lines: []chart.Line{line("huge", four, []float64{1e300, -1e308, 1.7e308, 5e299})}},
		{Title: "huge, logarithmic", Unit: "us", LogY: true, LogX: true, Lines: []chart.Line{line("huge", []float64{1e-308, 1, 1e100, 1e308}, []float64{5e-324, 1, 1e200, 1.7e308})}},
		{Title: "tiny", Lines: []chart.Line{line("tiny", four, []float64{1e-12, 3e-12, 2e-12, 0})}},
		{Title: "infinite", XUnit: "s", Lines: []chart.Line{line("infinite", []float64{0, inf, 2, 3, -inf}, []float64{inf, 1, -inf, 4, 5})}},
		{Title: "gaps", XUnit: "s", Lines: []chart.Line{line("gaps", []float64{0, 1, 2, 3, 4, 5, 6}, []float64{1, nan, 3, nan, 5, 6, nan})}},
		{Title: "gaps, many points", XUnit: "s", Lines: []chart.Line{gappy("gaps", 3000)}},
		{Title: "gaps, stacked", XUnit: "s", Stacked: true, Lines: []chart.Line{line("a", four, []float64{1, nan, 3, 2}), line("b", []float64{1, 2, 5}, []float64{1, 1, 1})}},
		{Title: "unsorted", Lines: []chart.Line{line("unsorted", []float64{3, 1, nan, 2, 0}, []float64{9, 1, 7, 4, 0})}},
		{Title: "lengths differ", Lines: []chart.Line{{Name: "short", X: four, Y: []float64{1, 2}, Min: []float64{0}, Max: []float64{3, 3, 3, 3, 3}}}},
		{Title: "the same X twice", Lines: []chart.Line{line("steps", []float64{0, 1, 1, 2, 2}, []float64{1, 1, 4, 4, 2}), line("other", []float64{0, 2}, []float64{3, 3})}},
		{Title: "band the wrong way round", Lines: []chart.Line{{Name: "band", X: four, Y: []float64{2, 3, 4, 3}, Min: []float64{5, nan, 5, 1}, Max: []float64{1, 1, inf, 4}}}},
		{Title: "logarithmic with zeros", Unit: "us", LogX: true, LogY: true, Lines: []chart.Line{line("some", []float64{0, 1, 10, 100, -5}, []float64{1, 0, 2000, 3e6, 1})}},
		{Title: "marks", XUnit: "s", XLabel: "time", Lines: []chart.Line{gappy("a", 600)}, Marks: manyMarks()},
		{Title: "many lines", XUnit: "s", XLabel: "time", Unit: "op/s", Lines: manyLines(20, 50, false)},
		{Title: "many areas", XUnit: "s", XLabel: "time", Unit: "B", Stacked: true, Lines: manyLines(12, 50, true)},
	}
}

func gappy(name string, n int) chart.Line {
	l := chart.Line{Name: name}
	for i := range n {
		y := 10 + math.Sin(float64(i)/40)
		if i%500 < 20 {
			y = nan
		}
		l.X, l.Y = append(l.X, float64(i)), append(l.Y, y)
	}
	return l
}

func manyMarks() []chart.Mark {
	marks := []chart.Mark{{X: nan, Text: "nowhere"}, {X: -50, Text: "before"}, {X: 599, Text: "at the very end of all"}}
	for i := range 60 {
		marks = append(marks, chart.Mark{X: float64(i * 10), Text: fmt.Sprintf("phase %d", i)})
	}
	return marks
}

func manyLines(n, points int, far bool) []chart.Line {
	var list []chart.Line
	for i := range n {
		l := chart.Line{Name: fmt.Sprintf("line %d", i+1)}
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

// Papers returns the charts of the golden files.
func Papers() map[string]chart.Chart {
	four := []float64{0, 60, 120, 180}
	return map[string]chart.Chart{
		"time": {Title: "Throughput", Unit: "op/s", XLabel: "time", XUnit: "s", Lines: []chart.Line{
			{Name: "point deletes", X: four, Y: []float64{9000, 12000, nan, 11000}, Min: []float64{8000, 9000, nan, 10500}, Max: []float64{9500, 15000, nan, 11200}},
			{Name: "set-tombstones", X: four, Y: []float64{10000, 13000, 12800, 12900}},
		}, Marks: []chart.Mark{{X: 60, Text: "deletes begin"}, {X: 61, Text: "too near"}, {X: 180, Text: "the end of everything"}}},
		"stacked": {Title: "Levels", Unit: "B", XLabel: "time", XUnit: "s", Stacked: true, Lines: []chart.Line{
			{Name: "L5", X: four, Y: []float64{1 << 20, 2 << 20, 3 << 20, 3 << 20}}, {Name: "L6", X: four[1:], Y: []float64{10 << 20, 12 << 20, 9 << 20}},
		}},
		"load": {Title: "Latency over load", Unit: "us", XLabel: "load", XUnit: "op/s", LogY: true, LogX: true, Lines: []chart.Line{
			{Name: "p99", X: []float64{1000, 5000, 20000, 90000}, Y: []float64{120, 150, 400, 21000}},
			{Name: "p50", X: []float64{1000, 5000, 20000, 90000}, Y: []float64{20, 22, 31, 900}, Style: 4},
		}},
		"empty": {Title: "Nothing"},
	}
}
