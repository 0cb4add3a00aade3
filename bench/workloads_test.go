package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"bigset/bench/run"
	"bigset/bench/system"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit/tier"
)

// asProgram is the environment variable that makes the test binary be the program that the workload program runs.
const asProgram = "BIGSET_BENCH_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		if err := program(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	_ = os.Setenv(asProgram, "1") // for processes to come
	os.Exit(m.Run())
}

// program does: --dir DIR set add SET ELEMENT.
func program(args []string) error {
	if len(args) != 6 || !slices.Equal([]string{args[0], args[2], args[3]}, []string{"--dir", "set", "add"}) {
		return fmt.Errorf("called with %q", args)
	}
	s, err := engine.Open(args[1], &engine.Options{MustExist: true})
	if err != nil {
		return err
	}
	_, err = s.Add(context.Background(), []byte(args[4]), [][]byte{[]byte(args[5])}, bigset.WriteOptions{})
	return errors.Join(err, s.Close())
}

// tiny is a run that takes seconds.
func tiny(t *testing.T, workloads ...string) Config {
	t.Helper()
	return Config{Workloads: workloads, Elements: 600, Rounds: 1, Dir: t.TempDir(), Seed: 7, MemTableBytes: 1 << 20,
		Program: os.Args[0]}
}

func mustRun(t *testing.T, c Config) *Report {
	t.Helper()
	report, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if strings.HasPrefix(f.Name(), "bigset-bench-") {
			t.Errorf("left behind: %s", f.Name())
		}
	}
	return report
}

// wants are the rows of each workload at 600 elements: the part, the system, the strategy, elements and operations. Where
// a row is made, stores were counted and verified, and answers checked.
var wants = map[string][]string{
	"program": {"program bigset default 600 3"},
	"quorum-read": {"quorum-read/heap bigset default 60 0", "quorum-read/heap bigset default 600 0", "quorum-read/local bigset default 600 199800",
		"quorum-read bigset default 600 199800", "quorum-read/r3 bigset default 600 199800", "quorum-read/first bigset default 600 200"},
	"write-quorum": {"write-quorum bigset default 600 600", "write-quorum/local bigset default 600 600"},
	"anti-entropy": {"anti-entropy/newest bigset default 600 600", "anti-entropy/newest-copy bigset default 600 600",
		"anti-entropy/newest-restart bigset default 600 600",
		"anti-entropy/random bigset default 600 600", "anti-entropy/dead-copy bigset default 600 600"},
	"handoff": {"handoff bigset default 600 600", "handoff/ahead bigset default 600 600", "handoff pebble  600 600",
		"handoff/tables pebble  600 600", "handoff/batches pebble  600 600"},
	"bloom-hot":     {"bloom-hot/mark bigset default 600 600", "bloom-hot/hit bare  600 1800", "bloom-hot/miss-2 bigset default 600 1800"},
	"bloom-fpp":     {"bloom-fpp/full-0.0001 bigset default 600 100010", "bloom-fpp/ten-0.01 bigset default 600 100010"},
	"bloom-durable": {"bloom-durable pebble  576 576"},
	"bloom-flush":   {"bloom-flush bigset default 600 600"},
	"bloom-fault":   {"bloom-fault bigset default 600 20", "bloom-fault/first bigset default 600 20"},
	"bloom-many":    {"bloom-many bigset default 600 1", "bloom-many/heap bigset default 600 600"},
	"bloom-crowd":   {"bloom-crowd bigset default 600 600", "bloom-crowd/held bigset default 600 600"},
	"bloom-big":     {"bloom-big bigset default 600 20000", "bloom-big/heap bigset default 600 816389", "bloom-big pebble  600 20000"},
}

// Package run runs all files, in tests of its own; these are some of them. A push runs a sixth of the workloads.
func TestWorkloads(t *testing.T) {
	share := tier.ShareOf(t, 6, 6)
	for place, w := range Workloads() {
		if w.About == "" {
			t.Errorf("%s says nothing about itself", w.Name)
		}
		if workloadNamed(w.Name).file != nil && !slices.Contains([]string{"insert-batch", "queue", "drop"}, w.Name) {
			continue
		}
		if !share.Has(place) {
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			if w.Name != "bloom-hot" { // counts the allocations of the whole process
				t.Parallel()
			}
			report := mustRun(t, tiny(t, w.Name))
			var have []string
			for _, r := range report.Results {
				have = append(have, describe(r))
				if len(r.Rounds) != 1 || group(&r) != w.Name || r.System == system.NameBigset && r.Record == "" {
					t.Errorf("got row %+v", r)
				}
			}
			for _, want := range wants[w.Name] {
				if !slices.Contains(have, want) {
					t.Errorf("no row %q among\n%s", want, strings.Join(have, "\n"))
				}
			}
			if w.Name == "anti-entropy" {
				testMoved(t, report.Results)
			}
			testBloomFigures(t, report.Results)
			if file := workloadNamed(w.Name).file; file != nil {
				for _, row := range file.Rows() {
					if !slices.ContainsFunc(report.Results, func(r Row) bool { return r.Workload == row && r.System == system.NameBigset }) {
						t.Errorf("no row %s", row)
					}
				}
			}
			for _, v := range report.verdicts(w.Name) {
				if v.State == run.NoFigure && !v.Of.Smallest && !v.To.Smallest {
					t.Errorf("no figure: %s %s", v.Of.Row, v)
				}
			}
			var text bytes.Buffer
			if err := report.WriteTable(&text); err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", text.String())
		})
	}
}

// testMoved holds the bytes that anti-entropy counts to what must go over at least.
func testMoved(t *testing.T, rows []Row) {
	moved := map[string]uint64{}
	for _, r := range rows {
		if r.BytesMoved != nil {
			moved[strings.TrimPrefix(r.Workload, "anti-entropy/")] = *r.BytesMoved
		}
	}
	if moved["newest-copy"] < 600*system.ElementBytes/2 || moved["newest"] < system.ElementBytes || moved["newest"] >= moved["newest-copy"] ||
		moved["dead"] < moved["random"]+60 {
		t.Errorf("moved %v", moved)
	}
}

// testBloomFigures holds figures of bloom filters to what they can be: layers begin at a tenth of the configured probability, checks
// allocate nothing, and what was flushed was written, to the log and to a table.
func testBloomFigures(t *testing.T, rows []Row) {
	for _, r := range rows {
		share := r.Share != nil && strings.HasSuffix(r.Workload, "-0.01") && (*r.Share < 0.03 || *r.Share > 0.4)
		allocs := r.Allocs != nil && strings.HasPrefix(r.Workload, "bloom-hot/hit") && *r.Allocs > 0.1
		amp := r.Workload == "bloom-flush" && (r.WriteAmp == nil || *r.WriteAmp < 0.2 || *r.WriteAmp > 4)
		if share || allocs || amp {
			t.Errorf("%s: got figures %+v", r.Workload, r.Figures)
		}
	}
}

func describe(r Row) string {
	return strings.Join([]string{r.Workload, r.System, r.Strategy, number0(r.Elements), number0(int(r.Ops))}, " ")
}

func number0(n int) string { return strings.ReplaceAll(Thousands(uint64(n)), ",", "") }

func TestThousands(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
