package main

import (
	"context"

	"github.com/spf13/cobra"

	"bigset/engine"
)

func (a *app) setContext() *cobra.Command {
	var n notation
	cmd := &cobra.Command{
		Use:   "context SET [ELEMENT]",
		Short: "Print the token of what the store has of a set or an element",
		Long: `Print a context: a token for what the store has now. The token of an element is for add and rm, that of the whole set for
drop, and for add and rm of any of its elements. An operation with a context acts on what was seen and nothing newer. An absent element
has a token, too, which says that nothing was seen. Tokens are sealed with a key of the store. They are valid as long as the store exists,
for their set and element only.`,
		Example: `  bigset set context friends paul
  bigset set rm friends paul --context "$(bigset set context friends paul)"
  bigset set drop friends --context "$(bigset set context friends)"`,
		Args: takes(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := a.setName(cmd, args[0])
			if err != nil {
				return err
			}
			elements, err := n.elements(args[1:])
			if err != nil {
				return err
			}
			return a.either(cmd, atRest, func() error { return a.contextAway(cmd.Context(), n, set, elements) }, func(s *engine.Store) error {
				if len(elements) == 0 {
					return a.wide(cmd.Context(), s, set)
				}
				return a.narrow(cmd.Context(), s, set, elements[0], n)
			})
		},
	}
	n.flag(cmd)
	return cmd
}

// wide prints the token of a whole set.
func (a *app) wide(ctx context.Context, s *engine.Store, set []byte) error {
	seen, err := s.Seen(ctx, set)
	if err != nil {
		return err
	}
	token, err := s.Tokens(set).Wide(seen)
	if err != nil {
		return err
	}
	return a.answer(struct {
		jsonSet
		Context string `json:"context"`
	}{notation{}.jsonSet(set), token.Text()}, "%s", token.Text())
}

// narrow prints the token of one element.
func (a *app) narrow(ctx context.Context, s *engine.Store, set, element []byte, n notation) error {
	found, err := s.Look(ctx, set, element)
	if err != nil {
		return err
	}
	tokens := s.Tokens(set)
	if a.json {
		return a.presentJSON(n, tokens, element, found)
	}
	token, err := tokens.Narrow(element, found.Context.Dots)
	if err != nil {
		return err
	}
	return a.answer(nil, "%s", token.Text())
}
