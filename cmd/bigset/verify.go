package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"bigset/bench"
	"bigset/engine"
)

func (a *app) verify() *cobra.Command {
	var online bool
	var rate int64
	cmd := &cobra.Command{
		Use:   "verify [SET]",
		Short: "Prove the store, or a set, right",
		Long: `Prove a store, or one set of it, right: every key can be read and is in order, every key's dot is in the clock, no dot has
two keys, and every live dot has one, so that nothing acknowledged is missing and nothing removed is back. It reads
everything once; with --online in small pieces and no faster than --rate, as a scrub that leaves the disk to others.
Exit status 1 says that something is wrong, and what is printed says what.`,
		Example: `  bigset verify
  bigset verify friends --json
  bigset verify --online --rate 8`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := setNameOrAll(args)
			if err != nil {
				return err
			}
			o := engine.VerifyOptions{Set: set, Progress: a.verifying}
			if rate < 1 {
				return usage(cmd, "--rate is 1 at least")
			}
			if online {
				o.BytesPerSecond = rate << 20
			}
			err = a.withStore(atRest, func(s *engine.Store) error {
				rep, err := s.Verify(cmd.Context(), o)
				if err != nil {
					return err
				}
				if set != nil && rep.Sets == 0 {
					return fmt.Errorf("%w: %q", engine.ErrNotFound, set)
				}
				return a.verified(&rep)
			})
			if errors.Is(err, engine.ErrCorrupt) { // so bad that it could not be read to the end
				return errors.Join(a.damage(err), errNotVerified)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&online, "online", false, "read in small pieces, at the --rate")
	cmd.Flags().Int64Var(&rate, "rate", 32, "with --online: MiB of keys a second, at most")
	return cmd
}

func (a *app) verifying(r engine.VerifyReport) {
	a.progress.show("verifying: %s, %s, %s", count(uint64(r.Sets), "set"), count(r.Keys, "key"), count(uint64(r.ProblemCount), "problem"))
}

// problem is one thing that is wrong, in JSON.
type problem struct {
	jsonSet
	jsonElement
	What string `json:"problem"`
}

// verification is the report of a verification in JSON.
type verification struct {
	OK       bool   `json:"ok"`
	Sets     int    `json:"sets"`
	Keys     uint64 `json:"keys"`
	LiveKeys uint64 `json:"live_keys"`
	DeadKeys uint64 `json:"dead_keys"`
	OpenKeys uint64 `json:"open_keys"`
	LiveDots uint64 `json:"live_dots"`
	Elements uint64 `json:"elements"`
	Problems int    `json:"problems"`
}

func (a *app) verified(r *engine.VerifyReport) error {
	for _, p := range r.Problems {
		if err := a.problem(p); err != nil {
			return err
		}
	}
	verdict := "verified"
	if !r.OK() {
		verdict = fmt.Sprintf("not verified, %s", count(uint64(r.ProblemCount), "problem"))
	}
	err := a.answer(
		verification{r.OK(), r.Sets, r.Keys, r.LiveKeys, r.DeadKeys, r.OpenKeys, r.LiveDots, r.Elements, r.ProblemCount},
		"%s: %s, %s, %s, %s of them dead", verdict, count(uint64(r.Sets), "set"), count(r.Elements, "element"),
		count(r.Keys, "key"), bench.Thousands(r.DeadKeys))
	if err == nil && !r.OK() {
		return errNotVerified
	}
	return err
}

// problem prints one thing that is wrong. A set that is not named has none, or the element is not known.
func (a *app) problem(p engine.Problem) error {
	if a.json {
		return a.object(jsonProblem(p))
	}
	text := "problem"
	if len(p.Set) > 0 {
		text += fmt.Sprintf(" in set %q", p.Set)
	}
	if len(p.Element) > 0 {
		text += fmt.Sprintf(", element %q", p.Element)
	}
	_, err := fmt.Fprintf(a.out, "%s: %s\n", text, p.What)
	return err
}

func jsonProblem(p engine.Problem) problem {
	out := problem{What: p.What}
	if len(p.Set) > 0 {
		out.jsonSet = notation{}.jsonSet(p.Set)
	}
	if len(p.Element) > 0 {
		out.jsonElement = notation{}.jsonElement(p.Element)
	}
	return out
}

// damage prints that the store could not be read.
func (a *app) damage(err error) error {
	what := plain(err)
	if perr := a.problem(engine.Problem{What: what}); perr != nil {
		return perr
	}
	return a.answer(verification{Problems: 1}, "not verified: it could not be read to the end; `bigset --dir NEW restore COPY` makes the store again from a checkpoint or a copy")
}
