package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/server/setname"
)

func (a *app) setDrop() *cobra.Command {
	var w writing
	var token string
	cmd := &cobra.Command{
		Use:   "drop SET",
		Short: "Delete a whole set",
		Long: `Delete a whole set of any size. With a context, delete what was seen when
` + "`bigset set context SET`" + ` printed it; what was added later stays. The set keeps a few bytes for ever, so that no element returns;
` + "`names`" + ` lists it only with --all. If nothing is left in the set, its space is freed at once, otherwise by compact.`,
		Example: `  bigset set drop friends
  bigset set drop friends --context "$(bigset set context friends)"`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := a.setName(cmd, args[0])
			if err != nil {
				return err
			}
			given := cmd.Flags().Changed("context")
			o, err := w.options(cmd)
			switch {
			case err != nil:
				return err
			case !given && o.Policy == bigset.PolicyEmpty:
				return usage(cmd, "--policy empty drops nothing: give a context or another policy")
			case !given && o.Policy == bigset.PolicyRequired:
				return fmt.Errorf("drop %q: %w", set, bigset.ErrContextRequired)
			}
			return a.either(cmd, changing, func() error { return a.dropAway(cmd, set, token) }, func(s *engine.Store) error {
				var seen *clock.Clock
				if given {
					if seen, err = seenBy(s.Tokens(set), token); err != nil {
						return err
					}
				}
				return a.drop(cmd.Context(), s, set, seen, o.Durability)
			})
		},
	}
	w.flags(cmd)
	cmd.Flags().StringVar(&token, "context", "", "token of what you saw of the set; only that is dropped")
	return cmd
}

// seenBy returns what the holder of a token had seen of a set.
func seenBy(tokens *bigset.Tokens, text string) (*clock.Clock, error) {
	token, err := tokenOf("--context", text)
	if err != nil {
		return nil, err
	}
	seen, err := tokens.Seen(token)
	return seen, ofFlag("--context", true, err)
}

// drop drops a set, reports that as soon as it is done, and reclaims the space if that is cheap.
func (a *app) drop(ctx context.Context, s *engine.Store, set []byte, seen *clock.Clock, d bigset.Durability) error {
	if _, err := s.Drop(ctx, set, bigset.DropOptions{Seen: seen, Durability: d}); err != nil {
		return err
	}
	left, err := s.Live(ctx, set)
	if err != nil {
		return err
	}
	if err := a.answer(struct {
		jsonSet
		Left uint64 `json:"left"`
	}{notation{}.jsonSet(set), left}, "dropped %s, %s left", setname.Quoted(set), tally(left)); err != nil {
		return err
	}
	if err := a.out.Flush(); err != nil || left > 0 {
		return err
	}
	if _, err := s.Compact(ctx, engine.CompactOptions{Set: set}); err != nil {
		return errors.Join(errNoReclaim, err)
	}
	return nil
}
