package compaction_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"bigset/clock"
	"bigset/compaction"
	"bigset/internal/testkit/dots"
	"bigset/keyscheme"
)

// TestScripts runs testdata: which keys are dropped, and when, by example. Dots are an actor and a counter, such as n1.
//
//	publish                                  makes the next registry: a line for each set, SET DOTS; no dots remove the set
//	hold NAME                                keeps the current registry in use, as by a compaction in progress
//	compact [by=NAME]                        rewrites the keys on the lines below, SET DOTS, and prints those that stay
//	registry [of=NAME]                       its sets, how many dots may be dropped, and how many keys were found droppable
//	put LOWER keys=N dead=N [bytes=N]        adds a span to the index, or changes it
//	remove LOWER
//	spans                                    all spans, the most worthwhile first
//	wants STRATEGY                           a line for each load, as keys=N live=N [open=N] [quiet=1]; quiet is long enough without a write
//	worth STRATEGY                           a line for each span, as keys=N dead=N
//	works STRATEGY…                          on which kinds of record each works, and by which means
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{now: new(compaction.Registry), held: map[string]*compaction.Registry{}, index: compaction.NewIndex(), sets: map[string]bool{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

type script struct {
	now   *compaction.Registry
	held  map[string]*compaction.Registry
	index *compaction.Index
	sets  map[string]bool // that were ever named
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	var b strings.Builder
	switch d.Cmd {
	case "publish":
		changes := map[string]*clock.Clock{}
		for _, words := range lines(d) {
			s.sets[words[0]] = true
			changes[prefix(words[0])] = parseDots(t, words[1:])
		}
		s.now = s.now.With(changes)
		return ""
	case "hold":
		s.held[d.CmdArgs[0].Key] = s.now
		return ""
	case "compact":
		r := s.registry(d, "by")
		for _, words := range lines(d) {
			fmt.Fprintln(&b, words[0], dots.List(keep(t, r, words)))
		}
		return b.String()
	case "registry":
		r := s.registry(d, "of")
		fmt.Fprintf(&b, "sets: %d\n", r.Len())
		for _, set := range slices.Sorted(maps.Keys(s.sets)) {
			p := []byte(prefix(set))
			fmt.Fprintf(&b, "%s: dots %d, keys dropped %d\n", set, r.Dots(p), r.Hits(p))
		}
		return b.String()
	case "put":
		n := numbers(t, d.CmdArgs[1:])
		s.index.Put(compaction.Span{Lower: []byte(d.CmdArgs[0].Key), Keys: n["keys"], Dead: n["dead"], Bytes: n["bytes"]})
		return ""
	case "remove":
		s.index.Remove([]byte(d.CmdArgs[0].Key))
		return ""
	case "spans":
		return s.spans()
	case "works":
		return works(t, d)
	}
	return decide(t, d)
}

func (s *script) registry(d *datadriven.TestData, arg string) *compaction.Registry {
	for _, a := range d.CmdArgs {
		if a.Key == arg {
			return s.held[a.Vals[0]]
		}
	}
	return s.now
}

// keep asks what Pebble's merger asks, and returns the dots of the keys that stay.
func keep(t *testing.T, r *compaction.Registry, words []string) (kept []clock.Dot) {
	for _, w := range words[1:] {
		dot, err := dots.Dot(w)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Droppable([]byte(prefix(words[0])), []byte(dot.Actor), dot.Counter) {
			kept = append(kept, dot)
		}
	}
	return kept
}

// spans empties the index in its order and fills it again.
func (s *script) spans() string {
	var all []compaction.Span
	for range s.index.Len() { // a span may come twice by mistake, but not for ever
		sp, _ := s.index.Densest()
		all = append(all, sp)
		s.index.Remove(sp.Lower)
	}
	var b strings.Builder
	for _, sp := range all {
		s.index.Put(sp)
		fmt.Fprintf(&b, "%s: %d of %d keys dead (%.2f), %d bytes\n", sp.Lower, sp.Dead, sp.Keys, sp.Density(), sp.Bytes)
	}
	if s.index.Len() != len(all) {
		fmt.Fprintf(&b, "the index counts %d\n", s.index.Len())
	}
	return b.String()
}

func works(t *testing.T, d *datadriven.TestData) string {
	var b strings.Builder
	for _, a := range d.CmdArgs {
		s := strategy(t, a.Key)
		var on, means []string
		for _, r := range []compaction.Record{compaction.Merge, compaction.Set} {
			if err := s.WorksOn(r); err == nil {
				on = append(on, r.String())
			}
		}
		for _, m := range []struct {
			name string
			used bool
		}{{"filters", s.Filters()}, {"deletes", s.Deletes()}, {"rewrites", s.Rewrites()}} {
			if m.used {
				means = append(means, m.name)
			}
		}
		if len(means) == 0 {
			means = []string{"nothing"}
		}
		fmt.Fprintf(&b, "%s: on %s records; %s\n", s.Name(), strings.Join(on, " and "), strings.Join(means, " and "))
	}
	return b.String()
}

// decide runs wants and worth, and answers each line with a line.
func decide(t *testing.T, d *datadriven.TestData) string {
	s := strategy(t, d.CmdArgs[0].Key)
	var b strings.Builder
	for _, words := range lines(d) {
		var args []datadriven.CmdArg
		for _, w := range words {
			key, value, _ := strings.Cut(w, "=")
			args = append(args, datadriven.CmdArg{Key: key, Vals: []string{value}})
		}
		n := numbers(t, args)
		yes := false
		switch d.Cmd {
		case "wants":
			load := compaction.Load{Keys: n["keys"], Live: n["live"], Unresolved: n["open"]}
			if n["quiet"] > 0 {
				load.Quiet = compaction.QuietEnough + 1
			}
			fmt.Fprintf(&b, "garbage %d: ", load.Garbage())
			yes = s.Wants(load)
		case "worth":
			yes = s.Worth(compaction.Span{Keys: n["keys"], Dead: n["dead"]})
		default:
			d.Fatalf(t, "unknown command")
		}
		fmt.Fprintln(&b, map[bool]string{true: "yes", false: "no"}[yes])
	}
	return b.String()
}

func strategy(t *testing.T, name string) compaction.Strategy {
	t.Helper()
	s, err := compaction.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func numbers(t *testing.T, args []datadriven.CmdArg) map[string]uint64 {
	t.Helper()
	all := map[string]uint64{}
	for _, a := range args {
		n, err := strconv.ParseUint(a.Vals[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all[a.Key] = n
	}
	return all
}

func lines(d *datadriven.TestData) (all [][]string) {
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		all = append(all, strings.Fields(line))
	}
	return all
}

func prefix(set string) string { return string(keyscheme.NewPrefix([]byte(set))) }

func parseDots(t *testing.T, words []string) *clock.Clock {
	t.Helper()
	c, err := dots.Clock(words)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
