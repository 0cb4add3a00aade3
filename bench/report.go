package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"bigset/bench/report"
	"bigset/bench/result"
	"bigset/bench/run"
)

// ErrOut is returned for a Config.Out that a run can't continue.
var ErrOut = errors.New("bench: the run can't continue from this file")

// Report is the result of a run.
type Report struct {
	Machine Machine `json:"machine"`
	Config  Config  `json:"config"`
	Results []Row   `json:"results"`

	// OtherBuilds are the builds, other than Machine's, that measured some of the rounds.
	OtherBuilds []string `json:"other_builds,omitempty"`
	// Unfinished contains the rounds of the workload that was running when the run ended, or is nil.
	Unfinished *Unfinished `json:"unfinished,omitempty"`
	// Series is how runs of workload files developed over time, as packed by package sample; nil means none. This package only keeps it.
	Series json.RawMessage `json:"series,omitempty"`
}

// Machine is where the measurement was made.
type Machine struct {
	CPU   string `json:"cpu"` // model
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Go    string `json:"go"`
	Build        // of the program that measured
}

// Facts returns the description of the machine for a page.
func (m Machine) Facts() []report.Fact {
	return []report.Fact{{Name: "processor", Value: fmt.Sprintf("%s, %d cores", m.CPU, m.Cores)}, {Name: "system", Value: m.OS + "/" + m.Arch + ", " + m.Go},
		{Name: "build", Value: m.Build.String()}}
}

// StartReport returns an empty report, or the contents of the run's file, Config.Out.
func StartReport(c Config) (*Report, error) {
	fresh := &Report{Machine: ThisMachine(), Config: c, Results: []Row{}}
	if c.Out == "" {
		return fresh, nil
	}
	if err := Writable(filepath.Dir(c.Out)); err != nil {
		return nil, fmt.Errorf("bench: the folder of %s: %w", c.Out, err)
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
		return nil, fmt.Errorf("%w: %s is not a report: %w", ErrOut, c.Out, err)
	}
	if err := old.goesOn(fresh); err != nil {
		return nil, fmt.Errorf("%w: %s is of another run (%w)", ErrOut, c.Out, err)
	}
	old.Config = c
	return old, nil
}

// Writable returns an error if no file can be made in a folder. It is asked before work whose results go there.
func Writable(folder string) error {
	f, err := os.CreateTemp(folder, ".bigset-*")
	var path *fs.PathError
	if errors.As(err, &path) {
		return &fs.PathError{Op: "write", Path: folder, Err: path.Err} // without the drawn name
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// goesOn returns why rows of a run must not be added to a report that was kept.
func (r *Report) goesOn(now *Report) error {
	if what := r.Config.differs(now.Config); what != "" {
		return errors.New(what)
	}
	m, n := r.Machine, now.Machine
	if m.CPU != n.CPU || m.Cores != n.Cores || m.OS != n.OS || m.Arch != n.Arch {
		return fmt.Errorf("%s, %d cores, %s/%s there, %s, %d cores, %s/%s now", m.CPU, m.Cores, m.OS, m.Arch, n.CPU, n.Cores, n.OS, n.Arch)
	}
	if m.Build == n.Build || slices.Contains(r.OtherBuilds, n.Build.String()) {
		return nil
	}
	if !now.Config.OtherBuild {
		return fmt.Errorf("build %s there, %s now (--other-build accepts that)", m.Build, n.Build)
	}
	return nil
}

// NoteBuild adds the build of this program to those that have measured rows of the report. Take and Keep call it.
func (r *Report) NoteBuild() {
	if b := ThisBuild(); b != r.Machine.Build && !slices.Contains(r.OtherBuilds, b.String()) {
		r.OtherBuilds = append(r.OtherBuilds, b.String())
	}
}

// Has reports whether the report contains the rows of a workload. Take adds all of them at once.
func (r *Report) Has(workload string) bool {
	return slices.ContainsFunc(r.Results, func(row Row) bool { return group(&row) == workload })
}

// Begun returns the finished rounds of a workload that are to be continued, or nil, and whether all the rounds that a run is asked for are
// finished: rounds is 0 for the usual number.
func (r *Report) Begun(workload string, rounds int, full bool) (begun *Unfinished, complete bool, err error) {
	if u := r.Unfinished; u != nil && u.Workload == workload {
		return u, false, nil
	}
	var rows []Row
	have := map[int]int{} // rounds of each size
	for _, row := range r.Results {
		if group(&row) == workload {
			rows = append(rows, row)
			have[row.Elements] = max(have[row.Elements], len(row.Rounds))
		}
	}
	complete = len(rows) > 0
	for size, n := range have {
		complete = complete && n >= run.Rounds(rounds, full, size)
	}
	if complete || len(rows) == 0 {
		return nil, complete, nil
	}
	if begun, err = result.Finished(workload, rows); err != nil {
		err = fmt.Errorf("%w: %w", ErrOut, err)
	}
	return begun, false, err
}

// group returns the name of the workload that a row belongs to.
func group(r *Row) string {
	name, _, _ := strings.Cut(r.Workload, "/")
	return name
}

// Take adds the rows of a finished step and writes the report to the run's file, if it has one.
func (r *Report) Take(rows []Row, out string) error {
	r.Put(rows)
	if len(rows) == 0 || r.Unfinished != nil && r.Unfinished.Workload == group(&rows[0]) {
		r.Unfinished = nil
	}
	return r.Keep(out)
}

// Put adds rows of one workload in place of those that it has, or after all others.
func (r *Report) Put(rows []Row) {
	if len(rows) == 0 {
		return
	}
	of := func(row Row) bool { return group(&row) == group(&rows[0]) }
	at := slices.IndexFunc(r.Results, of)
	if at < 0 {
		at = len(r.Results)
	}
	r.Results = slices.Insert(slices.DeleteFunc(r.Results, of), at, rows...)
}

// KeepRounds adds the finished rounds of a workload that has more to do, and writes the report to the run's file, if it has one.
func (r *Report) KeepRounds(u *Unfinished, out string) error {
	if !r.Has(u.Workload) {
		r.Unfinished = u
		return r.Keep(out)
	}
	c, err := u.Collect() // rounds that are added to those of a finished workload
	if err != nil {
		return err
	}
	r.Put(c.Rows())
	return r.Keep(out)
}

// Keep writes the report to the run's file, if it has one, after rounds were measured.
func (r *Report) Keep(out string) error {
	r.NoteBuild()
	if out == "" {
		return nil
	}
	if err := r.save(out); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// save replaces a file by the report. After a crash the file has the old or the new contents, each complete.
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
			if f.OpsPerSecond == 0 { // no load, only a count
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

// goBenchUnits returns the figures of a round other than its speed.
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
	return Machine{CPU: cpuModel(), Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(), Build: ThisBuild()}
}

// cpuModel returns the processor's name if /proc contains it, otherwise its architecture.
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
