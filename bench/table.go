package bench

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"bigset/bench/run"
	"bigset/bench/system"
)

// tableHead names the columns; the first two are aligned to the left, numbers to the right.
var tableHead = []string{"workload", "system", "elements", "ops/s", "cpu µs", "p50 µs", "p99 µs", "write amp", "of raw", "spread"}

// WriteTable writes the report for people: a line for each row, with its speed relative to raw Pebble's, and under each workload its goals
// and their results.
func (r *Report) WriteTable(w io.Writer) error {
	b := bufio.NewWriter(w)
	_, _ = fmt.Fprintf(b, "%s, %d cores. Medians of the rounds; percentiles over all of them.\n%s\n", r.Machine.CPU, r.Machine.Cores, r.builds())
	lines := [][]string{tableHead}
	for i := range r.Results {
		lines = append(lines, r.cells(&r.Results[i]))
	}
	widths := columnWidths(lines)
	writeLine(b, lines[0], widths)
	for i := range r.Results {
		row := &r.Results[i]
		if !detail(row) {
			writeLine(b, lines[i+1], widths)
		}
		if i+1 == len(r.Results) || group(&r.Results[i+1]) != group(row) {
			r.writeGoals(b, group(row))
		}
	}
	return b.Flush()
}

// detail reports whether a row is only for the JSON: a part of a part, or a count, which goals sum up.
func detail(r *Row) bool { return strings.Count(r.Workload, "/") > 1 || r.OpsPerSecond == 0 }

func (r *Report) writeGoals(b *bufio.Writer, workload string) {
	for _, v := range r.verdicts(workload) {
		_, _ = fmt.Fprintf(b, "  -> %s (%s) %s\n", v.Of.Row, Thousands(uint64(v.Elements)), v)
	}
	_, _ = fmt.Fprintln(b)
}

// cells returns the texts of one row.
func (r *Report) cells(row *Row) []string {
	name := row.System
	if row.System == system.NameBigset && row.Strategy != "" && row.Strategy != r.Config.Strategy {
		name += " " + row.Strategy
	}
	cells := []string{row.Workload, name, Thousands(uint64(row.Elements)), Thousands(uint64(row.OpsPerSecond + 0.5)),
		figure(row.CPUMicros), figure(row.P50), figure(row.P99), figure(row.WriteAmp), "", ""}
	if row.System == system.NamePebble {
		return cells
	}
	if other := rowOf(r.Results, row.Workload, system.NamePebble, row.Elements); other != nil {
		if v := besides(row, other); v.State != run.NoFigure {
			cells[8], cells[9] = number(v.Value), v.spread()
		}
	}
	return cells
}

func figure(v *float64) string {
	if v == nil {
		return ""
	}
	return number(*v)
}

// Thousands returns a number in groups of three digits, for people.
func Thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func columnWidths(lines [][]string) []int {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

func writeLine(b *bufio.Writer, cells []string, widths []int) { writeAligned(b, cells, widths, 0, 1) }

// WriteColumns writes lines of cells as a table. The columns in left are aligned to the left, the others to the right.
func WriteColumns(w io.Writer, lines [][]string, left ...int) error {
	b, widths := bufio.NewWriter(w), columnWidths(lines)
	for _, line := range lines {
		writeAligned(b, line, widths, left...)
	}
	return b.Flush()
}

// writeAligned writes the cells of a line, as WriteColumns does.
func writeAligned(b *bufio.Writer, cells []string, widths []int, left ...int) {
	line := &strings.Builder{}
	for i, cell := range cells {
		if i > 0 {
			line.WriteString("  ")
		}
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if slices.Contains(left, i) {
			line.WriteString(cell + pad)
		} else {
			line.WriteString(pad + cell)
		}
	}
	_, _ = fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
}
