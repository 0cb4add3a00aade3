package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/engine"
	"bigset/keyscheme"
)

// change is one run of add or rm: its arguments and flags.
type change struct {
	writing
	notation
	kind         keyscheme.Op
	tokens       []string // none, one for the whole set, or one for each element
	keepContexts bool     // wide contexts are kept unresolved

	set      []byte
	elements [][]byte
	options  bigset.WriteOptions
}

func (c *change) flags(cmd *cobra.Command) {
	c.writing.flags(cmd)
	c.notation.flag(cmd)
	cmd.Flags().StringArrayVar(&c.tokens, "context", nil,
		"token of what you saw: of an element, once for each element, in their order; or one of the whole set")
	cmd.Flags().BoolVar(&c.keepContexts, "open-contexts", false,
		"store a context of the whole set as it is, without reading; the background resolves it later")
}

// parse reads the arguments, and checks everything that needs no store.
func (c *change) parse(a *app, cmd *cobra.Command, args []string) (err error) {
	if c.set, err = a.setName(cmd, args[0]); err != nil {
		return err
	}
	if c.elements, err = c.notation.elements(args[1:]); err != nil {
		return err
	}
	if n := len(c.tokens); n > 1 && n != len(c.elements) {
		return usage(cmd, "--context is given %d times for %d elements: give it once for each element, in their order, or once for the whole set",
			n, len(c.elements))
	}
	c.options, err = c.writing.options(cmd)
	return err
}

// write applies the change in one atomic batch.
func (c *change) write(ctx context.Context, s *engine.Store) (bigset.Result, error) {
	contexts, err := c.contexts(s.Tokens(c.set))
	if err != nil {
		return bigset.Result{}, err
	}
	ops := make([]bigset.Op, len(c.elements))
	for i, e := range c.elements {
		ops[i] = bigset.Op{Kind: c.kind, Element: e, Context: contexts[i]}
	}
	return s.Write(ctx, c.set, ops, c.options)
}

// contexts returns what the tokens of the flags hold, for each element.
func (c *change) contexts(opener *bigset.Tokens) ([]bigset.Context, error) {
	tokens := make([]bigset.Token, len(c.tokens))
	for i, text := range c.tokens {
		var err error
		if tokens[i], err = tokenOf(fmt.Sprintf("--context for element %q", c.elements[i]), text); err != nil {
			return nil, err
		}
	}
	contexts, err := opener.Contexts(tokens, c.elements)
	if err != nil {
		return nil, fmt.Errorf("--%w", err) // which begins with "context"
	}
	return contexts, nil
}
