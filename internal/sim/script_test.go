package sim

import (
	"slices"
	"strings"
	"testing"

	"bigset/convergence"
)

// TestScriptText: what is drawn can be printed and read again.
func TestScriptText(t *testing.T) {
	kinds := map[string]bool{}
	for seed := range uint64(200) {
		s := drawScript(seed, 3+int(seed%5))
		if seed%2 == 0 {
			s = drawMembers(seed / 2)
		}
		again, err := readScript(strings.NewReader(s.String()))
		if err != nil {
			t.Fatal(err)
		}
		if s.String() != again.String() {
			t.Fatalf("%s\nwas read as\n%s", s, again)
		}
		for _, t := range s.steps {
			kinds[t.kind] = true
		}
	}
	for kind := range stepKinds {
		if !kinds[kind] {
			t.Errorf("no step %q was drawn", kind)
		}
	}
}

// TestShrink: steps, replicas, elements, operations, contexts and waits that do not matter are removed. What is left fails in the
// same way.
func TestShrink(t *testing.T) {
	s := drawScript(7, 5)
	s.steps = append(s.steps,
		step{n: 901, lane: 0, kind: "write", args: map[string]int{"wait": 5, "via": 0, "w": 3, "dw": 3, "id": 0},
			ops: []stepOp{{verb: "add", element: "y"}, {verb: "remove", element: "z", from: 1}}},
		step{n: 902, lane: laneNemesis, kind: "wipe", args: map[string]int{"wait": 7, "at": 4, "seconds": 1}})
	run := func(s *script) (*convergence.Violation, error) {
		wrote := slices.IndexFunc(s.steps, func(t step) bool {
			return t.kind == "write" && slices.ContainsFunc(t.ops, func(o stepOp) bool { return o.verb == "remove" })
		})
		if wiped := slices.IndexFunc(s.steps, func(t step) bool { return t.kind == "wipe" }); wrote >= 0 && wiped > wrote {
			return &convergence.Violation{Kind: convergence.Lost}, nil
		}
		if len(s.steps) > 3 {
			return &convergence.Violation{Kind: convergence.Phantom}, nil
		}
		return nil, nil
	}
	v, _ := run(s)
	h := &shrinker{ctx: t.Context(), best: s, v: v, runs: shrinkRuns, seeds: shrinkSeeds, run: run}
	if err := h.shrink(); err != nil {
		t.Fatal(err)
	}
	if v, _ := run(h.best); v == nil || v.Kind != convergence.Lost {
		t.Fatalf("it does not fail in the same way: %v", v)
	}
	if len(h.best.steps) != 2 || h.best.replicas != scriptLeast || len(h.best.steps[0].ops) != 1 || h.best.steps[0].ops[0].from != 0 ||
		h.best.steps[0].args["wait"]+h.best.steps[1].args["wait"] != 0 {
		t.Errorf("%s", h.best)
	}
	if _, err := readScript(strings.NewReader(h.best.String())); err != nil {
		t.Error(err)
	}
}
