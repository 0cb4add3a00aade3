package bench

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"bigset/bench/result"
	"bigset/bench/run"
	"bigset/bench/spec"
	"bigset/bench/system"
)

// row returns a row whose rounds have these speeds.
func summaryRow(workload, sys string, speeds ...float64) Row {
	r := Row{Workload: workload, System: sys, Elements: 1000, Strategy: map[string]string{system.NameBigset: "default"}[sys]}
	for _, s := range speeds {
		r.Rounds = append(r.Rounds, Figures{Ops: 10, OpsPerSecond: s})
	}
	r.Figures = result.Medians(r.Rounds)
	return r
}

// TestSummary prints one line for each workload, and says of each goal that was not met why: noise, or the known reason.
func TestSummary(t *testing.T) {
	r := &Report{Machine: Machine{CPU: "a processor", Cores: 2}, Config: Config{}.withDefaults(), Results: []Row{
		summaryRow("insert", system.NameBigset, 80, 81, 82), summaryRow("insert", system.NamePebble, 100, 100, 100),
		summaryRow("insert-concurrent", system.NameBigset, 90, 91, 92), summaryRow("insert-concurrent", system.NamePebble, 100, 100, 100),
		summaryRow("insert-batch", system.NameBigset, 70, 79, 90), summaryRow("insert-batch", system.NamePebble, 100, 100, 100),
		summaryRow("remove", system.NameBigset, 200), summaryRow("remove/insert", system.NameBigset, 100),
		summaryRow("cardinality", system.NameBigset, 5), // none of its goals has a figure
	}}
	var b bytes.Buffer
	if err := r.WriteSummary(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"insert                81  0.81 of raw     0.80..0.82  near the limit\n",
		"insert-concurrent     91  0.91 of raw     0.90..0.92  near the limit\n",
		"insert-batch          79  0.79 of raw     0.70..0.90  near the limit\n",
		"remove               200  2.00 of insert  2.00..2.00  faster\n",
		"2 of 6 goals met; not met:\n",
		"  insert-concurrent: 0.91 of raw, goal at least 1.00: 64 goroutines wake for each sync",
		"  insert-batch: 0.79 of raw, goal at least 0.80: unclear, rounds reach over it (0.70..0.90)\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "  insert: ") || strings.Contains(text, "  remove: ") {
		t.Errorf("a goal that was met is among those that were not:\n%s", text)
	}
}

// TestInAWord: a figure has a meaning beside its limit, or beside the figure that it is compared with.
func TestInAWord(t *testing.T) {
	alone, raw, other := spec.Ref{}, spec.Ref{System: spec.Pebble}, spec.Ref{System: spec.Bigset}
	for _, c := range []struct {
		to     spec.Ref
		state  run.State
		atMost bool
		value  float64
		want   string
	}{
		{alone, run.Met, true, 548, "within 20 ms"}, {alone, run.Missed, true, 30_000, "over 20 ms"},
		{alone, run.Met, false, 30_000, "at least 20 ms"}, {alone, run.Missed, false, 548, "under 20 ms"},
		{raw, run.Met, false, 2.21, "faster than raw"}, {raw, run.Met, false, 1.05, "at the limit"}, {raw, run.Missed, false, 0.97, "at the limit"},
		{raw, run.Missed, false, 0.6, "over half the limit"}, {other, run.Met, false, 2.21, "faster"}, {other, run.Met, true, 0.5, "2.00 times less"},
	} {
		v := verdict{run.Verdict{Assertion: spec.Assertion{Of: spec.Ref{Figure: "p50_us"}, To: c.to, AtMost: c.atMost, Limit: 20_000}, State: c.state, Value: c.value}}
		if got := v.inAWord(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if got := (verdict{run.Verdict{Assertion: spec.Assertion{Shown: true}, State: run.Shown}}).inAWord(); got != "" {
		t.Errorf("a figure without a limit: %q", got)
	}
}

// TestSummaryFitsAScreen checks that a default run makes few and short lines, whatever its figures are.
func TestSummaryFitsAScreen(t *testing.T) {
	r := &Report{Machine: Machine{CPU: "a processor", Cores: 2}, Config: Config{}.withDefaults()}
	chosen, err := r.Config.chosen()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range chosen {
		if w.file != nil {
			for _, name := range w.file.Rows() {
				for _, sys := range w.file.Systems {
					row := summaryRow(name, string(sys), 1e6)
					row.Elements = 1_000_000
					r.Results = append(r.Results, row)
				}
			}
		}
	}
	var b bytes.Buffer
	if err := r.WriteSummary(&b); err != nil {
		t.Fatal(err)
	}
	table, missed, _ := strings.Cut(b.String(), " goals met")
	if n := strings.Count(missed, "\n"); n > 1+3*missedMax+3 || !strings.Contains(missed, " more: --details\n") {
		t.Errorf("%d lines of goals that were not met:%s", n, missed)
	}
	for line := range strings.Lines(missed) {
		if n := utf8.RuneCountInString(line) - 1; n > summaryColumns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if n := strings.Count(table, "\n"); n != len(chosen)+4 {
		t.Errorf("%d lines for %d workloads:\n%s", n, len(chosen), table)
	}
	for line := range strings.Lines(table) {
		if n := utf8.RuneCountInString(line); n > 104 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
