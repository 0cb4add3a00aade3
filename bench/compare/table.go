package compare

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tableColumns is the largest width of the table.
const tableColumns = 100

// WriteJSON writes the comparison as one JSON object, with all figures.
func (c *Comparison) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(c)
}

// WriteTable writes the comparison as text of at most 100 columns: the rows with the figures that changed or may have changed, or with all
// of them, then the figures over limits, then a summary. The caller prints the notes.
func (c *Comparison) WriteTable(w io.Writer, all bool) error {
	b := bufio.NewWriter(w)
	writeLine(b, "A is %s, B is %s", c.A, c.B)
	headed := false
	for i := range c.Rows {
		r := &c.Rows[i]
		shown := slices.DeleteFunc(slices.Clone(r.Figures), func(f *Change) bool { return !all && !f.shows() })
		if len(shown) > 0 && !headed {
			headed = true
			writeLine(b, lineFormat, "figure", "unit", "A", "B", "change", "95 % interval", "verdict")
		}
		r.write(b, shown)
	}
	writeOnly(b, "A", c.OnlyA)
	writeOnly(b, "B", c.OnlyB)
	for _, f := range c.Failed {
		writeLine(b, "over %s: %s, %s of %s", f.Limit, percent(f.Change.Change), f.Change.Name, f.Row)
	}
	for _, f := range c.Unjudged {
		writeLine(b, "over %s, but without a verdict yet: %s, %s of %s", f.Limit, percent(f.Change.Change), f.Change.Name, f.Row)
	}
	writeLine(b, "%s", c.Summary.String())
	return b.Flush()
}

// writeLine writes a line, cut to the table's width.
func writeLine(b *bufio.Writer, format string, args ...any) {
	_, _ = b.WriteString(cut(strings.TrimRight(fmt.Sprintf(format, args...), " "), tableColumns) + "\n") // b keeps the error for Flush
}

const lineFormat = "  %-13s %-5s %10s %10s %9s  %-20s  %s"

func (r *RowChanges) write(b *bufio.Writer, shown []*Change) {
	if len(shown) > 0 {
		writeLine(b, "%s; %s", r.String(), r.rounds())
	}
	for _, f := range shown {
		writeLine(b, lineFormat, f.Name, f.Unit, number(f.A.Median), number(f.B.Median), percent(f.Change), f.span(), f.Verdict)
	}
}

// writeOnly names the rows that only one side has.
func writeOnly(b *bufio.Writer, side string, rows []string) {
	if len(rows) > 0 {
		writeLine(b, "only in %s, %s: %s", side, counted(len(rows), "row"), strings.Join(rows, "; "))
	}
}

func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// shows reports whether a figure is shown if only changes are.
func (c *Change) shows() bool {
	return c.Verdict != NoChange && (c.Verdict != TooFew || c.Change == nil || *c.Change != 0)
}

// String returns the names of the row. If they differ, those of A come before those of B.
func (r *RowChanges) String() string {
	both := func(a, b string) string {
		if a == b {
			return a
		}
		if a == "" {
			a = "-"
		}
		if b == "" {
			b = "-"
		}
		return a + "|" + b
	}
	k := r.A
	k.System, k.Record, k.Strategy = both(k.System, r.B.System), both(k.Record, r.B.Record), both(k.Strategy, r.B.Strategy)
	return k.String()
}

func (r *RowChanges) rounds() string {
	if r.RoundsA == r.RoundsB {
		return counted(r.RoundsA, "round")
	}
	return fmt.Sprintf("%d and %d rounds", r.RoundsA, r.RoundsB)
}

// span returns the interval of the change as text.
func (c *Change) span() string {
	if c.Lo == nil {
		return ""
	}
	return percent(c.Lo) + " .. " + percent(c.Hi)
}

// String returns the summary in a sentence or two.
func (s *Summary) String() string {
	var parts []string
	for _, p := range []struct {
		n      int
		name   string
		always bool
	}{{s.Better, "better", true}, {s.Worse, "worse", true}, {s.Mixed, "mixed", false}, {s.Changed, "changed", false},
		{s.Unchanged, "unchanged", true}, {s.Undecided, "undecided", true}} {
		if p.always || p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.name))
		}
	}
	text := fmt.Sprintf("%s: %s", counted(s.Rows, "row"), strings.Join(parts, ", "))
	if s.MoreRounds > 0 {
		text += fmt.Sprintf("; %s of A and B for the verdict at %d", counted(s.MoreRounds, "more round"), s.NextLook)
	}
	return text
}

// percent returns a share as a percentage with its sign, in at most nine characters; nil means a rise from 0.
func percent(share *float64) string {
	if share == nil {
		return "from 0"
	}
	p := *share * 100
	switch {
	case math.Abs(p) < 0.05:
		return "0.0%"
	case math.Abs(p) < 10_000:
		return fmt.Sprintf("%+.1f%%", p)
	}
	return fmt.Sprintf("%+.0e%%", p)
}

// number returns a value in at most ten characters: four digits, or more of an integer.
func number(v float64) string {
	if v < 1e7 && v == math.Trunc(v) {
		return thousands(uint64(v))
	}
	whole, unit := v, ""
	for _, u := range []string{"k", "M", "G", "T", "P", "E"} {
		if v < 999.95 || unit == "" && v < 9999.5 {
			break
		}
		v, unit = v/1000, u
	}
	if v >= 999.95 && unit != "" {
		return fmt.Sprintf("%.2e", whole)
	}
	if v != 0 && v < 0.001 {
		return fmt.Sprintf("%.2e", v)
	}
	digits := 3
	for limit := 9.9995; digits > 0 && v >= limit; limit *= 10 {
		digits--
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + unit
}

// thousands returns an integer with commas.
func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// cut shortens a text to most characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

func printable(s string) bool {
	for _, c := range s {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return false
		}
	}
	return true
}
