package resp

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/alone"
	"bigset/server/door"
)

// restless is a backend whose sets change before each read.
type restless struct {
	*alone.Backend
	change func()
}

func (b restless) Read(ctx context.Context, r door.Read) iter.Seq2[door.Part, error] {
	b.change()
	return b.Backend.Read(ctx, r)
}

func (b restless) Moment(ctx context.Context, sets [][]byte) (door.Moment, error) {
	m, err := b.Backend.Moment(ctx, sets)
	return restlessMoment{m, b.change}, err
}

type restlessMoment struct {
	door.Moment
	change func()
}

func (m restlessMoment) Elements(ctx context.Context, set int, from, to []byte, limit int) iter.Seq2[[]byte, error] {
	m.change()
	return m.Moment.Elements(ctx, set, from, to, limit)
}

func (m restlessMoment) Contains(ctx context.Context, set int, elements [][]byte, yes []bool) error {
	m.change()
	return m.Moment.Contains(ctx, set, elements, yes)
}

// TestOneMoment: before each read, an atomic batch moves the first element of a set of several pages to its end, or back, and another element moves to a second set.
// Each answer shows all sets at one moment: an element is in one of its two places.
func TestOneMoment(t *testing.T) {
	t.Parallel()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	changes := 0
	write := func(set string, ops ...door.Op) {
		t.Helper()
		if _, err := alone.New(store).Write(t.Context(), door.Write{Set: []byte(set), Ops: ops, Quorum: door.Quorum{DW: door.NotDurable}}); err != nil {
			t.Error(err)
		}
	}
	op := func(kind keyscheme.Op, element string) door.Op { return door.Op{Kind: kind, Element: []byte(element)} }
	add, remove := keyscheme.OpAdd, keyscheme.OpRemove
	b := restless{alone.New(store), func() {
		here, there := []string{"a", "z"}, []string{"big", "other"}
		if changes++; changes%2 == 0 {
			slices.Reverse(here)
			slices.Reverse(there)
		}
		write("big", op(add, here[1]), op(remove, here[0]))
		write(there[1], op(add, "moves"))
		write(there[0], op(remove, "moves"))
	}}
	var many []door.Op
	for i := range 3 * pageMost / 2 {
		many = append(many, op(add, fmt.Sprintf("e%05d", i)))
	}
	write("big", append(many, op(add, "a"), op(add, "moves"))...)
	write("same", append(many, op(add, "a"), op(add, "z"), op(add, "moves"))...)
	write("few", op(add, "a"), op(add, "z"))
	dial, _ := serve(t, b, Options{})
	p := dial()
	for _, c := range []struct {
		command string
		many    int // elements that do not move
		moves   bool
	}{
		{"SMEMBERS big", len(many), false}, {"SUNION big other", len(many), true}, {"SUNION other big", len(many), true}, {"SINTER big same", len(many), false},
		{"SINTER same big", len(many), false}, {"SINTER few big", 0, false}, {"SDIFF big few other", len(many), false}, {"SDIFF few big", 0, false},
		{"SINTER other big", 0, false}, {"SINTER other big", 0, false}, // one of them while the other set has the element
	} {
		got := p.do(t, strings.Fields(c.command)...)
		has := func(element string) bool { return strings.Contains(got, fmt.Sprintf("$%q", element)) }
		if c.command == "SINTER other big" {
			if got != "*[]" {
				t.Errorf("%s: %s: it is in one set at every moment", c.command, got)
			}
			continue
		}
		if c.command != "SDIFF big few other" && has("a") == has("z") {
			t.Errorf("%s: a %v, z %v: the first and the last element change places in one batch", c.command, has("a"), has("z"))
		}
		if c.moves && !has("moves") {
			t.Errorf("%s: an element that is in one of the sets at every moment is missing", c.command)
		}
		if n := strings.Count(got, `$"e`); n != c.many {
			t.Errorf("%s: %d elements that do not move, want %d", c.command, n, c.many)
		}
	}
	if changes < 10 {
		t.Errorf("the sets changed %d times", changes)
	}
}
