package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (fs *filterCommand) drop() *cobra.Command {
	return &cobra.Command{
		Use:   "drop FILTER…",
		Short: "Delete filters, for good",
		Long:  `Delete filters, one after the other. The drop of each is on disk before the next one begins.`,
		Example: `  bigset filter drop seen
  bigset filter --addr localhost:8673 drop seen`,
		Args: takes(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := filterNames(args)
			if err != nil {
				return err
			}
			return fs.with(cmd.Context(), changing, func(h holder) error {
				for _, name := range names {
					if err := h.drop(cmd.Context(), name); err != nil {
						return err
					}
					if err := fs.did("dropped", name); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// did prints what was done to a filter.
func (fs *filterCommand) did(what string, name []byte) error {
	return fs.answer(struct {
		jsonFilter
		Did string `json:"did"`
	}{filterJSON(name), what}, what+" %q", name)
}

// done are the past participles of the orders.
var done = map[string]string{"close": "closed", "clear": "cleared", "flush": "flushed"}

// order returns a command that only makes sense for a server.
func (fs *filterCommand) order(verb, short string, do func(running, context.Context, []byte) error) *cobra.Command {
	return &cobra.Command{
		Use:     verb + " FILTER…",
		Short:   short,
		Long:    short + `. It needs --addr: in a data folder that no server has open, every filter is closed and on disk.`,
		Example: `  bigset filter ` + verb + ` --addr localhost:8673 seen`,
		Args:    takes(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return fs.ordered(cmd, args, do)
		},
	}
}

func (fs *filterCommand) ordered(cmd *cobra.Command, args []string, do func(running, context.Context, []byte) error) error {
	names, err := filterNames(args)
	if err != nil {
		return err
	}
	if fs.addr == "" {
		return usage(cmd, "%s asks a running server, which --addr names; in a data folder that no server has open, every filter is closed and on disk", cmd.Name())
	}
	return fs.dial(cmd.Context(), func(c running) error {
		for _, name := range names {
			if err := do(c, cmd.Context(), name); err != nil {
				return of(name, err)
			}
			if err := fs.did(done[cmd.Name()], name); err != nil {
				return err
			}
		}
		return nil
	})
}

func (fs *filterCommand) flush() *cobra.Command {
	cmd := fs.order("flush", "Make the server write some filters, or all, to disk", running.flush)
	cmd.Use = "flush [FILTER…]"
	cmd.Args = takes(0, -1)
	some := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 || fs.addr == "" {
			return some(cmd, args)
		}
		return fs.dial(cmd.Context(), func(c running) error {
			if err := c.flushAll(cmd.Context()); err != nil {
				return err
			}
			return fs.answer(struct {
				Did string `json:"did"`
			}{"flushed"}, "flushed all filters")
		})
	}
	return cmd
}
