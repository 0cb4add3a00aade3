package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// TestMachine drives one to three stores and their models side by side with random operations, contexts of any age,
// deltas lost, doubled and out of order, flushes, compactions, swaps, evictions, closes and crashes, while reads are held
// open over all of it; after every step each store must answer exactly what its model does.
//
// A failure prints how to repeat it; a long run is
//
//	go test ./engine -run TestMachine -rapid.checks=10000 -rapid.steps=60
func TestMachine(t *testing.T) {
	t.Parallel()
	seen, machines := &sights{}, 0
	for range tier.Times(3) {
		rapid.Check(t, func(t *rapid.T) {
			machines++
			m := newMachine(t, seen)
			defer m.end()
			for range 2 {
				t.Repeat(m.actions())
			}
			m.converge()
		})
	}
	seen.check(t, machines)
	tier.Count(t, "machines", machines)
	tier.Count(t, "crashes", int(seen.m[sawCrash].Load()))
	tier.Count(t, "swaps", int(seen.m[sawSwap].Load()))
}

type machine struct {
	t             *rapid.T
	seen          *sights
	nodes         []*node
	only          *node // the one to act on, nil is any
	deltas        []bigset.Delta
	tokens        []token
	clocks        []wideToken
	keepsContexts bool              // the stores have KeepContexts
	minted        map[string]string // set and dot -> what it was issued for
}

// node is one of the machine's stores.
type node struct {
	*pair
	m       *machine
	streams []*stream

	actors map[clock.Actor]bool // under which it has written
	marked bool                 // it has written since it was opened
	clean  bool                 // the disk says that it was closed in order, under actor
	actor  clock.Actor
	undo   func() // how to forget what came after a crash that found the store not yet marked as open
}

var machineSets = []string{"s", "t", "s\x00:e"}

// machineElements are few, so that they meet often, and nasty to sort.
var machineElements = []string{"", "a", "a\x00", "a\x00b", "ab", "b", "\xff", "\xff\xff", "e"}

func drawElement(t *rapid.T) string {
	if rapid.IntRange(0, 3).Draw(t, "kind of element") == 0 {
		return bulkName(rapid.IntRange(0, 299).Draw(t, "element"))
	}
	return rapid.SampledFrom(machineElements).Draw(t, "element")
}

func bulkName(i int) string { return fmt.Sprintf("n%03d-padding", i) }

func newMachine(t *rapid.T, seen *sights) *machine {
	m := &machine{t: t, seen: seen, minted: map[string]string{}, keepsContexts: rapid.Bool().Draw(t, "unresolved contexts")}
	for i := range rapid.IntRange(1, 3).Draw(t, "stores") {
		n := &node{pair: newPair(fmt.Sprintf("store %d", i)), m: m, actors: map[clock.Actor]bool{}}
		n.pair.minted, n.pair.changed = n.noteMinted, n.noteChanged
		n.opt.Record = rapid.SampledFrom([]compaction.Record{compaction.Merge, compaction.Merge, compaction.Merge, compaction.Set}).Draw(t, "record")
		n.opt.SpanBytes = rapid.SampledFrom([]int{1 << 10, 4 << 10, 1 << 20}).Draw(t, "span")
		n.opt.SetCacheBytes = rapid.SampledFrom([]int64{1, 1 << 20}).Draw(t, "set cache")
		n.opt.Events = m.event
		n.opt.HotBytes = rapid.SampledFrom([]int64{0, 512 << 10, 2000, 600, -1}).Draw(t, "bytes of hot elements")
		n.opt.KeepContexts, n.model.KeepsContexts = m.keepsContexts, m.keepsContexts
		n.split = rapid.SampledFrom([][]int{nil, {24, 40, 32, 64}, {60, 24, 16, 8}}).Draw(t, "cut")
		n.open(t)
		m.nodes = append(m.nodes, n)
	}
	return m
}

func (m *machine) event(e engine.Event) {
	switch e.Kind {
	case engine.EventRewrite:
		m.seen.saw(sawSwap)
	case engine.EventExcise:
		m.seen.saw(sawExcise)
	case engine.EventIncarnation:
		m.seen.saw(sawIncarnation)
	}
}

func (n *node) open(t *rapid.T) {
	var fit []string
	for _, s := range compaction.Strategies() {
		if s.WorksOn(n.opt.Record) == nil && (s.Rewrites() || !n.opt.KeepContexts) {
			fit = append(fit, s.Name())
		}
	}
	// The default comes first and so more often.
	strategy, err := compaction.ByName(fit[max(0, rapid.IntRange(-2, len(fit)-1).Draw(t, "strategy"))])
	must(t, err, "strategy")
	n.opt.Strategy = eager(strategy)
	sayNoDots := rapid.IntRange(0, 4).Draw(t, "tables without dot ranges") == 0
	n.opt.Tune(func(po *pebble.Options) {
		testkit.SmallTables(po)
		if sayNoDots {
			engine.WithoutDotRanges(po)
		}
	})
	n.pair.open(t)
	actor := n.store.Replica().Actor()
	if n.undo != nil && !n.store.InDoubt() {
		n.undo()
	}
	switch {
	case n.clean && actor != n.actor:
		t.Fatalf("%s: actor %x after a clean close under %x", n.label, string(actor), string(n.actor))
	case !n.clean && n.actors[actor]:
		t.Fatalf("%s: actor %x again, though a new incarnation is due", n.label, string(actor))
	}
	n.marked = false
}

