package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"bigset/bench"
	"bigset/bench/screen"
)

// legs is how many legs the race has.
const legs = 3

// racerColours are the colours of the racers.
var racerColours = [2]string{screen.Cyan, screen.Yellow}

// View draws States in place on a terminal. Only one goroutine may use it at a time.
type View struct {
	screen.Screen
	screen.Style
	Seed uint64

	finished []string
}

// Show draws a state over the previous one.
func (v *View) Show(s State) { v.Draw(v.lines(s, v.Width())) }

// lines returns the text of a state, each line at most width wide.
func (v *View) lines(s State, width int) (lines []string) {
	add := func(format string, args ...any) {
		lines = append(lines, screen.Cut(v.Plain(fmt.Sprintf(format, args...)), width))
	}
	add("bigset demo · seed %d · %s", v.Seed, s.Elapsed.Round(time.Second))
	if s.Note != "" {
		add("%s", s.Note)
	}
	switch {
	case s.Leg != nil:
		add("race, leg %d of %d: %s", min(legs, len(v.finished)+1), legs, s.Leg.About)
		add("%s", phaseText(s.Leg))
		add("")
		lines = append(lines, v.bars(s.Leg, width)...)
		if s.Leg.Finished {
			v.finished = append(v.finished, legText(s.Leg))
		}
	case s.Drill != nil:
		add("fault drill: three replicas over real engines, on disks in memory")
		lines = append(lines, v.drill(s.Drill, width)...)
	}
	if len(v.finished) > 0 {
		add("")
	}
	for _, f := range v.finished {
		add("%s", f)
	}
	return lines
}

// phaseText returns what a leg is doing.
func phaseText(l *bench.Leg) string {
	if l.Of == 0 {
		return l.Phase
	}
	return fmt.Sprintf("%s: %.0f %%", l.Phase, 100*float64(l.Done)/float64(l.Of))
}

// legText returns the result of a leg in a line.
func legText(l *bench.Leg) string {
	var parts []string
	for _, f := range figures(l) {
		if f.Ratio != nil && (f.Name == "bytes written" || f.Name == "read p99" || f.Name == "time") {
			parts = append(parts, f.Name+" "+f.ratio())
		}
	}
	return l.Name + ", of point deletes': " + strings.Join(parts, ", ")
}

const (
	labelColumns = 15
	valueColumns = 10
)

// bars returns the racers side by side, one figure a line.
func (v *View) bars(l *bench.Leg, width int) []string {
	each := (width - labelColumns - 2) / 2
	bar := each - valueColumns - 1
	if bar < 3 {
		bar = 0 // figures only
	}
	head := strings.Repeat(" ", labelColumns)
	for _, name := range bench.RacerNames {
		head += fmt.Sprintf("%-*s  ", max(0, each), screen.Cut(name, each))
	}
	lines := []string{screen.Cut(strings.TrimRight(head, " "), width)}
	for _, r := range liveRows(l) {
		line := fmt.Sprintf("%-*s", labelColumns, r.name)
		for i, value := range r.values {
			if bar > 0 {
				line += v.Bar(racerColours[i], value/r.most, bar) + " "
			}
			line += screen.Pad(v.Plain(r.text(value)), each-bar-min(bar, 1)) + "  "
		}
		if line = strings.TrimRight(line, " "); screen.Visible(line) > width {
			line = screen.Cut(line, width) // it contains no bars, and so no colours
		}
		lines = append(lines, line)
	}
	return lines
}

// liveRow is a figure that is drawn while a leg runs. A value of most fills the bar.
type liveRow struct {
	name   string
	values [2]float64
	most   float64
	text   func(float64) string
}

