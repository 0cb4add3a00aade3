package main

import (
	"github.com/spf13/cobra"

	"bigset"
	"bigset/engine"
)

func (a *app) setCount() *cobra.Command {
	var n notation
	var prefix string
	cmd := &cobra.Command{
		Use:   "count SET",
		Short: "Count elements",
		Long: `Count the elements of a set, or those that begin with a prefix. It reads their keys, except for a whole set in which no element can
have two live dots (all adds had policy coordinator). With --json the count is printed with the token of the whole set at the time when
counting began, for drop.`,
		Example: `  bigset set count friends
  bigset set count friends --prefix p`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := a.setName(cmd, args[0])
			if err != nil {
				return err
			}
			o := engine.CountOptions{Progress: a.counting}
			if o.Prefix, err = n.bound("prefix", prefix); err != nil {
				return err
			}
			return a.either(cmd, atRest, func() error { return a.countAway(cmd.Context(), set, o.Prefix) }, func(s *engine.Store) error {
				c, err := s.Count(cmd.Context(), set, o)
				if err != nil {
					return err
				}
				return a.counted(s.Tokens(set), c)
			})
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "elements that begin with this")
	n.flag(cmd)
	return cmd
}

func (a *app) counting(elements uint64) { a.progress.show("counted %s", count(elements, "element")) }

// counted prints a count.
func (a *app) counted(tokens *bigset.Tokens, c engine.Count) error {
	if !a.json {
		return a.answer(nil, "%d", c.Elements)
	}
	token, err := tokens.Wide(c.Context)
	if err != nil {
		return err
	}
	return a.object(struct {
		Count   uint64 `json:"count"`
		Context string `json:"context"`
	}{c.Elements, token.Text()})
}
