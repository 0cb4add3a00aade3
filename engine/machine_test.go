package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit"
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
	seen := &sights{}
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, seen)
		defer m.end()
		for range 2 {
			t.Repeat(m.actions())
		}
		m.converge()
	})
	seen.check(t)
}

// sights counts what a run has met, so that a test that no longer reaches the interesting states is noticed.
type sights struct{ m [sightCount]atomic.Int64 }

type sight int

const (
	sawCrash sight = iota
	sawLoss
	sawMidCrash
	sawSwap
	sawLateWrites
	sawFiltered
	sawExcise
	sawStreamOverChange
	sawStaleKill
	sawDuplicate
	sawUnseenContext
	sawTwoDots
	sawOldDelta
	sawEviction
	sightCount
)

var sightNames = [sightCount]string{"crash", "batches lost", "crash within an operation", "swap", "late writes in a swap",
	"records filtered", "excise", "stream over a change", "stale context", "duplicate delta", "context before its dot",
	"element with two dots", "delta of a lost batch", "eviction"}

func (s *sights) saw(w sight) { s.m[w].Add(1) }
func (s *sights) sawIf(c bool, w sight) {
	if c {
		s.saw(w)
	}
}

// check fails a test that has not met everything: it would prove less than it says.
func (s *sights) check(t *testing.T) {
	t.Helper()
	if t.Failed() || testing.Short() {
		return
	}
	for w, name := range sightNames {
		n := s.m[w].Load()
		t.Logf("%6d %s", n, name)
		if n == 0 {
			t.Errorf("never met: %s", name)
		}
	}
}

var bg = context.Background()

// silent is a logger for stores whose troubles are made by the test.
var silent = slog.New(slog.DiscardHandler)

// token is a context that somebody was given at some time.
type token struct {
	set, element string
	dots         []clock.Dot
}

type machine struct {
	t      *rapid.T
	seen   *sights
	nodes  []*node
	only   *node // the one to act on, nil is any
	deltas []engine.Delta
	tokens []token
	minted map[string]string // set and dot -> what it was issued for
}

// node is a store with its model.
type node struct {
	m       *machine
	n       int
	disk    *testkit.Disk
	opt     engine.Options
	store   *engine.Store
	model   *testkit.Replica
	streams []*stream

	actors map[clock.Actor]bool // under which it has written
	marked bool                 // it has written since it was opened
	clean  bool                 // the disk says that it was closed in order, under actor
	actor  clock.Actor
	undo   func() // how to forget what came after a crash that found the store not yet marked as open
}

// stream is a read that is held open.
type stream struct {
	set    string
	opt    engine.ReadOptions
	next   func() (*fold.Chunk, error, bool)
	stop   func()
	states []*testkit.Set // from the moment it was opened on
	began  time.Time
	rest   []fold.Element // of the states[0], what is still to come
	last   []byte
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
	m := &machine{t: t, seen: seen, minted: map[string]string{}}
	for i := range rapid.IntRange(1, 3).Draw(t, "stores") {
		n := &node{m: m, n: i, disk: testkit.NewDisk(), model: testkit.NewReplica(), actors: map[clock.Actor]bool{}}
		n.opt = engine.Options{
			Record:                rapid.SampledFrom([]compaction.Record{compaction.Merge, compaction.Merge, compaction.Merge, compaction.Set}).Draw(t, "record"),
			BackgroundInterval:    -1,
			MemTableBytes:         64 << 10,
			SpanBytes:             rapid.SampledFrom([]int{1 << 10, 4 << 10, 1 << 20}).Draw(t, "span"),
			SetCacheBytes:         rapid.SampledFrom([]int64{1, 1 << 20}).Draw(t, "set cache"),
			RewriteBytesPerSecond: 1 << 40,
			TuneForTests:          true,
			Logger:                silent,
			Events:                m.event,
		}
		n.open()
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
	}
}

