package convergence_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"bigset/convergence"
)

// TestDocHasDeclarations: the tables in the document have a line for each field of a System that is declared, and for each
// specification with its fields and constants.
func TestDocHasDeclarations(t *testing.T) {
	doc, err := os.ReadFile("../docs/convergence.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(doc), "## How replicas exchange their state")
	tables, _, ok := strings.Cut(tables, "\n## Which schedules are run")
	if !ok {
		t.Fatal("the document has no tables of declarations")
	}
	var want []string
	fields := func(of any, except ...string) {
		typ := reflect.TypeOf(of)
		for i := range typ.NumField() {
			if f := typ.Field(i); f.IsExported() && !strings.Contains(strings.Join(except, " "), f.Name) {
				want = append(want, f.Name)
			}
		}
	}
	fields(convergence.System{}, "Name", "Open", "Within", "WithinPass")
	for _, spec := range []convergence.Spec{convergence.AddWins{}, convergence.RemoveWins{}, convergence.GrowOnly{}, convergence.TwoPhase{},
		convergence.LastWriterWins{}, convergence.Counter{}, convergence.Register{}, convergence.LWWMap{}} {
		want = append(want, reflect.TypeOf(spec).Name()+"{")
		fields(spec)
	}
	for _, tie := range []convergence.Tie{convergence.TieAdd, convergence.TieRemove, convergence.TieAny} {
		want = append(want, tie.String())
	}
	for _, time := range []convergence.Time{convergence.TimeLamport, convergence.TimeMonotonic, convergence.TimeHybrid} {
		want = append(want, time.String())
	}
	for _, word := range want {
		if !strings.Contains(tables, word) {
			t.Errorf("%s has no line", word)
		}
	}
}

// tagsRemoves names removes by the adds that they remove, which is a mistake of an adapter.
type tagsRemoves struct{ convergence.Replica }

func (r tagsRemoves) Do(op convergence.Op) (convergence.Effect, error) {
	view, _ := r.Read()
	e, err := r.Replica.Do(op)
	for _, it := range view.Items {
		if it.Elem == op.Elem && op.Kind == "remove" && len(it.Tags) > 0 {
			e.Tag = it.Tags[0]
		}
	}
	return e, err
}

// TestRemoveNeedsNoTag: who names removes by what they remove is told that they need no names.
func TestRemoveNeedsNoTag(t *testing.T) {
	f := explore(t, convergence.System{Name: "tags-removes", Open: func(env convergence.Env) (convergence.Replica, error) {
		r, err := OpenORSet(env)
		return tagsRemoves{r}, err
	}}, convergence.Options{}).Failure
	if f == nil || f.Violation.Kind != convergence.TagReused || !strings.Contains(f.String(), "a remove needs no tag") {
		t.Errorf("got %v", f)
	}
}

// TestLogHasNever: the log of a passing run says what was never met.
func TestLogHasNever(t *testing.T) {
	f := runFake(t, alter(altered{}), convergence.Options{Schedules: 1, Replicas: 2, Shapes: []string{"deltas"}})
	if f.fatal != "" || !strings.Contains(f.log, "never [") || strings.Contains(f.log, "never []") {
		t.Errorf("it says %s%s", f.fatal, f.log)
	}
}
