package main

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bigset/bench"
)

// benchBloomd returns the command that loads servers that speak bloomd's protocol.
func benchBloomd(out, errs io.Writer) *cobra.Command {
	var c bench.BloomdConfig
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "bloomd",
		Short: "Measure servers that speak bloomd's protocol",
		Long: `Load a server that speaks bloomd's protocol, over the network, and measure its answers. Two servers take turns, and
the first is compared with the second, which should be a bloomd, on the same machine. The filters that it makes have names that begin
with "bench-", and are dropped again. docs/bench.md explains the figures.`,
		Example: `  bigset bench bloomd --addr 127.0.0.1:8673
  bigset bench bloomd --addr 127.0.0.1:8673 --pid 4711 --addr-b 127.0.0.1:9673 --pid-b 4712
  bigset bench bloomd --addr 127.0.0.1:8673 --mode bulk,multi --connections 16 --depth 1,16 --span 5s`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !quiet {
				c.Progress = errs
			}
			report, err := bench.RunBloomd(cmd.Context(), c)
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
			return errors.Join(err, write(out))
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.A.Addr, "addr", "", "HOST:PORT of the server")
	f.IntVar(&c.A.PID, "pid", 0, "its process on this machine, whose CPU time is counted (Linux)")
	f.StringVar(&c.B.Addr, "addr-b", "", "HOST:PORT of the server that it is compared with")
	f.IntVar(&c.B.PID, "pid-b", 0, "the process of that one")
	f.StringSliceVar(&c.Modes, "mode", nil, "what requests do: "+strings.Join(bench.BloomdModes(), ", ")+" (default: all)")
	f.IntSliceVar(&c.Connections, "connections", nil, "connections (default 1,16,64)")
	f.IntSliceVar(&c.Depths, "depth", nil, "requests in flight on each connection (default 1,16,64)")
	f.IntVar(&c.Passes, "passes", 3, "how often everything is repeated, in turns")
	f.DurationVar(&c.Span, "span", 2*time.Second, "how long each load takes on each server in a pass")
	f.IntVar(&c.Keys, "keys", 1_000_000, "capacity of the filters, and how many different keys a load has")
	f.Float64Var(&c.Probability, "prob", 0.0001, "probability of false positives of the filters")
	f.IntVar(&c.Workers, "workers-b", 1, "threads of the server at --addr-b; with more than one the goal is to be ahead of it at 64 connections")
	f.BoolVar(&asJSON, "json", false, "print the report as one JSON object")
	f.BoolVar(&quiet, "quiet", false, "show no progress")
	return cmd
}
