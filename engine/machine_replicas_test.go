package engine_test

import (
	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/internal/testkit"
)

func (m *machine) deliver(t *rapid.T) {
	if len(m.deltas) == 0 {
		t.Skip("no delta yet")
	}
	n := m.node(t)
	from := 0
	if rapid.Bool().Draw(t, "recent") {
		from = max(0, len(m.deltas)-4)
	}
	n.apply(t, rapid.SampledFrom(m.deltas[from:]).Draw(t, "delta"), drawDurability(t))
}

func (n *node) apply(t *rapid.T, d bigset.Delta, sync bigset.Durability) {
	model := n.model.Set(string(d.Set))
	for i, it := range d.Items {
		dot := clock.Dot{Actor: d.Actor, Counter: d.First + uint64(i)}
		n.m.seen.sawIf(model.Seen.Has(dot), sawDuplicate)
		n.m.seen.sawIf(n.actors[d.Actor] && !model.Seen.Has(dot), sawOldDelta)
		for _, c := range it.Context {
			n.m.seen.sawIf(!model.Seen.Has(c), sawUnseenContext)
		}
	}
	n.pair.apply(t, d, sync)
}

// copyPortions has a store copy some of a set from another, in spans.
func (m *machine) copyPortions(t *rapid.T) {
	if m.keepsContexts || len(m.nodes) < 2 {
		t.Skip("alone, or contexts are unresolved")
	}
	n, set := m.node(t), drawSet(t)
	from := m.nodes[rapid.IntRange(0, len(m.nodes)-1).Draw(t, "from")]
	if from == n || !from.model.Set(set).Known() {
		t.Skip("nothing to copy")
	}
	for _, s := range from.portions(t, set, rapid.SampledFrom([]int{1, 500, 5000, 0}).Draw(t, "bytes")) {
		switch rapid.IntRange(0, 5).Draw(t, "span") {
		case 0: // lost
			continue
		case 1:
			s.Dead = nil
		}
		m.ingests(t, n, s)
		if rapid.IntRange(0, 9).Draw(t, "again") == 0 {
			m.ingests(t, n, s)
		}
	}
}

func (m *machine) ingests(t *rapid.T, n *node, s *bigset.Portion) {
	before, err := n.store.Stats()
	must(t, err, "stats")
	n.ingest(t, s)
	after, err := n.store.Stats()
	must(t, err, "stats")
	m.seen.sawIf(after.Ingests > before.Ingests, sawIngest)
}

// heal has a store learn from another.
func (m *machine) heal(t *rapid.T) {
	if m.keepsContexts || len(m.nodes) < 2 {
		t.Skip("alone, or contexts are unresolved")
	}
	n, set := m.node(t), drawSet(t)
	if from := m.nodes[rapid.IntRange(0, len(m.nodes)-1).Draw(t, "from")]; from != n {
		n.learns(t, from, set)
	}
}

// converge verifies all stores, delivers everything to all of them, and compares them.
func (m *machine) converge() {
	for _, n := range m.nodes {
		n.stopStreams()
		n.verify(m.t)
		for _, d := range m.deltas {
			n.apply(m.t, d, bigset.NoSync)
		}
		n.verify(m.t)
		if unresolved, _ := n.store.UnresolvedKeys([]byte("s")); len(unresolved) > 0 && n.store.Strategy().Name() == "default" {
			m.compactNode(n)
			left, err := n.store.UnresolvedKeys([]byte("s"))
			must(m.t, err, "unresolved keys")
			m.seen.sawIf(len(left) < len(unresolved), sawResolved)
		}
	}
	m.check(m.t)
	for _, set := range machineSets {
		var of []bigset.Delta
		for _, d := range m.deltas {
			if string(d.Set) == set {
				of = append(of, d)
			}
		}
		want := testkit.Specified(of)
		for _, n := range m.nodes {
			if err := want.Diff(n.model.Set(set)); err != nil {
				m.t.Fatalf("%s has everything of %q: %v", n.label, set, err)
			}
			if !want.Known() {
				continue
			}
			got := n.pair.read(m.t, set, bigset.ReadOptions{})
			if err := testkit.SameElements(got, want.Elements()); err != nil {
				m.t.Fatalf("%s has everything of %q: %v", n.label, set, err)
			}
		}
	}
}

// locate asks a store for dots of one of its own sets, mostly past the log of recent writes.
func (m *machine) locate(t *rapid.T) {
	if m.keepsContexts {
		t.Skip("contexts are unresolved")
	}
	n, set := m.node(t), drawSet(t)
	if !n.model.Set(set).Known() {
		t.Skip("not known")
	}
	if rapid.IntRange(0, 3).Draw(t, "forget recent writes") > 0 {
		n.store.ForgetRecent()
	}
	before, err := n.store.Stats()
	must(t, err, "stats")
	dots := n.drawDots(t, set)
	n.checkLocated(t, set, dots, n.located(t, set, dots))
	after, err := n.store.Stats()
	must(t, err, "stats")
	m.seen.sawIf(after.LocateSkips > before.LocateSkips, sawUnread)
}

// drawDots draws dots that a store has seen of a set: the newest of each actor, one of them, all, or some of any age.
func (n *node) drawDots(t *rapid.T, set string) *clock.Clock {
	seen, dots := n.known(t, set).Seen, &clock.Clock{}
	kind, step := rapid.IntRange(0, 3).Draw(t, "dots"), rapid.Uint64Range(1, 40).Draw(t, "one in")
	for d := range seen.Dots() {
		switch {
		case kind == 0 && d.Counter+step > seen.Max(d.Actor), kind == 1 && d.Counter == step, kind == 2 && d.Counter%step == 0, kind == 3:
			dots.Add(d)
		}
	}
	return dots
}
