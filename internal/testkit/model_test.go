package testkit_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// drawDeltas draws what a few replicas did to one set: each mints under its own actor, with contexts of anything that was minted
// before, and now and then deletes everything that some have seen.
func drawDeltas(t *rapid.T) []bigset.Delta {
	replicas := make([]*testkit.Set, rapid.IntRange(1, 3).Draw(t, "replicas"))
	for i := range replicas {
		replicas[i] = testkit.NewSet()
	}
	var all []bigset.Delta
	for range rapid.IntRange(1, 25).Draw(t, "steps") {
		i := rapid.IntRange(0, len(replicas)-1).Draw(t, "replica")
		m, actor := replicas[i], clock.Actor(fmt.Sprintf("actor-%d", i))
		switch rapid.IntRange(0, 9).Draw(t, "step") {
		case 0:
			if d, err := m.Drop([]byte("s"), nil); err == nil {
				all = append(all, d)
			}
		case 1, 2, 3:
			if len(all) > 0 {
				m.Apply(all[rapid.IntRange(0, len(all)-1).Draw(t, "delta")])
			}
		default:
			kind := rapid.SampledFrom([]keyscheme.Op{keyscheme.OpAdd, keyscheme.OpRemove}).Draw(t, "kind")
			op := bigset.Op{Kind: kind, Element: []byte(rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "element"))}
			r, err := m.Coordinate([]byte("s"), actor, []bigset.Op{op, {Kind: keyscheme.OpAdd, Element: []byte("c")}}, bigset.PolicyCoordinator)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r.Delta)
		}
	}
	return all
}

// TestModel: the model matches the specification, in whatever order and however often deltas come.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		deltas := drawDeltas(t)
		want := testkit.Specified(deltas)
		m := testkit.NewSet()
		for _, d := range rapid.Permutation(append(slices.Clone(deltas), deltas[:len(deltas)/2]...)).Draw(t, "order") {
			m.Apply(d)
		}
		if err := want.Diff(m); err != nil {
			t.Fatal(err)
		}
		for dot := range m.Keys {
			if !m.Seen.Has(dot) || m.Dead.Has(dot) {
				t.Fatalf("key of %v, which is not live", dot)
			}
		}
		for dot := range m.Dead {
			if !m.Seen.Has(dot) {
				t.Fatalf("%v is dead and not seen", dot)
			}
		}
		if n := len(m.Elements()); n > len(m.Keys) {
			t.Fatalf("%d elements of %d keys", n, len(m.Keys))
		}
	})
}

// TestCrashed: a replica finds the prefix of its log that has survived, and refuses states that are no prefix, or too short a one.
func TestCrashed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := testkit.NewReplica()
		states := []*testkit.Set{testkit.NewSet()}
		acknowledged := 0
		for _, d := range drawDeltas(t) {
			if r.Apply(withSet(d)) {
				states = append(states, r.Set("s").Clone())
			}
			if rapid.IntRange(0, 4).Draw(t, "sync") == 0 {
				r.Acknowledged()
				acknowledged = len(states) - 1
			}
		}
		r.Set("s")
		survived := rapid.IntRange(0, len(states)-1).Draw(t, "survived")
		want := states[survived]
		lost, err := r.Crashed(func(string) (testkit.State, error) {
			return testkit.State{Seen: want.Seen.Clock(), Dead: want.Dead.Clock()}, nil
		})
		switch {
		case survived < acknowledged && err == nil:
			t.Fatalf("%d batches survived, %d were acknowledged: no error", survived, acknowledged)
		case survived >= acknowledged && (err != nil || lost != len(states)-1-survived || want.Diff(r.Set("s")) != nil):
			t.Fatalf("%d of %d survived: lost %d, %v", survived, len(states)-1, lost, err)
		}
	})
}

func withSet(d bigset.Delta) bigset.Delta {
	d.Set = []byte("s")
	return d
}

