package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"bigset/client"
	"bigset/engine"
	"bigset/server/alone"
	"bigset/server/wire"
)

// Of watching: how much is asked for at a time, and how long an answer waits for something to happen.
const (
	watchLimit = 10_000
	watchWait  = 30 * time.Second
	watchPause = time.Second // until a node is asked again that does not answer
)

// watching is one call of watch.
type watching struct {
	notation
	since string
	once  bool

	set  []byte
	ask  func(context.Context, client.Changes) iter.Seq2[client.Changed, error]
	has  client.Followed // without --json
	next client.Token    // with it
}

func (a *app) setWatch() *cobra.Command {
	w := &watching{}
	cmd := &cobra.Command{
		Use:        "watch SET",
		SuggestFor: []string{"follow", "changes", "tail"},
		Short:      "Print what is added to a set and removed from it",
		Long: `Print the elements of a set, and then each that is added (+) or removed (-), until it is interrupted. With --once it ends when
nothing more is known. All elements are kept in memory. After a restore, or a crash that took events back, the difference is printed.

With --json each answer of the node is printed as it is, for a program that keeps elements with their dots: first {"reset": ...} if everything
before is void, then {"added": [...]}, {"removed": [...]}, {"dead": [...]}, and at last {"next": TOKEN}. --since TOKEN continues there.

A folder does not change while it is read, so for a folder --once is implied.`,
		Example: `  bigset set watch friends --addr 127.0.0.1:8691
  bigset set watch friends --addr 127.0.0.1:8691 --json --since TOKEN
  bigset set watch friends`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if w.set, err = a.setName(cmd, args[0]); err != nil {
				return err
			}
			if cmd.Flags().Changed("since") {
				if !a.json {
					return usage(cmd, "--since is for --json: without it the elements before the token are not known")
				}
				if w.next, err = tokenOf("--since", w.since); err != nil {
					return err
				}
			}
			away := func() error {
				return a.ask(func(to *client.Client) error {
					w.ask = to.Changes
					return a.watch(cmd.Context(), w)
				})
			}
			return a.either(cmd, atRest, away, func(s *engine.Store) error {
				w.ask, w.once = alone.NewOnce(s).Changes, true
				return a.watch(cmd.Context(), w)
			})
		},
	}
	cmd.Flags().StringVar(&w.since, "since", "", "with --json: what has happened since the answer that gave this token")
	cmd.Flags().BoolVar(&w.once, "once", false, "print what is known, and do not wait for more")
	w.notation.flag(cmd)
	return cmd
}

// watch asks until nothing is left or, without --once, until it is interrupted.
func (a *app) watch(ctx context.Context, w *watching) error {
	waiting, answered := false, false
	for {
		last, err := a.watched(ctx, w)
		if err == nil {
			waiting, answered = false, true
			err = a.out.Flush() // somebody waits for it
		}
		switch {
		case ctx.Err() != nil && !w.once:
			return nil
		case errors.Is(err, client.ErrUnavailable) && !w.once && (answered || !lasting(err)):
			if !waiting { // once, until a node answers
				if err := a.note("waiting: %s", plain(err)); err != nil {
					return err
				}
			}
			waiting = true
			if !pause(ctx, watchPause) {
				return nil
			}
		case err != nil:
			return ofFlag("--since", w.since != "", err)
		case w.once && !last.More:
			return nil
		}
	}
}

// lasting reports whether an error of a node that never answered stays until a person does something: what listens at the address is no node, or it
// does not accept this client.
func lasting(err error) bool {
	return errors.Is(err, wire.ErrRefused) || advise(err).cause != client.ErrUnavailable
}

// pause waits, and reports whether that was not interrupted.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// watched takes one answer, and prints it when it is whole: what breaks off is void.
func (a *app) watched(ctx context.Context, w *watching) (last client.Changed, err error) {
	q := client.Changes{Set: w.set, Since: w.next, Limit: watchLimit, R: a.node.r}
	if !a.json {
		q.Since = w.has.Since()
	}
	if !w.once {
		q.Wait = watchWait
	}
	var parts []client.Changed
	for c, err := range w.ask(ctx, q) {
		if err != nil {
			return last, err
		}
		parts = append(parts, c)
	}
	if len(parts) == 0 || !parts[len(parts)-1].Done {
		return last, fmt.Errorf("%w: changes without their last part", client.ErrAnswer)
	}
	last = parts[len(parts)-1]
	if a.json {
		w.next = last.Next
		return last, a.watchedJSON(w, parts)
	}
	for i := range parts {
		w.has.Apply(&parts[i], func(element string, present bool) {
			if err == nil {
				err = a.line(map[bool]string{true: "+\t", false: "-\t"}[present], []byte(element), w.notation)
			}
		})
	}
	if err == nil && last.Unconfirmed > 0 {
		err = a.note("in doubt: replicas that answer do not know %s that were reported before, and some do not answer", count(last.Unconfirmed, "event"))
	}
	return last, err
}

// dotted is an element with dots in JSON.
type dotted struct {
	jsonElement
	Dots []string `json:"dots"`
}

func (w *watching) dotted(all []client.Dotted) (out []dotted) {
	for i := range all {
		d := dotted{jsonElement: w.jsonElement(all[i].Name)}
		for _, dot := range all[i].Dots {
			d.Dots = append(d.Dots, dot.String())
		}
		out = append(out, d)
	}
	return out
}

// watchedJSON prints an answer, unless it says nothing new. A token that expires is printed each time: it may replace the one before.
func (a *app) watchedJSON(w *watching, parts []client.Changed) error {
	said := false
	say := func(v any) error {
		said = true
		return a.object(v)
	}
	for i := range parts {
		c := &parts[i]
		if c.Reset != "" {
			if err := say(map[string]string{"reset": c.Reset}); err != nil {
				return err
			}
		}
		for _, list := range []struct {
			name string
			all  []client.Dotted
		}{{"added", c.Added}, {"removed", c.Removed}} {
			if len(list.all) > 0 {
				if err := say(map[string][]dotted{list.name: w.dotted(list.all)}); err != nil {
					return err
				}
			}
		}
		if c.Dead != nil {
			var dead []string
			for run := range c.Dead.Runs() {
				dead = append(dead, fmt.Sprintf("%x:%d-%d", string(run.Actor), run.First, run.Last))
			}
			if err := say(map[string][]string{"dead": dead}); err != nil {
				return err
			}
		}
	}
	last := &parts[len(parts)-1]
	if !said && !w.once && last.Unconfirmed == 0 && last.Expires == 0 {
		return nil
	}
	return a.object(struct {
		Next        string `json:"next"`
		Expires     int    `json:"expires,omitempty"`
		More        bool   `json:"more,omitempty"`
		Unconfirmed uint64 `json:"unconfirmed,omitempty"`
	}{last.Next.Text(), int(last.Expires / time.Second), last.More, last.Unconfirmed})
}
