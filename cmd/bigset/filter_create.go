package main

import (
	"github.com/spf13/cobra"

	"bigset"
	"bigset/bloomslice"
)

var durabilities = map[string]bigset.FilterDurability{
	"":         bigset.FilterServer,
	"interval": bigset.FilterInterval,
	"log":      bigset.FilterLog,
	"sync":     bigset.FilterSync,
}

// validate checks the options as a data folder does.
func (c creation) validate() error {
	o := bloomslice.DefaultOptions()
	if c.capacity != 0 {
		o.Capacity = c.capacity
	}
	if c.probability != 0 {
		o.Probability = c.probability
	}
	o.Slices = c.slices
	return o.Validate()
}

func (fs *filterCommand) create() *cobra.Command {
	var c creation
	var durability string
	cmd := &cobra.Command{
		Use:   "create FILTER",
		Short: "Make a filter",
		Long: `Create a filter, and the store if it does not exist. A filter that exists stays as it is, whatever the flags say.

--durability says when a server answers a set: interval (at once; a crash loses the keys since the last flush), log (a crash of the
process loses nothing, a power cut may) or sync (when the key is on disk). Without it the server's setting counts. It is kept with the filter and needs
the data folder, because bloomd's protocol cannot express it.

--slices needs the folder, too. It splits the filter into that many slices by a hash of its keys. Each slice has its part of the
capacity and a place of its own, so that nodes share the filter and goroutines set keys concurrently. The filter answers as one. Its
false positives differ from a bloomd's, and it cannot be exported to one.`,
		Example: `  bigset filter create seen
  bigset filter create seen --capacity 1000000 --prob 0.001 --durability sync
  bigset filter --addr localhost:8673 create seen --in-memory`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := filterName(args[0])
			if err != nil {
				return err
			}
			var ok bool
			if c.durability, ok = durabilities[durability]; !ok {
				return usage(cmd, "unknown durability %q, want interval, log or sync", durability)
			}
			if durability != "" && fs.addr != "" {
				return usage(cmd, "--durability can't be sent to a server, bloomd's protocol has no word for it: "+
					"give it with --dir while the server is stopped")
			}
			if c.slices != 1 && fs.addr != "" {
				return usage(cmd, "--slices can't be sent to a server, bloomd's protocol has no word for it: "+
					"give it with --dir while the server is stopped")
			}
			for _, flag := range []string{"capacity", "prob", "slices"} {
				if cmd.Flags().Changed(flag) && cmd.Flag(flag).Value.String() == "0" {
					return usage(cmd, "--%s 0: leave it out for the default", flag)
				}
			}
			if err := c.validate(); err != nil && fs.addr == "" {
				return err // before a store is created
			}
			return fs.with(cmd.Context(), making, func(h holder) error {
				created, err := h.create(cmd.Context(), name, c)
				if err != nil {
					return err
				}
				text := "created %q"
				if !created {
					text = "%q exists already"
				}
				return fs.answer(struct {
					jsonFilter
					Created bool `json:"created"`
				}{filterJSON(name), created}, text, name)
			})
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&c.capacity, "capacity", 0, "keys of the first layer, above 10000 (default 100000, or the server's)")
	f.Float64Var(&c.probability, "prob", 0, "of a false positive, above 0 and below 0.1 (default 0.0001, or the server's)")
	f.BoolVar(&c.inMemory, "in-memory", false, "its keys are never written to disk: the filter is empty after a restart of the server")
	f.StringVar(&durability, "durability", "", "when a server answers a set: interval, log or sync; with --dir only (default: the server's)")
	f.Uint32Var(&c.slices, "slices", 1, "number of slices, a power of two; with --dir only")
	fs.recordFlag(cmd)
	return cmd
}
