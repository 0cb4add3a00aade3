package demo

import (
	"fmt"
	"io"
	"math"
	"strings"

	"bigset/bench"
	"bigset/bench/chart"
	"bigset/bench/report"
)

// WritePage writes the report as one self-contained HTML file.
func (r *Result) WritePage(w io.Writer) error { return report.WriteHTML(w, r.page()) }

// page returns the report.
func (r *Result) page() *report.Page {
	p := &report.Page{Title: "bigset demo: " + r.word(), About: r.about()}
	p.Sections = append(p.Sections, r.verdicts())
	for i := range r.Race {
		p.Sections = append(p.Sections, r.leg(&r.Race[i]))
	}
	if r.Drill != nil {
		p.Sections = append(p.Sections, r.Drill.section())
	}
	facts := append(r.Machine.Facts(), report.Fact{Name: "seed", Value: fmt.Sprint(r.Seed)}, report.Fact{Name: "scale", Value: fmt.Sprint(r.Scale)},
		report.Fact{Name: "took", Value: fmt.Sprintf("%.0f s", r.Seconds)})
	p.Sections = append(p.Sections, report.Section{Title: "Machine, and how to run it again", Facts: facts, Code: r.again() + "\n"})
	return p
}

func (r *Result) about() string {
	about := "A race of two ways to delete, on the same operations: set-tombstones, which are Bigset's, and point deletes, which are those of LSMs. " +
		"Then a fault drill. Ratios are set-tombstones' figure of point deletes'.\n\n" +
		"Both racers work in one process, in short turns; the one that begins changes from turn to turn. What one does in the " +
		"background slows the reads of the other, too. Writes are not synced. It is one run: `bigset bench` repeats its rounds and says how far they spread."
	if r.Interrupted {
		about += "\n\nIt was interrupted: this is what was measured until then."
	}
	return about
}

// verdicts is the section of the findings.
func (r *Result) verdicts() report.Section {
	s := report.Section{Title: "Verdict"}
	judge := func(what, detail string, ok bool) {
		word := report.Pass
		if !ok {
			word = report.Fail
		}
		s.Verdicts = append(s.Verdicts, report.Verdict{Word: word, What: what, Detail: detail})
	}
	if d := r.Drill; d != nil {
		checked := " in " + bench.Thousands(uint64(d.Checks)) + " states checked"
		for _, v := range []struct {
			what string
			n    int
		}{{"nothing that was acknowledged is lost", d.Lost}, {"nothing that was removed comes back", d.Resurrected},
			{"replicas are equal in the end", d.Diverged}, {"no counter is used twice", d.Reused}, {"nothing else is wrong", d.Other}} {
			judge(v.what, fmt.Sprint(v.n)+checked, v.n == 0)
		}
	}
	for i := range r.Race {
		if l := &r.Race[i]; l.Finished {
			judge(l.About, "both stores verified after it; they did the same operations, hash "+l.Stream, true)
		}
	}
	for _, p := range r.Problems {
		judge("broken", p, false)
	}
	if !r.Pass && len(r.Problems) == 0 {
		s.Verdicts = append(s.Verdicts, report.Verdict{Word: "not finished", What: "the rest of it"})
	}
	s.Text = churnText(r.Table)
	return s
}