// TestHistory: results that a crash must not have are detected.
func TestHistory(t *testing.T) {
	h := &testkit.History{}
	add := func(counter uint64, element string, durable bool, kills ...clock.Dot) {
		op := h.Begin("s")
		h.End(op, bigset.Delta{Set: []byte("s"), Actor: "x", First: counter,
			Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte(element), Context: kills}}}, durable)
	}
	first := clock.Dot{Actor: "x", Counter: 1}
	add(1, "a", true)
	add(2, "a", false, first)
	add(3, "b", false)
	state := func(n int) *testkit.Set {
		var deltas []bigset.Delta
		for _, op := range h.Operations("s")[:n] {
			deltas = append(deltas, op.Delta)
		}
		return testkit.Specified(deltas)
	}
	for n := 1; n <= 3; n++ {
		if err := h.Survived(h.Now(), h.Now(), map[string]*testkit.Set{"s": state(n)}); err != nil {
			t.Errorf("the first %d: %v", n, err)
		}
	}
	third := clock.Dot{Actor: "x", Counter: 3}
	for what, change := range map[string]func(m *testkit.Set){
		"the acknowledged add is lost":  func(m *testkit.Set) { *m = *testkit.NewSet() },
		"a key is lost":                 func(m *testkit.Set) { delete(m.Keys, third) },
		"a key has come back":           func(m *testkit.Set) { m.Keys[first] = "a" },
		"a dot is dead that none kills": func(m *testkit.Set) { m.Kill(third) },
		"a dot that none made":          func(m *testkit.Set) { m.Seen.Add(clock.Dot{Actor: "x", Counter: 9}) },
		"the middle one is lost": func(m *testkit.Set) {
			*m = *testkit.Specified([]bigset.Delta{h.Operations("s")[0].Delta, h.Operations("s")[2].Delta})
		},
	} {
		m := state(3)
		change(m)
		if err := h.Survived(h.Now(), h.Now(), map[string]*testkit.Set{"s": m}); err == nil {
			t.Errorf("%s: not noticed", what)
		}
	}
	must, may := h.MustAndMay("s")
	if !must["a"] || !must["b"] || len(may) != 2 {
		t.Errorf("must %v, may %v", must, may)
	}
	add(3, "again", false)
	if h.CheckUnique() == nil {
		t.Error("a dot issued twice: not noticed")
	}
}

// TestSelect: what a read must show.
func TestSelect(t *testing.T) {
	var all []fold.Element
	for _, e := range []string{"", "a", "ab", "b", "ba", "c"} {
		all = append(all, fold.Element{Name: []byte(e)})
	}
	for _, c := range []struct {
		o    bigset.ReadOptions
		want []string
	}{
		{bigset.ReadOptions{}, []string{"", "a", "ab", "b", "ba", "c"}},
		{bigset.ReadOptions{From: []byte("a"), To: []byte("b")}, []string{"a", "ab"}},
		{bigset.ReadOptions{Prefix: []byte("b"), Reverse: true}, []string{"ba", "b"}},
		{bigset.ReadOptions{After: []byte("ab"), Limit: 2}, []string{"b", "ba"}},
		{bigset.ReadOptions{After: []byte("ab"), Reverse: true, Limit: 1}, []string{"a"}},
		{bigset.ReadOptions{To: []byte{}}, []string{}},
	} {
		if got := testkit.Names(testkit.Select(all, c.o)); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.o, got, c.want)
		}
	}
}

// TestManyAsOneByOne: a batch that is large enough for an index of what is live has the effect of its operations one by one.
func TestManyAsOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		many, single := testkit.NewSet(), testkit.NewSet()
		for range 2 {
			ops := make([]bigset.Op, rapid.IntRange(100, 130).Draw(t, "operations"))
			for i := range ops {
				kind := rapid.SampledFrom([]keyscheme.Op{keyscheme.OpAdd, keyscheme.OpRemove}).Draw(t, "kind")
				ops[i] = bigset.Op{Kind: kind, Element: []byte{byte(rapid.IntRange(0, 30).Draw(t, "element"))}}
			}
			policy := rapid.SampledFrom([]bigset.Policy{bigset.PolicyCoordinator, bigset.PolicyEmpty}).Draw(t, "policy")
			if _, err := many.Coordinate([]byte("s"), "a", ops, policy); err != nil {
				t.Fatal(err)
			}
			for i := range ops {
				if _, err := single.Coordinate([]byte("s"), "a", ops[i:i+1], policy); err != nil {
					t.Fatal(err)
				}
			}
			if err := single.Diff(many); err != nil {
				t.Fatal(err)
			}
		}
	})
}
