package view_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"bigset/bench/report"
	"bigset/bench/sample"
	"bigset/bench/sample/view"
)

// run is a series with some of the columns that charts know.
func run(name string, points, bound int, rewriter bool) *sample.Series {
	s := &sample.Series{Name: name, Bound: bound, Marks: []sample.Mark{{At: 2, Text: "main"}}, Columns: []sample.Column{
		{Name: "ops", Unit: "op", Growth: true}, {Name: "p99", Unit: "us"},
		{Name: sample.LogBytes, Unit: "B", Growth: true}, {Name: sample.RewriteBytes, Unit: "B", Growth: true}, {Name: sample.KeysDead, Unit: "keys"},
		{Name: sample.Level(0, "bytes"), Unit: "B"}, {Name: sample.Level(6, "bytes"), Unit: "B"}, {Name: sample.CPU, Unit: "cpu", Growth: true}, {Name: sample.Stalled, Unit: "s", Growth: true},
		{Name: sample.IOWritten, Unit: "B", Growth: true},
	}}
	for i := range points {
		x := float64(i)
		v := []float64{100 + x, 5, 1000, math.NaN(), x, 10, 20 * x, 1.5, 0.1, 2000}
		if rewriter {
			v[3] = 500
		}
		if i == 3 || i == 4 {
			v[1] = math.NaN()
		}
		s.Add(x, v)
	}
	return s
}

// TestSections: runs are side by side, what is stacked has a chart a run, and what nobody knows has none.
func TestSections(t *testing.T) {
	t.Parallel()
	runs := []*sample.Series{run("a", 10, 0, false), run("b", 12, 6, true)}
	runs[1].Skipped = []sample.Skip{{Source: "store", Ticks: 3}}
	var got strings.Builder
	list := view.Sections(runs)
	for _, s := range list {
		fmt.Fprintf(&got, "%s: %s\n", s.Title, s.Text)
		for _, c := range s.Charts {
			fmt.Fprintf(&got, "  %s (%s)", c.Title, c.Unit)
			for _, l := range c.Lines {
				fmt.Fprintf(&got, " %s%d:%d", l.Name, l.Style, len(l.X))
			}
			got.WriteString("\n")
		}
	}
	want := `Throughput and latency: b: ticks skipped, for a figure was too slow to read: store 3, of 12.
  Operations (op/s) a1:10 b2:6
  Latency, p99 (us) a1:9 b2:6
Bytes written: Bytes a second by their cause; the areas of a run add up. Beside them is what the system counted for the process and the device.
  Bytes written, a (B/s) log1:10
  Bytes written, b (B/s) log1:6 rewriter4:6
  Bytes the process wrote to disks (B/s) a1:10 b2:6
What is dead, and space: 
  Dead keys in tables (keys) a1:10 b2:6
Shape of the store: The bytes of each level over time.
  Bytes by level, a (B) L67:10 L01:10
  Bytes by level, b (B) L67:6 L01:6
Stalls and caches: 
  Share of time in which writes were stalled (1) a1:10 b2:6
Process and machine: 
  CPU (cpu) a1:10 b2:6
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	var page bytes.Buffer
	if err := report.WriteHTML(&page, &report.Page{Title: "runs", Sections: list}); err != nil {
		t.Fatal(err)
	}
	if a, b := list[1].Charts[0], list[1].Charts[1]; a.Reach != 1500 || b.Reach != 1500 || !b.Stacked || len(b.Marks) != 1 {
		t.Errorf("stacks reach %v and %v", a.Reach, b.Reach)
	}
	if l := list[0].Charts[0].Lines[1]; l.Min[0] != 100 || l.Max[0] != 101 {
		t.Errorf("the first point of b lies between %v and %v", l.Min[0], l.Max[0])
	}
	if len(view.Sections(nil)) != 0 {
		t.Error("nothing has sections")
	}
	if alone := view.Sections(runs[:1]); alone[1].Charts[0].Title != "Bytes written" || len(alone[0].Charts[0].Marks) != 1 {
		t.Errorf("alone: %+v", alone[1].Charts[0])
	}
}

// TestStackGaps: the area of a figure that was not read for a tick or two goes on, and one that was unknown for long has a gap.
func TestStackGaps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to, gaps, points int }{{8, 8, 0, 19}, {8, 9, 0, 18}, {8, 12, 1, 16}, {19, 19, 1, 20}, {0, 0, 0, 19}} {
		s := &sample.Series{Name: "a", Columns: []sample.Column{{Name: sample.Level(6, "bytes"), Unit: "B"}}}
		for i := range 20 {
			v := 10.0
			if i >= c.from && i <= c.to {
				v = math.NaN()
			}
			s.Add(float64(i), []float64{v})
		}
		l := view.Sections([]*sample.Series{s})[0].Charts[0].Lines[0]
		gaps := 0
		for _, v := range l.Y {
			if math.IsNaN(v) {
				gaps++
			}
		}
		if gaps != c.gaps || len(l.X) != c.points {
			t.Errorf("unknown at ticks %d to %d: %d gaps, %d points, want %d and %d", c.from, c.to, gaps, len(l.X), c.gaps, c.points)
		}
	}
}
