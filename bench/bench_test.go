package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bigset/bench/spec/parser"
	"bigset/bench/system"
)

// rowFields are the names of a row's fields; the first eight are not in rounds.
var rowFields = strings.Fields(`workload system record strategy elements rounds rounds_ended_ms histogram
	ops ops_per_s cpu_us_per_op p50_us p99_us p999_us bytes_written bytes_wal bytes_flush bytes_compact bytes_rewrite bytes_read
	bytes_on_disk bytes_peak bytes_live write_amp keys_live keys_dead heap_bytes kept bytes_moved mb_per_s allocs_per_op share
	stalls keys_tabled stream_hash`)

func TestJSONFields(t *testing.T) {
	t.Parallel()
	report := mustRun(t, tiny(t, "insert", "grow", "reclaim", "drop", "handoff", "bloom-hot", "bloom-fpp"))
	var text bytes.Buffer
	if err := report.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text.Bytes(), &object); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(object)); !slices.Equal(got, []string{"config", "machine", "results"}) {
		t.Errorf("got fields %v", got)
	}
	var rows []map[string]any
	if err := json.Unmarshal(object["results"], &rows); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, row := range rows {
		for name := range row {
			seen[name] = true
			if !slices.Contains(rowFields, name) {
				t.Errorf("a row has a field %q", name)
			}
		}
		for _, round := range row["rounds"].([]any) {
			for name := range round.(map[string]any) {
				if !slices.Contains(rowFields[8:], name) {
					t.Errorf("a round has a field %q", name)
				}
			}
		}
	}
	for _, name := range rowFields {
		if !seen[name] {
			t.Errorf("no row has a field %q", name)
		}
	}
}

// goBenchLine is what benchstat takes for a result: a name, a count, and pairs of value and unit.
var goBenchLine = regexp.MustCompile(`^Benchmark[A-Z][A-Za-z]*(/[a-z]+=[A-Za-z0-9.-]+)+-\d+\s+\d+(\s+[0-9.e+]+ [^\s]+)+$`)

func TestGoBenchLines(t *testing.T) {
	t.Parallel()
	c := tiny(t, "insert-batch", "remove")
	c.Rounds = 2
	report := mustRun(t, c)
	var text bytes.Buffer
	if err := report.WriteGoBench(&text); err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "Benchmark") {
			if key, _, ok := strings.Cut(line, ": "); !ok || !slices.Contains([]string{"goos", "goarch", "pkg", "cpu"}, key) {
				t.Errorf("got line %q", line)
			}
			continue
		}
		if !goBenchLine.MatchString(line) {
			t.Errorf("no benchmark line: %q", line)
		}
		names[strings.Fields(line)[0]]++
	}
	for name, n := range names {
		if n != c.Rounds {
			t.Errorf("%s: got %d lines, want one for each of %d rounds", name, n, c.Rounds)
		}
	}
	want := fmt.Sprintf("BenchmarkInsertBatch/system=bigset/strategy=default/elements=600-%d", report.Machine.Cores)
	if names[want] == 0 {
		t.Errorf("no lines of %s in\n%s", want, text.String())
	}
}

// resumeRounds stops a run before the last round of a workload, and lets another one go on there.
func resumeRounds(t *testing.T, c Config) {
	c.Out, c.Rounds, c.Workloads = filepath.Join(t.TempDir(), "rounds.json"), 3, []string{"insert"}
	ctx, cancel := context.WithCancel(context.Background())
	c.Progress = writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("round 3 of 3")) {
			cancel()
		}
		return len(p), nil
	})
	stopped, err := Run(ctx, c)
	if !errors.Is(err, context.Canceled) || stopped.Unfinished == nil || stopped.Unfinished.Done != 2 || len(stopped.Unfinished.Rows) == 0 {
		t.Fatalf("got %v, report %+v", err, stopped)
	}
	var progress bytes.Buffer
	c.Progress = &progress
	report := mustRun(t, c)
	if strings.Contains(progress.String(), "round 2") || !strings.Contains(progress.String(), "round 3") || report.Unfinished != nil {
		t.Errorf("did not go on where it was: %s", progress.String())
	}
	for _, was := range stopped.Unfinished.Rows {
		for _, row := range report.Results {
			if row.Workload == was.Workload && row.System == was.System &&
				(len(row.Rounds) != 3 || row.Rounds[0].OpsPerSecond != was.Rounds[0].OpsPerSecond || row.P99 == nil) {
				t.Errorf("%s of %s: rounds %+v, had %+v", row.Workload, row.System, row.Rounds, was.Rounds)
			}
		}
	}
}

