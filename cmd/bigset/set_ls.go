package main

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
)

// listing is one run of ls.
type listing struct {
	notation
	from, to, prefix, after string
	limit                   int
	reverse                 bool

	set    []byte
	tokens *bigset.Tokens
	seen   *clock.Clock // the clock of the set when the listing began
	some   bool         // an element was printed
	last   []byte       // the last element printed
	left   int          // how many may still be printed
}

func (a *app) setList() *cobra.Command {
	l := &listing{}
	cmd := &cobra.Command{
		Use:        "ls SET",
		SuggestFor: []string{"list", "range", "read"},
		Short:      "List elements in order, a page at a time or all",
		Long: `List the elements of a set in the order of their bytes, one a line.

With --limit, if more elements follow, standard error says how to continue: with --after and a token. The token works for this set only,
in the same direction; give the same bounds again. With --json each element is printed with its context, a token for that element. If more
elements follow, the last object is {"after": TOKEN}. A list without elements has one object, {"context": TOKEN}: the context of the
whole set.`,
		Example: `  bigset set ls friends
  bigset set ls friends --prefix p --limit 100
  bigset set ls friends --from a --to c --reverse
  bigset set ls friends --limit 100 --after TOKEN`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if l.limit < 0 {
				return usage(cmd, "--limit %d: it is 1 or more, or 0 for all", l.limit)
			}
			if l.set, err = a.setName(cmd, args[0]); err != nil {
				return err
			}
			o, err := l.bounds()
			if err != nil {
				return err
			}
			return a.either(cmd, atRest, func() error { return a.listAway(cmd, l, o) }, func(s *engine.Store) error {
				l.tokens = s.Tokens(l.set)
				if cmd.Flags().Changed("after") {
					if o.After, err = l.resumes(); err != nil {
						return err
					}
				}
				return a.list(cmd.Context(), s, l, o)
			})
		},
	}
	l.flags(cmd)
	return cmd
}

func (l *listing) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.from, "from", "", "from this element on")
	f.StringVar(&l.to, "to", "", "up to this element, without it")
	f.StringVar(&l.prefix, "prefix", "", "elements that begin with this")
	f.StringVar(&l.after, "after", "", "continue after the page that gave this token")
	f.IntVar(&l.limit, "limit", 0, "at most that many elements; 0 is all")
	f.BoolVar(&l.reverse, "reverse", false, "in descending order")
	l.notation.flag(cmd)
}

// bounds returns the bounds given by the flags; an empty value is no bound.
func (l *listing) bounds() (o bigset.ReadOptions, err error) {
	o.Reverse = l.reverse
	if o.From, err = l.bound("from", l.from); err != nil {
		return o, err
	}
	if o.To, err = l.bound("to", l.to); err != nil {
		return o, err
	}
	o.Prefix, err = l.bound("prefix", l.prefix)
	return o, err
}

func (n notation) bound(flag, text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	b, err := n.decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return b, nil
}

// list prints a listing. It reads one element more than requested, to learn whether there are more.
func (a *app) list(ctx context.Context, s *engine.Store, l *listing, o bigset.ReadOptions) error {
	l.left = math.MaxInt
	if l.limit > 0 && l.limit < math.MaxInt {
		l.left, o.Limit = l.limit, l.limit+1
	}
	for chunk, err := range s.Read(ctx, l.set, o) {
		if err != nil {
			return err
		}
		if l.seen == nil {
			l.seen = chunk.Clock
		}
		if err := a.listChunk(l, chunk); err != nil {
			return err
		}
	}
	switch {
	case l.left < 0:
		return a.listMore(l)
	case !l.some:
		return a.listNothing(l)
	}
	return nil
}

func (a *app) listChunk(l *listing, chunk *fold.Chunk) error {
	for _, e := range chunk.Elements {
		if l.left--; l.left < 0 {
			return nil
		}
		l.some, l.last = true, e.Name
		if err := a.listElement(l, e); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) listElement(l *listing, e fold.Element) error {
	if !a.json {
		return a.line("", e.Name, l.notation)
	}
	token, err := l.tokens.Narrow(e.Name, e.Dots)
	if err != nil {
		return err
	}
	return a.object(struct {
		jsonElement
		Context string `json:"context"`
	}{l.jsonElement(e.Name), token.Text()})
}

// listNothing prints the context of a listing without elements, in which their absence was seen: no element carried one.
func (a *app) listNothing(l *listing) error {
	if !a.json {
		return nil
	}
	token, err := l.tokens.Wide(l.seen)
	if err != nil {
		return err
	}
	return a.object(struct {
		Context string `json:"context"`
	}{token.Text()})
}

// resumes returns the element after which --after continues.
func (l *listing) resumes() ([]byte, error) {
	token, err := tokenOf("--after", l.after)
	if err != nil {
		return nil, err
	}
	after, err := l.tokens.After(token, l.reverse)
	return after, ofFlag("--after", true, err)
}

// listMore prints how to continue.
func (a *app) listMore(l *listing) error {
	token, err := l.tokens.Cursor(l.last, l.reverse)
	if err != nil {
		return err
	}
	if a.json {
		return a.object(struct {
			After string `json:"after"`
		}{token.Text()})
	}
	return a.note("more: --after %s", token.Text())
}
