package engine_test

import (
	"fmt"

	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// token is a context that somebody was given at some time.
type token struct {
	set, element string
	dots         []clock.Dot
}

// wideToken is the clock of a whole set that somebody was given at some time.
type wideToken struct {
	set  string
	seen *clock.Clock
}

// drawContext draws a context for an element: none, empty, fresh, or one that somebody was given at any time, anywhere.
func (m *machine) drawContext(t *rapid.T, n *node, set string, element *string) bigset.Context {
	switch rapid.IntRange(0, 8).Draw(t, "context") {
	case 6, 7, 8:
		return m.drawWide(t, set)
	case 0:
		return bigset.Saw()
	case 1, 2:
		return bigset.Context{}
	case 3:
		got, err := n.store.Look(bg, []byte(set), []byte(*element))
		if err != nil {
			t.Fatalf("contains: %v", err)
		}
		return got.Context
	}
	var fit []token
	for _, k := range m.tokens {
		if k.set == set {
			fit = append(fit, k)
		}
	}
	if len(fit) == 0 {
		return bigset.Context{}
	}
	k := rapid.SampledFrom(fit).Draw(t, "token")
	*element = k.element
	if live := n.model.Set(set).Live(k.element); !testkit.SameDots(live, k.dots) {
		m.seen.saw(sawStaleKill)
	}
	return bigset.Saw(k.dots...)
}

// drawWide draws a wide context: the clock of a set as some store had it at some time, sometimes a part of it.
func (m *machine) drawWide(t *rapid.T, set string) bigset.Context {
	n := m.nodes[rapid.IntRange(0, len(m.nodes)-1).Draw(t, "clock of store")]
	if seen, err := n.store.Seen(bg, []byte(set)); err == nil {
		m.clocks = append(m.clocks, wideToken{set, seen})
	}
	var fit []*clock.Clock
	for _, k := range m.clocks {
		if k.set == set {
			fit = append(fit, k.seen)
		}
	}
	if len(fit) == 0 {
		return bigset.Context{}
	}
	seen := fit[max(0, rapid.IntRange(-2, len(fit)-1).Draw(t, "clock"))]
	if rapid.IntRange(0, 1).Draw(t, "newest") == 0 {
		seen = fit[len(fit)-1]
	}
	if rapid.IntRange(0, 5).Draw(t, "part") == 0 {
		part := &clock.Clock{}
		for d := range seen.Dots() {
			if d.Counter%2 == 0 {
				part.Add(d)
			}
		}
		seen = part
	}
	return bigset.SawAll(seen)
}

func (m *machine) drawOps(t *rapid.T, n *node, set string) []bigset.Op {
	ops := make([]bigset.Op, rapid.IntRange(1, 4).Draw(t, "operations"))
	for i := range ops {
		kind := rapid.SampledFrom([]keyscheme.Op{keyscheme.OpAdd, keyscheme.OpAdd, keyscheme.OpRemove}).Draw(t, "kind")
		element := drawElement(t)
		c := m.drawContext(t, n, set, &element)
		ops[i] = bigset.Op{Kind: kind, Element: []byte(element), Context: c}
	}
	return ops
}

func drawDurability(t *rapid.T) bigset.Durability {
	return rapid.SampledFrom([]bigset.Durability{bigset.NoSync, bigset.NoSync, bigset.Sync}).Draw(t, "durability")
}

func (m *machine) write(t *rapid.T) {
	n, set := m.node(t), drawSet(t)
	policy := rapid.SampledFrom([]bigset.Policy{bigset.PolicyCoordinator, bigset.PolicyCoordinator, bigset.PolicyEmpty, bigset.PolicyRequired}).Draw(t, "policy")
	n.write(t, set, m.drawOps(t, n, set), bigset.WriteOptions{Policy: policy, Durability: drawDurability(t)})
}

// bulk adds or removes a run of elements, so that tables have something in them.
func (m *machine) bulk(t *rapid.T) {
	n, set := m.node(t), drawSet(t)
	kind := rapid.SampledFrom([]keyscheme.Op{keyscheme.OpAdd, keyscheme.OpRemove}).Draw(t, "kind")
	from := rapid.IntRange(0, 299).Draw(t, "from")
	var ops []bigset.Op
	for i := from; i < min(300, from+150); i++ {
		ops = append(ops, bigset.Op{Kind: kind, Element: []byte(bulkName(i))})
	}
	policy := rapid.SampledFrom([]bigset.Policy{bigset.PolicyCoordinator, bigset.PolicyCoordinator, bigset.PolicyEmpty}).Draw(t, "policy")
	n.write(t, set, ops, bigset.WriteOptions{Policy: policy, Durability: drawDurability(t)})
}

func (m *machine) drop(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "really") > 0 {
		t.Skip("not so often")
	}
	n, set, sync := m.node(t), drawSet(t), drawDurability(t)
	model := n.model.Set(set)
	var seen *clock.Clock
	if rapid.Bool().Draw(t, "with a context") {
		seen = &clock.Clock{}
		for _, d := range m.deltas { // an older clock: some of the deltas of this set
			if string(d.Set) == set && len(d.Items) > 0 && model.Seen.Has(clock.Dot{Actor: d.Actor, Counter: d.First}) && rapid.Bool().Draw(t, "in context") {
				seen.AddRange(d.Actor, d.First, d.First+uint64(len(d.Items))-1)
			}
		}
	}
	if d, ok := n.pair.drop(t, set, seen, sync); ok {
		m.deltas = append(m.deltas, d)
	}
}

// noteMinted takes note of a delta that this store made: no dot may be issued twice, whatever happens.
func (n *node) noteMinted(t rapid.TB, d bigset.Delta) {
	n.m.deltas = append(n.m.deltas, d)
	for i, it := range d.Items {
		dot := clock.Dot{Actor: d.Actor, Counter: d.First + uint64(i)}
		id, what := fmt.Sprintf("%s %v", d.Set, dot), fmt.Sprintf("%v %q", it.Kind, it.Element)
		if was, ok := n.m.minted[id]; ok {
			t.Fatalf("%s: dot %s issued twice, for %s and %s", n.label, id, was, what)
		}
		n.m.minted[id] = what
		if it.Kind == keyscheme.OpAdd {
			n.m.tokens = append(n.m.tokens, token{string(d.Set), string(it.Element), []clock.Dot{dot}})
		}
	}
}