// eager is a strategy that rewrites whenever there is anything to drop.
func eager(p compaction.Strategy) compaction.Strategy {
	pol := p.(compaction.Policy)
	pol.KeysMin, pol.Excess, pol.Idle, pol.DeadsMin = 1, 1e-9, 1e-9, 1e-9
	return pol
}

func (n *node) open() {
	var fit []string
	for _, s := range compaction.Strategies() {
		if s.WorksOn(n.opt.Record) == nil {
			fit = append(fit, s.Name())
		}
	}
	// The default comes first and so more often.
	strategy, err := compaction.ByName(fit[max(0, rapid.IntRange(-2, len(fit)-1).Draw(n.m.t, "strategy"))])
	must(n.m.t, err, "strategy")
	n.opt.Strategy, n.opt.FS = eager(strategy), n.disk
	s, err := engine.Open("store", &n.opt)
	must(n.m.t, err, "open")
	if n.undo != nil && !s.InDoubt() {
		n.undo()
	}
	switch {
	case n.clean && s.Actor() != n.actor:
		n.m.t.Fatalf("store %d: actor %x after a clean close under %x", n.n, string(s.Actor()), string(n.actor))
	case !n.clean && n.actors[s.Actor()]:
		n.m.t.Fatalf("store %d: actor %x again, though a new incarnation is due", n.n, string(s.Actor()))
	}
	n.store, n.marked = s, false
}

// touched notes that the store has written something.
func (n *node) touched() {
	n.marked, n.clean, n.actor = true, false, n.store.Actor()
	n.actors[n.actor] = true
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
		"drop":        m.drop,
		"flush":       m.flush,
		"publish":     m.publish,
		"tick":        m.tick,
		"compact":     m.compact,
		"compactDisk": m.compactTables,
		"rewrite":     m.rewrite,
		"trim":        m.trim,
		"close":       m.closeAndOpen,
		"crash":       m.crash,
		"crashWithin": m.crashWithin,
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

// drawContext draws a context for an element: none, empty, fresh, or one that somebody was given at any time, anywhere.
func (m *machine) drawContext(t *rapid.T, n *node, set string, element *string) engine.Context {
	switch rapid.IntRange(0, 5).Draw(t, "context") {
	case 0:
		return engine.Saw()
	case 1, 2:
		return engine.Context{}
	case 3:
		got, err := n.store.Contains(bg, []byte(set), []byte(*element))
		if err != nil {
			t.Fatalf("contains: %v", err)
		}
		return got
	}
	var fit []token
	for _, k := range m.tokens {
		if k.set == set {
			fit = append(fit, k)
		}
	}
	if len(fit) == 0 {
		return engine.Context{}
	}
	k := rapid.SampledFrom(fit).Draw(t, "token")
	*element = k.element
	if live := n.model.Set(set).Live(k.element); !testkit.SameDots(live, k.dots) {
		m.seen.saw(sawStaleKill)
	}
	return engine.Saw(k.dots...)
}

func (m *machine) drawOps(t *rapid.T, n *node, set string) []engine.Op {
	ops := make([]engine.Op, rapid.IntRange(1, 4).Draw(t, "operations"))
	for i := range ops {
		kind := rapid.SampledFrom([]keyscheme.Op{keyscheme.OpAdd, keyscheme.OpAdd, keyscheme.OpRemove}).Draw(t, "kind")
		element := drawElement(t)
		c := m.drawContext(t, n, set, &element)
		ops[i] = engine.Op{Kind: kind, Element: []byte(element), Context: c}
	}
	return ops
}

func drawDurability(t *rapid.T) engine.Durability {
	return rapid.SampledFrom([]engine.Durability{engine.NoSync, engine.NoSync, engine.Sync}).Draw(t, "durability")
}

func (m *machine) write(t *rapid.T) {
	n, set := m.node(t), drawSet(t)
	policy := rapid.SampledFrom([]engine.Policy{engine.PolicyCoordinator, engine.PolicyCoordinator, engine.PolicyEmpty, engine.PolicyRequired}).Draw(t, "policy")
	n.write(t, set, m.drawOps(t, n, set), engine.WriteOptions{Policy: policy, Durability: drawDurability(t)})
}

// bulk adds or removes a run of elements, so that tables have something in them.
func (m *machine) bulk(t *rapid.T) {
	n, set := m.node(t), drawSet(t)
	kind := rapid.SampledFrom([]keyscheme.Op{keyscheme.OpAdd, keyscheme.OpRemove}).Draw(t, "kind")
	from := rapid.IntRange(0, 299).Draw(t, "from")
	var ops []engine.Op
	for i := from; i < min(300, from+150); i++ {
		ops = append(ops, engine.Op{Kind: kind, Element: []byte(bulkName(i))})
	}
	policy := rapid.SampledFrom([]engine.Policy{engine.PolicyCoordinator, engine.PolicyCoordinator, engine.PolicyEmpty}).Draw(t, "policy")
	n.write(t, set, ops, engine.WriteOptions{Policy: policy, Durability: drawDurability(t)})
}

// write does operations in store and model, and compares what they answer.
func (n *node) write(t *rapid.T, set string, ops []engine.Op, o engine.WriteOptions) {
	got, err := n.store.Write(bg, []byte(set), ops, o)
	want, wantErr := n.model.Set(set).Coordinate([]byte(set), n.store.Actor(), ops, o.Policy)
	if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		t.Fatalf("store %d: write %q: error %v, want %v", n.n, set, err, wantErr)
	}
	if err != nil {
		return
	}
	if err := testkit.SameDelta(got.Delta, want.Delta); err != nil {
		t.Fatalf("store %d: %v", n.n, err)
	}
	if got.Removed != want.Removed || !slices.Equal(got.Dots, want.Dots) {
		t.Fatalf("store %d: removed %d, dots %v, want %d, %v", n.n, got.Removed, got.Dots, want.Removed, want.Dots)
	}
	if !got.Delta.Empty() {
		n.wrote(t, got.Delta)
	}
	if o.Durability == engine.Sync {
		n.model.Acknowledged()
	}
}

