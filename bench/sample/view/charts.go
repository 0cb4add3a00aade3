package view

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"bigset/bench/chart"
	"bigset/bench/report"
	"bigset/bench/sample"
)

// Sections returns the development of runs as parts of a page. Runs that are compared have their lines in the same charts, on one time
// axis, in the given order; stacked figures have a chart for each run. Charts without values are left out, and so are sections without
// charts.
func Sections(runs []*sample.Series) []report.Section {
	c := charts{runs: runs}
	list := []report.Section{
		{Title: "Throughput and latency", Charts: c.clients()},
		{Title: "Bytes written", Text: "Bytes a second by their cause; the areas of a run add up. Beside them is what the system counted for the process and the device.", Charts: slices.Concat(
			c.stacks("Bytes written", causes, ""), c.line("Bytes the process wrote to disks", sample.IOWritten), c.line("Bytes the device wrote", sample.DiskWritten),
			c.line("Write amplification", sample.WriteAmp))},
		{Title: "What is dead, and space", Charts: slices.Concat(
			c.line("Dead keys in tables", sample.KeysDead), c.line("Live keys", sample.KeysLive), c.line("Tombstones in memory", sample.TombstoneBytes), c.line("Deletes in tables", sample.Deletes),
			c.line("Keys left out by the drop filter", sample.FilterDrops), c.line("Space amplification", sample.SpaceAmp), c.line("Tables", sample.TableBytes), c.line("All files", sample.StoreBytes))},
		{Title: "Shape of the store", Text: "The bytes of each level over time.", Charts: slices.Concat(
			c.stacks("Bytes by level", c.levels("bytes"), "B"), c.stacks("Tables by level", c.levels("tables"), ""),
			c.stacks("Compactions by level", c.levels("compacted"), ""),
			c.line("L0 sublevels", sample.Level(0, "sublevels")), c.line("Read amplification", sample.ReadAmp), c.line("Compaction debt", sample.CompactionDebt))},
		{Title: "Stalls and caches", Charts: slices.Concat(
			c.line("Share of time in which writes were stalled", sample.Stalled), c.line("Stalls", sample.Stalls), c.line("Block cache hits", sample.CacheHit), c.line("Memtables", sample.MemTableBytes))},
		{Title: "Process and machine", Charts: slices.Concat(
			c.line("CPU", sample.CPU), c.line("Cores stolen by the host", sample.MachineStolen), c.line("Load", sample.MachineLoad), c.line("Resident memory", sample.Resident), c.line("Go heap", sample.Heap),
			c.line("Bytes the process read from disks", sample.IORead), c.line("Bytes the device read", sample.DiskRead), c.line("Share of time in which the device was busy", sample.DiskBusy))},
	}
	if text := c.skipped(); text != "" {
		list[0].Text = text
	}
	return slices.DeleteFunc(list, func(s report.Section) bool { return len(s.Charts) == 0 })
}

// charts makes charts of runs.
type charts struct{ runs []*sample.Series }

// causes are the causes of bytes, from the bottom of a stack up.
var causes = []stacked{
	{"log", sample.LogBytes, 1}, {"flush", sample.FlushBytes, 2}, {"compaction", sample.CompactBytes, 3}, {"rewriter", sample.RewriteBytes, 4}, {"sweep", sample.SweepBytes, 5}, {"ingest", sample.IngestBytes, 6},
}

// stacked is an area with its style.
type stacked struct {
	label, name string
	style       int
}

func (c charts) levels(figure string) (list []stacked) {
	n := 0
	for _, r := range c.runs {
		n = max(n, levels(r.Columns, figure))
	}
	for i := n - 1; i >= 0; i-- { // the largest one at the bottom
		list = append(list, stacked{fmt.Sprintf("L%d", i), sample.Level(i, figure), i + 1})
	}
	return list
}

// line returns the chart of a column, with a line for each run.
func (c charts) line(title, name string) []chart.Chart {
	drawn := chart.Chart{Title: title, Unit: unit(c.runs, name), XLabel: "time", XUnit: "s", Marks: c.marks()}
	for i, r := range c.runs {
		if r.Has(name) {
			drawn.Lines = append(drawn.Lines, line(r, name, r.Name, i+1))
		}
	}
	if len(drawn.Lines) == 0 {
		return nil
	}
	return []chart.Chart{drawn}
}

// line returns a column's line, without the points at which it is unknown.
func line(s *sample.Series, name, label string, style int) chart.Line {
	x := s.At()
	y, low, high := s.Values(name)
	l := chart.Line{Name: label, Style: style}
	for i, v := range y {
		if math.IsNaN(v) {
			if len(l.X) > 0 && !math.IsNaN(l.Y[len(l.Y)-1]) { // only one, as a gap
				l.X, l.Y = append(l.X, x[i]), append(l.Y, v)
				if low != nil {
					l.Min, l.Max = append(l.Min, v), append(l.Max, v)
				}
			}
			continue
		}
		l.X, l.Y = append(l.X, x[i]), append(l.Y, v)
		if low != nil {
			l.Min, l.Max = append(l.Min, low[i]), append(l.Max, high[i])
		}
	}
	return l
}

