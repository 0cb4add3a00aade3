package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bigset/bench"
	"bigset/internal/torture"
)

func (a *app) torture() *cobra.Command {
	var o torture.Options
	var minutes float64
	cmd := &cobra.Command{
		Use:   "torture",
		Short: "Run a cluster of processes on this machine with faults, and check what its clients saw",
		Long: `Start nodes on this machine. Clients add, remove and read elements of sets, and mark and check keys of filters, while nodes are killed, stopped,
cut off and wiped. They send some changes again by the id of the request, at any node. Then check the answers that the clients received: no
acknowledged element may be missing from a later read, no removed one may return, and a change that was sent again must have happened once. In
the end all owners of a set must hold the same, W owners of a key must have it, and other nodes nothing. The exit status is 0 if every
promise was kept.

The same seed does the same faults; what they meet depends on the machine.`,
		Example: `  bigset torture --minutes 1
  bigset torture --minutes 5 --nodes 5
  bigset torture --minutes 30 --faults kill,kill-all,wipe --seed 7 --dir ~/torture`,
		Args: takes(0, 0),
	}
	f := cmd.Flags()
	f.Float64Var(&minutes, "minutes", 1, "how long faults are made")
	f.IntVar(&o.Nodes, "nodes", 3, "how many nodes; each thing is on three of them")
	f.IntVar(&o.Clients, "clients", 6, "how many clients")
	f.Uint64Var(&o.Seed, "seed", 0, "what is drawn; 0 draws a seed")
	f.StringVar(&o.Dir, "dir", "", "empty `folder` for the nodes' folders and logs (default: a temporary one, which is kept if a promise was broken)")
	f.StringSliceVar(&o.Faults, "faults", nil, "which faults: "+strings.Join(torture.AllFaults, ", ")+" (default: all); and full, for users who may mount a disk in memory for each node")
	_ = cmd.MarkFlagDirname("dir")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if minutes <= 0 || o.Nodes < 2 || o.Nodes > 9 || o.Clients < 1 {
			return usage(cmd, "--minutes is above 0, --nodes is 2 to 9, --clients is 1 or more")
		}
		for _, name := range o.Faults {
			if !slices.Contains(torture.AllFaults, name) && name != "full" {
				return usage(cmd, "--faults %s: it is one of %s, full", name, strings.Join(torture.AllFaults, ", "))
			}
		}
		program, err := os.Executable()
		if err != nil {
			return err
		}
		if o.Seed == 0 {
			o.Seed = uint64(time.Now().UnixNano())
		}
		temporary := o.Dir == ""
		if temporary {
			if o.Dir, err = os.MkdirTemp("", "bigset-torture-"); err != nil {
				return err
			}
		} else if err := os.MkdirAll(o.Dir, 0o755); err != nil {
			return err
		}
		o.Command = func(args ...string) *exec.Cmd { return exec.Command(program, args...) }
		o.Duration = time.Duration(minutes * float64(time.Minute))
		began := time.Now()
		o.Progress = func(format string, args ...any) {
			fmt.Fprintf(a.errs, "%6.1fs %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
		}
		r, err := torture.Run(cmd.Context(), o)
		if err != nil {
			return fmt.Errorf("seed %d, folders below %s: %w", o.Seed, o.Dir, err)
		}
		if temporary {
			if err := os.RemoveAll(o.Dir); err != nil {
				return err
			}
		}
		return a.tortured(&o, &r)
	}
	return cmd
}

// tortured prints the result of a run.
func (a *app) tortured(o *torture.Options, r *torture.Report) error {
	h := r.History
	if a.json {
		return a.object(map[string]any{"seed": o.Seed, "seconds": r.Elapsed.Seconds(), "faults": r.Faults, "epoch": r.Epoch,
			"operations": h.Operations, "ok": h.OK, "unknown": h.Unknown, "failed": h.Failed, "elements": h.Items, "answers": h.Answers, "repeats": h.Repeats, "settled": h.Settled,
			"named": h.Named, "after_drop": h.AfterDrop, "violations": 0})
	}
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(r.Faults)) {
		faults = append(faults, fmt.Sprintf("%s %d", name, r.Faults[name]))
	}
	fmt.Fprintf(a.out, "seed %d, %.0f s, epoch %d in the end; faults: %s\n", o.Seed, r.Elapsed.Seconds(), r.Epoch, strings.Join(faults, ", "))
	fmt.Fprintf(a.out, "%s operations: %s ok, %s refused, %s unknown; %s elements acknowledged, %s in answers\n", bench.Thousands(uint64(h.Operations)), bench.Thousands(uint64(h.OK)),
		bench.Thousands(uint64(h.Failed)), bench.Thousands(uint64(h.Unknown)), bench.Thousands(uint64(h.Items)), bench.Thousands(uint64(h.Answers)))
	fmt.Fprintf(a.out, "%s changes sent again: %s of unknown outcome became known; the add of an element was compared %s times\n", bench.Thousands(uint64(h.Repeats)),
		bench.Thousands(uint64(h.Settled)), bench.Thousands(uint64(h.Named)))
	fmt.Fprintf(a.out, "%s answers about keys that were marked after a drop of their filter\n", bench.Thousands(uint64(h.AfterDrop)))
	_, err := fmt.Fprintln(a.out, "lost 0, stale 0, resurrected 0, duplicated 0, doubled 0, denied 0, diverged 0")
	return err
}
