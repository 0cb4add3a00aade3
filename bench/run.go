package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"bigset/bench/run"
	"bigset/bench/spec"
	ready "bigset/bench/spec/workloads"
	"bigset/bench/system"
)

// Workload is a load that can be selected by its name.
type Workload struct {
	Name  string
	About string // one line
}

// workload is a Workload with the way to run it: a file or, for what a file can't express, code.
type workload struct {
	Workload
	small int // elements in a default run
	full  int // elements in a full run
	run   func(*env) error
	file  *spec.Workload
}

// ofFile returns the workload of a ready file. If it has several sizes, the last one is the one that a run may change.
func ofFile(name string) *workload {
	w, err := ready.Named(name)
	if err != nil {
		panic(err) // the files are part of the program
	}
	return &workload{Workload: Workload{w.Name, w.About}, small: w.Small[len(w.Small)-1], full: w.Full[len(w.Full)-1], file: w}
}

// workloads returns all workloads in the order in which they run. They are never changed. The files are read at the first call, which takes
// tens of milliseconds, so that a program that runs no workload starts without that.
var workloads = sync.OnceValue(func() []*workload {
	return []*workload{
		ofFile("insert"),
		ofFile("insert-observed"),
		ofFile("insert-concurrent"),
		ofFile("insert-batch"),
		ofFile("grow"),
		ofFile("remove"),
		ofFile("contains"),
		ofFile("read"),
		ofFile("range"),
		ofFile("filter"),
		ofFile("reclaim"),
		ofFile("churn"),
		ofFile("churn-young"),
		ofFile("queue"),
		ofFile("mixed"),
		ofFile("contexts"),
		ofFile("contexts-open"),
		ofFile("small-sets"),
		ofFile("small-sets-heap"),
		ofFile("small-sets-bounded"),
		ofFile("cold"),
		ofFile("cardinality"),
		ofFile("drop"),
		ofFile("checkpoint"),
		ofFile("recover"),
		{Workload: Workload{"program", "`bigset set add` of one element, process and all"}, small: 100_000, full: 10_000_000, run: byProgram},
		ofFile("clock"),
		{Workload: Workload{"quorum-read", "a full read at two of three replicas, beside a local one"}, small: 20_000, full: 1_000_000, run: quorumRead},
		{Workload: Workload{"write-quorum", "adds that two of three replicas have on disk, beside local ones"}, small: 2_000, full: 100_000, run: writeQuorum},
		{Workload: Workload{"anti-entropy", "two replicas that differ in a thousandth, beside a full copy"}, small: 20_000, full: 1_000_000, run: antiEntropy},
		{Workload: Workload{"handoff", "a set copied to an empty replica, beside raw Pebble"}, small: 50_000, full: 1_000_000, run: handOff},
		{Workload: Workload{"bloom-hot", "checks and marks of a bloom filter in memory, beside bare probes and hashes"}, small: 1_000_000, full: 1_000_000, run: bloomHot},
		{Workload: Workload{"bloom-durable", "64 goroutines mark keys, each durable before the answer, beside raw synced commits"}, small: 20_000, full: 1_000_000, run: bloomDurable},
		{Workload: Workload{"bloom-fpp", "false positives of a filter at its capacity and at ten times that"}, small: 20_000, full: 1_000_000, run: bloomFPP},
		{Workload: Workload{"bloom-flush", "bytes written for keys marked within one flush interval"}, small: 1_000_000, full: 1_000_000, run: bloomFlush},
		{Workload: Workload{"bloom-fault", "a closed filter until all of it is in memory"}, small: 1_000_000, full: 1_000_000, run: bloomFault},
		{Workload: Workload{"bloom-many", "many small filters: opening and listing them, and the heap of closed ones"}, small: 1_000, full: 10_000, run: bloomMany},
		{Workload: Workload{"bloom-crowd", "a key in each of many filters, a third of which fit into memory, beside the same where all do"}, small: 2_000, full: 10_000, run: bloomCrowd},
		{Workload: Workload{"bloom-big", "checks of filters ten times as large as what may be in memory"}, small: 4_000_000, full: 20_000_000, run: bloomBig},
	}
})