// bridged returns a line of a stack without its short gaps, of ticks at which the figure was too slow to read: an area would fall to 0 there. A
// gap is short if it is below a hundredth of the line, or of a tick or two.
func bridged(l chart.Line, ticks int) chart.Line {
	if len(l.X) == 0 {
		return l
	}
	short := (l.X[len(l.X)-1] - l.X[0]) * max(0.01, 3.5/float64(ticks))
	b := chart.Line{Name: l.Name, Style: l.Style}
	for i, v := range l.Y {
		if math.IsNaN(v) && i+1 < len(l.X) && l.X[i+1]-l.X[i-1] <= short {
			continue
		}
		b.X, b.Y = append(b.X, l.X[i]), append(b.Y, v)
	}
	return b
}

// stacks returns a chart of areas for each run that has any of them.
func (c charts) stacks(title string, areas []stacked, unitName string) (list []chart.Chart) {
	reach := 0.
	for i, r := range c.runs {
		drawn := chart.Chart{Title: title, Unit: unitName, XLabel: "time", XUnit: "s", Stacked: true, Marks: marks(r)}
		if len(c.runs) > 1 {
			drawn.Title += ", " + c.runs[i].Name
		}
		total := make([]float64, r.Len())
		for _, a := range areas {
			if !r.Has(a.name) {
				continue
			}
			l := bridged(line(r, a.name, a.label, a.style), r.Len())
			drawn.Lines = append(drawn.Lines, chart.Line{Name: l.Name, X: l.X, Y: l.Y, Style: l.Style})
			if drawn.Unit == "" {
				drawn.Unit = unit(c.runs, a.name)
			}
			y, _, _ := r.Values(a.name)
			for p, v := range y {
				if total[p] += orZero(v); total[p] > reach {
					reach = total[p]
				}
			}
		}
		if len(drawn.Lines) > 0 {
			list = append(list, drawn)
		}
	}
	for i := range list {
		list[i].Reach = reach // people compare them by eye
	}
	return list
}

// clients returns the charts of all groups: rates of operations, and percentiles.
func (c charts) clients() (list []chart.Chart) {
	var names []string
	for _, r := range c.runs {
		for _, g := range sample.Groups(r.Columns) {
			if !slices.Contains(names, g) {
				names = append(names, g)
			}
		}
	}
	for _, g := range names {
		of := ""
		if g != "" {
			of = ", " + g
		}
		list = slices.Concat(list, c.line("Operations"+of, sample.InGroup(g, "ops")))
		for _, p := range []struct{ title, name string }{{"p50", "p50"}, {"p99", "p99"}, {"p99.9", "p999"}, {"greatest", "max"}} {
			list = slices.Concat(list, c.line("Latency"+of+", "+p.title, sample.InGroup(g, p.name)))
		}
	}
	return list
}

// marks returns the marks of a single run. Several runs reach their phases at different times: the charts of each run show its own.
func (c charts) marks() []chart.Mark {
	if len(c.runs) == 1 {
		return marks(c.runs[0])
	}
	return nil
}

func marks(s *sample.Series) (list []chart.Mark) {
	for _, m := range s.Marks {
		list = append(list, chart.Mark{X: m.At, Text: m.Text})
	}
	return list
}

// skipped names the sources of each run that were too slow.
func (c charts) skipped() string {
	var parts []string
	for _, r := range c.runs {
		if text := skippedText(r.Skipped); text != "" {
			if len(c.runs) > 1 {
				text = r.Name + ": " + text
			}
			all, _ := r.Ticks()
			parts = append(parts, fmt.Sprintf("%s, of %d.", text, all))
		}
	}
	return strings.Join(parts, " ")
}

// levels returns how many levels have a figure.
func levels(columns []sample.Column, figure string) (n int) {
	for _, c := range columns {
		level, of, ok := strings.Cut(c.Name, "/")
		if i, err := strconv.Atoi(strings.TrimPrefix(level, "L")); ok && of == figure && strings.HasPrefix(level, "L") && err == nil {
			n = max(n, i+1)
		}
	}
	return n
}

// unit returns the unit of a column, from the first series that contains it.
func unit(runs []*sample.Series, name string) string {
	for _, r := range runs {
		if i := slices.IndexFunc(r.Columns, func(c sample.Column) bool { return c.Name == name }); i >= 0 {
			return r.Columns[i].UnitOf()
		}
	}
	return ""
}
