package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bigset/bench"
	"bigset/bench/chart"
	"bigset/bench/lab"
	benchrun "bigset/bench/run"
	"bigset/bench/sample"
	"bigset/bench/sample/view"
	"bigset/bench/screen"
	"bigset/bench/spec"
	"bigset/bench/spec/parser"
)

// benchRunFlags are the flags of bench run.
type benchRunFlags struct {
	lab.Options
	elements          elementsEach
	systems           []string
	page, svg, csv    string
	asJSON, quiet     bool
	strategies, files []string
}

// benchRunFiles returns the command that runs workload files. Its flags --dir, --json and --strategy replace those of the other commands.
func benchRunFiles(in io.Reader, out, errs io.Writer) *cobra.Command {
	var o benchRunFlags
	cmd := &cobra.Command{
		Use:   "run NAME|FILE...",
		Short: "Run workload files, watch them, and write a report",
		Long: `Run workload files: those of the program by their names (bench list), or your own, whose names have a dot or a slash. Systems and strategies take turns
in each round, on stores of their own in a temporary folder. They do the same operations, of which the output has a hash. A terminal shows live what happens.
An interrupt ends the run and prints what was finished.

Exit status 4 means that an assertion of a file was missed in all rounds.`,
		Example: `  bigset bench run queue
  bigset bench run ycsb-a --strategy default,point-deletes --rounds 6 --report ycsb.html
  bigset bench run ./mine.yaml --duration 30s --system bigset,pebble --json > mine.json
  bigset bench run churn --full --out churn.json`,
		Args: takes(1, maxFiles),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files = args
			return o.run(cmd, in, out, errs)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.Run.Duration, "duration", 0, "how long phases take that end by time (default: as the file says)")
	f.StringSliceVar(&o.strategies, "strategy", nil, "`strategies` of the system bigset, separated by commas: "+strategyNames()+" (default: those of the file)")
	f.StringSliceVar(&o.systems, "system", nil, "`systems`, separated by commas: bigset, pebble, blob (default: those of the file)")
	sharedFlags{&o.Run.Rounds, &o.Run.Dir, &o.OtherBuild, &o.elements, ", or several, separated by commas (default: those of the file)"}.declare(cmd)
	f.Uint64Var(&o.Run.Seed, "seed", 0, "runs with equal seeds do the same operations (default: the file's, or 1)")
	f.BoolVar(&o.Run.Full, "full", false, "the full sizes of the files, as long as they take")
	f.StringVar(&o.page, "report", "", "write a report with plots to this `file`, a web page")
	f.StringVar(&o.svg, "svg", "", "write each plot as SVG to this `folder`, and replace files of the same names")
	f.StringVar(&o.csv, "csv", "", "write the values of each plot as CSV to this `folder`, likewise")
	f.StringVar(&o.Out, "out", "", "keep the report as JSON in this `file` while it grows, and continue from it")
	f.DurationVar(&o.Every, "every", time.Second, "how often the stores are sampled; 0 is never: without a live view and plots over time")
	f.BoolVar(&o.asJSON, "json", false, "print the result as one JSON object, with its series")
	f.BoolVar(&o.quiet, "quiet", false, "show nothing on the way")
	_ = cmd.MarkFlagFilename("report", "html") // the flags exist
	_ = cmd.MarkFlagDirname("svg")
	_ = cmd.MarkFlagDirname("csv")
	return cmd
}

// sampleEveryMin is the minimum interval between samples of the stores: the cost of a sample is known after a second, and is a small share
// of this.
const sampleEveryMin = 10 * time.Millisecond