// onRequest are the workloads that run only if they are named, and in a full run. The others show in about a minute how the engine
// performs.
var onRequest = []string{"grow", "mixed", "contexts", "contexts-open", "small-sets", "small-sets-heap", "small-sets-bounded", "cold", "cardinality",
	"checkpoint", "recover", "program", "clock",
	"quorum-read", "write-quorum", "anti-entropy", "handoff",
	"bloom-hot", "bloom-durable", "bloom-fpp", "bloom-flush", "bloom-fault", "bloom-many", "bloom-crowd", "bloom-big"}

// BloomWorkloads returns the names of the workloads about bloom filters.
func BloomWorkloads() []string {
	return slices.DeleteFunc(workloadNames(), func(name string) bool { return !strings.HasPrefix(name, "bloom-") })
}

// Workloads lists the workloads in the order in which a run does them.
func Workloads() []Workload {
	list := make([]Workload, len(workloads()))
	for i, w := range workloads() {
		list[i] = w.Workload
	}
	return list
}

func workloadNames() []string {
	var names []string
	for _, w := range workloads() {
		names = append(names, w.Name)
	}
	return names
}

func workloadNamed(name string) *workload {
	for _, w := range workloads() {
		if w.Name == name {
			return w
		}
	}
	return nil
}

// size returns the elements of a workload's sets.
func (w *workload) size(c Config) int {
	switch {
	case c.Elements > 0:
		return c.Elements
	case c.Full:
		return w.full
	}
	return w.small
}

// Run measures and returns a report. If it ends early, because ctx is done or something failed, it returns the error and a report of what
// was finished. Its temporary folder is always removed.
func Run(ctx context.Context, c Config) (_ *Report, err error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	report, err := StartReport(c)
	if err != nil {
		return nil, err
	}
	root, err := os.MkdirTemp(place(c.Dir), "bigset-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench: temporary folder: %w", err)
	}
	defer func() {
		if e := os.RemoveAll(root); e != nil && err == nil {
			err = fmt.Errorf("bench: %w", e)
		}
	}()
	r := &runner{ctx: ctx, cfg: c, root: root, began: time.Now(), report: report}
	chosen, err := c.chosen()
	if err != nil {
		return nil, err
	}
	for i, w := range chosen {
		r.place = fmt.Sprintf("%d/%d", i+1, len(chosen))
		if err = r.step(w); err != nil {
			return report, err
		}
	}
	return report, err
}

// runner runs steps.
type runner struct {
	ctx    context.Context
	cfg    Config
	root   string
	began  time.Time
	place  string // number of the step among all
	report *Report
}

func (r *runner) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.cfg.Progress, "%6.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// step runs all rounds of one workload and adds its rows to the report.
func (r *runner) step(w *workload) error {
	n := w.size(r.cfg)
	begun, complete, err := r.report.Begun(w.Name, r.asked(w), r.cfg.Full)
	switch {
	case err != nil:
		return err
	case complete:
		r.say("%s %s: measured already", r.place, w.Name)
		return nil
	case w.file != nil:
		return r.stepFile(w, n, begun)
	}
	var rows collector
	rounds, done := run.Rounds(r.cfg.Rounds, r.cfg.Full, n), 0
	if begun != nil {
		if rows, err = begun.Collect(); err != nil {
			return err
		}
		done = begun.Done
	}
	for i := done; i < rounds; i++ {
		r.say("%s %s: %d elements, round %d of %d", r.place, w.Name, n, i+1, rounds)
		e := &env{ctx: r.ctx, cfg: r.cfg, elements: n, round: i, root: r.root, rows: &rows, say: r.say}
		if err := w.run(e); err != nil {
			return fmt.Errorf("bench: %s, round %d: %w", w.Name, i+1, err)
		}
		if err := r.keepRound(&rows, w.Name, i+1); err != nil {
			return err
		}
	}
	return r.report.Take(rows.Rows(), r.cfg.Out)
}

// asked returns the number of rounds that a run is asked for; 0 means the usual one.
func (r *runner) asked(w *workload) int {
	if w.Name == "mixed" && r.cfg.Rounds == 0 && !r.cfg.Full {
		return 1 // its duration is fixed
	}
	return r.cfg.Rounds
}