func liveRows(l *bench.Leg) []liveRow {
	row := func(name string, text func(float64) string, most float64, of func(*bench.Racer) float64) liveRow {
		r := liveRow{name, [2]float64{of(&l.Racers[0]), of(&l.Racers[1])}, most, text}
		if most == 0 {
			r.most = max(r.values[0], r.values[1], 1)
		}
		return r
	}
	keys, share := Figure{Unit: "keys"}, Figure{Unit: "1"}
	mostKeys := float64(max(mostDead(&l.Racers[0]), mostDead(&l.Racers[1]), 1))
	rows := []liveRow{
		row("bytes written", screen.Bytes, 0, func(r *bench.Racer) float64 { return float64(r.BytesWritten) }),
		row("dead keys", keys.text, mostKeys, func(r *bench.Racer) float64 { return float64(r.KeysDead) }),
	}
	if l.Racers[0].SpaceBack != nil {
		rows = append(rows, row("space back", share.text, 1, func(r *bench.Racer) float64 {
			if r.SpaceBack == nil {
				return 0
			}
			return *r.SpaceBack
		}))
	} else {
		rows = append(rows, row("space taken", screen.Bytes, 0, func(r *bench.Racer) float64 { return float64(r.BytesTables) }))
	}
	return append(rows, row("read p99", screen.Micros, 0, func(r *bench.Racer) float64 { return r.ReadP99 }))
}

// drill returns the counters of the drill.
func (v *View) drill(d *Drill, width int) []string {
	lines := []string{
		fmt.Sprintf("schedules        %s of %s", bench.Thousands(uint64(d.Schedules)), bench.Thousands(uint64(d.Planned))),
		"",
	}
	for _, c := range drillCounters(d) {
		lines = append(lines, fmt.Sprintf("%-16s %s", c.name, bench.Thousands(uint64(c.n))))
	}
	for i, l := range lines {
		lines[i] = screen.Cut(v.Plain(l), width)
	}
	colour := screen.Green
	if d.broken() > 0 {
		colour = screen.Red
	}
	return append(lines, "", v.Paint(colour, screen.Cut(v.Plain(d.promises()), width)))
}

// counter is a counter of the drill.
type counter struct {
	name string
	n    int
}

// drillCounters are the counters shown to people, of all in a Drill.
func drillCounters(d *Drill) []counter {
	f := d.Faults
	return []counter{
		{"operations", d.Operations}, {"power cuts", f["crash"]}, {"writes lost", f["crash-unsynced"]}, {"partitions", f["partition"]},
		{"ranges copied", f["copy"]}, {"copies cut off", f["copy-crash"]}, {"messages lost", f["loss"]},
		{"disk errors", f["io-error"] + f["disk-full"]}, {"states checked", d.Checks},
	}
}

// promises is the line of the findings.
func (d *Drill) promises() string {
	line := fmt.Sprintf("lost %d · resurrected %d · diverged %d · counters reused %d", d.Lost, d.Resurrected, d.Diverged, d.Reused)
	if d.Other > 0 {
		line += fmt.Sprintf(" · other %d", d.Other)
	}
	return line
}

// Lines writes States as plain lines for output that is not a terminal: one when something begins, and one every few seconds.
type Lines struct {
	Out   io.Writer
	Every time.Duration // 0 means 2 s

	began string
	last  time.Duration
	noted bool
}

// Show writes a line if it is time for one.
func (p *Lines) Show(s State) {
	if s.Note != "" && !p.noted {
		p.noted = true
		_, _ = fmt.Fprintf(p.Out, "%6.1fs  %s\n", s.Elapsed.Seconds(), s.Note)
	}
	what, text := "", ""
	switch {
	case s.Leg != nil && s.Leg.Phase == "":
		return // its stores are being opened
	case s.Leg != nil:
		what, text = s.Leg.Name+": "+s.Leg.Phase, s.Leg.Name+": "+phaseText(s.Leg)
		if len(s.Leg.Racers[0].Samples) > 0 {
			for _, r := range liveRows(s.Leg) {
				text += fmt.Sprintf("; %s %s : %s", r.name, r.text(r.values[0]), r.text(r.values[1]))
			}
		}
	case s.Drill != nil:
		what, text = "drill", fmt.Sprintf("drill: %s of %s schedules", bench.Thousands(uint64(s.Drill.Schedules)), bench.Thousands(uint64(s.Drill.Planned)))
		for _, c := range drillCounters(s.Drill) {
			text += fmt.Sprintf("; %s %s", c.name, bench.Thousands(uint64(c.n)))
		}
	}
	every := p.Every
	if every == 0 {
		every = 2 * time.Second
	}
	if what == p.began && s.Elapsed-p.last < every {
		return
	}
	p.began, p.last = what, s.Elapsed
	_, _ = fmt.Fprintf(p.Out, "%6.1fs  %s\n", s.Elapsed.Seconds(), text)
}
