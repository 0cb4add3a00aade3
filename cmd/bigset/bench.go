package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bigset/bench"
	"bigset/bench/spec/workloads"
)

// benchOutDefault is where a full run stores its growing report.
const benchOutDefault = "bigset-bench.json"

// benchCommand returns the command that runs benchmarks: results go to out, progress to errs, line by line. Its flags --dir, --json and
// --strategy replace those of the other commands.
func benchCommand(in io.Reader, out, errs io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Compare the engine with raw Pebble and with a set in one value",
		Long: `Measure the engine on stores of its own in a temporary folder, and compare it with raw Pebble, which writes the same bytes and is the
physical limit, and with a set serialised into one value. Without flags the core of it runs, small, in a minute or two;
--workload all runs everything, --full everything at large sizes. docs/bench.md describes the workloads and how to read the
figures.
`,
		Example: `  bigset bench
  bigset bench --workload insert,contains --elements 1000000 --rounds 5
  bigset bench --gobench > new.txt; benchstat old.txt new.txt
  bigset bench --full --out report.json`,
	}
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(asked *cobra.Command, args []string) { // the list needs the files of all workloads: other commands start without them
		if asked == cmd {
			cmd.Long += "\nWorkloads:\n" + benchWorkloads()
		}
		help(asked, args)
	})
	benchRun(cmd, out, errs, "the core", func() []string { return nil })
	cmd.Args, cmd.SuggestionsMinimumDistance = benchArgument, 1
	cmd.AddCommand(benchBloom(out, errs), benchBloomd(out, errs), benchCluster(out, errs), benchCompare(out, errs),
		without(benchList(out), "dir", "strategy"), without(benchShow(out), "dir", "strategy"), without(benchCheck(in, out, errs), "dir", "strategy"), benchRunFiles(in, out, errs))
	return cmd
}

// benchArgument refuses an argument of bench: an unknown command, or a workload, which bench run or a flag names.
func benchArgument(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	name := args[0]
	if _, err := workloads.Named(name); err == nil || strings.HasSuffix(name, ".yaml") {
		return usage(cmd, "no command %q in %q; `bigset bench run %[1]s` runs that workload", name, cmd.CommandPath())
	}
	if slices.ContainsFunc(bench.Workloads(), func(w bench.Workload) bool { return w.Name == name }) {
		return usage(cmd, "no command %q in %q; `bigset bench --workload %[1]s` runs that workload", name, cmd.CommandPath())
	}
	return unknownCommand(cmd, name)
}

// benchBloom returns the command that measures bloom filters alone.
func benchBloom(out, errs io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bloom",
		Short: "Measure bloom filters in this process",
		Long: `Measure bloom filters in this process, on stores of its own in a temporary folder: it runs the workloads of bench that
begin with bloom-, and takes the flags of bench. It takes a minute or two. With --full, which has filters of a million keys and
more, it runs five rounds, of about five minutes each on two cores.`,
		Example: `  bigset bench bloom
  bigset bench bloom --workload bloom-hot --rounds 9
  bigset bench bloom --full --rounds 1`,
	}
	benchRun(cmd, out, errs, "all that begin with bloom-", bench.BloomWorkloads)
	return cmd
}

// benchRun makes a command run workloads: unless the flags name others, the usual ones, which the help describes.
func benchRun(cmd *cobra.Command, out, errs io.Writer, help string, usual func() []string) {
	var c bench.Config
	var asJSON, asGoBench, list, quiet, details bool
	cmd.Args = takes(0, 0)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if list {
			_, err := io.WriteString(out, benchWorkloads())
			return err
		}
		if c.Full && c.Out == "" {
			c.Out = benchOutDefault
		}
		if !quiet {
			c.Progress = errs
		}
		if len(c.Workloads) == 0 {
			c.Workloads = usual()
		}
		c.Program, _ = os.Executable() // without it a row is missing
		ended := noteEnding(cmd.Context(), errs)
		report, err := bench.Run(cmd.Context(), c)
		ended()
		if errors.Is(err, bench.ErrConfig) {
			return usage(cmd, "%w", err)
		}
		if report == nil || len(report.Results) == 0 && err != nil {
			return err
		}
		return errors.Join(err, writeBench(out, report, asJSON, asGoBench, details))
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.Workloads, "workload", nil, "the workloads to run, separated by commas, or all (default: "+help+")")
	sharedFlags{&c.Rounds, &c.Dir, &c.OtherBuild, (*elements)(&c.Elements), " (default: each workload's own)"}.declare(cmd)
	f.BoolVar(&c.Sync, "sync", false, "make every write durable before the next one")
	f.StringVar(&c.Strategy, "strategy", "", "how dead keys leave the disk: "+strategyNames()+" (default: default)")
	f.Uint64Var(&c.Seed, "seed", 1, "runs with equal seeds do the same operations")
	f.BoolVar(&c.Full, "full", false, "large sizes, however long they take; continues where an earlier run with the same flags stopped")
	f.StringVar(&c.Out, "out", "", "keep the report as JSON in this file while it grows, and continue from it (default with --full: "+benchOutDefault+")")
	f.BoolVar(&asJSON, "json", false, "print the report as one JSON object")
	f.BoolVar(&asGoBench, "gobench", false, "print Go benchmark lines, one for each round, as benchstat reads them")
	f.BoolVar(&details, "details", false, "print all rows and all goals, not a line for each workload")
	f.BoolVar(&list, "list", false, "list the workloads and do nothing")
	f.BoolVar(&quiet, "quiet", false, "show no progress")
}

// writeBench prints a report in the requested form.
func writeBench(out io.Writer, r *bench.Report, asJSON, asGoBench, details bool) error {
	switch {
	case asJSON:
		return r.WriteJSON(out)
	case asGoBench:
		return r.WriteGoBench(out)
	case details:
		return r.WriteTable(out)
	}
	return r.WriteSummary(out)
}

// benchWorkloads lists the workloads, one per line.
func benchWorkloads() string {
	b := &strings.Builder{}
	for _, w := range bench.Workloads() {
		fmt.Fprintf(b, "  %-18s %s\n", w.Name, w.About)
	}
	return b.String()
}
