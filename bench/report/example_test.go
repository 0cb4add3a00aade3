package report_test

import (
	"fmt"
	"math"
	"strings"

	"bigset/bench/chart"
	"bigset/bench/report"
)

// examplePage is a page whose numbers come from formulas, not from measurements: two runs of an hour with a value a second.
func examplePage() *report.Page {
	point, tombstones := exampleRun(1), exampleRun(2)
	runs := func(title, unit string, column func(r exampleColumns) chart.Line) chart.Chart {
		a, b := column(point), column(tombstones)
		a.Name, b.Name = "point deletes", "set-tombstones"
		return chart.Chart{Title: title, Unit: unit, XLabel: "time", XUnit: "s", Lines: []chart.Line{a, b}, Marks: exampleMarks}
	}
	return &report.Page{
		Title: "Example: deletes by two strategies",
		About: "All numbers on this page are made by formulas, to show what a page looks like. Nothing was measured.\n\nTwo runs of an hour do the same work, one after the other.",
		Sections: []report.Section{
			{Title: "Verdicts", Verdicts: []report.Verdict{
				{Word: report.Pass, What: "no element is lost", Detail: "0 of 1,000,000"},
				{Word: report.Fail, What: "space comes back within a minute", Detail: "83 s after the last delete; the goal is 60 s"},
				{Word: report.Steady, What: "throughput", Detail: "12 rounds, spread 2.1 %"},
				{Word: report.Noisy, What: "read p99", Detail: "12 rounds, spread 38 %"},
				{Word: "skipped", What: "cold reads", Detail: "the data are smaller than memory"},
			}},
			{Title: "Throughput and latency", Charts: []chart.Chart{
				runs("Operations", "op/s", func(r exampleColumns) chart.Line { return r.ops }),
				runs("Read latency, p99", "us", func(r exampleColumns) chart.Line { return r.p99 }),
				runs("Bytes written", "B/s", func(r exampleColumns) chart.Line { return r.written }),
				runs("Dead keys", "keys", func(r exampleColumns) chart.Line { return r.dead }),
			}},
			{Title: "Shape of the store", Text: "The bytes of each level over time.", Charts: []chart.Chart{
				exampleShape("Levels, point deletes", 1), exampleShape("Levels, set-tombstones", 2),
			}},
			{Title: "Latency over load", Charts: []chart.Chart{exampleLoad()}},
			{Title: "Figures", Tables: []report.Table{{
				Title: "Whole runs", Head: []string{"strategy", "operations", "p50", "p99", "write amplification", "space amplification", "CPU", "stolen"},
				Rows: [][]string{
					{"point deletes", "36,123,456", "12 µs", "1.4 ms", "11.2", "1.9", "1.72 cores", "0.1 %"},
					{"set-tombstones", "41,654,321", "11 µs", "0.9 ms", "7.8", "1.2", "1.61 cores", "0.2 %"},
				},
				Note: "Amplification is against the bytes that clients sent.",
			}}},
			{Title: "Machine and configuration", Facts: []report.Fact{
				{Name: "processor", Value: "an example of a processor, 2 cores"}, {Name: "memory", Value: "24 GiB"}, {Name: "seed", Value: "7"},
				{Name: "operations hash", Value: "9c1185a5c5e9fc54612808977ee8f548b2258d31"}, {Name: "data", Value: "larger than memory"},
			}, Code: "name: example\nphases:\n  - load: 1000000\n  - mix: {add: 50, remove: 40, contains: 10}\n    for: 1h\n"},
		},
	}
}

var exampleMarks = []chart.Mark{{X: 600, Text: "deletes begin"}, {X: 2400, Text: "deletes end"}, {X: 3000, Text: "restart"}}

type exampleColumns struct{ ops, p99, written, dead chart.Line }

// exampleRun returns an hour of columns; n tells runs apart.
func exampleRun(n int) exampleColumns {
	var c exampleColumns
	for i := range 3600 {
		t := float64(i)
		noise := math.Sin(t*12.9898*float64(n)) * math.Cos(t*0.317)
		busy := 0.0
		if t >= 600 && t < 2400 {
			busy = 1
		}
		ops := 12000 - 2500*busy/float64(n) + 700*noise
		p99 := (300 + 900*busy/float64(n)) * math.Exp(0.4*noise)
		if i%311 == 17 {
			p99 *= 12
		}
		if i >= 3000 && i < 3020 { // the restart
			ops, p99 = math.NaN(), math.NaN()
		}
		dead := math.Max(0, 4e5/float64(n*n)*busy*math.Mod(t, 240)/240)
		for _, v := range []struct {
			l *chart.Line
			y float64
		}{{&c.ops, ops}, {&c.p99, p99}, {&c.written, 3.1e7/float64(n)*(0.3+busy) + 4e6*noise*noise}, {&c.dead, dead}} {
			v.l.X, v.l.Y = append(v.l.X, t), append(v.l.Y, v.y)
		}
	}
	return c
}

func exampleShape(title string, n int) chart.Chart {
	c := chart.Chart{Title: title, Unit: "B", XLabel: "time", XUnit: "s", Stacked: true, Marks: exampleMarks, Reach: 700 << 20}
	for level := range 5 {
		l := chart.Line{Name: fmt.Sprintf("L%d", level+2)}
		for i := range 3600 {
			t := float64(i)
			full := math.Pow(6, float64(level)) * 400e3 / float64(n)
			l.X = append(l.X, t)
			l.Y = append(l.Y, full*(1-math.Exp(-t/900))*(1+0.2*math.Sin(t/60/float64(level+1))))
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

func exampleLoad() chart.Chart {
	c := chart.Chart{Title: "Latency over load", Unit: "us", XLabel: "load", XUnit: "op/s", LogY: true}
	for n, name := range []string{"point deletes", "set-tombstones", "blob"} {
		l := chart.Line{Name: name}
		most := []float64{21000, 26000, 9000}[n]
		for x := 1000.0; x < most; x += 1000 {
			y := 80 / (1 - x/most)
			l.X, l.Y = append(l.X, x), append(l.Y, y)
			l.Min, l.Max = append(l.Min, y*0.8), append(l.Max, y*1.7)
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

func ExampleWriteHTML() {
	var b strings.Builder
	if err := report.WriteHTML(&b, examplePage()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(strings.Count(b.String(), "<figure>"), "plots, under 3 MB:", b.Len() < 3e6)
	// Output: 7 plots, under 3 MB: true
}
