package view

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"bigset/bench/sample"
	"bigset/bench/screen"
)

// historyMax is how many ticks a view keeps for each of its rows.
const historyMax = 256

// Live draws ticks in place on a terminal: what runs, the progress, and the figures. Its method Show is for Options.Watch. Only one
// goroutine at a time may use a Live. After Stop has returned, Clear erases it, also after Ctrl-C: it sets no mode of the terminal.
type Live struct {
	screen.Screen
	screen.Style

	began   time.Duration        // of what runs
	runs    string               // a phase, or a step
	history map[string][]float64 // of rows
}

// row is a figure of a view.
type row struct {
	label, name string
	colour      string
	most        float64 // a full bar; 0 means the largest value seen
	text        func(float64) string
	quiet       bool // not shown while it is 0
}

func rate(f func(float64) string) func(float64) string {
	return func(v float64) string {
		if math.IsNaN(v) {
			return f(v)
		}
		return f(v) + "/s"
	}
}

func share(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*v)
}

func decimal(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

// written are the causes of bytes, drawn as adjacent bars.
var written = []row{
	{label: "log", name: sample.LogBytes, colour: screen.Blue}, {label: "flush", name: sample.FlushBytes, colour: screen.Cyan},
	{label: "compaction", name: sample.CompactBytes, colour: screen.Yellow}, {label: "rewriter", name: sample.RewriteBytes, colour: screen.Magenta},
	{label: "sweep", name: sample.SweepBytes, colour: screen.Magenta, quiet: true}, {label: "ingest", name: sample.IngestBytes, colour: screen.Green, quiet: true},
}

// states are figures of the store and the machine, drawn over time.
var states = []row{
	{label: "dead keys", name: sample.KeysDead, colour: screen.Yellow, text: screen.Count},
	{label: "live keys", name: sample.KeysLive, colour: screen.Green, text: screen.Count},
	{label: "tables", name: sample.TableBytes, colour: screen.Cyan, text: screen.Bytes},
	{label: "L0 sublevels", name: "L0/sublevels", colour: screen.Cyan, most: 12, text: screen.Count},
	{label: "writes stalled", name: sample.Stalled, colour: screen.Red, most: 1, text: share},
	{label: "cache hits", name: sample.CacheHit, colour: screen.Green, most: 1, text: share},
	{label: "write amp", name: sample.WriteAmp, colour: screen.Yellow, text: decimal},
	{label: "space amp", name: sample.SpaceAmp, colour: screen.Yellow, text: decimal},
	{label: "cores", name: sample.CPU, colour: screen.Blue, text: decimal},
	{label: "cores stolen", name: sample.MachineStolen, colour: screen.Red, text: decimal, quiet: true},
	{label: "memory", name: sample.Resident, colour: screen.Blue, text: screen.Bytes},
	{label: "disk busy", name: sample.DiskBusy, colour: screen.Blue, most: 1, text: share},
}

// Show draws a tick over the previous one.
func (v *Live) Show(t *sample.Tick) { v.Draw(v.lines(t, v.Width())) }

// The widths of the parts of a line.
const (
	labelColumns = 15
	valueColumns = 12
	graphMax     = 60
	graphMin     = 8
)

// lines returns the text of a tick, each line at most width wide.
func (v *Live) lines(t *sample.Tick, width int) []string {
	if runs := cmp.Or(t.Step, t.Phase); v.runs != runs || v.history == nil {
		v.runs, v.began = runs, t.At
	}
	if v.history == nil {
		v.history = map[string][]float64{}
	}
	graph := min(graphMax, width-labelColumns-valueColumns-1)
	if graph < graphMin {
		graph = 0 // figures only
	}
	lines := []string{v.head(t, width)}
	if v.runs != "" {
		lines = append(lines, v.progress(t, width, graph))
	}
	for _, g := range sample.Groups(t.Columns) {
		lines = append(lines, "")
		lines = append(lines, v.clients(t, g, width, graph)...)
	}
	var bars, lasts []string
	if t.Has(sample.LogBytes) {
		bars = append(bars, "", v.cut("bytes written", width))
	}
	most := 1.
	for _, r := range written {
		if x := t.Value(r.name); x > most {
			most = x
		}
	}
	for _, r := range written {
		if x := t.Value(r.name); t.Has(r.name) && !(r.quiet && x == 0) {
			bars = append(bars, v.line("  "+r.label, v.Bar(r.colour, orZero(x)/most, graph), rate(screen.Bytes)(x), width))
		}
	}
	for _, r := range states {
		if x := t.Value(r.name); t.Has(r.name) && !(r.quiet && x == 0) {
			lasts = append(lasts, v.over(r, x, width, graph))
		}
	}
	if len(lasts) > 0 {
		lasts = append([]string{""}, lasts...)
	}
	lines = append(append(lines, bars...), lasts...)
	if text := skippedText(t.Skipped); text != "" {
		lines = append(lines, "", v.Paint(screen.Yellow, v.cut(text, width)))
	}
	return lines
}

func orZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

func (v *Live) cut(text string, width int) string { return screen.Cut(v.Plain(text), width) }

func (v *Live) head(t *sample.Tick, width int) string {
	return v.cut(fmt.Sprintf("%s · %s", v.Safe(t.Name), t.At.Round(time.Second)), width)
}

// progress is the line of the phase, or of the step. A step has no known end.
func (v *Live) progress(t *sample.Tick, width, graph int) string {
	label := v.Safe(v.runs)
	if t.Of <= 0 || t.Step != "" {
		return v.cut(fmt.Sprintf("%s · %s", label, (t.At-v.began).Round(time.Second)), width)
	}
	done := min(1, max(0, t.Done/t.Of))
	return v.line(label, v.Bar(screen.Green, done, graph), fmt.Sprintf("%.0f %%", 100*math.Floor(100*done)/100), width)
}

// clients are the lines of a group of clients.
func (v *Live) clients(t *sample.Tick, group string, width, graph int) []string {
	at := func(name string) float64 { return t.Value(sample.InGroup(group, name)) }
	label := "operations"
	if group != "" {
		label = group
	}
	lines := []string{v.over(row{label: label, name: sample.InGroup(group, "ops"), colour: screen.Green, text: rate(screen.Count)}, at("ops"), width, graph)}
	text := fmt.Sprintf("  p50 %s · p99 %s · p99.9 %s · max %s", screen.Micros(at("p50")), screen.Micros(at("p99")), screen.Micros(at("p999")), screen.Micros(at("max")))
	lines = append(lines, v.cut(text, width))
	return append(lines, v.over(row{label: "  p99", name: sample.InGroup(group, "p99"), colour: screen.Cyan, text: screen.Micros}, at("p99"), width, graph))
}

// over returns a row's line over time.
func (v *Live) over(r row, value float64, width, graph int) string {
	h := append(v.history[r.name], value)
	h = h[max(0, len(h)-historyMax):]
	v.history[r.name] = h
	most := r.most
	for _, x := range h[max(0, len(h)-max(1, graph)):] {
		if r.most == 0 && x > most {
			most = x
		}
	}
	return v.line(r.label, v.Spark(r.colour, h, most, graph), r.text(value), width)
}

// line joins the parts of a line. The graph must be narrow enough, or empty.
func (v *Live) line(label, graph, value string, width int) string {
	label = screen.Pad(v.cut(v.Safe(label), labelColumns-1), labelColumns)
	value = v.Plain(value)
	if graph == "" {
		return screen.Cut(label+value, width)
	}
	return label + graph + " " + screen.Cut(value, width-labelColumns-1-screen.Visible(graph))
}

// skippedText names the sources that were too slow.
func skippedText(list []sample.Skip) string {
	var parts []string
	for _, s := range list {
		parts = append(parts, fmt.Sprintf("%s %d", s.Source, s.Ticks))
	}
	if len(parts) == 0 {
		return ""
	}
	return "ticks skipped, for a figure was too slow to read: " + strings.Join(parts, ", ")
}

// Lines writes ticks as plain lines for output that is not a terminal: one when a phase or a step begins, and one every few seconds. Its
// method Show is for Options.Watch.
type Lines struct {
	Out   io.Writer
	Every time.Duration // 0 means 5 s

	wrote bool
	runs  string // a phase, or a step
	last  time.Duration
}

// Show writes a line if it is time for one.
func (p *Lines) Show(t *sample.Tick) {
	every := p.Every
	if every == 0 {
		every = 5 * time.Second
	}
	runs := cmp.Or(t.Step, t.Phase)
	if p.wrote && p.runs == runs && t.At-p.last < every {
		return
	}
	p.wrote, p.runs, p.last = true, runs, t.At
	_, _ = fmt.Fprintf(p.Out, "%7.1fs  %s\n", t.At.Seconds(), lineText(t)) // an error has no recipient
}

// lineText returns a tick in a line.
func lineText(t *sample.Tick) string {
	var s screen.Style
	text := s.Safe(t.Name)
	if runs := cmp.Or(t.Step, t.Phase); runs != "" {
		text += ": " + s.Safe(runs)
	}
	if t.Of > 0 && t.Step == "" {
		text += fmt.Sprintf(" %.0f %%", 100*math.Floor(100*min(1, max(0, t.Done/t.Of)))/100)
	}
	add := func(label, name string, f func(float64) string) {
		if x := t.Value(name); !math.IsNaN(x) {
			text += "; " + label + " " + f(x)
		}
	}
	for _, g := range sample.Groups(t.Columns) {
		label := ""
		if g != "" {
			label = s.Safe(g) + " "
		}
		add(label+"ops", sample.InGroup(g, "ops"), rate(screen.Count))
		add(label+"p99", sample.InGroup(g, "p99"), screen.Micros)
	}
	total := 0.
	for _, r := range written {
		total += orZero(t.Value(r.name))
	}
	if t.Has(sample.LogBytes) {
		text += "; written " + rate(screen.Bytes)(total)
	}
	add("dead keys", sample.KeysDead, screen.Count)
	add("L0", sample.Level(0, "sublevels"), screen.Count)
	add("stalled", sample.Stalled, share)
	if skipped := skippedText(t.Skipped); skipped != "" {
		text += "; " + skipped
	}
	return text
}