// stepFile runs all rounds of the workload of a file, after those that an earlier run has finished.
func (r *runner) stepFile(w *workload, n int, begun *Unfinished) error {
	sizes := w.file.Small
	if r.cfg.Full {
		sizes = w.file.Full
	}
	sizes = append(slices.DeleteFunc(slices.Clone(sizes[:len(sizes)-1]), func(small int) bool { return small >= n }), n)
	o := run.Options{
		Seed: r.cfg.Seed, Full: r.cfg.Full, Sizes: sizes, Rounds: r.asked(w), Unfinished: begun, Strategy: r.cfg.Strategy, Sync: r.cfg.Sync, Dir: r.root,
		MemTableBytes: r.cfg.MemTableBytes, CacheBytes: r.cfg.CacheBytes, Progress: func(s string) { r.say("%s %s", r.place, s) },
	}
	if r.cfg.Out != "" {
		o.Keep = func(u *Unfinished) error { return r.report.KeepRounds(u, r.cfg.Out) }
	}
	rows, err := run.Run(r.ctx, w.file, o)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	freshLoads(w.file, rows)
	return r.report.Take(rows, r.cfg.Out)
}

// freshLoads sets in the main rows of a file the size of the tables of a fresh load, if a phase makes one.
func freshLoads(w *spec.Workload, rows []Row) {
	for _, p := range w.Phases {
		if !slices.Contains(p.First, spec.StepFresh) {
			continue
		}
		for i := range rows {
			fresh := &rows[i]
			if fresh.Workload != sub(w.Name, p.Name) {
				continue
			}
			for k := range rows {
				if main := &rows[k]; main.Workload == w.Name && sameStore(main, fresh) {
					main.BytesLive = fresh.BytesOnDisk
					for n := range min(len(main.Rounds), len(fresh.Rounds)) {
						main.Rounds[n].BytesLive = fresh.Rounds[n].BytesOnDisk
					}
				}
			}
		}
	}
}

// sameStore reports whether two rows are of the same system.
func sameStore(a, b *Row) bool {
	return a.System == b.System && a.Record == b.Record && a.Strategy == b.Strategy && a.Elements == b.Elements
}

// keepRound saves the results of a round, for a run that continues where this one stops.
func (r *runner) keepRound(rows *collector, workload string, done int) error {
	if r.cfg.Out == "" {
		return nil
	}
	u, err := rows.Unfinished(workload, done)
	if err != nil {
		return err
	}
	return r.report.KeepRounds(u, r.cfg.Out)
}

// env is the environment of one round of one workload.
type env struct {
	ctx      context.Context
	cfg      Config
	elements int
	round    int // from 0
	root     string
	rows     *collector
	say      func(format string, args ...any)
	stores   int // folders made
}

// turns calls f for each of the systems, in an order that changes from round to round: each comes first and last in turn.
func (e *env) turns(list []contender, f func(c contender) error) error {
	order := slices.Clone(list)
	if e.round%2 == 1 {
		slices.Reverse(order)
	}
	shift := e.round / 2 % len(order)
	order = append(order[shift:], order[:shift]...)
	for _, c := range order {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		if err := f(c); err != nil {
			return fmt.Errorf("%s: %w", strings.TrimSpace(c.system+" "+c.strategy), err)
		}
	}
	return nil
}

// folder returns a new folder for a store.
func (e *env) folder() string {
	e.stores++
	return filepath.Join(e.root, fmt.Sprintf("%d-%d", e.round, e.stores))
}

// with opens a system on a fresh store, calls f and removes the store.
func (e *env) with(c contender, o system.Options, f func(system.System) error) error {
	dir := e.folder()
	return e.inFolder(dir, func() error { return e.opened(c, dir, o, f) })
}

// inFolder calls f and removes the folder.
func (e *env) inFolder(dir string, f func() error) (err error) {
	defer func() {
		if e := os.RemoveAll(dir); err == nil {
			err = e
		}
	}()
	return f()
}

// opened opens a system in a folder, calls f and closes it.
func (e *env) opened(c contender, dir string, o system.Options, f func(system.System) error) (err error) {
	sys, err := e.open(c, dir, o)
	if err != nil {
		return err
	}
	defer func() {
		if e := sys.Close(); err == nil {
			err = e
		}
	}()
	return f(sys)
}

// sub names a part of a workload: "contains/hit".
func sub(parts ...string) string { return strings.Join(parts, "/") }
