package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"bigset/bench"
)

// benchCluster returns the command that measures a cluster of processes.
func benchCluster(out, errs io.Writer) *cobra.Command {
	var c bench.ClusterConfig
	var asJSON, quiet bool
	var file string
	parts := &strings.Builder{}
	var names []string
	for _, p := range bench.ClusterParts() {
		names = append(names, p.Name)
		fmt.Fprintf(parts, "  %-10s %s\n", p.Name, p.About)
	}
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Measure a cluster of processes on this machine",
		Long: `Start three nodes and a single node on this machine, with temporary folders, and compare them with each other and with stores in this
process. It takes some five minutes. The CPU time of processes is known on Linux only. docs/bench.md explains the figures.

Parts:
` + parts.String(),
		Example: `  bigset bench cluster
  bigset bench cluster --part transport,add --rounds 5
  bigset bench cluster --full --json --report cluster.html > cluster.json`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			page, err := openReport(file)
			if err != nil {
				return usage(cmd, "--report: %w", err)
			}
			defer func() { err = errors.Join(err, page.close()) }()
			if !quiet {
				c.Progress = errs
			}
			program, err := os.Executable()
			if err != nil {
				return err
			}
			c.Command = func(args ...string) *exec.Cmd {
				cmd := exec.Command(program, args...)
				cmd.SysProcAttr = apart() // this process handles Ctrl-C, and ends the nodes
				return cmd
			}
			report, err := bench.RunCluster(cmd.Context(), c)
			if errors.Is(err, bench.ErrConfig) {
				return usage(cmd, "%w", err)
			}
			if report == nil || len(report.Results) == 0 {
				return err
			}
			write := report.WriteTable
			if asJSON {
				write = report.WriteJSON
			}
			return errors.Join(err, page.fill(report.WritePage), write(out))
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.Parts, "part", nil, "what is measured: "+strings.Join(names, ", ")+" (default: all)")
	f.IntVar(&c.Rounds, "rounds", 0, "how often loads are repeated, in turns (default 3; 5 with --full)")
	f.DurationVar(&c.Span, "span", 0, "how long each load takes in a round (default 2s; 5s with --full)")
	f.Var((*elements)(&c.Elements), "elements", "size of the set that is read (default 200,000; 1 million with --full)")
	f.Int64Var(&c.FillBytes, "fill", 0, "`bytes` with which an empty disk is filled (default 256 MB; 1 GB with --full)")
	f.IntVar(&c.Keys, "keys", 0, "capacity of the filters, and how many different keys a load has (default 1,050,000: 256 slices)")
	f.StringVar(&c.Dir, "dir", "", "where the temporary folder is made (default: the system's place for such)")
	f.StringVar(&c.Profiles, "profiles", "", "existing `folder` for CPU profiles of the first node of each system, while sets are read and written")
	f.Uint64Var(&c.Seed, "seed", 1, "seed of the elements")
	f.BoolVar(&c.Full, "full", false, "large sizes: some twenty minutes")
	f.BoolVar(&c.Short, "short", false, "tiny sizes, which take seconds and whose figures mean nothing")
	f.StringVar(&file, "report", "", "a `file` for the report as a web page, with what clients met over time around faults")
	_ = cmd.MarkFlagFilename("report", "html") // the flag exists
	f.BoolVar(&asJSON, "json", false, "print the report as one JSON object")
	f.BoolVar(&quiet, "quiet", false, "show no progress")
	return cmd
}
