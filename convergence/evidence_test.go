package convergence_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

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

// TestBeginsWithMany: schedules of certain numbers begin with hundreds of operations.
func TestBeginsWithMany(t *testing.T) {
	batches := convergence.System{Name: "batches", Open: func(env convergence.Env) (convergence.Replica, error) {
		r, err := OpenORSet(env)
		return &shrunk{ORSet: r.(*ORSet)}, err
	}}
	for _, c := range []struct {
		n    int
		sys  convergence.System
		want string
	}{
		{124, alter(altered{}), "churn"}, {249, alter(altered{}), "fill"}, {249, batches, "bulk"}, {499, alter(altered{}), "strip"},
		{499, batches, "strip"}, {749, batches, "strip"}, {999, batches, "bulk"},
	} {
		s, err := convergence.Generate(c.sys, convergence.Options{Shapes: []string{"many"}}, c.n)
		if err != nil || !strings.Contains(s.String(), " "+c.want+"~ ") && !strings.Contains(s.String(), " "+c.want+" ") {
			t.Errorf("schedule %d of %s has no %s: %v", c.n, c.sys.Name, c.want, err)
		}
	}
}

func numberOf(op convergence.Op) int64 {
	n, _ := strconv.ParseInt(string(op.Arg), 10, 64)
	return n
}

// TestValues: values of registers are often equal, and sometimes empty or not UTF-8. Numbers of counters are mostly small.
func TestValues(t *testing.T) {
	r, drawn := rand.New(rand.NewPCG(1, 1)), map[string]int{}
	binary, large, negative := 0, 0, 0
	for range 2000 {
		value := string(convergence.Register{}.Gen(r, []string{"a"}).Arg)
		drawn[value]++
		if !utf8.ValidString(value) {
			binary++
		}
		if n := numberOf(convergence.Counter{}.Gen(r, []string{"a"})); n > 65_535 {
			large++
		}
		if n := numberOf(convergence.Counter{Signed: true, Most: 5}.Gen(r, []string{"a"})); n < 0 && n >= -5 {
			negative++
		}
	}
	if drawn["1"] < 100 || drawn[""] == 0 || binary == 0 {
		t.Errorf("of 2,000 values %d are 1, %d are empty, %d are not UTF-8", drawn["1"], drawn[""], binary)
	}
	if large == 0 || large > 20 || negative < 200 {
		t.Errorf("of 2,000 numbers %d are large, %d are negative", large, negative)
	}
}

// TestLargeNumbers: counters with the largest numbers that a Spec may propose are judged by their exact sums.
func TestLargeNumbers(t *testing.T) {
	t.Parallel()
	sys := correct(t, "pn-counter")
	sys.Spec = convergence.Counter{Most: 1 << 54, Signed: true}
	if r := explore(t, sys, convergence.Options{Schedules: 200}); r.Failure != nil {
		t.Error(r.Failure)
	}
	var steps strings.Builder
	for i := range 511 {
		fmt.Fprintf(&steps, "%d do~ A inc a value=%d\n", i+1, 1<<54)
	}
	if v, s := replay(t, sys, steps.String()+"999 read A\n"); v != nil {
		t.Errorf("%v\n%s", v, s)
	}
}
