package main

import (
	"github.com/spf13/cobra"

	"bigset/engine"
)

func (a *app) setCount() *cobra.Command {
	var n notation
	var prefix string
	cmd := &cobra.Command{
		Use:   "count SET",
		Short: "Count elements",
		Long:  `Count the elements of a set, or those that begin with a prefix. It reads their keys.`,
		Example: `  bigset set count friends
  bigset set count friends --prefix p`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := setName(args[0])
			if err != nil {
				return err
			}
			o := engine.ReadOptions{}
			if o.Prefix, err = n.bound("prefix", prefix); err != nil {
				return err
			}
			return a.withStore(atRest, func(s *engine.Store) error {
				total, err := s.Count(cmd.Context(), set, o)
				if err != nil {
					return err
				}
				return a.answer(struct {
					Count uint64 `json:"count"`
				}{total}, "%d", total)
			})
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "elements that begin with this")
	n.flag(cmd)
	return cmd
}
