package bench

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report is what a run has measured.
type Report struct {
	Machine Machine `json:"machine"`
	Config  Config  `json:"config"`
	Results []Row   `json:"results"`

	// Unfinished are the rounds of a workload that the run was in the middle of; nil when there is none.
	Unfinished *Unfinished `json:"unfinished,omitempty"`
}

// Unfinished is a workload of which some rounds are done.
type Unfinished struct {
	Workload   string   `json:"workload"`
	Done       int      `json:"rounds_done"`
	Rows       []Row    `json:"rows"`       // with these rounds
	Histograms []string `json:"histograms"` // latencies of each row, encoded as HdrHistogram does
}

// Machine says where it was measured.
type Machine struct {
	CPU   string `json:"cpu"` // model
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Go    string `json:"go"`
}

// Row is one load on one system: the medians of its rounds, each figure by itself, and the rounds.
type Row struct {
	Workload string `json:"workload"` // a part of one is "contains/hit"
	System   string `json:"system"`   // bigset, pebble or blob
	Record   string `json:"record,omitempty"`
	Strategy string `json:"strategy,omitempty"`
	Elements int    `json:"elements"` // of the set
	Figures
	Rounds []Figures `json:"rounds"`
}

// Figures are what is measured of a load. Those that it has no figure for are nil. Sizes are bytes.
type Figures struct {
	Ops          uint64  `json:"ops,omitzero"`
	OpsPerSecond float64 `json:"ops_per_s,omitzero"`

	CPUMicros *float64 `json:"cpu_us_per_op,omitempty"` // of the whole process, background work with it
	P50       *float64 `json:"p50_us,omitempty"`
	P99       *float64 `json:"p99_us,omitempty"`
	P999      *float64 `json:"p999_us,omitempty"`

	BytesWritten *uint64 `json:"bytes_written,omitempty"` // log, flushes, compactions and rewriter together
	BytesWAL     *uint64 `json:"bytes_wal,omitempty"`
	BytesFlush   *uint64 `json:"bytes_flush,omitempty"`
	BytesCompact *uint64 `json:"bytes_compact,omitempty"`
	BytesRewrite *uint64 `json:"bytes_rewrite,omitempty"`
	BytesRead    *uint64 `json:"bytes_read,omitempty"`    // by compactions
	BytesOnDisk  *uint64 `json:"bytes_on_disk,omitempty"` // tables in use, at the end
	BytesPeak    *uint64 `json:"bytes_peak,omitempty"`    // most bytes of tables at a time, in use or not
	BytesLive    *uint64 `json:"bytes_live,omitempty"`    // tables of a fresh load of what is live at the end
	BytesMoved   *uint64 `json:"bytes_moved,omitempty"`   // from replica to replica, in both directions

	// WriteAmp is how many bytes were written for each byte of the elements that the operations named.
	WriteAmp  *float64 `json:"write_amp,omitempty"`
	KeysLive  *uint64  `json:"keys_live,omitempty"` // live dots
	KeysDead  *uint64  `json:"keys_dead,omitempty"` // keys in tables beyond those
	HeapBytes *uint64  `json:"heap_bytes,omitempty"`

	MBPerSecond *float64 `json:"mb_per_s,omitempty"` // millions of bytes of keys and values

	Kept *float64 `json:"kept,omitempty"` // speed beside that of the same load on a store that is nearly empty

	Allocs *float64 `json:"allocs_per_op,omitempty"` // objects on the heap
	Share  *float64 `json:"share,omitempty"`         // of false positives, of the configured probability

	Errors   *uint64 `json:"errors,omitempty"`    // operations that failed, of a load that goes on
	RSSBytes *uint64 `json:"rss_bytes,omitempty"` // of a process, in memory
}

// floats and counts list the figures of which medians are taken.
func (f *Figures) floats() []**float64 {
	return []**float64{&f.CPUMicros, &f.P50, &f.P99, &f.P999, &f.WriteAmp, &f.MBPerSecond, &f.Kept, &f.Allocs, &f.Share}
}

