package demo

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"bigset/bench"
	"bigset/bench/screen"
)

// WriteText writes the verdict for people: the race's table, what the drill found, and what to do next.
func (r *Result) WriteText(w io.Writer, s screen.Style) error {
	b := bufio.NewWriter(w)
	say := func(format string, args ...any) { _, _ = b.WriteString(s.Plain(fmt.Sprintf(format, args...)) + "\n") } // the buffer keeps an error
	r.race(say)
	r.drilled(say)
	for _, p := range r.Problems {
		say("broken: %s", p)
	}
	if r.Drill != nil && r.Drill.Script != "" {
		say("\nThe schedule that shows it, shortened; `bigset simulate --replay FILE` runs it again from a file:\n\n%s", r.Drill.Script)
	}
	colour := screen.Green
	if !r.Pass {
		colour = screen.Red
	}
	_, _ = b.WriteString("\n" + s.Paint(colour, r.word()))
	say(" in %.0f s on %d cores (%s)", r.Seconds, r.Machine.Cores, r.Machine.CPU)
	if r.Report != "" {
		say("report   %s", r.Report)
	}
	say("again    %s", r.again())
	if next := r.next(); next != r.again() {
		say("next     %s", next)
	}
	return b.Flush()
}

// word is the verdict in one word.
func (r *Result) word() string {
	switch {
	case r.Pass:
		return "PASS"
	case r.Failed():
		return "FAIL"
	case r.Interrupted:
		return "INTERRUPTED"
	}
	return "NOT FINISHED" // the error says why
}

// again is the command that repeats the run.
func (r *Result) again() string {
	if r.Scale != 1 {
		return fmt.Sprintf("bigset demo --seed %d --scale %v", r.Seed, r.Scale)
	}
	return fmt.Sprintf("bigset demo --seed %d", r.Seed)
}

// next is the command to run next.
func (r *Result) next() string {
	switch {
	case r.Failed():
		return fmt.Sprintf("bigset simulate --seconds 60 --replicas %d", drillReplicas)
	case !r.Pass:
		return r.again()
	}
	return "bigset set add friends paul ringo"
}

// race writes the table.
func (r *Result) race(say func(string, ...any)) {
	say("Race of two ways to delete, in turns on the same work. Ratio: of point deletes'.\n")
	say("%-16s %14s %14s %6s", "", bench.RacerNames[0], bench.RacerNames[1], "ratio")
	said := map[string]bool{}
	for _, l := range r.Race {
		say("%s: %s elements%s", l.About, bench.Thousands(uint64(l.Elements)), unfinished(&l))
		if l.Stream != "" {
			say("  %-14s %s", "operations", streamText(&l))
		}
		for _, f := range r.Table {
			if f.Leg == l.Name {
				if said[f.Name] {
					f.Means = ""
				}
				said[f.Name] = true
				say("%s", strings.TrimRight(fmt.Sprintf("  %-14s %14s %14s %6s  %s", f.Name, f.text(f.SetTombstones), f.text(f.PointDeletes), f.ratio(), f.Means), " "))
			}
		}
	}
	if text := churnText(r.Table); text != "" {
		say("%s", text)
	}
}

// streamText shows that both racers did the same operations.
func streamText(l *bench.Leg) string {
	return fmt.Sprintf("%s each, the same for both, hash %s", bench.Thousands(l.Ops), l.Stream)
}

func unfinished(l *bench.Leg) string {
	if l.Finished {
		return ""
	}
	return " (not finished)"
}

// drilled writes what the drill found.
func (r *Result) drilled(say func(string, ...any)) {
	d := r.Drill
	if d == nil {
		say("\nThe fault drill was not begun.")
		return
	}
	f := d.Faults
	n := func(k int) string { return bench.Thousands(uint64(k)) }
	say("\nFault drill on three replicas over real engines: %s schedules", n(d.Schedules))
	of := func(k int, one string) string {
		if k == 1 {
			return "1 " + one
		}
		return n(k) + " " + one + "s"
	}
	say("  %s, %s, %s, %s copies of a range,", of(d.Operations, "operation"), of(f["crash"], "power cut"), of(f["partition"], "partition"), n(f["copy"]))
	say("  %s messages lost, %s; %s checked", n(f["loss"]), of(f["io-error"]+f["disk-full"], "disk error"), of(d.Checks, "state"))
	if !d.Finished && d.broken() == 0 {
		say("  not finished: %s schedules were planned", bench.Thousands(uint64(d.Planned)))
	}
	say("  %s", d.promises())
}
