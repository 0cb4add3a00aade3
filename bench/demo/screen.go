package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"bigset/bench"
)

// legs is how many legs the race has.
const legs = 3

// View draws States in place on a terminal. One goroutine at a time uses it.
type View struct {
	Out  io.Writer
	Size func() (columns, rows int) // of the terminal, at the moment
	Style
	Seed uint64

	drawn    []int // columns of the lines that stand there
	finished []string
}

// Tell draws a state over the one before it.
func (v *View) Tell(s State) {
	columns, rows := v.Size()
	columns = max(20, columns)
	lines := v.lines(s, columns-1) // a terminal may wrap a line that fills it
	if most := max(1, rows-1); len(lines) > most {
		lines = lines[:most]
	}
	var b strings.Builder
	v.home(&b, columns)
	for _, l := range lines {
		b.WriteString(l + "\x1b[K\n")
		v.drawn = append(v.drawn, visible(l))
	}
	b.WriteString("\x1b[J")
	_, _ = io.WriteString(v.Out, b.String()) // a terminal that is gone is nobody's loss
}

// Clear erases what was drawn.
func (v *View) Clear() {
	if len(v.drawn) == 0 {
		return
	}
	var b strings.Builder
	columns, _ := v.Size()
	v.home(&b, max(20, columns))
	_, _ = io.WriteString(v.Out, b.String()+"\x1b[J")
}

// home goes to the first line that was drawn. Lines that a narrower terminal has wrapped since take more rows.
func (v *View) home(b *strings.Builder, columns int) {
	up := 0
	for _, n := range v.drawn {
		up += max(1, (n+columns-1)/columns)
	}
	if up > 0 {
		fmt.Fprintf(b, "\x1b[%dA", up)
	}
	b.WriteString("\r")
	v.drawn = v.drawn[:0]
}

// visible returns how many columns a line takes: all but the colours.
func visible(line string) int {
	n := 0
	for {
		before, after, coloured := strings.Cut(line, "\x1b[")
		n += utf8.RuneCountInString(before)
		if !coloured {
			return n
		}
		_, line, _ = strings.Cut(after, "m")
	}
}

// lines returns what a state looks like, each line at most so wide.
func (v *View) lines(s State, width int) (lines []string) {
	add := func(format string, args ...any) {
		lines = append(lines, cut(v.plain(fmt.Sprintf(format, args...)), width))
	}
	add("bigset demo · seed %d · %s", v.Seed, s.Elapsed.Round(time.Second))
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

// cut shortens a line without colours.
func cut(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:max(0, width)])
}

// phaseText says what a leg is doing.
func phaseText(l *bench.Leg) string {
	if l.Of == 0 {
		return l.Phase
	}
	return fmt.Sprintf("%s: %.0f %%", l.Phase, 100*float64(l.Done)/float64(l.Of))
}

// legText says in a line what came of a leg.
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

// bars returns the racers side by side, a line a figure.
func (v *View) bars(l *bench.Leg, width int) []string {
	each := (width - labelColumns - 2) / 2
	bar := each - valueColumns - 1
	if bar < 3 {
		bar = 0 // figures alone
	}
	head := strings.Repeat(" ", labelColumns)
	for _, name := range bench.RacerNames {
		head += fmt.Sprintf("%-*s  ", max(0, each), cut(name, each))
	}
	lines := []string{cut(strings.TrimRight(head, " "), width)}
	for _, r := range liveRows(l) {
		line := fmt.Sprintf("%-*s", labelColumns, r.name)
		for i, value := range r.values {
			if bar > 0 {
				line += v.bar(racerColours[i], value/r.most, bar) + " "
			}
			line += pad(v.plain(r.text(value)), each-bar-min(bar, 1)) + "  "
		}
		if line = strings.TrimRight(line, " "); visible(line) > width {
			line = cut(line, width) // there are no bars in it, and so no colours
		}
		lines = append(lines, line)
	}
	return lines
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// liveRow is a figure that is drawn while a leg runs. A bar is full at most.
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
		row("bytes written", sizeText, 0, func(r *bench.Racer) float64 { return float64(r.BytesWritten) }),
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
		rows = append(rows, row("space taken", sizeText, 0, func(r *bench.Racer) float64 { return float64(r.BytesTables) }))
	}
	return append(rows, row("read p99", micros, 0, func(r *bench.Racer) float64 { return r.ReadP99 }))
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
		lines[i] = cut(v.plain(l), width)
	}
	colour := green
	if d.broken() > 0 {
		colour = red
	}
	return append(lines, "", v.paint(colour, cut(v.plain(d.promises()), width)))
}

// counter is a counter of the drill.
type counter struct {
	name string
	n    int
}

// drillCounters are those that people are shown, of all in a Drill.
func drillCounters(d *Drill) []counter {
	f := d.Faults
	return []counter{
		{"operations", d.Operations}, {"power cuts", f["crash"]}, {"writes lost", f["crash-unsynced"]}, {"partitions", f["partition"]},
		{"ranges copied", f["copy"]}, {"copies cut off", f["copy-crash"]}, {"messages lost", f["loss"]},
		{"disk errors", f["io-error"] + f["disk-full"]}, {"states checked", d.Checks},
	}
}

// promises is the line of what was found.
func (d *Drill) promises() string {
	line := fmt.Sprintf("lost %d · resurrected %d · diverged %d · counters reused %d", d.Lost, d.Resurrected, d.Diverged, d.Reused)
	if d.Other > 0 {
		line += fmt.Sprintf(" · other %d", d.Other)
	}
	return line
}

// Lines writes States as plain lines, where there is no terminal: one when something begins, and one every few seconds.
type Lines struct {
	Out   io.Writer
	Every time.Duration // 0 is 2 s

	began string
	last  time.Duration
}

// Tell writes a line if it is time for one.
func (p *Lines) Tell(s State) {
	what, text := "", ""
	switch {
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
