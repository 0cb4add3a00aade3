package main

import (
	"github.com/spf13/cobra"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/keyscheme"
)

func (a *app) setAdd() *cobra.Command {
	c := &change{kind: keyscheme.OpAdd}
	cmd := &cobra.Command{
		Use:   "add SET ELEMENT…",
		Short: "Add elements, in one atomic batch",
		Long: `Add elements to a set, in one atomic batch. The set and the store are created if they do not exist.

With --json each element is printed with its context: a token for exactly this add.`,
		Example: `  bigset set add friends paul ringo
  bigset set add friends paul --context "$(bigset set context friends paul)"
  bigset set add friends paul ringo --context "$(bigset set context friends)"
  bigset set add --base64 keys AAECAw==
  bigset set add temperatures -- -7`,
		Args: takes(2, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.parse(a, cmd, args); err != nil {
				return err
			}
			how := making
			if len(c.tokens) > 0 {
				how = changing // a token belongs to an existing store
			}
			a.keepContexts = c.keepContexts
			return a.either(cmd, how, func() error { return a.addAway(cmd, c) }, func(s *engine.Store) error {
				r, err := c.write(cmd.Context(), s)
				if err != nil {
					return err
				}
				return a.added(c, s.Tokens(c.set), r)
			})
		},
	}
	c.flags(cmd)
	a.recordFlag(cmd)
	return cmd
}

// added prints the result of an add.
func (a *app) added(c *change, tokens *bigset.Tokens, r bigset.Result) error {
	for i, e := range c.elements {
		if !a.json {
			break
		}
		token, err := tokens.Narrow(e, []clock.Dot{r.Dots[i]})
		if err != nil {
			return err
		}
		if err := a.object(struct {
			jsonElement
			Context string `json:"context"`
		}{c.jsonElement(e), token.Text()}); err != nil {
			return err
		}
	}
	return a.answer(struct {
		Added int `json:"added"`
	}{len(c.elements)}, "added %s", tally(uint64(len(c.elements))))
}
