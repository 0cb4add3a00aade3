package main

import (
	"github.com/spf13/cobra"

	"bigset"
)

// set returns the commands that work on one set, and the list of sets.
func (a *app) set() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Change and read sets",
		Long: `Change and read sets. A set exists as soon as an element is added to it.

SET is the name of a set for redis's clients and for programs. For a set of Riak's or HTTP's clients give --type, --bucket and the key
as SET. Redis's empty key is --bucket default "".

Elements are any bytes. They are read and printed as they are or, with --base64, as base64. Put -- before an element that begins with -.

With --addr the commands ask running nodes: a single node, or any nodes of a cluster. Then --w, --dw and --r say how many replicas a change or a
read needs. If the outcome of a change is unknown, the exit status is 3, and the hint has the command that settles it.`,
		Example: `  bigset set add friends paul ringo
  bigset set ls friends --limit 100
  bigset set add friends john --addr 127.0.0.1:8691
  bigset set ls --type maps --bucket people friends`,
	}
	cmd.AddCommand(a.setAdd(), a.setRemove(), a.setHas(), a.setList(), a.setCount(), a.setDrop(), a.setNames(),
		a.setContext(), a.setFigures(), a.setWatch(), a.setImport(), a.setExport())
	a.node.flags(cmd)
	bucketFlags(cmd)
	return chooser(cmd)
}

// writing are the flags of commands that write.
type writing struct {
	policy string
	noSync bool
}

func (w *writing) flags(cmd *cobra.Command) {
	w.policyFlag(cmd)
	cmd.Flags().BoolVar(&w.noSync, "no-sync", false, "acknowledge before the disk has it: faster, and a power cut takes the last writes")
}

func (w *writing) policyFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.policy, "policy", "coordinator",
		"without a context: coordinator (act on what the store has), empty (on nothing) or required (refuse)")
}

var policies = map[string]bigset.Policy{
	"coordinator": bigset.PolicyCoordinator,
	"empty":       bigset.PolicyEmpty,
	"required":    bigset.PolicyRequired,
}

// options returns the options given by the flags.
func (w *writing) options(cmd *cobra.Command) (bigset.WriteOptions, error) {
	policy, ok := policies[w.policy]
	if !ok {
		return bigset.WriteOptions{}, usage(cmd, "unknown policy %q, want coordinator, empty or required", w.policy)
	}
	return bigset.WriteOptions{Policy: policy, Durability: w.durability()}, nil
}

func (w *writing) durability() bigset.Durability {
	if w.noSync {
		return bigset.NoSync
	}
	return bigset.Sync
}
