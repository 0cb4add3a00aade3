package fold_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"bigset/clock"
	"bigset/fold"
	"bigset/internal/testkit/dots"
	"bigset/keyscheme"
)

// TestScripts runs testdata: what the keys of a set mean, by example. A dot is an actor and a counter, as n1; an element is printed
// with the dots that make it present, as paul{n1 m2}. The keys and Dead stay from command to command.
//
//	new                                      an empty set
//	keys                                     adds the keys on the lines below: ELEMENT DOT [remove] [saw DOTS]; with saw the key is unresolved
//	dead DOTS                                adds dots to Dead
//	read [elements=N] [keys=N] [reverse] [count]   folds all keys, and prints chunk by chunk; a chunk holds N elements, or N keys
//	resolve ELEMENT seen=(DOTS)              the fold pass over one element, carried out
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{dead: &clock.Clock{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

// scriptKey is a stored key; wide is nil if the key is resolved.
type scriptKey struct {
	element string
	unresolvedKey
}

func (k scriptKey) String() string {
	s := k.element + " " + strings.Trim(dots.List([]clock.Dot{k.dot}), "{}")
	if k.op == keyscheme.OpRemove {
		s += " remove"
	}
	if k.wide != nil {
		s += " saw " + dots.Text(k.wide)
	}
	return s
}

type script struct {
	keys []scriptKey // in the order of a store: by element, then dot
	dead *clock.Clock
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "new":
		*s = script{dead: &clock.Clock{}}
		return ""
	case "keys":
		for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			s.keys = append(s.keys, parseKey(t, line))
		}
		slices.SortStableFunc(s.keys, func(a, b scriptKey) int {
			if c := strings.Compare(a.element, b.element); c != 0 {
				return c
			}
			return a.dot.Compare(b.dot)
		})
		return ""
	case "dead":
		for _, a := range d.CmdArgs {
			s.dead.Union(parseClock(t, a.Key))
		}
		return "Dead " + dots.Text(s.dead) + "\n"
	case "read":
		return s.read(t, d)
	case "resolve":
		return s.resolve(t, d)
	}
	d.Fatalf(t, "unknown command")
	return ""
}

// read takes a chunk wherever a reader of a store would.
func (s *script) read(t *testing.T, d *datadriven.TestData) string {
	o := fold.Options{Reverse: d.HasArg("reverse"), CountOnly: d.HasArg("count")}
	d.MaybeScanArgs(t, "elements", &o.ElementsMax)
	d.MaybeScanArgs(t, "keys", &o.KeysMax)
	keys := slices.Clone(s.keys)
	if o.Reverse {
		slices.Reverse(keys)
	}
	var b strings.Builder
	f := fold.New(s.dead, o)
	for _, k := range keys {
		if f.Starts([]byte(k.element)) {
			printChunk(&b, f.Chunk(false))
		}
		value := keyscheme.AppendElementValue(nil, k.wide)
		if err := f.Step([]byte(k.element), []byte(k.dot.Actor), k.dot.Counter, k.op, value); err != nil {
			d.Fatalf(t, "%v", err)
		}
		clear(value) // the folder keeps nothing of a key
	}
	printChunk(&b, f.Chunk(true))
	return b.String()
}

func printChunk(b *strings.Builder, c *fold.Chunk) {
	for _, e := range c.Elements {
		fmt.Fprintf(b, "%s%s\n", e.Name, dots.List(e.Dots))
	}
	end := "the end"
	if !c.Done {
		end = fmt.Sprintf("%q", c.Bound)
	}
	fmt.Fprintf(b, "-- up to %s: present %d by %d dots; keys %d, dead %d\n", end, c.Count, c.Dots, c.Scanned, c.Dead)
}

// resolve does what an engine does with the fates: first the kills, then the keys.
func (s *script) resolve(t *testing.T, d *datadriven.TestData) string {
	var seen *clock.Clock
	for _, a := range d.CmdArgs {
		if a.Key == "seen" {
			seen = parseClock(t, a.Vals...)
		}
	}
	var in []fold.Key
	for _, k := range s.keys {
		if k.element == d.CmdArgs[0].Key {
			in = append(in, fold.Key{Dot: k.dot, Op: k.op, Wide: k.wide})
		}
	}
	killed, fates := fold.Resolve(in, seen, s.dead, nil)
	var b strings.Builder
	for _, dot := range killed {
		s.dead.Add(dot)
	}
	if len(killed) > 0 {
		fmt.Fprintf(&b, "kills %s\n", dots.List(killed))
	}
	var kept []scriptKey
	for _, k := range s.keys {
		if k.element != d.CmdArgs[0].Key {
			kept = append(kept, k)
			continue
		}
		switch fates[0] {
		case fold.Keep:
			fmt.Fprintf(&b, "keep  %s\n", k)
			kept = append(kept, k)
		case fold.Close:
			fmt.Fprintf(&b, "close %s\n", k)
			k.wide = nil
			kept = append(kept, k)
		case fold.Leave:
			fmt.Fprintf(&b, "leave %s\n", k)
		}
		fates = fates[1:]
	}
	s.keys = kept
	return b.String()
}

func parseKey(t *testing.T, line string) scriptKey {
	t.Helper()
	head, saw, unresolved := strings.Cut(line, " saw")
	words := strings.Fields(head)
	dot, err := dots.Dot(words[1])
	if err != nil {
		t.Fatal(err)
	}
	k := scriptKey{words[0], unresolvedKey{dot: dot, op: keyscheme.OpAdd}}
	if unresolved {
		k.wide = parseClock(t, saw)
	}
	if len(words) > 2 && words[2] == "remove" {
		k.op = keyscheme.OpRemove
	}
	return k
}

func parseClock(t *testing.T, words ...string) *clock.Clock {
	t.Helper()
	c, err := dots.Clock(words)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