// run runs the files and writes the requested results. It checks before the work that these can be written.
func (o *benchRunFlags) run(cmd *cobra.Command, in io.Reader, out, errs io.Writer) (err error) {
	var workloads []*spec.Workload
	for _, arg := range o.files {
		w, err := workloadNamed(arg, in)
		var wrong *parser.FileError
		switch {
		case errors.As(err, &wrong):
			fmt.Fprintln(errs, wrong) // a line for each problem, as bench check prints it
			return errAbsent
		case err != nil:
			return usage(cmd, "%w", err)
		}
		workloads = append(workloads, w)
	}
	if o.Run.Duration > 0 && !slices.ContainsFunc(workloads, endsByTime) {
		return usage(cmd, "--duration %v: no phase of %s ends by time", o.Run.Duration, strings.Join(o.files, ", "))
	}
	o.Run.Strategies, o.Run.Sizes = o.strategies, o.elements
	for _, s := range o.systems {
		o.Run.Systems = append(o.Run.Systems, spec.System(s))
	}
	switch {
	case o.Every == 0:
		o.Every = -1
	case o.Every < sampleEveryMin:
		return usage(cmd, "--every %v: at least %v, or 0 for no samples", o.Every, sampleEveryMin)
	}
	page, err := openReport(o.page)
	if err != nil {
		return usage(cmd, "--report: %w", err)
	}
	defer func() { err = errors.Join(err, page.close()) }()
	for _, folder := range []string{o.svg, o.csv} {
		if folder == "" {
			continue
		}
		if err := errors.Join(os.MkdirAll(folder, 0o755), bench.Writable(folder)); err != nil {
			return usage(cmd, "%w", err)
		}
	}
	ctx, stop := hangUp(cmd.Context())
	defer stop()
	watch, clear := func(*sample.Tick) {}, func() {}
	if !o.quiet {
		watch, clear = benchShows(errs)
	}
	shown, ended := untilEnding(ctx, errs, watch, clear)
	if !o.quiet {
		o.Watch = shown
	}
	r, err := lab.Run(ctx, workloads, o.Options)
	ended()
	if errors.Is(err, benchrun.ErrOptions) {
		return usage(cmd, "%w", err)
	}
	if r != nil && r.Interrupted {
		err = &runCutError{err, o.goesOn()}
	}
	if r == nil || len(r.Results)+len(r.Series) == 0 && err != nil {
		return err
	}
	if e := o.write(out, r, page); e != nil {
		return errors.Join(err, e)
	}
	if missed := r.Missed(); err == nil && len(missed) > 0 {
		return fmt.Errorf("%w: %s", errMissed, strings.Join(missed, "; "))
	}
	return err
}

// endsByTime reports whether a phase of a workload ends by time.
func endsByTime(w *spec.Workload) bool {
	return slices.ContainsFunc(w.Phases, func(p spec.Phase) bool { return p.Duration > 0 })
}

// runCutError is the error of a run that was interrupted.
type runCutError struct {
	err  error  // says where
	hint string // how the run goes on
}

func (e *runCutError) Error() string {
	return "the run was interrupted: " + strings.TrimSuffix(e.err.Error(), ": "+context.Canceled.Error())
}

func (e *runCutError) Unwrap() error { return e.err }

// goesOn returns how a run that was interrupted can be continued.
func (o *benchRunFlags) goesOn() string {
	if o.Out == "" {
		return "with --out FILE, the same command continues after the last finished round"
	}
	if _, err := os.Stat(o.Out); err != nil {
		return "no round had ended, so the same command begins again"
	}
	return "the same command continues after the last finished round"
}

// write writes the result in all requested forms.
func (o *benchRunFlags) write(out io.Writer, r *lab.Result, page *reportFile) error {
	print := r.WriteText
	if o.asJSON {
		print = r.WriteJSON
	}
	err := errors.Join(print(out), page.fill(r.WritePage))
	if o.svg != "" {
		err = errors.Join(err, benchPlots(r, o.svg, ".svg", func(w io.Writer, c *chart.Chart) error { return chart.WriteSVG(w, c, chart.SVGOptions{}) }))
	}
	if o.csv != "" {
		err = errors.Join(err, benchPlots(r, o.csv, ".csv", func(w io.Writer, c *chart.Chart) error { return chart.WriteCSV(w, c) }))
	}
	return err
}

// benchPlots writes each chart of a result to a file of its own.
func benchPlots(r *lab.Result, folder, ending string, write func(io.Writer, *chart.Chart) error) (err error) {
	for _, p := range r.Plots() {
		err = errors.Join(err, benchPlot(filepath.Join(folder, p.Name+ending), p.Chart, write))
	}
	return err
}

func benchPlot(file string, c *chart.Chart, write func(io.Writer, *chart.Chart) error) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := bufio.NewWriter(f)
	return errors.Join(write(b, c), b.Flush())
}

// benchShows returns a function that shows each tick, and one that clears the terminal: a view drawn in place if standard error is a
// terminal, plain lines otherwise.
func benchShows(errs io.Writer) (watch func(*sample.Tick), clear func()) {
	if os.Getenv("TERM") == "dumb" || !isTerminal(errs) {
		return (&view.Lines{Out: errs, Every: 10 * time.Second}).Show, func() {}
	}
	v := &view.Live{Screen: screen.Screen{Out: errs, Size: func() (int, int) { return terminalSize(errs, os.Getenv) }}, Style: terminalStyle(os.Getenv)}
	return v.Show, v.Clear
}