func (f *Figures) counts() []**uint64 {
	return []**uint64{&f.BytesWritten, &f.BytesWAL, &f.BytesFlush, &f.BytesCompact, &f.BytesRewrite, &f.BytesRead,
		&f.BytesOnDisk, &f.BytesPeak, &f.BytesLive, &f.BytesMoved, &f.KeysLive, &f.KeysDead, &f.HeapBytes, &f.Errors, &f.RSSBytes}
}

// medians returns the median of each figure over the rounds that have it.
func medians(rounds []Figures) (m Figures) {
	var ops []uint64
	var speeds []float64
	for _, r := range rounds {
		ops, speeds = append(ops, r.Ops), append(speeds, r.OpsPerSecond)
	}
	m.Ops, m.OpsPerSecond = median(ops), median(speeds)
	for i, to := range m.floats() {
		*to = medianOf(rounds, func(f *Figures) *float64 { return *f.floats()[i] })
	}
	for i, to := range m.counts() {
		*to = medianOf(rounds, func(f *Figures) *uint64 { return *f.counts()[i] })
	}
	return m
}

func medianOf[T cmp.Ordered](rounds []Figures, figure func(*Figures) *T) *T {
	var have []T
	for i := range rounds {
		if v := figure(&rounds[i]); v != nil {
			have = append(have, *v)
		}
	}
	if len(have) == 0 {
		return nil
	}
	return new(median(have))
}

// median returns the middle value, of an even number the lower one: it is one that was measured.
func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// collector gathers the figures of the rounds of one step.
type collector struct{ list []*collected }

type collected struct {
	row  Row
	hist *hdrhistogram.Histogram // of all rounds
}

// add takes the figures of one round. Its row is known by workload, system, record, strategy and elements.
func (c *collector) add(row Row, f Figures, hist *hdrhistogram.Histogram) {
	for _, g := range c.list {
		r := &g.row
		if r.Workload == row.Workload && r.System == row.System && r.Record == row.Record &&
			r.Strategy == row.Strategy && r.Elements == row.Elements {
			r.Rounds = append(r.Rounds, f)
			if hist != nil {
				g.hist.Merge(hist)
			}
			return
		}
	}
	row.Rounds = []Figures{f}
	if hist == nil {
		hist = newHistogram()
	}
	c.list = append(c.list, &collected{row, hist})
}

// unfinished returns what was gathered in some rounds of a workload, for collect.
func (c *collector) unfinished(workload string, done int) (*Unfinished, error) {
	u := &Unfinished{Workload: workload, Done: done}
	for _, g := range c.list {
		hist, err := g.hist.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
		u.Rows, u.Histograms = append(u.Rows, g.row), append(u.Histograms, string(hist))
	}
	return u, nil
}

// collect inverts unfinished.
func (u *Unfinished) collect() (c collector, err error) {
	if len(u.Rows) != len(u.Histograms) {
		return c, fmt.Errorf("bench: %d rows of %s with %d histograms", len(u.Rows), u.Workload, len(u.Histograms))
	}
	for i, row := range u.Rows {
		hist, err := hdrhistogram.Decode([]byte(u.Histograms[i]))
		if err != nil {
			return c, fmt.Errorf("bench: histogram of %s: %w", row.Workload, err)
		}
		c.list = append(c.list, &collected{row, hist})
	}
	return c, nil
}

// rows returns what was gathered. Percentiles are those of all rounds together.
func (c *collector) rows() []Row {
	var rows []Row
	for _, g := range c.list {
		r := g.row
		r.Figures = medians(r.Rounds)
		r.latencies(g.hist)
		rows = append(rows, r)
	}
	return rows
}

// startReport returns an empty report, or what the run's file holds already.
func startReport(c Config) (*Report, error) {
	fresh := &Report{Machine: ThisMachine(), Config: c, Results: []Row{}}
	if c.Out == "" {
		return fresh, nil
	}
	text, err := os.ReadFile(c.Out)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	old := &Report{}
	if err := json.Unmarshal(text, old); err != nil {
		return nil, fmt.Errorf("bench: %s is no report, remove it or name another file: %w", c.Out, err)
	}
	if !old.Config.sameRun(c) || old.Machine.CPU != fresh.Machine.CPU || old.Machine.Cores != fresh.Machine.Cores {
		return nil, fmt.Errorf("bench: %s is of a run with other options or on another machine: remove it or name another file", c.Out)
	}
	old.Config = c
	return old, nil
}

