package handoff_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"bigset/clock"
	"bigset/handoff"
	"bigset/internal/testkit/dots"
	"bigset/keyscheme"
)

// TestScripts runs testdata: copies by example. The script is a receiver: it has its own Seen of each set, and stores the progress
// of its copy on command. Dots are an actor and a counter, such as n1. The slots of sets are hashes, so "order" shows which comes
// first.
//
//	order SET…                               the sets in the order of a store
//	copy NODE INCARNATION [within=SET]       begins, or goes on after what is stored; within is a range of that set's slot only
//	wants SET…                               whether each is still to be copied
//	begin SET                                prints where the set goes on
//	chunk SET bound=X|done [brings=(DOTS)] [seen=(DOTS)] [from=NODE/INCARNATION]     a chunk comes; seen is the sender's clock
//	write SET DOTS…                          the receiver gets dots from elsewhere: a client, another replica, a request by dot
//	finish SET                               ends the set; prints what has not come
//	settle SET                               looks again at a set that is owed
//	owed                                     the sets that are not complete
//	store                                    stores the progress
//	crash                                    the progress is as it was stored; what has come stays
//	due SET seen=(DOTS) dead=(DOTS)          what must come before the sender's Dead of a moment may be applied
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{seen: map[string]*clock.Clock{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.run(t, d)
			if err != nil {
				return out + err.Error() + "\n"
			}
			return out
		})
	})
}

type script struct {
	progress *handoff.Progress
	stored   []byte
	seen     map[string]*clock.Clock // the receiver's
}

func (s *script) run(t *testing.T, d *datadriven.TestData) (string, error) {
	var names []string
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			names = append(names, a.Key)
		}
	}
	switch d.Cmd {
	case "order":
		return order(names), nil
	case "copy":
		return s.copy(t, d, names[0], names[1]), nil
	case "wants":
		var b strings.Builder
		for _, set := range names {
			fmt.Fprintf(&b, "%s: %v\n", set, s.progress.Wants([]byte(set)))
		}
		return b.String(), nil
	case "owed":
		return s.owed(), nil
	case "store":
		s.stored = s.progress.Append(nil)
		return "", nil
	case "crash":
		s.progress = nil
		return "", nil
	}
	set := names[0]
	if s.seen[set] == nil {
		s.seen[set] = &clock.Clock{}
	}
	switch d.Cmd {
	case "begin":
		after, whole, err := s.progress.Begin([]byte(set))
		return goesOn(after, whole, err), err
	case "chunk":
		return s.chunk(t, d, set)
	case "write":
		s.seen[set].Union(parse(t, names[1:]))
		return "has seen " + dots.Text(s.seen[set]) + "\n", nil
	case "finish":
		missing, err := s.progress.Finish(s.seen[set])
		return missingText(missing, err), err
	case "settle":
		return missingText(s.progress.Settle([]byte(set), s.seen[set]), nil), nil
	case "due":
		return dots.Text(handoff.Due(clockArg(t, d, "seen"), clockArg(t, d, "dead"), s.seen[set])) + "\n", nil
	}
	d.Fatalf(t, "unknown command")
	return "", nil
}

// order prints names in the order of CompareSets. There are few, so each finds its place by counting those before it.
func order(names []string) string {
	sorted := make([]string, len(names))
	for _, n := range names {
		place := 0
		for _, o := range names {
			if handoff.CompareSets([]byte(o), []byte(n)) < 0 {
				place++
			}
		}
		sorted[place] = n
	}
	return strings.Join(sorted, " ") + "\n"
}

// copy resumes from what is stored, as a receiver does at its start.
func (s *script) copy(t *testing.T, d *datadriven.TestData, node, incarnation string) string {
	slots := handoff.Range{Last: keyscheme.SlotMax}
	for _, a := range d.CmdArgs {
		if a.Key == "within" {
			slot := keyscheme.SetSlot([]byte(a.Vals[0]))
			slots = handoff.Range{First: slot, Last: slot}
		}
	}
	var stored *handoff.Progress
	if s.stored != nil {
		var err error
		if stored, err = handoff.Decode(s.stored); err != nil {
			d.Fatalf(t, "%v", err)
		}
	}
	s.progress = stored.Resume(handoff.Source{Node: node, Incarnation: clock.Actor(incarnation)}, slots)
	if s.progress == stored {
		return "goes on\n"
	}
	return "a new copy\n"
}

func goesOn(after []byte, whole bool, err error) string {
	switch {
	case err != nil:
		return ""
	case whole:
		return "all its chunks have come\n"
	case after != nil:
		return fmt.Sprintf("after %q\n", after)
	}
	return "from the start\n"
}

func (s *script) chunk(t *testing.T, d *datadriven.TestData, set string) (string, error) {
	c := handoff.Chunk{From: s.progress.From(), Set: []byte(set), Done: d.HasArg("done")}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "bound":
			c.Bound = []byte(a.Vals[0])
		case "seen":
			c.Seen = parse(t, a.Vals)
		case "from":
			node, incarnation, _ := strings.Cut(a.Vals[0], "/")
			c.From = handoff.Source{Node: node, Incarnation: clock.Actor(incarnation)}
		}
	}
	if err := s.progress.Check(c); err != nil {
		return "", err
	}
	s.seen[set].Union(clockArg(t, d, "brings"))
	return "", s.progress.Took(c)
}

func (s *script) owed() string {
	var b strings.Builder
	for _, o := range s.progress.Owed() {
		fmt.Fprintf(&b, "%s: missing %s\n", o.Set, dots.Text(o.Check))
	}
	if err := s.progress.Incomplete(); err != nil {
		return b.String() + err.Error() + "\n"
	}
	return b.String() + "the copy is complete\n"
}

func missingText(missing *clock.Clock, err error) string {
	switch {
	case err != nil:
		return ""
	case missing.Empty():
		return "complete\n"
	}
	return "missing " + dots.Text(missing) + "\n"
}

func clockArg(t *testing.T, d *datadriven.TestData, key string) *clock.Clock {
	t.Helper()
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return parse(t, a.Vals)
		}
	}
	return &clock.Clock{}
}

func parse(t *testing.T, words []string) *clock.Clock {
	t.Helper()
	c, err := dots.Clock(words)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
