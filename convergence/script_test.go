package convergence_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"bigset/convergence"
	"bigset/convergence/internal/model"
)

// TestGenerateIsAFunctionOfItsSeed makes the same schedules twice, and others from another seed.
func TestGenerateIsAFunctionOfItsSeed(t *testing.T) {
	text := func(seed uint64, n int) string {
		s, err := convergence.Generate(model.System(model.Options{}), convergence.Options{Seed: seed}, n)
		if err != nil {
			t.Fatal(err)
		}
		return s.String()
	}
	list := []int{120} // earlier schedules determine this one
	for n := range 50 {
		list = append(list, n)
	}
	for _, n := range list {
		a := text(7, n)
		if b := text(7, n); a != b {
			t.Fatalf("schedule %d differs:\n%s\n%s", n, a, b)
		}
		if a == text(8, n) || a == text(7, n+1) {
			t.Fatalf("schedule %d comes from two seeds", n)
		}
	}
}

// TestExploreIsAFunctionOfItsSeed runs the same schedules twice: the same must happen in them.
func TestExploreIsAFunctionOfItsSeed(t *testing.T) {
	var first *convergence.Report
	for range 2 {
		r, err := convergence.Explore(t.Context(), model.System(model.Options{}), convergence.Options{Seed: 3, Schedules: 150})
		if err != nil || r.Failure != nil {
			t.Fatal(err, r.Failure)
		}
		if first == nil {
			first = r
		} else if !reflect.DeepEqual(first.Stats, r.Stats) {
			t.Fatalf("two runs differ:\n%+v\n%+v", first.Stats, r.Stats)
		}
	}
}

// TestShapesReadBack writes and reads schedules of every shape.
func TestShapesReadBack(t *testing.T) {
	for _, shape := range convergence.ShapeNames() {
		for n := range 20 {
			s, err := convergence.Generate(model.System(model.Options{}), convergence.Options{Shapes: []string{shape}, Replicas: 3}, n)
			if err != nil {
				t.Fatal(err)
			}
			back, err := convergence.ReadScript(strings.NewReader(s.String()))
			if err != nil {
				t.Fatalf("%v\n%s", err, s)
			}
			if back.String() != s.String() {
				t.Fatalf("wrote\n%s\nread\n%s", s, back)
			}
		}
	}
}

// TestOddNamesReadBack has elements and kinds that are no plain words.
func TestOddNamesReadBack(t *testing.T) {
	s := &convergence.Script{System: "x", Replicas: 1, Steps: []convergence.Step{{N: 1, Kind: "do", Ops: []convergence.ScriptOp{
		{Op: convergence.Op{Kind: "in sert", Elem: "a b;#\n=", Arg: []byte{0, 255}}}, {Op: convergence.Op{Kind: "add", Elem: "hex:61"}},
	}}}}
	back, err := convergence.ReadScript(strings.NewReader(s.String()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back.Steps, s.Steps) {
		t.Fatalf("wrote %+v, read %+v", s.Steps, back.Steps)
	}
}

const scriptHeading = "convergence script 1\nsystem x\nseed 1\nreplicas 2\n"

func TestMalformed(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "number of replicas",
		"convergence script 2\n":              "line 1: want \"convergence script 1\"",
		"system x\n":                          "line 1: want",
		"convergence script 1\nsystem\n":      "line 2: want a name and a value",
		"convergence script 1\ncolour red\n":  "line 2: unknown heading",
		"convergence script 1\nseed -1\n":     "line 2: want a seed",
		"convergence script 1\nreplicas 0\n":  "line 2: want a number from 1 to 8",
		"convergence script 1\nreplicas 99\n": "line 2: want a number from 1 to 8",
		"convergence script 1\n1 read A\n":    "line 2: a step before the number of replicas",
		scriptHeading + "1\n":                 "line 5: a step without a kind",
		scriptHeading + "1 jump A\n":          "unknown kind of step",
		scriptHeading + "1 read C\n":          "want a replica from A to B",
		scriptHeading + "1 read\n":            "an argument is missing",
		scriptHeading + "1 read A B\n":        "unexpected argument",
		scriptHeading + "2 read A\n2 read A":  "line 6: step number",
		scriptHeading + "2x read A\n":         "step number",
		scriptHeading + "2 deliver 2.0 A\n":   "want a number from 1 to 1",
		scriptHeading + "2 deliver 1.x A\n":   "want a number",
		scriptHeading + "1 do A\n":            "an argument is missing",
		scriptHeading + "1 do A add x;\n":     "an operation is missing",
		scriptHeading + "1 do A add x y\n":    "want an element, arg= or ctx=",
		scriptHeading + "1 do A add x ctx=0":  "want a number",
		scriptHeading + "1 do A add hex:6\n":  "hexadecimal",
		scriptHeading + "1 do A add x arg=z":  "hexadecimal",
		scriptHeading + "1 open AZ\n":         "want a replica",
	} {
		_, err := convergence.ReadScript(strings.NewReader(text))
		if !errors.Is(err, convergence.ErrScript) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	long := "convergence script 1\nreplicas 1\n# " + strings.Repeat("x", 2<<20)
	if _, err := convergence.ReadScript(strings.NewReader(long)); !errors.Is(err, convergence.ErrScript) {
		t.Errorf("a line without end: got %v", err)
	}
}

func TestReplayRefusesAnotherSystem(t *testing.T) {
	_, _, err := convergence.Replay(model.System(model.Options{}), strings.NewReader(scriptHeading+"1 read A\n"))
	if !errors.Is(err, convergence.ErrScript) || !strings.Contains(err.Error(), `"x"`) {
		t.Fatalf("got %v", err)
	}
}

// FuzzReadScript reads anything without a panic. What it accepts reads back the same, and runs without more than a violation.
func FuzzReadScript(f *testing.F) {
	sys := model.System(model.Options{})
	for n := range 5 {
		s, err := convergence.Generate(sys, convergence.Options{}, n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s.String())
	}
	f.Add(strings.Replace(scriptHeading, "system x", "system model", 1) + "1 exchange anyhow\n2 chunk 1 9\n3 restore A 2\n4 replace 1 0 A\n")
	f.Add("convergence script 1\nreplicas 1")
	f.Add("convergence script 1\nsystem model\nreplicas 2\n1 do B add\n10 crash B 10")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := convergence.ReadScript(strings.NewReader(text))
		if err != nil {
			return
		}
		back, err := convergence.ReadScript(strings.NewReader(s.String()))
		if err != nil || back.String() != s.String() {
			t.Fatalf("%v\n%s\n%s", err, s, back)
		}
		if s.System == sys.Name && s.Replicas <= 5 {
			if v, _, err := convergence.Replay(sys, strings.NewReader(text)); err != nil || v != nil && v.Kind == convergence.Panicked {
				t.Fatal(v, err)
			}
		}
	})
}
