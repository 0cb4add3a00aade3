package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"bigset"
	"bigset/bench"
	"bigset/engine"
	"bigset/server"
	"bigset/server/setname"
)

func (a *app) verify() *cobra.Command {
	var online bool
	var rate int64
	cmd := &cobra.Command{
		Use:   "verify [SET]",
		Short: "Check that the store, or a set, is right",
		Long: `Check that a store, or one set of it, is right: every key can be read and is in order, every key's dot is in the clock, no dot has
two keys, and every live dot has one. Then nothing acknowledged is missing, and nothing removed is back. For bloom filters it checks that
the directory lists each filter, and that every page can be read and lies within a layer.

Without SET it counts filters, their slices, and the stored pages with their bytes. It also reads what the folder keeps for its node, and
prints which of these exist: the record of its cluster, the list of the cluster's filters, access tokens, and hints for other members.

It reads everything once. With --online it reads in small pieces and no faster than --rate, to leave the disk to others.

The exit status is 1 if something is wrong; the output names the problem with its set or filter. Data that cannot be read is
damaged: "bigset stats", "bigset filter list" and a server name it from then on, until a verify finds everything right.
Restore the folder from a copy, or drop the damaged filter.`,
		Example: `  bigset verify
  bigset verify friends --json
  bigset verify --online --rate 8`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := a.setNameOrAll(cmd, args)
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
					return fmt.Errorf("%w: %q", bigset.ErrNotFound, set)
				}
				if set != nil {
					return a.verified(&rep, nil)
				}
				kept, err := server.VerifyKept(a.dir, s)
				if err != nil {
					return err
				}
				for _, p := range kept.Problems {
					rep.Problems = append(rep.Problems, engine.Problem{What: p})
				}
				rep.ProblemCount += len(kept.Problems)
				for _, l := range kept.Later {
					if err := a.note("%s: it is left as it is, for the program that wrote it", packageNames.ReplaceAllString(l, "$1")); err != nil {
						return err
					}
				}
				return a.verified(&rep, &kept)
			})
			if errors.Is(err, bigset.ErrCorrupt) { // too damaged to be read to the end
				return errors.Join(a.damage(err), errNotVerified)
			}
			return err
		},
	}
	bucketFlags(cmd)
	cmd.Flags().BoolVar(&online, "online", false, "read in small pieces, at the --rate")
	cmd.Flags().Int64Var(&rate, "rate", 32, "with --online: MiB of keys a second, at most")
	return cmd
}

func (a *app) verifying(r engine.VerifyReport) {
	a.progress.show("verifying: %s, %s, %s, %s, %s", count(uint64(r.Sets), "set"), count(r.Keys, "key"), count(uint64(r.Filters), "filter"),
		count(r.FilterPages, "page"), count(uint64(r.ProblemCount), "problem"))
}

// problem is one problem, in JSON.
type problem struct {
	jsonSet
	jsonFilter
	jsonElement
	What string `json:"problem"`
}

// verification is the report of a verification in JSON.
type verification struct {
	OK             bool   `json:"ok"`
	Sets           int    `json:"sets"`
	Keys           uint64 `json:"keys"`
	LiveKeys       uint64 `json:"live_keys"`
	DeadKeys       uint64 `json:"dead_keys"`
	UnresolvedKeys uint64 `json:"open_keys"`
	LiveDots       uint64 `json:"live_dots"`
	Elements       uint64 `json:"elements"`
	*verifiedFilters
	*verifiedNode
	Problems int `json:"problems"`
}

// verifiedNode is the part of a verification about what the folder keeps for its node.
type verifiedNode struct {
	Cluster    string         `json:"cluster,omitempty"`
	Generation uint64         `json:"cluster_generation,omitempty"`
	Epoch      uint64         `json:"cluster_epoch,omitempty"`
	Filters    int            `json:"cluster_filters,omitempty"`
	Tokens     int            `json:"access_tokens,omitempty"`
	Hints      map[string]int `json:"hints,omitempty"` // by the member that they are for
}

// text describes what exists, for the end of a line.
func (v *verifiedNode) text() (text string) {
	if v.Cluster != "" {
		text += fmt.Sprintf("; cluster %s, generation %d, epoch %d, %s in its list", v.Cluster, v.Generation, v.Epoch, count(uint64(v.Filters), "filter"))
	}
	if v.Tokens > 0 {
		text += "; " + count(uint64(v.Tokens), "access token")
	}
	for _, node := range slices.Sorted(maps.Keys(v.Hints)) {
		text += fmt.Sprintf("; %s for %s", count(uint64(v.Hints[node]), "hint"), node)
	}
	return text
}

// verifiedFilters is the part of a store's verification about filters.
type verifiedFilters struct {
	Filters int    `json:"filters"`
	Slices  int    `json:"filter_slices"`
	Pages   uint64 `json:"filter_pages"`
	Bytes   uint64 `json:"filter_bytes"`
}

// verified prints a report, of a whole store with what it keeps for its node, or of one set.
func (a *app) verified(r *engine.VerifyReport, kept *server.Kept) error {
	for _, p := range r.Problems {
		if err := a.problem(p); err != nil {
			return err
		}
	}
	verdict := "verified"
	if !r.OK() {
		verdict = fmt.Sprintf("not verified, %s", count(uint64(r.ProblemCount), "problem"))
	}
	var filters *verifiedFilters
	var node *verifiedNode
	text := ""
	if kept != nil {
		filters = &verifiedFilters{r.Filters, r.FilterSlices, r.FilterPages, r.FilterBytes}
		text = fmt.Sprintf("; %s, %s, %s, %s", count(uint64(r.Filters), "filter"), count(uint64(r.FilterSlices), "slice"),
			count(r.FilterPages, "page"), size(r.FilterBytes))
		node = &verifiedNode{Tokens: kept.Tokens, Hints: kept.Hints}
		if c := kept.Record; c != nil {
			node.Cluster, node.Generation, node.Epoch, node.Filters = c.Name, c.Generation, c.Epoch, kept.Filters
		}
		text += node.text()
	}
	err := a.answer(
		verification{r.OK(), r.Sets, r.Keys, r.LiveKeys, r.DeadKeys, r.UnresolvedKeys, r.LiveDots, r.Elements, filters, node, r.ProblemCount},
		"%s: %s, %s, %s, %s of them dead%s", verdict, count(uint64(r.Sets), "set"), count(r.Elements, "element"),
		count(r.Keys, "key"), bench.Thousands(r.DeadKeys), text)
	if err == nil && !r.OK() {
		return errNotVerified
	}
	return err
}

// problem prints one problem. If it names neither a set nor a filter, it belongs to neither, or to an unknown one.
func (a *app) problem(p engine.Problem) error {
	p.What = packageNames.ReplaceAllString(p.What, "$1")
	if a.json {
		return a.object(jsonProblem(p))
	}
	text := "problem"
	if len(p.Set) > 0 {
		text += " in set " + setname.Quoted(p.Set)
	}
	if len(p.Filter) > 0 {
		text += fmt.Sprintf(" in filter %q", p.Filter)
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
	if len(p.Filter) > 0 {
		out.jsonFilter = filterJSON(p.Filter)
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