func (m *machine) end() {
	for _, n := range m.nodes {
		n.stopStreams()
		if n.store != nil {
			_ = n.store.Close() // a failure was reported where it happened
		}
	}
}

func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"write":       m.write,
		"write2":      m.write,
		"bulk":        m.bulk,
		"deliver":     m.deliver,
		"deliver2":    m.deliver,
		"heal":        m.heal,
		"locate":      m.locate,
		"copy":        m.copyPortions,
		"drop":        m.drop,
		"flush":       m.flush,
		"publish":     m.publish,
		"tick":        m.tick,
		"compact":     m.compact,
		"compactDisk": m.compactTables,
		"rewrite":     m.rewrite,
		"sweep":       m.sweep,
		"trim":        m.trim,
		"close":       m.closeAndOpen,
		"crash":       m.crash,
		"crashWithin": m.crashWithin,
		"count":       m.count,
		"query":       m.query,
		"read":        m.read,
		"openStream":  m.openStream,
		"pull":        m.pull,
		"":            m.check,
	}
}

func (m *machine) node(t *rapid.T) *node {
	if m.only != nil {
		return m.only
	}
	return m.nodes[rapid.IntRange(0, len(m.nodes)-1).Draw(t, "store")]
}

func drawSet(t *rapid.T) string {
	return machineSets[max(0, rapid.IntRange(-3, len(machineSets)-1).Draw(t, "set"))]
}

// noteChanged notes that the store has written something, and gives open streams the set's new state.
func (n *node) noteChanged(set string) {
	n.noteMarked()
	for _, s := range n.streams {
		if s.set == set {
			s.states = append(s.states, n.model.Set(set).Clone())
		}
	}
}

// noteMarked notes that the store has written: something of ours, or what it found out by itself.
func (n *node) noteMarked() {
	if n.store.Marked() {
		n.marked, n.clean, n.actor = true, false, n.store.Replica().Actor()
		n.actors[n.actor] = true
	}
}

func (m *machine) flush(t *rapid.T) {
	m.node(t).flush(t)
}

// publish hands tombstones to the drop filter, and may let it work at once.
func (m *machine) publish(t *rapid.T) {
	n := m.node(t)
	for range 2 {
		must(t, n.store.PublisherRound(), "publish")
	}
	switch rapid.IntRange(0, 3).Draw(t, "then") {
	case 1:
		m.flushThrough(t, n)
	case 2:
		must(t, n.store.CompactTables(bg), "compact tables")
	case 3: // what was added and removed dies in the memtable
		n.all(t, "s", keyscheme.OpAdd, elementNames(300, 320), bigset.NoSync)
		n.all(t, "s", keyscheme.OpRemove, elementNames(300, 320), bigset.NoSync)
		for range 2 {
			must(t, n.store.PublisherRound(), "publish")
		}
		m.flushThrough(t, n)
	}
}

// flushThrough flushes through the drop filter.
func (m *machine) flushThrough(t *rapid.T, n *node) {
	before := n.store.Filtered()
	n.flush(t)
	m.seen.sawIf(n.store.Filtered() > before, sawFlushDrop)
}

func (m *machine) tick(t *rapid.T) {
	n := m.node(t)
	n.store.RunnerForgets()
	must(t, n.store.RunnerTick(bg), "tick")
}

func (m *machine) compact(t *rapid.T) {
	m.compactNode(m.node(t))
}

func (m *machine) compactNode(n *node) {
	t := m.t
	_, err := n.store.Compact(bg, engine.CompactOptions{})
	must(t, err, "compact")
	n.model.Acknowledged()
	// After it nothing that is dead is left, where the strategy can help it and no read is in its way.
	if s := n.store.Strategy(); s.Name() == "default" || s.Name() == "rewriter" {
		for _, set := range machineSets {
			n.checkClean(t, set)
		}
	}
}

func (m *machine) compactTables(t *rapid.T) {
	n := m.node(t)
	must(t, n.store.CompactTables(bg), "compact tables")
}

// rewrite runs the rewriter over a set, span by span; while it copies one, something is written.
func (m *machine) rewrite(t *rapid.T) {
	n, set := m.node(t), drawSet(t)
	if n.store.Strategy().Deletes() {
		t.Skip("not with point deletes")
	}
	writes := rapid.IntRange(0, 2).Draw(t, "writes during it")
	deadMin := rapid.IntRange(0, 1).Draw(t, "dead at least")
	for from, spans := []byte(nil), 0; spans == 0 || from != nil; spans++ {
		wrote := false
		if writes > 0 {
			n.disk.SetHook("writes", func(op errorfs.Op) error {
				if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "span-") && !wrote { // the first table of a pass: writers are not held
					wrote = true
					for range writes {
						n.write(t, set, m.drawOps(t, n, set), bigset.WriteOptions{Durability: bigset.NoSync})
					}
				}
				return nil
			})
		}
		p, err := n.store.RewriteSpan(bg, []byte(set), from, deadMin)
		n.disk.SetHook("writes", nil)
		must(t, err, "rewrite")
		m.seen.sawIf(wrote && p.Swapped, sawLateWrites)
		from = p.Next
	}
}

