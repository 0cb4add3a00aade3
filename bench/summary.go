package bench

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"bigset/bench/run"
	"bigset/bench/spec"
	"bigset/bench/system"
)

// summaryHead names the columns of the summary; the first, the third and the last are aligned to the left.
var summaryHead = []string{"workload", "ops/s", "measured", "spread", "in a word"}

// The size of the list of goals that were not met.
const (
	missedMax      = 6
	summaryColumns = 100
)

// folded breaks a text into lines of at most width characters, between words.
func folded(text string, width int) (lines []string) {
	for _, word := range strings.Fields(text) {
		if n := len(lines) - 1; n >= 0 && utf8.RuneCountInString(lines[n])+1+utf8.RuneCountInString(word) <= width {
			lines[n] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// WriteSummary writes the report for people on one screen: a line for each workload, with its main figure and its meaning in a word, then
// the goals that were not met, each with the reason.
func (r *Report) WriteSummary(w io.Writer) error {
	b := bufio.NewWriter(w)
	_, _ = fmt.Fprintf(b, "%s, %d cores. Medians of the rounds; the spread is the least and the greatest of one round.\n%s\n", r.Machine.CPU, r.Machine.Cores, r.builds())
	lines := [][]string{summaryHead}
	var open []verdict
	of := 0
	for _, group := range r.groups() {
		verdicts := r.verdicts(group)
		lines = append(lines, r.summarized(group, verdicts))
		verdicts = slices.DeleteFunc(verdicts, func(v verdict) bool { return v.Shown })
		of += len(verdicts)
		open = append(open, slices.DeleteFunc(verdicts, func(v verdict) bool { return v.State == run.Met })...)
	}
	widths := columnWidths(lines)
	for _, line := range lines {
		writeAligned(b, line, widths, 0, 2, 4)
	}
	_, _ = fmt.Fprintf(b, "\n%d of %d goals met", of-len(open), of)
	if len(open) > 0 {
		_, _ = fmt.Fprint(b, "; not met:")
	}
	_, _ = fmt.Fprintln(b)
	for _, v := range open[:min(len(open), missedMax)] {
		_, _ = fmt.Fprintf(b, "  %s\n", strings.Join(folded(v.Of.Row+": "+v.reason(), summaryColumns-4), "\n    "))
	}
	if more := len(open) - missedMax; more > 0 {
		_, _ = fmt.Fprintf(b, "  %d more: --details\n", more)
	}
	_, _ = fmt.Fprintln(b, "\nAll rows and goals: --details. What each workload does: docs/bench.md.")
	return b.Flush()
}

// builds names the builds that have measured rounds, if there are several.
func (r *Report) builds() string {
	if len(r.OtherBuilds) == 0 {
		return ""
	}
	return fmt.Sprintf("Rounds are of several builds of this program: %s; %s.\n", r.Machine.Build, strings.Join(r.OtherBuilds, "; "))
}

// groups returns the names of the workloads with rows, in their order.
func (r *Report) groups() []string {
	var names []string
	for i := range r.Results {
		if name := group(&r.Results[i]); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// verdicts judges all goals of a workload.
func (r *Report) verdicts(workload string) []verdict {
	w := workloadNamed(workload)
	if w == nil {
		return nil
	}
	return judge(w.assertions(), r.Results, r.Config.Strategy)
}

// summarized returns the cells of a workload: its main verdict is that of the first goal, at the largest size.
func (r *Report) summarized(workload string, verdicts []verdict) []string {
	cells := make([]string, len(summaryHead))
	cells[0] = workload
	if row := r.mainRow(workload); row != nil && row.OpsPerSecond > 0 {
		cells[1] = Thousands(uint64(row.OpsPerSecond + 0.5))
	}
	var head verdict
	for _, v := range verdicts {
		if v.State != run.NoFigure && (head.State == "" || v.Means == head.Means && v.Of == head.Of) {
			head = v
		}
	}
	if head.State != "" {
		cells[2], cells[3], cells[4] = head.number(head.Value)+" "+head.Means, head.spread(), head.inAWord()
	}
	return cells
}

// mainRow returns the row with the workload's name only, on the engine, at the largest size, or nil.
func (r *Report) mainRow(workload string) (best *Row) {
	for i := range r.Results {
		row := &r.Results[i]
		if row.Workload == workload && row.System == system.NameBigset && (row.Strategy == r.Config.Strategy || row.Strategy == "") &&
			(best == nil || row.Elements > best.Elements) {
			best = row
		}
	}
	return best
}

// inAWord returns the meaning of a figure for a reader who does not know the goal.
func (v verdict) inAWord() string {
	r := v.Value
	switch {
	case v.To == (spec.Ref{}):
		return v.besideLimit()
	case v.To.System == spec.Pebble && !v.AtMost && r > 1.05:
		return "faster than raw"
	case v.To.System == spec.Pebble && !v.AtMost && r >= 0.97:
		return "at the limit"
	case v.To.System == spec.Pebble && !v.AtMost && r >= 0.7:
		return "near the limit"
	case v.To.System == spec.Pebble && !v.AtMost && r >= 0.5:
		return "over half the limit"
	case v.To.System == spec.Pebble && !v.AtMost:
		return "under half the limit"
	case !v.AtMost && r < 0.95:
		return "slower"
	case !v.AtMost && r <= 1.05:
		return "as fast"
	case !v.AtMost:
		return "faster"
	case r < 0.67:
		return number(1/max(r, 0.001)) + " times less"
	case r < 0.95:
		return "less"
	case r <= 1.05:
		return "the same"
	case r < 2:
		return "less than twice"
	}
	return number(r) + " times"
}

// besideLimit returns what a figure that stands alone means: whether it is within its limit.
func (v verdict) besideLimit() string {
	limit, met := v.number(v.Limit), v.State == run.Met
	switch {
	case v.Shown:
		return ""
	case v.AtMost && met:
		return "within " + limit
	case v.AtMost:
		return "over " + limit
	case met:
		return "at least " + limit
	}
	return "under " + limit
}

// reason returns the result of a missed goal and its cause: noise, if the rounds straddle the goal, or what is known of the load.
func (v verdict) reason() string {
	sign := "at least"
	if v.AtMost {
		sign = "at most"
	}
	if v.State == run.NoFigure {
		return fmt.Sprintf("%s: no figure; the goal is %s %s", v.Means, sign, v.number(v.Limit))
	}
	text := fmt.Sprintf("%s %s, goal %s %s: ", v.number(v.Value), v.Means, sign, v.number(v.Limit))
	if v.AtMost && v.Low <= v.Limit || !v.AtMost && v.High >= v.Limit { // some rounds met it
		return text + "unclear, rounds reach over it (" + v.spread() + ")"
	}
	return text + cmp.Or(v.Why, "missed")
}
