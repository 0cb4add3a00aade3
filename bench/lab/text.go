package lab

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"bigset/bench"
	"bigset/bench/run"
	"bigset/bench/screen"
)

// tableHead names the columns of a result.
var tableHead = []string{"workload", "system", "elements", "ops/s", "p50", "p99", "written", "write amp", "tables", "dead keys", "rounds"}

// cells returns the texts of a row.
func cells(row *bench.Row) []string {
	system := row.System
	if row.Strategy != "" {
		system += " " + row.Strategy
	}
	f := &row.Figures
	texts := []string{row.Workload, system, bench.Thousands(uint64(row.Elements)), "", micros(f.P50), micros(f.P99), size(f.BytesWritten), "", size(f.BytesOnDisk), "",
		rounds(row)}
	if f.OpsPerSecond > 0 {
		texts[3] = bench.Thousands(uint64(f.OpsPerSecond + 0.5))
	}
	if f.WriteAmp != nil {
		texts[7] = strconv.FormatFloat(*f.WriteAmp, 'f', 2, 64)
	}
	if f.KeysDead != nil {
		texts[9] = bench.Thousands(*f.KeysDead)
	}
	return texts
}

func micros(v *float64) string {
	if v == nil {
		return ""
	}
	if *v < 10 {
		return strconv.FormatFloat(*v, 'f', 1, 64) + " µs"
	}
	return screen.Micros(*v)
}

func size(v *uint64) string {
	if v == nil {
		return ""
	}
	return screen.Bytes(float64(*v))
}

// steadyShare is the largest deviation from their median that speeds of steady rounds may have.
const steadyShare = 0.1

// spread returns the largest deviation of a row's round speeds from their median, as a share of it, and whether there are enough rounds to
// tell.
func spread(row *bench.Row) (share float64, known bool) {
	if len(row.Rounds) < 3 || row.OpsPerSecond == 0 {
		return 0, false
	}
	for _, f := range row.Rounds {
		share = max(share, math.Abs(f.OpsPerSecond-row.OpsPerSecond)/row.OpsPerSecond)
	}
	return share, true
}

// rounds says how well the rounds of a row agree.
func rounds(row *bench.Row) string {
	share, known := spread(row)
	switch {
	case !known:
		return strconv.Itoa(len(row.Rounds))
	case share <= steadyShare:
		return fmt.Sprintf("%d, steady", len(row.Rounds))
	}
	return fmt.Sprintf("%d, ±%.0f %%", len(row.Rounds), 100*share)
}

// word returns the result of an assertion as text.
func (v Verdict) word() string {
	switch {
	case v.State == run.Met && v.Unclear():
		return "met, but not in all rounds"
	case v.Unclear():
		return "unclear: rounds reach over the limit"
	}
	return string(v.State)
}

// what returns the subject of an assertion.
func (v Verdict) what() string {
	what := cmp.Or(v.Means, v.That)
	if v.Elements > 0 {
		what += " (" + bench.Thousands(uint64(v.Elements)) + ")"
	}
	return what
}

// found returns the result: the value, the limit, a word and, after a miss, the known reason.
func (v Verdict) found() string {
	sign := "at least"
	if v.AtMost {
		sign = "at most"
	}
	number := func(x float64) string { return bench.Amount(v.unit, x, number) }
	if v.State == run.NoFigure {
		return fmt.Sprintf("no figure, wanted %s %s", sign, number(v.Limit))
	}
	text := fmt.Sprintf("%s (%s..%s), wanted %s %s: %s", number(v.Value), number(v.Low), number(v.High), sign, number(v.Limit), v.word())
	if v.State == run.Missed && !v.Unclear() && v.Why != "" {
		text += ": " + v.Why
	}
	return text
}

// notes are remarks on the rows: that some are missing, that rounds are of several builds, and which rates were not kept. Why rows are missing
// is said by the error of the run.
func (r *Result) notes() (list []string) {
	if r.Interrupted && len(r.Results) > 0 {
		list = append(list, "The run did not finish: these are the figures of what was done until then.")
	}
	if len(r.OtherBuilds) > 0 {
		list = append(list, "Some rounds were measured with other builds of this program: "+strings.Join(r.OtherBuilds, ", ")+".")
	}
	for i := range r.Results {
		row := &r.Results[i]
		if row.Late != nil && *row.Late > 0 {
			list = append(list, strings.Join(cells(row)[:2], ", ")+": "+late(*row.Late))
		}
	}
	return list
}

// late says what operations that were not begun mean.
func late(n uint64) string {
	what, them := bench.Thousands(n)+" operations were", "them"
	if n == 1 {
		what, them = "1 operation was", "it"
	}
	return what + " due and not begun when the phase ended: the rate was above what the system did, and its latencies do not include " + them + "."
}

// noRows is said in place of a table without rows.
const noRows = "No measured phase was finished, so there are no figures."

// writeRows writes the table, or that it would be empty.
func (r *Result) writeRows(w io.Writer) error {
	if len(r.Results) == 0 {
		_, err := fmt.Fprintln(w, noRows)
		return err
	}
	lines := [][]string{tableHead}
	for i := range r.Results {
		lines = append(lines, cells(&r.Results[i]))
	}
	return bench.WriteColumns(w, lines, 0, 1, len(tableHead)-1)
}

// number writes a figure with its significant digits.
func number(v float64) string {
	switch {
	case v >= 999.5:
		return bench.Thousands(uint64(v + 0.5))
	case v > 0 && v < 1e-4: // 'g' would write an exponent
		return strconv.FormatFloat(v, 'f', 2-int(math.Floor(math.Log10(v))), 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// WriteText writes the result for people: a line for each row, then the notes, then the assertions.
func (r *Result) WriteText(w io.Writer) error {
	if err := r.writeRows(w); err != nil {
		return err
	}
	for _, note := range r.notes() {
		if _, err := fmt.Fprintf(w, "\n%s", note); err != nil {
			return err
		}
	}
	if len(r.notes()) > 0 {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	name := ""
	for _, v := range r.Verdicts {
		if v.Workload != name {
			name = v.Workload
			if _, err := fmt.Fprintf(w, "\n%s:\n", name); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "  %s: %s\n", v.what(), v.found()); err != nil {
			return err
		}
	}
	return nil
}