// sweep runs the rewriter over all small sets; while it copies them, something is written to any set.
func (m *machine) sweep(t *rapid.T) {
	n := m.node(t)
	if n.store.Strategy().Deletes() {
		t.Skip("not with point deletes")
	}
	writes := rapid.IntRange(0, 3).Draw(t, "writes during it")
	for from, spans := []byte(nil), 0; spans == 0 || from != nil; spans++ {
		wrote := false
		n.disk.SetHook("writes", func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "span-") && !wrote { // the first table: writers are not held
				wrote = true
				for range writes {
					set := rapid.SampledFrom(machineSets).Draw(t, "set")
					n.write(t, set, m.drawOps(t, n, set), bigset.WriteOptions{Durability: bigset.NoSync})
				}
			}
			return nil
		})
		p, _, err := n.store.RewriteSets(bg, from, 1)
		n.disk.SetHook("writes", nil)
		must(t, err, "sweep")
		m.seen.sawIf(wrote && writes > 0 && p.Swapped, sawLateSweep)
		from = p.Next
	}
}

func (m *machine) trim(t *rapid.T) {
	n := m.node(t)
	before, err := n.store.Stats()
	must(t, err, "stats")
	must(t, n.store.TrimSets(), "trim")
	after, err := n.store.Stats()
	must(t, err, "stats")
	m.seen.sawIf(after.SetsInMemory < before.SetsInMemory, sawEviction)
}

func (n *node) stopStreams() {
	for _, s := range n.streams {
		s.stop()
	}
	n.streams = nil
}

func (m *machine) closeAndOpen(t *rapid.T) {
	n := m.node(t)
	n.stopStreams()
	n.pair.close(t)
	n.clean = n.clean || n.marked
	n.open(t)
}

func (m *machine) crash(t *rapid.T) {
	n := m.node(t)
	n.lose(t, n.disk.CrashClone(drawSurvival(t)))
}

func drawSurvival(t *rapid.T) (percent int, seed uint64) {
	percent = rapid.SampledFrom([]int{0, 0, 30, 80, 100}).Draw(t, "unsynced percent")
	return percent, rapid.Uint64().Draw(t, "survival")
}

// lose goes on with what a crash has left of the disk.
func (n *node) lose(t *rapid.T, left *testkit.Disk) {
	n.stopStreams()
	_ = n.store.Close() // of the past: nobody will ever see it
	n.disk = left
	n.open(t)
	lost := n.recovered(t)
	n.m.seen.saw(sawCrash)
	n.m.seen.sawIf(lost > 0, sawLoss)
}

// crashWithin takes the crash clone in the middle of another action.
func (m *machine) crashWithin(t *rapid.T) {
	n := m.node(t)
	percent, seed := drawSurvival(t)
	at := rapid.Int64Range(0, 40).Draw(t, "at disk operation")
	acts := map[string]func(*rapid.T){"flush": m.flush, "compact": m.compact, "tick": m.tick, "bulk": m.bulk, "rewrite": m.rewrite, "sweep": m.sweep, "publish": m.publish}
	act := rapid.SampledFrom(slices.Sorted(maps.Keys(acts))).Draw(t, "action")
	acknowledged, wasMarked, wasClean, wasActor := n.model.AcknowledgedCount(), n.marked, n.clean, n.actor
	minted, actors, deltas, tokens, clocks := maps.Clone(m.minted), maps.Clone(n.actors), len(m.deltas), len(m.tokens), len(m.clocks)
	crash := n.disk.CrashAt(at, percent, seed)
	m.only = n
	acts[act](t)
	m.only = nil
	n.noteMarked()
	left := crash()
	if left == nil {
		return
	}
	m.seen.saw(sawMidCrash)
	n.model.AcknowledgedOnly(acknowledged)
	n.undo = func() { // what the action wrote came after the crash: it never was
		n.marked, n.clean, n.actor, n.actors = wasMarked, wasClean, wasActor, actors
		m.minted, m.deltas, m.tokens = minted, m.deltas[:deltas], m.tokens[:tokens]
		m.clocks = m.clocks[:clocks]
	}
	n.lose(t, left)
	n.undo = nil
}

// check compares every store with its model.
func (m *machine) check(t *rapid.T) {
	for _, n := range m.nodes {
		n.noteMarked()
		n.check(t)
		n.checkCount(t)
		m.seen.sawIf(n.store.Filtered() > 0, sawFiltered)
		m.seen.sawIf(n.store.RunsPassed() > 0, sawDeadRun)
		for _, set := range machineSets {
			_, hits, err := n.store.HotDots([]byte(set))
			must(t, err, "remembered dots")
			m.seen.sawIf(hits > 0, sawHot)
		}
	}
}