// leg is the section of a leg of the race: its figures, and how they developed.
func (r *Result) leg(l *bench.Leg) report.Section {
	t := report.Table{Head: []string{"", bench.RacerNames[0], bench.RacerNames[1], "ratio", "what it means"}}
	for _, f := range r.Table {
		if f.Leg == l.Name {
			t.Rows = append(t.Rows, []string{f.Name, f.text(f.SetTombstones), f.text(f.PointDeletes), f.ratio(), f.Means})
		}
	}
	s := report.Section{Title: "Race: " + l.About, Text: fmt.Sprintf("%s elements%s.", bench.Thousands(uint64(l.Elements)), unfinished(l))}
	if l.Stream != "" {
		s.Text += " Operations: " + streamText(l) + "."
	}
	if len(t.Rows) == 0 {
		return s
	}
	s.Tables = []report.Table{t}
	s.Charts = []chart.Chart{
		legChart(l, "bytes written", "B", func(s bench.RaceSample) float64 { return float64(s.BytesWritten) }),
		legChart(l, "dead keys in tables", "keys", func(s bench.RaceSample) float64 { return float64(s.KeysDead) }),
		legChart(l, "space taken by tables", "B", func(s bench.RaceSample) float64 { return float64(s.BytesTables) }),
		legChart(l, "read p99, of the reads since the last sample", "us", func(s bench.RaceSample) float64 { return s.ReadP99 }),
	}
	if l.Racers[0].SpaceBack != nil {
		s.Charts = append(s.Charts, legChart(l, "space back, of what the dead took", "1", func(s bench.RaceSample) float64 { return s.SpaceBack }))
	}
	return s
}

// legChart draws one figure of both racers on one time axis.
func legChart(l *bench.Leg, title, unit string, of func(bench.RaceSample) float64) chart.Chart {
	c := chart.Chart{Title: title, Unit: unit, XLabel: "time", XUnit: "s"}
	for i, x := range l.Racers {
		line := chart.Line{Name: x.Name, Style: i + 1}
		for _, s := range x.Samples {
			if y := of(s); unit != "us" || !math.IsNaN(y) { // the line continues where nothing was read
				line.X, line.Y = append(line.X, s.At.Seconds()), append(line.Y, y)
			}
		}
		c.Lines = append(c.Lines, line)
	}
	for _, m := range l.Marks {
		c.Marks = append(c.Marks, chart.Mark{X: m.At.Seconds(), Text: m.Text})
	}
	return c
}

// faultMeans explains the names of the simulation's faults.
var faultMeans = map[string]string{
	"loss": "messages that never came", "duplicate": "messages that came twice", "delay": "messages that came late",
	"reorder": "messages that overtook others", "partition": "times that some could not reach others",
	"crash": "power cuts", "crash-unsynced": "of these, those with writes that were not on disk yet",
	"io-error": "disks that failed", "disk-full": "disks that were full", "copy": "ranges copied to a replica",
	"copy-crash": "copies that met a power cut", "compaction": "compactions, in the middle of anything", "rewrite": "spans rewritten, so too",
	"stream-failover": "streaming reads that went on at another replica", "skew": "clocks that jumped",
}

// section is the section of the drill.
func (d *Drill) section() report.Section {
	t := report.Table{Title: "Faults that had an effect", Head: []string{"fault", "times", "what it is"}}
	for _, k := range drillFaults {
		t.Rows = append(t.Rows, []string{k, bench.Thousands(uint64(d.Faults[k])), faultMeans[k]})
	}
	text := fmt.Sprintf("Schedules of clients' operations and faults on %d replicas, each of them a real engine on a disk in memory: %s over engines alone, "+
		"%s of whole clusters with coordinators. What replicas and quorums show is judged all the time; at the end of each schedule all replicas must be equal.",
		d.Replicas, bench.Thousands(uint64(d.Engines)), bench.Thousands(uint64(d.Clusters)))
	if !d.Finished && d.broken() == 0 {
		text += fmt.Sprintf(" It was not finished: %s schedules were planned.", bench.Thousands(uint64(d.Planned)))
	}
	s := report.Section{Title: "Fault drill", Text: text, Tables: []report.Table{t}, Facts: []report.Fact{
		{Name: "schedules", Value: bench.Thousands(uint64(d.Schedules))}, {Name: "operations of clients", Value: bench.Thousands(uint64(d.Operations))},
		{Name: "states checked", Value: bench.Thousands(uint64(d.Checks))}, {Name: "found", Value: d.promises()},
	}}
	if d.Script != "" {
		s.Text += "\n\n" + d.Violation + "\n\nThe schedule that shows it, shortened; `bigset simulate --replay FILE` runs it again from a file:"
		s.Code = strings.TrimRight(d.Script, "\n") + "\n"
	}
	return s
}
