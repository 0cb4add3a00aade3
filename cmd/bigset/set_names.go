package main

import (
	"github.com/spf13/cobra"

	"bigset"
	"bigset/engine"
)

func (a *app) setNames() *cobra.Command {
	var n notation
	var all bool
	cmd := &cobra.Command{
		Use:        "names",
		SuggestFor: []string{"sets", "list"},
		Short:      "List the sets",
		Long: `List the names of the sets, one a line, in an order that means nothing. A set of Riak's or HTTP's clients is shown by its path,
/types/TYPE/buckets/BUCKET/datatypes/KEY, with percent-encoded parts, and so is a key that is empty, begins with a zero byte or looks
like such a path. With --json they have type, bucket and key. --type, --bucket or both select sets.`,
		Example: `  bigset set names
  bigset set names --all --json
  bigset set names --type maps --bucket people`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			wanted := selected(cmd)
			return a.either(cmd, atRest, func() error { return a.namesAway(cmd, n, all) }, func(s *engine.Store) error {
				for info, err := range s.Sets(cmd.Context(), bigset.SetsOptions{Empty: all}) {
					if err != nil {
						return err
					}
					if wanted(info.Name) {
						if err := a.name(n, info); err != nil {
							return err
						}
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that are empty or dropped")
	cmd.Flags().BoolVar(&n.base64, "base64", false, "write names as standard base64, for arbitrary bytes")
	return cmd
}

func (a *app) name(n notation, info bigset.SetInfo) error {
	if !a.json {
		return a.line("", nameLine(info.Name, n), n)
	}
	return a.object(struct {
		jsonSet
		Live uint64 `json:"live"`
		Seen uint64 `json:"seen"`
	}{n.jsonSet(info.Name), info.Live, info.Seen})
}
