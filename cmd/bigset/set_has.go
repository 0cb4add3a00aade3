package main

import (
	"github.com/spf13/cobra"

	"bigset"
	"bigset/engine"
)

func (a *app) setHas() *cobra.Command {
	var n notation
	cmd := &cobra.Command{
		Use:        "has SET ELEMENT…",
		SuggestFor: []string{"contains", "in", "is"},
		Short:      "Print for each element whether it is in the set",
		Long: `Print for each element whether it is in the set: yes or no, on a line. The exit status is 1 if one is absent. All elements of a
set that does not exist are absent.

With --json each answer is printed with its context: a token for what was seen.`,
		Example: `  bigset set has friends paul
  bigset set has friends paul ringo --json`,
		Args: takes(2, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := a.setName(cmd, args[0])
			if err != nil {
				return err
			}
			elements, err := n.elements(args[1:])
			if err != nil {
				return err
			}
			return a.either(cmd, atRest, func() error { return a.hasAway(cmd.Context(), n, set, elements) }, func(s *engine.Store) error {
				found, err := s.Subset(cmd.Context(), set, elements)
				if err != nil {
					return err
				}
				return a.present(n, s.Tokens(set), elements, found)
			})
		},
	}
	n.flag(cmd)
	return cmd
}

// present prints which elements are in the set.
func (a *app) present(n notation, tokens *bigset.Tokens, elements [][]byte, found []bigset.Presence) (err error) {
	all := true
	for i, e := range elements {
		all = all && found[i].Present
		if a.json {
			err = a.presentJSON(n, tokens, e, found[i])
		} else {
			err = a.line(yesOrNo(found[i].Present)+"\t", e, n)
		}
		if err != nil {
			return err
		}
	}
	if !all {
		return errAbsent
	}
	return nil
}

func (a *app) presentJSON(n notation, tokens *bigset.Tokens, element []byte, p bigset.Presence) error {
	token, err := tokens.Narrow(element, p.Context.Dots)
	if err != nil {
		return err
	}
	return a.object(struct {
		jsonElement
		Present bool   `json:"present"`
		Context string `json:"context"`
	}{n.jsonElement(element), p.Present, token.Text()})
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