// has reports whether the rows of a workload are there: they come all together.
func (r *Report) has(workload string) bool {
	return slices.ContainsFunc(r.Results, func(row Row) bool { return row.group() == workload })
}

// group is the name of the workload that a row belongs to.
func (r *Row) group() string {
	name, _, _ := strings.Cut(r.Workload, "/")
	return name
}

// take adds the rows of a finished step and writes the report to the run's file, if it has one.
func (r *Report) take(rows []Row, out string) error {
	r.Results, r.Unfinished = append(r.Results, rows...), nil
	return r.keep(out)
}

// keep writes the report to the run's file, if it has one.
func (r *Report) keep(out string) error {
	if out == "" {
		return nil
	}
	if err := r.save(out); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// save writes the report to a file, all of it or, after a crash, what was there before.
func (r *Report) save(path string) (err error) {
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	err = r.WriteJSON(f)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return errors.Join(err, os.Remove(path+".tmp"))
	}
	return os.Rename(path+".tmp", path)
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteGoBench writes the report as Go benchmark results, a line for each round of each row, as benchstat reads them.
func (r *Report) WriteGoBench(w io.Writer) error {
	b := bufio.NewWriter(w)
	_, _ = fmt.Fprintf(b, "goos: %s\ngoarch: %s\npkg: bigset/bench\ncpu: %s\n", r.Machine.OS, r.Machine.Arch, r.Machine.CPU)
	for _, row := range r.Results {
		name := goBenchName(row, r.Machine.Cores)
		for _, f := range row.Rounds {
			if f.OpsPerSecond == 0 { // no load, only something counted
				continue
			}
			_, _ = fmt.Fprintf(b, "%s\t%8d\t%12.1f ns/op%s\n", name, f.Ops, 1e9/f.OpsPerSecond, goBenchUnits(f))
		}
	}
	return b.Flush()
}

// goBenchName returns the name of a row's benchmark: BenchmarkContains/case=hit/system=bigset/elements=1000-2.
func goBenchName(r Row, cores int) string {
	group, part, isPart := strings.Cut(r.Workload, "/")
	b := &strings.Builder{}
	b.WriteString("Benchmark")
	for _, word := range strings.Split(group, "-") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	if isPart {
		b.WriteString("/case=" + strings.ReplaceAll(part, "/", "."))
	}
	b.WriteString("/system=" + r.System)
	if r.Strategy != "" {
		b.WriteString("/strategy=" + r.Strategy)
	}
	_, _ = fmt.Fprintf(b, "/elements=%d-%d", r.Elements, cores)
	return b.String()
}

// goBenchUnits returns the figures of a round beside its speed.
func goBenchUnits(f Figures) string {
	b := &strings.Builder{}
	for _, u := range []struct {
		value *float64
		scale float64
		unit  string
	}{{f.CPUMicros, 1000, "cpu-ns/op"}, {f.P50, 1000, "p50-ns"}, {f.P99, 1000, "p99-ns"}, {f.WriteAmp, 1, "write-amp"}} {
		if u.value != nil {
			_, _ = fmt.Fprintf(b, "\t%.6g %s", *u.value*u.scale, u.unit)
		}
	}
	if f.BytesWritten != nil {
		_, _ = fmt.Fprintf(b, "\t%d written-B", *f.BytesWritten)
	}
	if f.BytesMoved != nil {
		_, _ = fmt.Fprintf(b, "\t%d moved-B", *f.BytesMoved)
	}
	if f.MBPerSecond != nil {
		_, _ = fmt.Fprintf(b, "\t%.6g MB/s", *f.MBPerSecond)
	}
	if f.BytesOnDisk != nil {
		_, _ = fmt.Fprintf(b, "\t%d disk-B", *f.BytesOnDisk)
	}
	return b.String()
}

// ThisMachine describes the machine that the program runs on.
func ThisMachine() Machine {
	return Machine{CPU: cpuModel(), Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()}
}

// cpuModel returns the processor's name where the system tells it in /proc, else its architecture.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
