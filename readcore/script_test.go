package readcore_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/internal/testkit/dots"
	"bigset/readcore"
)

// TestScripts runs testdata: the rules by example. Dots are an actor and a counter, such as n1; clocks are dots and runs, such as
// n1-5; an element is its name with its dots, such as x{n1 m2}. Every command that passes input to the merge prints what has become
// certain.
//
//	new R [reverse] [limit=N]
//	chunk STREAM seen=(…) [bound=X|done]     elements on the lines below
//	notfound STREAM
//	fail STREAM
//	replace STREAM
//	whole                                    the context for an operation on the whole set
//	decide                                   a line for each replica: its live dots; then, where it was asked, dot=status …
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

type script struct{ merge *readcore.Merge }

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd == "decide" {
		return decide(t, d.Input)
	}
	if d.Cmd == "whole" {
		return dots.Text(s.merge.Whole()) + "\n"
	}
	n, err := strconv.Atoi(d.CmdArgs[0].Key)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	head := ""
	switch d.Cmd {
	case "new":
		o := readcore.Options{Streams: n, Reverse: d.HasArg("reverse")}
		if d.HasArg("limit") {
			d.ScanArgs(t, "limit", &o.Limit)
		}
		s.merge = readcore.New(o)
	case "chunk":
		err = s.merge.Admit(n, parseChunk(t, d))
	case "notfound":
		err = s.merge.NotFound(n)
	case "fail":
		s.merge.Fail(n)
	case "replace":
		head = "begins at the beginning\n"
		if after := s.merge.Replace(n); after != nil {
			head = fmt.Sprintf("begins behind %q\n", after)
		}
	default:
		d.Fatalf(t, "unknown command")
	}
	if err != nil {
		if !errors.Is(err, readcore.ErrChunk) && !errors.Is(err, readcore.ErrUnwanted) {
			d.Fatalf(t, "%v", err)
		}
		return err.Error() + "\n"
	}
	return head + s.step()
}

// step prints what has become certain, and which streams are to deliver.
func (s *script) step() string {
	var b strings.Builder
	r, ok := s.merge.Step()
	if r.Context != nil {
		fmt.Fprintf(&b, "context %s\n", dots.Text(r.Context))
	}
	for _, e := range r.Elements {
		fmt.Fprintln(&b, elementText(e))
	}
	for _, l := range r.Lacking {
		for _, e := range l.Missing {
			fmt.Fprintf(&b, "missing at %d: %s\n", l.Stream, elementText(e))
		}
		for _, p := range l.Suspects {
			fmt.Fprintf(&b, "live at %d: %s: is it dead at %d?\n", l.Stream, elementText(p.Element), p.Witness)
		}
	}
	switch {
	case r.NotFound:
		b.WriteString("not found\n")
	case r.Done && r.Bound != nil:
		fmt.Fprintf(&b, "done at %s\n", r.Bound)
	case r.Done:
		b.WriteString("done\n")
	case ok && r.Bound != nil:
		fmt.Fprintf(&b, "up to %s\n", r.Bound)
	}
	if wants := s.merge.Wants(nil); len(wants) > 0 {
		fmt.Fprintf(&b, "wants %v\n", wants)
	}
	if b.Len() == 0 {
		return "waits\n"
	}
	return b.String()
}

func parseChunk(t *testing.T, d *datadriven.TestData) *fold.Chunk {
	c := &fold.Chunk{Done: d.HasArg("done")}
	for _, a := range d.CmdArgs[1:] {
		switch a.Key {
		case "seen":
			c.Clock = parseClock(t, a.Vals)
		case "bound":
			c.Bound = []byte(a.Vals[0])
		case "counted":
			c.Count = 1
		}
	}
	for _, word := range strings.FieldsFunc(d.Input, func(r rune) bool { return r == '}' }) {
		name, dots, ok := strings.Cut(strings.TrimSpace(word), "{")
		if ok {
			c.Elements = append(c.Elements, fold.Element{Name: []byte(name), Dots: parseDots(t, strings.Fields(dots))})
		}
	}
	return c
}

func parseClock(t *testing.T, words []string) *clock.Clock {
	t.Helper()
	c, err := dots.Clock(words)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parseDots(t *testing.T, words []string) (list []clock.Dot) {
	t.Helper()
	for _, w := range words {
		d, err := dots.Dot(w)
		if err != nil && w != "n0" { // not a dot: refused reports what becomes of it
			t.Fatal(err)
		}
		list = append(list, d)
	}
	return list
}

func elementText(e fold.Element) string { return string(e.Name) + dots.List(e.Dots) }

var statuses = map[string]bigset.DotStatus{"notseen": bigset.NotSeen, "live": bigset.Live, "dead": bigset.Dead, "lost": bigset.Lost}

// decide reads a line for each replica, as: n1 m2; n1=live m1=dead.
func decide(t *testing.T, input string) string {
	var answers []readcore.Answer
	for _, line := range strings.Split(strings.TrimSpace(input), "\n") {
		live, asked, _ := strings.Cut(line, ";")
		a := readcore.Answer{Live: parseDots(t, slices.DeleteFunc(strings.Fields(live), func(w string) bool { return w == "-" }))}
		for _, w := range strings.Fields(asked) {
			dot, v, _ := strings.Cut(w, "=")
			a.Asked = append(a.Asked, parseDots(t, []string{dot})...)
			a.Statuses = append(a.Statuses, statuses[v])
		}
		answers = append(answers, a)
	}
	d := readcore.Decide(answers)
	if len(d.Ask) > 0 {
		return "ask all about " + dots.List(d.Ask) + "\n"
	}
	var b strings.Builder
	if len(d.Dots) > 0 {
		fmt.Fprintf(&b, "present by %s\n", dots.List(d.Dots))
	} else {
		b.WriteString("absent\n")
	}
	for _, r := range d.Repairs {
		for _, p := range []struct {
			what string
			dots []clock.Dot
		}{{"missing", r.Missing}, {"to be removed", r.Dead}, {"damaged", r.Lost}} {
			if len(p.dots) > 0 {
				fmt.Fprintf(&b, "%s at %d: %s\n", p.what, r.Replica, dots.List(p.dots))
			}
		}
	}
	return b.String()
}
