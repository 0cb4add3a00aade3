package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
)

func (fs *filterCommand) set() *cobra.Command {
	q := &keyQuery{filterCommand: fs, ask: holder.set, settles: true}
	return q.command(&cobra.Command{
		Use:   "set FILTER [KEY…]",
		Short: "Add keys, and print for each whether it was new",
		Long: `Add keys: the arguments or, without any, the lines of standard input. For each key a line says whether it was new: yes, it was added, or no,
it was present or seemed to be. In a data folder all keys are on disk when the command ends; at a server they are as durable
as the filter promises.`,
		Example: `  bigset filter set seen paul ringo
  bigset filter set seen < keys.txt`,
	})
}

func (fs *filterCommand) check() *cobra.Command {
	q := &keyQuery{filterCommand: fs, ask: holder.check, decides: true}
	return q.command(&cobra.Command{
		Use:        "check FILTER [KEY…]",
		SuggestFor: []string{"has", "contains", "multi"},
		Short:      "Print for each key whether the filter contains it",
		Long: `Check keys: the arguments or, without any, the lines of standard input. For each key a line says yes, which is wrong with at most the
filter's probability, or no, which is certain. The exit status is 1 if an answer is no.`,
		Example: `  bigset filter check seen paul yoko
  bigset filter check seen --json < keys.txt`,
	})
}

// keyQuery is a command with an answer for each key.
type keyQuery struct {
	*filterCommand
	notation
	ask     func(h holder, ctx context.Context, name []byte, keys [][]byte) ([]bool, error)
	settles bool // it ends when its marks are durable
	decides bool // it only asks, and a "no" decides the exit status
	no      bool // there was a "no"
}

func (q *keyQuery) command(cmd *cobra.Command) *cobra.Command {
	cmd.Args = takes(1, -1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := filterName(args[0])
		if err != nil {
			return err
		}
		keys, err := q.elements(args[1:])
		if err != nil {
			return err
		}
		how := atRest
		if q.settles {
			how = changing
		}
		return q.with(cmd.Context(), how, func(h holder) error { return q.run(cmd.Context(), h, name, keys) })
	}
	cmd.Flags().BoolVar(&q.base64, "base64", false, "keys are written as standard base64, for arbitrary bytes")
	return cmd
}

func (q *keyQuery) run(ctx context.Context, h holder, name []byte, keys [][]byte) (err error) {
	if len(keys) > 0 {
		err = q.some(ctx, h, name, keys)
	} else {
		err = q.read(ctx, h, name)
	}
	if err == nil && q.settles {
		err = h.settle(ctx, name)
	}
	if err == nil && q.no && q.decides {
		err = errAbsent
	}
	return err
}

func (q *keyQuery) read(ctx context.Context, h holder, name []byte) error {
	in := newLines("standard input", q.in, q.notation)
	for {
		keys, err := in.batch()
		if len(keys) > 0 {
			if err := q.some(ctx, h, name, keys); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (q *keyQuery) some(ctx context.Context, h holder, name []byte, keys [][]byte) error {
	yes, err := q.ask(h, ctx, name, keys)
	if err != nil {
		return err
	}
	for i, key := range keys {
		q.no = q.no || !yes[i]
		if q.json {
			err = q.answered(key, yes[i])
		} else {
			err = q.line(yesOrNo(yes[i])+"\t", key, q.notation)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (q *keyQuery) answered(key []byte, yes bool) error {
	text, raw := q.split(key)
	if q.decides {
		return q.object(struct {
			jsonKey
			Present bool `json:"present"`
		}{jsonKey{text, raw}, yes})
	}
	return q.object(struct {
		jsonKey
		Added bool `json:"added"`
	}{jsonKey{text, raw}, yes})
}
