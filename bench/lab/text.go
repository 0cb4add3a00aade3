package lab

import (
	"fmt"
	"io"
	"math"
	"strconv"

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

// steadyShare is how far from their median the speeds of steady rounds may be.
const steadyShare = 0.1

// spread returns how far the speeds of a row's rounds are from their median at most, as a share of it, and whether there are rounds enough to say so.
func spread(row *bench.Row) (share float64, known bool) {
	if len(row.Rounds) < 3 || row.OpsPerSecond == 0 {
		return 0, false
	}
	for _, f := range row.Rounds {
		share = max(share, math.Abs(f.OpsPerSecond-row.OpsPerSecond)/row.OpsPerSecond)
	}
	return share, true
}

// rounds says how far the rounds of a row agree.
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

// word says what came of an assertion.
func (v Verdict) word() string {
	switch {
	case v.State == run.Met && v.Unclear():
		return "met, but not in all rounds"
	case v.Unclear():
		return "unclear: rounds reach over the limit"
	}
	return string(v.State)
}

// text is a verdict in a line.
func (v Verdict) text() string {
	sign := "at least"
	if v.AtMost {
		sign = "at most"
	}
	what := v.That
	if v.Means != "" {
		what = v.Means
	}
	at := ""
	if v.Elements > 0 {
		at = " (" + bench.Thousands(uint64(v.Elements)) + ")"
	}
	number := func(x float64) string { return bench.Amount(v.unit, x, number) }
	if v.State == run.NoFigure {
		return fmt.Sprintf("%s%s: no figure, wanted %s %s", what, at, sign, number(v.Limit))
	}
	return fmt.Sprintf("%s%s: %s (%s..%s), wanted %s %s: %s", what, at, number(v.Value), number(v.Low), number(v.High), sign, number(v.Limit), v.word())
}

// number writes a figure with as many digits as say something.
func number(v float64) string {
	if v >= 1000 {
		return bench.Thousands(uint64(v + 0.5))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// WriteText writes the result for people: a line for each row, then the assertions.
func (r *Result) WriteText(w io.Writer) error {
	lines := [][]string{tableHead}
	for i := range r.Results {
		lines = append(lines, cells(&r.Results[i]))
	}
	if err := bench.WriteColumns(w, lines, 0, 1, len(tableHead)-1); err != nil {
		return err
	}
	name := ""
	for _, v := range r.Verdicts {
		if v.Workload != name {
			name = v.Workload
			if _, err := fmt.Fprintf(w, "\n%s:\n", name); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "  %s\n", v.text()); err != nil {
			return err
		}
	}
	return nil
}