// wrote takes note of a delta that this store made.
func (n *node) wrote(t *rapid.T, d engine.Delta) {
	n.model.Wrote(d)
	n.changed(string(d.Set))
	n.touched()
	n.m.deltas = append(n.m.deltas, d)
	for i, it := range d.Items {
		dot := clock.Dot{Actor: d.Actor, Counter: d.First + uint64(i)}
		id, what := fmt.Sprintf("%s %v", d.Set, dot), fmt.Sprintf("%v %q", it.Kind, it.Element)
		if was, ok := n.m.minted[id]; ok {
			t.Fatalf("store %d: dot %s issued twice, for %s and %s", n.n, id, was, what)
		}
		n.m.minted[id] = what
		if it.Kind == keyscheme.OpAdd {
			n.m.tokens = append(n.m.tokens, token{string(d.Set), string(it.Element), []clock.Dot{dot}})
		}
	}
}

// changed gives open streams the set's new state.
func (n *node) changed(set string) {
	for _, s := range n.streams {
		if s.set == set {
			s.states = append(s.states, n.model.Set(set).Clone())
		}
	}
}

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

func (n *node) apply(t *rapid.T, d engine.Delta, sync engine.Durability) {
	model := n.model.Set(string(d.Set))
	for i, it := range d.Items {
		dot := clock.Dot{Actor: d.Actor, Counter: d.First + uint64(i)}
		n.m.seen.sawIf(model.Seen.Has(dot), sawDuplicate)
		n.m.seen.sawIf(n.actors[d.Actor] && !model.Seen.Has(dot), sawOldDelta)
		for _, c := range it.Context {
			n.m.seen.sawIf(!model.Seen.Has(c), sawUnseenContext)
		}
	}
	if err := n.store.ApplyDelta(bg, d, sync); err != nil {
		t.Fatalf("store %d: apply %+v: %v", n.n, d, err)
	}
	if n.model.Apply(d) {
		n.touched()
		n.changed(string(d.Set))
	}
	if sync == engine.Sync {
		n.model.Acknowledged()
	}
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
	got, err := n.store.Drop(bg, []byte(set), seen, sync)
	before := model.Clone()
	want, wantErr := model.Drop([]byte(set), seen)
	if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		t.Fatalf("store %d: drop %q: error %v, want %v", n.n, set, err, wantErr)
	}
	if err != nil {
		return
	}
	if err := testkit.SameDelta(got, want); err != nil {
		t.Fatalf("store %d: drop %q: %v", n.n, set, err)
	}
	if before.Diff(model) != nil {
		n.model.Wrote(got)
		n.touched()
		n.changed(set)
	}
	m.deltas = append(m.deltas, got)
	if sync == engine.Sync {
		n.model.Acknowledged()
	}
}