func TestResume(t *testing.T) {
	c := tiny(t, "insert", "drop")
	c.Out = filepath.Join(t.TempDir(), "report.json")
	ctx, cancel := context.WithCancel(context.Background())
	c.Progress = writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("drop")) { // as if interrupted after the first workload
			cancel()
		}
		return len(p), nil
	})
	report, err := Run(ctx, c)
	if !errors.Is(err, context.Canceled) || report == nil || !report.Has("insert") || report.Has("drop") {
		t.Fatalf("got %v, report %+v", err, report)
	}
	first := report.Results[0].OpsPerSecond
	resumeRounds(t, c)
	var progress bytes.Buffer
	c.Progress = &progress
	report = mustRun(t, c)
	if !report.Has("drop") || report.Results[0].OpsPerSecond != first || !strings.Contains(progress.String(), "measured already") {
		t.Errorf("did not go on where it was: %s", progress.String())
	}
	rows := len(report.Results)
	if report = mustRun(t, c); len(report.Results) != rows {
		t.Errorf("got %d rows after nothing was left to do, want %d", len(report.Results), rows)
	}
	c.Seed++
	if _, err := Run(context.Background(), c); err == nil || !strings.Contains(err.Error(), c.Out) {
		t.Errorf("took rows of another seed: %v", err)
	}
	if err := os.WriteFile(c.Out, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), c); err == nil || !strings.Contains(err.Error(), c.Out) {
		t.Errorf("took a damaged file: %v", err)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestBadConfig(t *testing.T) {
	for _, c := range []Config{
		{Workloads: []string{"inserts"}}, {Elements: -1}, {Rounds: -1}, {Strategy: "best"}, {MemTableBytes: 1},
	} {
		if _, err := Run(context.Background(), c); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
	_, err := Run(context.Background(), Config{Workloads: []string{"inserts"}})
	for _, w := range Workloads() {
		if !strings.Contains(err.Error(), w.Name) {
			t.Errorf("%v: does not name %s", err, w.Name)
		}
	}
}

// TestStrategies runs a workload under each strategy that a run may have.
func TestStrategies(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"filter", "rewriter", "point-deletes", "none"} {
		c := tiny(t, "remove", "reclaim")
		c.Strategy = strategy
		report := mustRun(t, c)
		for _, r := range report.Results {
			if r.System == system.NameBigset && r.Strategy != strategy && r.Strategy != "point-deletes" {
				t.Errorf("%s: got a row of %s", strategy, r.Strategy)
			}
		}
	}
}

// TestSameBytes holds raw Pebble to what it is for: it writes what the engine writes.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	c := tiny(t, "insert", "insert-batch", "remove")
	c.Elements = 4000
	report := mustRun(t, c)
	for _, name := range []string{"insert", "insert-batch", "remove", "remove/insert"} {
		own, raw := rowOf(report.Results, name, system.NameBigset, c.Elements), rowOf(report.Results, name, system.NamePebble, c.Elements)
		slack := 0.02
		if name == "remove" { // a tombstone is written whole now and then
			slack = 0.25
		}
		if r := float64(*own.BytesWAL) / float64(*raw.BytesWAL); r < 1-slack || r > 1+slack {
			t.Errorf("%s: the engine's log is %.3f of raw Pebble's", name, r)
		}
		if name == "remove" { // hardly anything is flushed
			continue
		}
		if *own.BytesFlush > *raw.BytesFlush*11/10 || *raw.BytesFlush > *own.BytesFlush*11/10 {
			t.Errorf("%s: flushed %d bytes, raw Pebble %d", name, *own.BytesFlush, *raw.BytesFlush)
		}
	}
}

func TestPlanChurn(t *testing.T) {
	for _, young := range []float64{0, 0.9} {
		plan := planChurn(2000, young, 3)
		live := map[uint32]bool{}
		for i := range 2000 {
			live[uint32(i)] = true
		}
		next, removed := uint32(2000), 0
		for _, batch := range plan.victims {
			for _, v := range batch {
				if !live[v] {
					t.Fatalf("removes %d, which is not there", v)
				}
				delete(live, v)
				removed++
			}
			for range batch {
				live[next] = true
				next++
			}
		}
		if removed != turnovers*2000 || len(plan.live) != 2000 {
			t.Errorf("got %d removes, %d left", removed, len(plan.live))
		}
		for _, e := range plan.live {
			if !live[e] {
				t.Errorf("%d counts as live", e)
			}
		}
	}
}

func TestVerdict(t *testing.T) {
	of := Row{Workload: "x", System: system.NameBigset, Figures: Figures{OpsPerSecond: 90, P50: new(1500.0), HeapBytes: new(uint64(3 << 20))}, Rounds: []Figures{{OpsPerSecond: 80}, {OpsPerSecond: 95}}}
	to := Row{Workload: "x", System: system.NamePebble, Figures: Figures{OpsPerSecond: 100}, Rounds: []Figures{{OpsPerSecond: 100}, {OpsPerSecond: 100}}}
	list, err := parser.Goals("goals.yaml", []byte(`
x:
  - {that: "ops_per_s(main) / ops_per_s(main, pebble) >= 0.85", means: of raw}
  - {that: "ops_per_s(main) / ops_per_s(/x, pebble) >= 0.901", means: of raw}
  - {that: "cpu(main) / cpu(main, pebble) <= 1.15", means: CPU}
  - {that: "ops_per_s(main) / ops_per_s(main, pebble)", means: shown}
  - {that: p50(main) <= 1ms, means: latency}
  - {that: heap_bytes(main) <= 4MiB, means: heap}
`), []string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"of raw: 0.90 (0.80..0.95), goal >= 0.85: ok", "of raw: 0.900 (0.80..0.95), goal >= 0.90: MISSED", "CPU: no figure (goal <= 1.15)", "shown: 0.90 (0.80..0.95)",
		"latency: 1.5 ms (1.50..1.50), goal <= 1.0 ms: MISSED", "heap: 3.0 MiB (3.00..3.00), goal <= 4.0 MiB: ok",
	} {
		if got := judge(list["x"], []Row{of, to}, "")[i].String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if _, err := parser.Goals("goals.yaml", []byte("y:\n  - ops(main) >= 1\n"), []string{"x"}); !errors.Is(err, parser.ErrFile) {
		t.Errorf("goals of an unknown workload: %v", err)
	}
}
