package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"bigset/bench/demo"
	"bigset/bench/screen"
)

// demoReport is the default file for the demonstration's report.
const demoReport = "./bigset-demo.html"

func (a *app) demo() *cobra.Command {
	var c demo.Config
	var file string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See in a minute what it does: a race of two ways to delete, and a fault drill",
		Long: `Show in about a minute what Bigset does, on stores of its own in a temporary folder and without a network.

First a race: set-tombstones, Bigset's way to delete, and point deletes, the usual way in an LSM, do the same operations in turns. Most
elements of a settled set die; a queue passes through; and a set is turned over uniformly, where the two are near. Then a fault
drill: schedules of power cuts, partitions, lost messages, full disks and copies of ranges on three replicas over real engines, while
clients write. What replicas show is checked all the time. Then the verdict, with the figures and their ratios.

The demo leaves only the report. Exit status 0 is PASS, and 1 is FAIL: a promise was broken. An interrupt ends the demo with what was
measured until then, and status 2.`,
		Example: `  bigset demo
  bigset demo --seed 7 --report ''
  bigset demo --scale 0.1 --json`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !(c.Scale >= demo.ScaleMin && c.Scale <= demo.ScaleMax) { // for the library, 0 means the default
				return usage(cmd, "--scale %v: it must be %v to %v", c.Scale, demo.ScaleMin, demo.ScaleMax)
			}
			if c.Seed == 0 {
				c.Seed = uint64(time.Now().UnixNano())%1_000_000 + 1
			}
			return a.runDemo(cmd, c, file, quiet)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&c.Seed, "seed", 0, "the same seed does the same operations and schedules (default: drawn, and shown)")
	f.Float64Var(&c.Scale, "scale", 1, fmt.Sprintf("how much work, %v to %v: 0.1 takes a tenth of the time", demo.ScaleMin, demo.ScaleMax))
	f.StringVar(&file, "report", demoReport, "the `file` of the report, a web page; '' is none")
	f.StringVar(&c.Dir, "dir", "", "where the temporary folder is made (default: the system's place for such)")
	f.BoolVar(&quiet, "quiet", false, "show nothing until the verdict")
	_ = cmd.MarkFlagFilename("report", "html") // the flag exists
	_ = cmd.MarkFlagDirname("dir")
	return cmd
}

// runDemo runs the demonstration. It checks before the work that the report can be written.
func (a *app) runDemo(cmd *cobra.Command, c demo.Config, file string, quiet bool) (err error) {
	out, err := openReport(file)
	if err != nil {
		return usage(cmd, "--report: %w", err)
	}
	defer func() { err = errors.Join(err, out.close()) }()
	ctx, stop := hangUp(cmd.Context())
	defer stop()
	show, clear := func(demo.State) {}, func() {}
	if !quiet {
		show, clear = a.demoShows(c.Seed)
	}
	shown, ended := untilEnding(ctx, a.errs, show, clear)
	c.Show = shown
	r, err := demo.Run(ctx, c)
	ended()
	if errors.Is(err, demo.ErrConfig) {
		return usage(cmd, "%w", err)
	}
	if r == nil || len(r.Table) == 0 && err != nil {
		return err // there is nothing to show
	}
	if e := out.fill(r.WritePage); e != nil {
		err = errors.Join(err, e)
	}
	if out.wrote {
		r.Report = out.name
	}
	return errors.Join(err, a.demoSays(r))
}

// demoSays prints the verdict, and returns the error for the exit status.
func (a *app) demoSays(r *demo.Result) error {
	var err error
	if a.json {
		err = a.object(r)
	} else {
		style := screen.Style{} // a file gets UTF-8
		if a.toTerminal {
			style = terminalStyle(os.Getenv)
		}
		err = r.WriteText(a.out, style)
	}
	switch {
	case r.Failed():
		return errors.Join(err, errViolated)
	case r.Interrupted:
		return errors.Join(err, errCutShort)
	}
	return err
}

// demoShows returns a function that shows the progress, and one that clears the terminal: a view drawn in place if standard error or
// standard output is a terminal, plain lines otherwise.
func (a *app) demoShows(seed uint64) (tell func(demo.State), clear func()) {
	var to, terminal io.Writer
	switch {
	case os.Getenv("TERM") == "dumb":
	case isTerminal(a.errs):
		to, terminal = a.errs, a.errs
	case a.toTerminal && !a.json:
		to, terminal = flushed{a.out}, os.Stdout
	}
	if to == nil {
		return (&demo.Lines{Out: a.errs}).Show, func() {}
	}
	v := &demo.View{Screen: screen.Screen{Out: to, Size: func() (int, int) { return terminalSize(terminal, os.Getenv) }}, Style: terminalStyle(os.Getenv), Seed: seed}
	return v.Show, v.Clear
}

// flushed writes through a buffer. It has none of the buffer's other methods, which would not flush.
type flushed struct{ to *bufio.Writer }

func (f flushed) Write(b []byte) (int, error) {
	n, err := f.to.Write(b)
	return n, errors.Join(err, f.to.Flush())
}

// terminalStyle returns the style for the terminal that the environment describes.
func terminalStyle(getenv func(string) string) screen.Style {
	locale := strings.ToLower(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	utf8 := strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
	return screen.Style{ASCII: !utf8, Colour: getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"}
}

// hangUp returns a context that also ends when the terminal is closed, unless that signal is ignored.
func hangUp(ctx context.Context) (context.Context, func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// reportFile is the file of a report. It is opened before the work, and filled after it.
type reportFile struct {
	name  string // "" means none
	made  bool   // the file is new
	wrote bool
	file  *os.File
}

// openReport opens a file for a report. An existing file keeps its contents until the report is written.
func openReport(name string) (*reportFile, error) {
	if name == "" {
		return &reportFile{}, nil
	}
	_, missing := os.Stat(name)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	return &reportFile{name: name, made: missing != nil, file: f}, nil
}

// fill writes the report, if one was requested.
func (f *reportFile) fill(write func(io.Writer) error) error {
	if f.file == nil {
		return nil
	}
	if info, err := f.file.Stat(); err == nil && info.Mode().IsRegular() {
		if err := f.file.Truncate(0); err != nil {
			return err
		}
	}
	b := bufio.NewWriter(f.file)
	if err := errors.Join(write(b), b.Flush()); err != nil {
		return err
	}
	f.wrote = true
	return nil
}

// close closes the file, and removes it if it is new and contains no report.
func (f *reportFile) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	if f.made && !f.wrote {
		err = errors.Join(err, os.Remove(f.name))
	}
	return err
}