func (m *machine) flush(t *rapid.T) {
	n := m.node(t)
	must(t, n.store.Flush(bg), "flush")
	n.model.Acknowledged()
}

// publish hands tombstones to the filter, and may let it work at once.
func (m *machine) publish(t *rapid.T) {
	n := m.node(t)
	for range 2 {
		must(t, n.store.PublisherRound(), "publish")
	}
	switch rapid.IntRange(0, 2).Draw(t, "then") {
	case 1:
		must(t, n.store.Flush(bg), "flush")
		n.model.Acknowledged()
	case 2:
		must(t, n.store.CompactTables(bg), "compact tables")
	}
}

func (m *machine) tick(t *rapid.T) {
	n := m.node(t)
	n.store.RunnerForgets()
	must(t, n.store.RunnerTick(bg), "tick")
}

func (m *machine) compact(t *rapid.T) {
	n := m.node(t)
	_, err := n.store.Compact(bg, engine.CompactOptions{})
	must(t, err, "compact")
	n.model.Acknowledged()
	// After it nothing that is dead is left, where the strategy can help it and no read is in its way.
	if s := n.store.Strategy(); s.Name() == "default" || s.Name() == "rewriter" {
		for _, set := range machineSets {
			keys, err := n.store.StoredKeys([]byte(set))
			must(t, err, "keys")
			if !maps.Equal(keys, n.model.Set(set).Keys) {
				t.Fatalf("store %d: after a compaction keys %v, want %v", n.n, keys, n.model.Set(set).Keys)
			}
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
	writes := rapid.IntRange(0, 2).Draw(t, "writes meanwhile")
	deadMin := rapid.IntRange(0, 1).Draw(t, "dead at least")
	for from, spans := []byte(nil), 0; spans == 0 || from != nil; spans++ {
		wrote := false
		if writes > 0 {
			n.disk.SetHook("writes", func(op errorfs.Op) error {
				if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "span-") && !wrote { // the first table of a pass: writers are not held
					wrote = true
					for range writes {
						n.write(t, set, m.drawOps(t, n, set), engine.WriteOptions{Durability: engine.NoSync})
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
	must(t, n.store.Close(), "close")
	n.model.Acknowledged()
	n.clean = n.clean || n.marked
	n.open()
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
	n.open()
	lost, err := n.model.Crashed(func(name string) (*clock.Clock, *clock.Clock, error) {
		return n.store.SeenAndDead([]byte(name))
	})
	must(t, err, "what survived")
	n.m.seen.saw(sawCrash)
	n.m.seen.sawIf(lost > 0, sawLoss)
}

// crashWithin takes the crash clone in the middle of another action.
func (m *machine) crashWithin(t *rapid.T) {
	n := m.node(t)
	percent, seed := drawSurvival(t)
	at := rapid.Int64Range(0, 40).Draw(t, "at disk operation")
	acts := map[string]func(*rapid.T){"flush": m.flush, "compact": m.compact, "tick": m.tick, "bulk": m.bulk, "rewrite": m.rewrite, "publish": m.publish}
	act := rapid.SampledFrom(slices.Sorted(maps.Keys(acts))).Draw(t, "action")
	acknowledged, wasMarked, wasClean, wasActor := n.model.AcknowledgedCount(), n.marked, n.clean, n.actor
	minted, actors, deltas, tokens := maps.Clone(m.minted), maps.Clone(n.actors), len(m.deltas), len(m.tokens)
	crash := n.disk.CrashAt(at, percent, seed)
	m.only = n
	acts[act](t)
	m.only = nil
	left := crash()
	if left == nil {
		return
	}
	m.seen.saw(sawMidCrash)
	n.model.AcknowledgedOnly(acknowledged)
	n.undo = func() { // what the action wrote came after the crash: it never was
		n.marked, n.clean, n.actor, n.actors = wasMarked, wasClean, wasActor, actors
		m.minted, m.deltas, m.tokens = minted, m.deltas[:deltas], m.tokens[:tokens]
	}
	n.lose(t, left)
	n.undo = nil
}

func must(t *rapid.T, err error, what string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// query asks about single elements.
func (m *machine) query(t *rapid.T) {
	n, set := m.node(t), drawSet(t)
	model := n.model.Set(set)
	elements := rapid.SliceOfN(rapid.Custom(drawElement), 1, 5).Draw(t, "elements")
	var ask [][]byte
	for _, e := range elements {
		ask = append(ask, []byte(e))
	}
	got, err := n.store.Subset(bg, []byte(set), ask)
	must(t, err, "subset")
	for i, e := range elements {
		one, err := n.store.Contains(bg, []byte(set), ask[i])
		must(t, err, "contains")
		want := model.Live(e)
		if !got[i].Given || !slices.Equal(got[i].Dots, want) || !slices.Equal(one.Dots, want) || !one.Given {
			t.Fatalf("store %d: %q in %q by subset %v, by contains %v, want %v", n.n, e, set, got[i], one, want)
		}
		m.seen.sawIf(len(want) > 1, sawTwoDots)
		m.tokens = append(m.tokens, token{set, e, want})
	}
}

func drawBound(t *rapid.T, label string) []byte {
	if rapid.Bool().Draw(t, "no "+label) {
		return nil
	}
	return []byte(rapid.OneOf(rapid.Custom(drawElement), rapid.SampledFrom([]string{"n", "n1", "n15", "\xff"})).Draw(t, label))
}

func drawReadOptions(t *rapid.T) engine.ReadOptions {
	return engine.ReadOptions{
		From: drawBound(t, "from"), To: drawBound(t, "to"), Prefix: drawBound(t, "prefix"), After: drawBound(t, "after"),
		Reverse:   rapid.Bool().Draw(t, "reverse"),
		Limit:     rapid.SampledFrom([]int{0, 0, 1, 3, 50}).Draw(t, "limit"),
		BatchSize: rapid.SampledFrom([]int{0, 1, 2, 7, 100}).Draw(t, "batch"),
	}
}

// read reads a set once, whole or in part, and compares it and its count with the model.
func (m *machine) read(t *rapid.T) {
	n, set, o := m.node(t), drawSet(t), drawReadOptions(t)
	model := n.model.Set(set)
	var got []fold.Element
	var last *fold.Chunk
	for chunk, err := range n.store.Read(bg, []byte(set), o) {
		if !model.Known() && errors.Is(err, engine.ErrNotFound) {
			return
		}
		must(t, err, "read")
		if !model.Seen.Equal(chunk.Clock) {
			t.Fatalf("store %d: chunk clock %v, want %v", n.n, chunk.Clock, model.Seen.Clock())
		}
		got = append(got, chunk.Elements...)
		last = chunk
	}
	want := testkit.Select(model.Elements(), o)
	if err := testkit.SameElements(got, want); err != nil {
		t.Fatalf("store %d: read %q %+v: %v", n.n, set, o, err)
	}
	if last == nil || !last.Done && (o.Limit == 0 || len(got) < o.Limit) {
		t.Fatalf("store %d: the read of %q ended without an end: %+v", n.n, set, last)
	}
	count, err := n.store.Count(bg, []byte(set), o)
	must(t, err, "count")
	if count != uint64(len(want)) {
		t.Fatalf("store %d: count of %q %+v is %d, want %d", n.n, set, o, count, len(want))
	}
	for _, e := range got {
		m.tokens = append(m.tokens, token{set, string(e.Name), e.Dots})
	}
}

// openStream begins a read that others pull on later.
func (m *machine) openStream(t *rapid.T) {
	n, set := m.node(t), drawSet(t)
	if len(n.streams) >= 3 || !n.model.Set(set).Known() {
		t.Skip("not now")
	}
	s := &stream{set: set}
	if rapid.IntRange(0, 3).Draw(t, "a part") == 0 {
		s.opt = drawReadOptions(t)
	}
	s.opt.Reverse = rapid.Bool().Draw(t, "stream reverse")
	s.opt.BatchSize = rapid.IntRange(1, 20).Draw(t, "stream batch")
	s.next, s.stop = iter.Pull2(n.store.Read(bg, []byte(set), s.opt))
	n.streams = append(n.streams, s)
	n.pull(t, s)
}

func (m *machine) pull(t *rapid.T) {
	n := m.node(t)
	if len(n.streams) == 0 {
		t.Skip("no stream")
	}
	s := n.streams[rapid.IntRange(0, len(n.streams)-1).Draw(t, "stream")]
	for range rapid.IntRange(0, 3).Draw(t, "disturbances") {
		n.disturb(t, s.set)
	}
	n.pull(t, s)
}

// disturb does to a set what a reader of it must not notice.
func (n *node) disturb(t *rapid.T, set string) {
	switch rapid.IntRange(0, 5).Draw(t, "disturbance") {
	case 0:
		n.write(t, set, n.m.drawOps(t, n, set), engine.WriteOptions{Durability: drawDurability(t)})
	case 1: // replaces what is there
		var ops []engine.Op
		for _, e := range n.model.Set(set).Elements() {
			ops = append(ops, engine.Op{Kind: keyscheme.OpAdd, Element: e.Name})
		}
		n.write(t, set, ops, engine.WriteOptions{Durability: drawDurability(t)})
	case 2:
		must(t, n.store.PublisherRound(), "publish")
	case 3:
		must(t, n.store.Flush(bg), "flush")
		n.model.Acknowledged()
	case 4:
		must(t, n.store.CompactTables(bg), "compact tables")
	case 5:
		if !n.store.Strategy().Deletes() {
			_, err := n.store.RewriteSpan(bg, []byte(set), nil, 0)
			must(t, err, "rewrite")
		}
	}
}

// pull takes the next chunk of a stream. It must show the state at the moment when the stream's iterator was opened: the
// stream's first chunk, until the engine opens another one.
func (n *node) pull(t *rapid.T, s *stream) {
	if s.states == nil {
		s.states, s.began = []*testkit.Set{n.model.Set(s.set).Clone()}, time.Now()
	}
	chunk, err, ok := s.next()
	if !ok {
		s.close(n)
		return
	}
	must(t, err, "stream")
	n.m.seen.sawIf(len(s.states) > 1, sawStreamOverChange)
	var first error
	for i, state := range s.states {
		err := s.fits(state, chunk)
		if err == nil {
			s.states = s.states[i:]
			s.advance(chunk)
			if s.opt.Limit == 0 && !chunk.Done || s.opt.Limit > 0 {
				return
			}
			s.close(n)
			return
		}
		if first == nil {
			first = err
		}
		if time.Since(s.began) < 900*time.Millisecond {
			break // it is too early for another iterator
		}
	}
	t.Fatalf("store %d: stream of %q %+v, %d states old: %v", n.n, s.set, s.opt, len(s.states), first)
}

// fits reports how a chunk differs from what a state has next.
func (s *stream) fits(state *testkit.Set, chunk *fold.Chunk) error {
	if !state.Seen.Equal(chunk.Clock) {
		return fmt.Errorf("clock %v, want %v", chunk.Clock, state.Seen.Clock())
	}
	o := s.opt
	if s.last != nil {
		o.After = s.last
	}
	o.BatchSize = 0
	want := testkit.Select(state.Elements(), o)
	return testkit.SameElements(chunk.Elements, want[:min(len(want), len(chunk.Elements))+missing(chunk, want, o)])
}

// missing returns how many elements more than it has the chunk should have had.
func missing(chunk *fold.Chunk, want []fold.Element, o engine.ReadOptions) (n int) {
	for _, e := range want[min(len(want), len(chunk.Elements)):] {
		if chunk.Done || chunk.Bound != nil && !testkit.Beyond(e.Name, chunk.Bound, o.Reverse) {
			n++
		}
	}
	return n
}

func (s *stream) advance(chunk *fold.Chunk) {
	if chunk.Bound != nil {
		s.last = chunk.Bound
	} else if k := len(chunk.Elements); k > 0 {
		s.last = chunk.Elements[k-1].Name
	}
	if s.opt.Limit > 0 {
		s.opt.Limit -= len(chunk.Elements)
	}
}

func (s *stream) close(n *node) {
	s.stop()
	n.streams = slices.DeleteFunc(n.streams, func(o *stream) bool { return o == s })
}

// check compares every store with its model.
func (m *machine) check(t *rapid.T) {
	for _, n := range m.nodes {
		for _, set := range machineSets {
			n.checkSet(t, set)
		}
		m.seen.sawIf(n.store.Filtered() > 0, sawFiltered)
	}
}

func (n *node) checkSet(t *rapid.T, set string) {
	model := n.model.Set(set)
	seen, dead, err := n.store.SeenAndDead([]byte(set))
	must(t, err, "Seen and Dead")
	if !model.Seen.Equal(seen) || !model.Dead.Equal(dead) {
		t.Fatalf("store %d, set %q: Seen %v, Dead %v, want %v, %v", n.n, set, seen, dead, model.Seen.Clock(), model.Dead.Clock())
	}
	keys, err := n.store.StoredKeys([]byte(set))
	must(t, err, "keys")
	for dot, e := range model.Keys {
		if got, ok := keys[dot]; !ok || got != e {
			t.Fatalf("store %d, set %q: live dot %v of %q has the key %q (%v)", n.n, set, dot, e, got, ok)
		}
	}
	for dot := range keys {
		if _, ok := model.Keys[dot]; !ok && !model.Dead.Has(dot) {
			t.Fatalf("store %d, set %q: key of dot %v, which is not dead and not live", n.n, set, dot)
		}
	}
}

// converge verifies all stores, delivers everything to all of them, and compares them.
func (m *machine) converge() {
	for _, n := range m.nodes {
		n.stopStreams()
		n.verify(m.t)
		for _, d := range m.deltas {
			n.apply(m.t, d, engine.NoSync)
		}
		n.verify(m.t)
	}
	m.check(m.t)
	for _, set := range machineSets {
		var of []engine.Delta
		for _, d := range m.deltas {
			if string(d.Set) == set {
				of = append(of, d)
			}
		}
		want := testkit.Specified(of)
		for _, n := range m.nodes {
			if err := want.Diff(n.model.Set(set)); err != nil {
				m.t.Fatalf("store %d has everything of %q: %v", n.n, set, err)
			}
			if !want.Known() {
				continue
			}
			var got []fold.Element
			for chunk, err := range n.store.Read(bg, []byte(set), engine.ReadOptions{}) {
				must(m.t, err, "read")
				got = append(got, chunk.Elements...)
			}
			if err := testkit.SameElements(got, want.Elements()); err != nil {
				m.t.Fatalf("store %d has everything of %q: %v", n.n, set, err)
			}
		}
	}
}

func (n *node) verify(t *rapid.T) {
	rep, err := n.store.Verify(bg, engine.VerifyOptions{})
	must(t, err, "verify")
	if !rep.OK() {
		t.Fatalf("store %d: %+v", n.n, rep)
	}
}
