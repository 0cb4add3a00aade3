package lab_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset/bench/compare"
	"bigset/bench/lab"
	"bigset/bench/run"
	"bigset/bench/sample"
	"bigset/bench/spec"
	"bigset/bench/spec/parser"
	"bigset/bench/spec/workloads"
)

// small returns a workload of a second or so.
func small(t *testing.T, text string) *spec.Workload {
	t.Helper()
	w, err := parser.Parse("small.yaml", []byte(text), parser.Known{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

const turnover = `
name: turnover
about: two turnovers of a small set
size: 1k
systems: [bigset, pebble]
strategies: [default, point-deletes]
phases:
  - {name: load, unmeasured: true, ops: 100%, mix: {add: 1}, batch: 100}
  - {name: main, ops: 400%, mix: {exchange: 1}, batch: 20, settle: true}
  - {name: read, duration: 200ms, roles: [{name: readers, clients: 2, rate: 400, mix: {hit: 3, range: 1}, limit: 10}]}
assert:
  - that: ops(main, bigset) <= 4000
    means: as many operations as asked for
  - that: bytes_written(main, bigset) <= 1
    means: hardly anything written
    why: nothing is kept without a log
`

// TestRun checks what a run leaves: rows, hashes, series of all systems, verdicts, a report that compare reads, and a page.
func TestRun(t *testing.T) {
	t.Parallel()
	ticks := 0
	o := lab.Options{Run: run.Options{MemTableBytes: 1 << 20, Rounds: 2, Dir: t.TempDir()}, Every: 20 * time.Millisecond, Watch: func(*sample.Tick) { ticks++ }}
	r, err := lab.Run(t.Context(), []*spec.Workload{small(t, turnover)}, o)
	if err != nil {
		t.Fatal(err)
	}
	hashes := map[string]bool{}
	for _, row := range r.Results {
		if row.Workload == "turnover" {
			hashes[row.StreamHash] = true
		}
		if len(row.Rounds) != 2 {
			t.Errorf("%s on %s: %d rounds", row.Workload, row.System, len(row.Rounds))
		}
	}
	if len(hashes) != 1 || hashes[""] {
		t.Errorf("hashes of the same operations: %v", hashes)
	}
	var names []string
	for _, s := range r.Series {
		names = append(names, s.Name)
		log, _, most := s.Values(sample.LogBytes)
		if s.Len() < 3 || !slices.ContainsFunc(append(log, most...), func(v float64) bool { return v > 0 }) || !s.Has("p99") || !s.Has("readers/p99") {
			t.Errorf("series %s: %d points, log %v", s.Name, s.Len(), log)
		}
	}
	slices.Sort(names)
	if want := []string{"turnover bigset default", "turnover bigset point-deletes", "turnover pebble"}; !slices.Equal(names, want) || ticks == 0 {
		t.Errorf("series %q, %d ticks", names, ticks)
	}
	if len(r.Verdicts) != 2 || r.Verdicts[0].State != run.Met || r.Verdicts[1].State != run.Missed || !slices.Equal(r.Missed(), []string{"turnover: bytes_written(main, bigset) <= 1"}) {
		t.Errorf("verdicts %+v", r.Verdicts)
	}
	testForms(t, r)
	testHour(t, r)
}

// testHour: the page of such a run that has one phase of an hour stays below 3 MB: each column of each system has a tick a second, of values that do
// not compress.
func testHour(t *testing.T, r *lab.Result) {
	hour := *r
	hour.Series = nil
	rng := rand.New(rand.NewPCG(1, 1))
	columns := 0
	for _, had := range r.Series {
		s := &sample.Series{Name: had.Name, Columns: had.Columns, Marks: had.Marks}
		values := make([]float64, len(s.Columns))
		for second := range 3600 {
			for i := range values {
				values[i] = 1e4 * (1 + rng.Float64())
			}
			s.Add(float64(second), values)
		}
		hour.Series = append(hour.Series, s)
		columns += len(s.Columns)
	}
	var page bytes.Buffer
	if err := hour.WritePage(&page); err != nil || page.Len() > 3e6 || page.Len() < 3e5 {
		t.Errorf("%v: the page of an hour of %d columns has %d bytes", err, columns, page.Len())
	}
	t.Logf("%d columns of %d systems, %d bytes", columns, len(hour.Series), page.Len())
}

// testForms checks the forms in which a result is written.
func testForms(t *testing.T, r *lab.Result) {
	var object, text, page bytes.Buffer
	if err := errors.Join(r.WriteJSON(&object), r.WriteText(&text), r.WritePage(&page)); err != nil {
		t.Fatal(err)
	}
	report, err := compare.Read(bytes.NewReader(object.Bytes()), "r.json")
	if err != nil || len(report.Rows) != len(r.Results) || report.Rows[0].Stream == "" {
		t.Errorf("compare reads %v, %v", report, err)
	}
	var again struct{ Series []*sample.Series }
	if err := json.Unmarshal(object.Bytes(), &again); err != nil || len(again.Series) != len(r.Series) || again.Series[0].Len() != r.Series[0].Len() {
		t.Errorf("series read back: %d, %v", len(again.Series), err)
	}
	for _, want := range []string{"turnover/read/readers", "bigset point-deletes", "as many operations as asked for (1,000): 4,000", ": missed: nothing is kept without a log"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	for _, want := range []string{"turnover", "Bytes written", "Shape of the store", "operations of turnover", "two turnovers of a small set", "FAIL", ": missed: nothing is kept without a log"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q on the page", want)
		}
	}
}

// TestInterrupted checks that an interrupt leaves what was finished, and that the run goes on from its file after the last finished round.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "r.json")
	ctx, cancel := context.WithCancel(t.Context())
	begun := 0
	o := lab.Options{Run: run.Options{MemTableBytes: 1 << 20, Rounds: 3, Dir: dir}, Out: out, Progress: func(string) {
		if begun++; begun == 5 { // in the second round, of three systems each
			cancel()
		}
	}}
	w := small(t, turnover)
	r, err := lab.Run(ctx, []*spec.Workload{w}, o)
	if !errors.Is(err, context.Canceled) || r == nil || !r.Interrupted || len(r.Results) == 0 || len(r.Results[0].Rounds) < 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	begun = 10
	r, err = lab.Run(t.Context(), []*spec.Workload{w}, o)
	if err != nil || len(r.Results[0].Rounds) != 3 || begun > 16 {
		t.Fatalf("%d runs of systems in the second attempt, %v", begun-10, err)
	}
	names := func(r *lab.Result) (list []string) {
		for _, s := range r.Series {
			list = append(list, fmt.Sprint(s.Name, s.Len()))
		}
		return list
	}
	had := names(r)
	r, err = lab.Run(t.Context(), []*spec.Workload{w}, o)
	if err != nil || begun > 16 || len(had) != 3 || !slices.Equal(names(r), had) {
		t.Errorf("%d runs of systems; series %v of a run that had ended, they were %v, %v", begun-10, names(r), had, err)
	}
	more := o
	more.Run.Rounds = 4
	testMoreRounds(t, w, r, more, &begun)
	more.Run.Seed = 4
	if _, err = lab.Run(t.Context(), []*spec.Workload{w}, more); err == nil || !strings.Contains(err.Error(), "--seed: none there, 4 now") {
		t.Errorf("other options: %v", err)
	}
	changed := small(t, strings.Replace(turnover, "batch: 20", "batch: 25", 1))
	if _, err = lab.Run(t.Context(), []*spec.Workload{changed}, o); err == nil || !strings.Contains(err.Error(), "workload files") {
		t.Errorf("a file that has changed went on from rows of the former one: %v", err)
	}
	if _, err = lab.Run(t.Context(), []*spec.Workload{w, changed}, lab.Options{}); !errors.Is(err, run.ErrOptions) {
		t.Errorf("two workloads of one name: %v", err)
	}
}

// testMoreRounds: a larger number of rounds adds to those of a finished run, a smaller one keeps them, and neither measures any of them again.
func testMoreRounds(t *testing.T, w *spec.Workload, was *lab.Result, o lab.Options, begun *int) {
	for _, rounds := range []int{4, 1} {
		*begun = 10
		o.Run.Rounds = rounds
		r, err := lab.Run(t.Context(), []*spec.Workload{w}, o)
		if err != nil || *begun != 10+3*(rounds/4) || r.Unfinished != nil || len(r.Results) != len(was.Results) || len(r.Verdicts) != len(was.Verdicts) {
			t.Fatalf("%d rounds: %d runs of systems, %v", rounds, *begun-10, err)
		}
		for i, row := range r.Results {
			if old := was.Results[i]; row.Workload != old.Workload || row.System != old.System || len(row.Rounds) != 4 || len(row.Ended) != 4 ||
				row.Rounds[2].OpsPerSecond != old.Rounds[2].OpsPerSecond || row.Ended[2] != old.Ended[2] || row.P99 == nil {
				t.Errorf("%d rounds: %s of %s has %d rounds, ended at %v, before at %v", rounds, row.Workload, row.System, len(row.Rounds), row.Ended, old.Ended)
			}
		}
	}
	was.Results[0].Histogram = ""
	if _, _, err := was.Begun(w.Name, 4, false); err == nil || !strings.Contains(err.Error(), "older build") {
		t.Errorf("rounds without latencies are added to: %v", err)
	}
}

// TestChecksAll: options that don't fit the second workload are refused before the first one runs, and a page names the seed of each file.
func TestChecksAll(t *testing.T) {
	t.Parallel()
	const text = "name: %s\nabout: a load\nsize: 100\nseed: 7\nphases:\n  - {name: main, ops: 100, mix: {%s: 1}}\n"
	first, second := small(t, fmt.Sprintf(text, "first", "add")), small(t, fmt.Sprintf(text, "second", "receive"))
	o := lab.Options{Run: run.Options{MemTableBytes: 1 << 20, Rounds: 1, Dir: t.TempDir(), Systems: []spec.System{spec.Pebble}}}
	o.Progress = func(line string) { t.Errorf("began: %s", line) }
	if r, err := lab.Run(t.Context(), []*spec.Workload{first, second}, o); r != nil || !errors.Is(err, run.ErrOptions) {
		t.Errorf("%v, %v", r, err)
	}
	o.Progress = nil
	r, err := lab.Run(t.Context(), []*spec.Workload{first}, o)
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := r.WritePage(&page); err != nil || !strings.Contains(page.String(), "seed of first") {
		t.Errorf("the page does not name the seed: %v", err)
	}
}

// TestOtherBuild: a run does not go on from rounds of another build, unless it is asked to; then the report names both.
func TestOtherBuild(t *testing.T) {
	t.Parallel()
	w := small(t, "name: builds\nabout: rounds of two builds\nsize: 100\nphases:\n  - {name: main, ops: 100%, mix: {add: 1}}\n")
	out := filepath.Join(t.TempDir(), "r.json")
	ctx, cancel := context.WithCancel(t.Context())
	begun := 0
	o := lab.Options{Run: run.Options{MemTableBytes: 1 << 20, Rounds: 2, Dir: t.TempDir()}, Out: out, Progress: func(string) {
		if begun++; begun == 2 {
			cancel()
		}
	}}
	r, err := lab.Run(ctx, []*spec.Workload{w}, o)
	if !errors.Is(err, context.Canceled) || r.Machine.Executable == "" || len(r.OtherBuilds) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	text, err := os.ReadFile(out)
	if err == nil {
		err = os.WriteFile(out, bytes.Replace(text, []byte(r.Machine.Executable), []byte("feedfeedfeedfeed"), 1), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lab.Run(t.Context(), []*spec.Workload{w}, o); err == nil || !strings.Contains(err.Error(), "feedfeedfeedfeed there") {
		t.Errorf("went on from another build: %v", err)
	}
	o.OtherBuild = true
	for range 2 { // the second finds all that it wants
		r, err = lab.Run(t.Context(), []*spec.Workload{w}, o)
		if err != nil || len(r.OtherBuilds) != 1 || r.Machine.Executable != "feedfeedfeedfeed" {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	var told bytes.Buffer
	if err := r.WriteText(&told); err != nil || !strings.Contains(told.String(), r.OtherBuilds[0]) {
		t.Errorf("%v, no %q in\n%s", err, r.OtherBuilds[0], told.String())
	}
}

// TestPlots: with two workloads each plot says in its name which it is of, and no two have a name.
func TestPlots(t *testing.T) {
	t.Parallel()
	var list []*spec.Workload
	for _, name := range []string{"one", "two"} {
		list = append(list, small(t, "name: "+name+"\nabout: a plot\nsize: 100\nphases:\n  - {name: main, ops: 100%, mix: {add: 1}}\n"))
	}
	r, err := lab.Run(t.Context(), list, lab.Options{Run: run.Options{MemTableBytes: 1 << 20, Rounds: 1, Dir: t.TempDir()}, Every: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, p := range r.Plots() {
		if word, _, _ := strings.Cut(p.Name, "-"); count[p.Name] > 0 || word != "one" && word != "two" {
			t.Errorf("a plot is named %s", p.Name)
		}
		count[p.Name]++
	}
	if len(count) < 10 {
		t.Errorf("%d plots", len(count))
	}
}

// TestOverSize checks that rows of several sizes are drawn over them, and those of one size are not.
func TestOverSize(t *testing.T) {
	t.Parallel()
	w, err := workloads.Named("flat")
	if err != nil {
		t.Fatal(err)
	}
	for sizes, want := range map[int]int{1: 0, 2: 2} {
		r, err := lab.Run(t.Context(), []*spec.Workload{w}, lab.Options{Run: run.Options{MemTableBytes: 1 << 20, Rounds: 1, Sizes: []int{100, 1000}[:sizes], Dir: t.TempDir()}})
		if err != nil {
			t.Fatal(err)
		}
		charts := 0
		for _, s := range r.Page().Sections {
			for _, c := range s.Charts {
				if c.LogX {
					charts++
					if len(c.Lines) != 2 || len(c.Lines[0].X) != 2 || c.Lines[0].X[1] != 1000 {
						t.Errorf("%s: %+v", c.Title, c.Lines)
					}
				}
			}
		}
		if charts != want {
			t.Errorf("%d charts over %d sizes, want %d", charts, sizes, want)
		}
	}
}

const ramp = `
name: ramp
about: a rate that rises
size: 2k
phases:
  - {name: load, unmeasured: true, ops: 100%, mix: {add: 1}}
  - {name: main, duration: 1s, mix: {hit: 1}, rate: {from: 100, to: 2000}}
`

// TestOverLoad checks that latency over load is drawn of the phase whose rate changes, and of no other.
func TestOverLoad(t *testing.T) {
	t.Parallel()
	w := small(t, ramp)
	for range 5 { // on a busy machine the phase may end before it was sampled
		r, err := lab.Run(t.Context(), []*spec.Workload{w}, lab.Options{Run: run.Options{MemTableBytes: 1 << 20, Rounds: 1, Dir: t.TempDir()}, Every: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range r.Page().Sections {
			if s.Title != "Latency over load" {
				continue
			}
			l := s.Charts[0].Lines[0]
			if len(l.X) == 0 || !slices.IsSorted(l.X) {
				t.Errorf("loads %v", l.X)
			}
			return
		}
	}
	t.Error("latency over load is not drawn")
}

// TestNoLoad has a phase whose rate changes that ended before it was sampled, and one that was interrupted before it began: their pages have no
// latency over load, and all else.
func TestNoLoad(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	early := lab.Options{Run: run.Options{MemTableBytes: 1 << 20, Rounds: 1, Dir: t.TempDir()}, Every: time.Millisecond, Watch: func(*sample.Tick) { cancel() }}
	brief := lab.Options{Run: run.Options{MemTableBytes: 1 << 20, Rounds: 1, Duration: 20 * time.Millisecond, Dir: t.TempDir()}, Every: time.Minute}
	for what, c := range map[string]struct {
		ctx context.Context
		o   lab.Options
	}{"early": {ctx, early}, "brief": {t.Context(), brief}} {
		r, err := lab.Run(c.ctx, []*spec.Workload{small(t, ramp)}, c.o)
		if r == nil || what == "brief" && err != nil || what == "early" && !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: %v, %v", what, r, err)
		}
		var page bytes.Buffer
		var text bytes.Buffer
		if err := r.WriteText(&text); err != nil || strings.Contains(text.String(), "The run did not finish") != (what == "early" && len(r.Results) > 0) {
			t.Errorf("%s: %v\n%s", what, err, text.String())
		}
		if strings.Contains(text.String(), "No measured phase was finished") != (len(r.Results) == 0) {
			t.Errorf("%s: %d rows\n%s", what, len(r.Results), text.String())
		}
		if err := r.WritePage(&page); err != nil || strings.Contains(page.String(), "no figures.") != (len(r.Results) == 0) || strings.Contains(page.String(), "Latency over load") || !strings.Contains(page.String(), "a rate that rises") {
			t.Errorf("%s: %v, a page of %d bytes", what, err, page.Len())
		}
	}
}

// TestNeverSampled: a run that is not sampled has figures, and neither ticks nor series.
func TestNeverSampled(t *testing.T) {
	t.Parallel()
	ticks := 0
	o := lab.Options{Run: run.Options{MemTableBytes: 1 << 20, Rounds: 1, Dir: t.TempDir()}, Every: -1, Watch: func(*sample.Tick) { ticks++ }}
	r, err := lab.Run(t.Context(), []*spec.Workload{small(t, "name: plain\nabout: adds\nsize: 10\nphases:\n  - {name: main, ops: 100%, mix: {add: 1}}\n")}, o)
	if err != nil || len(r.Results) != 1 || r.Results[0].OpsPerSecond <= 0 || len(r.Series) > 0 || ticks > 0 {
		t.Fatalf("%v; %+v, %d ticks", err, r, ticks)
	}
	text := &bytes.Buffer{}
	if err := errors.Join(r.WriteText(text), r.WritePage(io.Discard)); err != nil || len(r.Plots()) > 0 || !strings.Contains(text.String(), "plain") {
		t.Errorf("%v, %d plots\n%s", err, len(r.Plots()), text.String())
	}
}
