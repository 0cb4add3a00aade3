package main

import (
	"github.com/spf13/cobra"

	"bigset/engine"
	"bigset/keyscheme"
)

func (a *app) setRemove() *cobra.Command {
	c := &change{kind: keyscheme.OpRemove}
	cmd := &cobra.Command{
		Use:        "rm SET ELEMENT…",
		SuggestFor: []string{"remove", "delete", "del"},
		Short:      "Remove elements, in one atomic batch",
		Long: `Remove elements from a set, in one atomic batch. With a context only what was seen is removed: an add that came later
stays. A context of the whole set counts for each of the elements. The exit status is 1 if none of the elements was in the set;
with --open-contexts this is not checked.`,
		Example: `  bigset set rm friends ringo
  bigset set rm friends paul --context "$(bigset set context friends paul)"`,
		Args: takes(2, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.parse(a, cmd, args); err != nil {
				return err
			}
			a.keepContexts = c.keepContexts
			return a.either(cmd, changing, func() error { return a.removeAway(cmd, c) }, func(s *engine.Store) error {
				r, err := c.write(cmd.Context(), s)
				if err != nil {
					return err
				}
				return a.removed(r.Removed)
			})
		},
	}
	c.flags(cmd)
	return cmd
}

// removed prints the result of a remove.
func (a *app) removed(n int) error {
	err := a.answer(struct {
		Removed int `json:"removed"`
	}{n}, "removed %s", tally(uint64(n)))
	if err == nil && n == 0 {
		return errAbsent
	}
	return err
}
