package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"bigset/bench/compare"
)

// benchCompare returns the command that compares two reports. Its flag --strategy replaces that of the other commands.
func benchCompare(out, errs io.Writer) *cobra.Command {
	var o compare.Options
	var strategies, systems, failIf []string
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "compare A [B]",
		Short: "Print what changed between two runs, and which changes are noise",
		Long: `Compare two reports, A before and B after, as --json and --out write them; or, with --strategy or --system, two strategies or systems in
one report, whose rounds ran in turns. For each row and figure it prints the medians, the change from A to B with a 95 % interval, and a
verdict: better, worse, changed (a figure that has no better), undecided (more rounds may find a change) or no change.

Samples are rounds. Verdicts are given at 6, 12 and 20 rounds; with fewer rounds only changes are shown. Over all looks and figures, at most 5 of 100 comparisons of
a build with itself call anything changed. docs/bench.md says how.

Figures for --figure and --fail-if:
` + compareFigures(),
		Example: `  bigset bench --rounds 12 --out old.json
  bigset bench compare old.json new.json
  bigset bench compare run.json --strategy default,filter --row churn,queue
  bigset bench compare old.json new.json --fail-if p99:+5% --fail-if contains/hit/ops_per_s:-3%`,
		Args: takes(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			limits, err := parseLimits(failIf)
			var c *compare.Comparison
			if err == nil {
				c, err = compareFiles(args, strategies, systems, o)
			}
			if err == nil {
				err = c.Check(limits)
			}
			if errors.Is(err, compare.ErrOptions) {
				return usage(cmd, "%w", err)
			}
			if err != nil {
				return err
			}
			return writeComparison(out, errs, c, asJSON, all || len(o.Figures) > 0)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&strategies, "strategy", nil, "two `strategies` of one report: a,b")
	f.StringSliceVar(&systems, "system", nil, "two `systems` of one report: a,b")
	f.StringSliceVar(&o.Rows, "row", nil, "only these `workloads`; contains is also contains/hit (default: all)")
	f.StringSliceVar(&o.Figures, "figure", nil, "only these `figures` (default: all)")
	f.StringArrayVar(&failIf, "fail-if", nil, "`[ROW/]FIGURE:+5%`: exit with status 4 if it is worse, beyond noise and by more than that; may be repeated")
	f.BoolVar(&all, "all", false, "show figures without a change, too; those that --figure names are always shown")
	f.BoolVar(&asJSON, "json", false, "print the comparison as one JSON object")
	return cmd
}

// compareFigures lists the figures, one per line.
func compareFigures() string {
	b := &strings.Builder{}
	for _, f := range compare.FigureList() {
		fmt.Fprintf(b, "  %-14s %-5s %s is better\n", f.Name, f.Unit, f.Better)
	}
	return b.String()
}

func parseLimits(texts []string) (limits []compare.Limit, err error) {
	for _, text := range texts {
		l, err := compare.ParseLimit(text)
		if err != nil {
			return nil, err
		}
		limits = append(limits, l)
	}
	return limits, nil
}

// compareFiles compares the named files.
func compareFiles(args, strategies, systems []string, o compare.Options) (*compare.Comparison, error) {
	by, sides := compare.ByStrategy, strategies
	if len(systems) > 0 {
		by, sides = compare.BySystem, systems
	}
	switch {
	case len(strategies) > 0 && len(systems) > 0:
		return nil, fmt.Errorf("%w: --strategy or --system, not both", compare.ErrOptions)
	case len(args) == 2 && len(sides) > 0:
		return nil, fmt.Errorf("%w: --%s compares within one file, two are given", compare.ErrOptions, by)
	case len(args) == 1 && len(sides) != 2:
		return nil, fmt.Errorf("%w: give two files, or one with --strategy a,b or --system a,b", compare.ErrOptions)
	}
	var reports []*compare.Report
	for _, name := range args {
		r, err := readReport(name)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	if len(reports) == 2 {
		return compare.Files(reports[0], reports[1], o)
	}
	return compare.Within(reports[0], by, sides[0], sides[1], o)
}

func readReport(name string) (*compare.Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return compare.Read(f, name)
}

// writeComparison prints a comparison; notes for the user go to errs. The error is errWorse if a limit failed.
func writeComparison(out, errs io.Writer, c *compare.Comparison, asJSON, all bool) error {
	for _, note := range c.Notes {
		fmt.Fprintf(errs, "note: %s\n", note)
	}
	var err error
	if asJSON {
		err = c.WriteJSON(out)
	} else {
		err = c.WriteTable(out, all)
	}
	if err == nil && len(c.Failed) > 0 {
		return errWorse
	}
	return err
}
