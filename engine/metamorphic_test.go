package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// TestMetamorphic does the same operations on stores that differ in everything that must not matter: records, strategies,
// formats, tables and levels (drawn again at each open), sizes of memtables, spans and caches, compactions, closes and
// crashes between operations, a background that runs or not.
// Every answer on the way, and the sets in the end, must be the same. Dots are compared by the operation that made them, so
// that incarnations don't matter. In every third round wide contexts stay unresolved. A long run is -engine.long.
func TestMetamorphic(t *testing.T) {
	t.Parallel()
	r := tier.Random(t)
	const parts = 6 // of the variants of a round; each part is a place
	rounds := tier.Pick(3, 3, 9)
	share, compared := tier.ShareOf(t, rounds*parts, rounds*parts), 0
	if *tier.Long {
		rounds, share = tier.Times(9), tier.Share{Every: 1}
	}
	for round := range rounds {
		all := variants(r)
		if round%3 == 2 {
			all = withContextsKept(all)
		}
		var some []variant
		for i, c := range all[1:] {
			if share.Has(round*parts + i%parts) {
				some = append(some, c)
			}
		}
		if len(some) == 0 {
			continue
		}
		compared += len(some)
		steps := drawSteps(r, 150+r.IntN(200))
		want, _ := all[0].run(t, steps, nil)
		for _, c := range some {
			if got, stores := c.run(t, steps, r); got != want {
				t.Fatalf("round %d: %s ends otherwise than %s:\n%s\n%s", round, c.name, all[0].name, firstDifference(want, got), stores)
			}
		}
	}
	tier.Count(t, "stores-compared", compared)
	if compared == 0 {
		t.Error("no stores were compared")
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i, w[i], g[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// metaStep is one step: a write, a delivery, a drop, or a question.
type metaStep struct {
	what  string
	store int
	set   string
	ops   []metaOp
	from  int // deliver: the step whose delta it is
	sync  bool
}

// metaOp is one operation. Its context is what an earlier operation made: -1 is none, -2 the empty one, -3 all that the store
// has seen of the set.
type metaOp struct {
	kind    keyscheme.Op
	element string
	context int // an operation's number
}

func drawSteps(r *rand.Rand, n int) []metaStep {
	var steps []metaStep
	var adds []metaOp // with context set to their own numbers
	ops := 0
	for range n {
		s := metaStep{store: r.IntN(2), set: []string{"s", "t"}[r.IntN(2)], sync: r.IntN(3) == 0}
		switch k := r.IntN(20); {
		case k < 12:
			s.what = "write"
			size := 1
			if r.IntN(4) == 0 {
				size = 1 + r.IntN(60)
			}
			for range size {
				o := metaOp{kind: keyscheme.OpAdd, element: bulkName(r.IntN(200)), context: -1}
				if r.IntN(5) < 2 {
					o.kind = keyscheme.OpRemove
				}
				switch r.IntN(6) {
				case 0:
					o.context = -2
				case 2:
					o.context = -3
				case 1:
					if len(adds) > 0 {
						a := adds[r.IntN(len(adds))]
						o.element, o.context = a.element, a.context
					}
				}
				s.ops = append(s.ops, o)
				if o.kind == keyscheme.OpAdd {
					o.context = ops
					adds = append(adds, o)
				}
				ops++
			}
		case k < 16 && len(steps) > 0:
			s.what, s.from = "deliver", r.IntN(len(steps))
		case k == 16 && r.IntN(3) == 0:
			s.what = "drop"
		default:
			s.what = "ask"
			s.ops = []metaOp{{element: bulkName(r.IntN(200))}}
		}
		steps = append(steps, s)
	}
	return steps
}

// variant is one way to keep the sets.
type variant struct {
	name    string
	tune    func(p *pair)
	between func(t *testing.T, p *pair, step int)
}

func variants(r *rand.Rand) []variant {
	records := func(rec compaction.Record, s compaction.Strategy) func(p *pair) {
		return func(p *pair) { p.opt.Record, p.opt.Strategy = rec, s }
	}
	reopen := func(t *testing.T, p *pair) {
		must(t, p.store.Close(), "close")
		p.openWithOthers(t, r)
	}
	compact := func(t *testing.T, p *pair) {
		_, err := p.store.Compact(bg, engine.CompactOptions{})
		must(t, err, "compact")
	}
	every := func(n int, f func(t *testing.T, p *pair)) func(*testing.T, *pair, int) {
		return func(t *testing.T, p *pair, step int) {
			if step%n == n-1 {
				f(t, p)
			}
		}
	}
	merge, set := compaction.Merge, compaction.Set
	all := []variant{
		{"plain", func(p *pair) {
			p.opt.Tune(nil)
			p.opt.MemTableBytes, p.opt.Strategy = 4<<20, compaction.None()
		}, nil},
		{"default, compacted", records(merge, compaction.Default()), every(9, compact)},
		{"filter, compacted", records(merge, compaction.Filter()), every(7, compact)},
		{"rewriter on set records, reopened", records(set, compaction.Rewriter()), every(11, func(t *testing.T, p *pair) { compact(t, p); reopen(t, p) })},
		{"point deletes, compacted", records(set, compaction.PointDeletes()), every(8, compact)},
		{"none on set records", records(set, compaction.None()), nil},
		{"reopened with other tables", records(merge, eager(compaction.Default())), every(8, func(t *testing.T, p *pair) {
			must(t, p.store.FlushTables(), "flush")
			if r.IntN(2) == 0 {
				compact(t, p)
			}
			reopen(t, p)
		})},
		{"busy background", func(p *pair) { busy(p) }, every(5, func(*testing.T, *pair) { time.Sleep(2 * time.Millisecond) })},
		{"tiny spans, tables first", func(p *pair) { p.opt.SpanBytes, p.opt.Strategy = 1<<10, eager(compaction.Default()) },
			every(6, func(t *testing.T, p *pair) {
				publish(t, p)
				must(t, p.store.FlushTables(), "flush")
				must(t, p.store.CompactTables(bg), "compact")
				p.store.RunnerForgets()
				must(t, p.store.RunnerTick(bg), "tick")
			})},
		{"evicted and reopened", func(p *pair) { p.opt.SetCacheBytes = 1 }, func(t *testing.T, p *pair, step int) {
			must(t, p.store.TrimSets(), "trim")
			if step%13 == 12 {
				reopen(t, p)
			}
		}},
		{"tiny pages, evicted and reopened", func(p *pair) { p.split, p.opt.SetCacheBytes = []int{24, 40, 32, 8}, 1 }, func(t *testing.T, p *pair, step int) {
			if step%3 == 2 {
				must(t, p.store.TrimSets(), "trim")
			}
			if step%17 == 16 {
				compact(t, p)
				reopen(t, p)
			}
		}},
		{"tiny pages, from one key and back", func(*pair) {}, every(9, func(t *testing.T, p *pair) {
			p.split = [][]int{{512, 64 << 10, 4 << 10, 64}, {24, 40, 32, 16}}[r.IntN(2)]
			reopen(t, p)
		})},
		{"crashed", func(p *pair) { busy(p) }, every(10, func(t *testing.T, p *pair) {
			must(t, p.store.Flush(bg), "flush")
			left := p.disk.CrashClone(r.IntN(101), r.Uint64())
			_ = p.store.Close() // of the past
			p.disk = left
			p.openWithOthers(t, r)
		})},
	}
	for i := range all {
		if i%3 == 0 { // what the others look up in keys
			continue
		}
		tune := all[i].tune
		all[i].tune = func(p *pair) {
			tune(p)
			p.opt.HotBytes = []int64{512 << 10, 3000}[i%2]
		}
	}
	return all
}

// withContextsKept returns those of the variants that can resolve unresolved keys, as ones that have them.
func withContextsKept(all []variant) (open []variant) {
	for _, v := range all {
		tune, p := v.tune, newPair("")
		if tune(p); p.opt.Strategy != nil && !p.opt.Strategy.Rewrites() {
			continue
		}
		v.name += ", unresolved contexts"
		v.tune = func(p *pair) {
			tune(p)
			p.opt.KeepContexts = true
		}
		open = append(open, v)
	}
	return open
}

// metaRun is a run of the steps on two stores.
type metaRun struct {
	t      *testing.T
	stores [2]*pair
	made   map[int]clock.Dot // operation to its dot
	in     map[int]string    // and the set that it is of
	by     map[string]string // set and dot to its operation
	deltas []bigset.Delta    // by step
	ops    int
	log    strings.Builder
}

// run does the steps on stores with tables that r draws, the engine's own if it is nil. It returns what was answered, and what
// the stores were like.
func (c variant) run(t *testing.T, steps []metaStep, r *rand.Rand) (answers, stores string) {
	m := &metaRun{t: t, made: map[int]clock.Dot{}, in: map[int]string{}, by: map[string]string{}, deltas: make([]bigset.Delta, len(steps))}
	for i := range m.stores {
		m.stores[i] = newPair(fmt.Sprintf("%s, store %d", c.name, i))
		c.tune(m.stores[i])
		if r == nil {
			m.stores[i].open(t)
		} else {
			m.stores[i].openWithOthers(t, r)
		}
	}
	for i, s := range steps {
		m.step(i, s)
		if c.between != nil {
			for _, p := range m.stores {
				c.between(t, p, i)
			}
		}
	}
	for _, p := range m.stores {
		for _, set := range []string{"s", "t"} {
			m.whole(p, set)
		}
		p.verify(t)
		stores += fmt.Sprintln(p.label, p.tables)
		must(t, p.store.Close(), "close")
	}
	return m.log.String(), stores
}

// step does one step and writes down what was answered.
func (m *metaRun) step(i int, s metaStep) {
	p := m.stores[s.store]
	d := bigset.NoSync
	if s.sync {
		d = bigset.Sync
	}
	fmt.Fprintf(&m.log, "%d %s %d %s: ", i, s.what, s.store, s.set)
	switch s.what {
	case "write":
		m.write(p, i, s, d)
	case "deliver":
		if delta := m.deltas[s.from]; !delta.Empty() {
			must(m.t, p.store.Replica().ApplyDelta(bg, delta, bigset.ApplyOptions{Durability: d}), "deliver")
		}
	case "drop":
		delta, err := p.store.Drop(bg, []byte(s.set), bigset.DropOptions{Durability: d})
		m.deltas[i] = delta
		fmt.Fprint(&m.log, err != nil, delta.Clear.Len())
	case "ask":
		got, err := p.store.Look(bg, []byte(s.set), []byte(s.ops[0].element))
		must(m.t, err, "contains")
		fmt.Fprint(&m.log, m.names(s.set, got.Context.Dots))
	}
	m.log.WriteByte('\n')
}

func (m *metaRun) write(p *pair, i int, s metaStep, d bigset.Durability) {
	ops := make([]bigset.Op, len(s.ops))
	for j, o := range s.ops {
		ops[j] = bigset.Op{Kind: o.kind, Element: []byte(o.element)}
		switch dot, ok := m.made[o.context]; {
		case o.context == -2:
			ops[j].Context = bigset.Saw()
		case o.context == -3:
			if seen, err := p.store.Seen(bg, []byte(s.set)); !errors.Is(err, bigset.ErrNotFound) {
				must(m.t, err, "context")
				ops[j].Context = bigset.SawAll(seen)
			}
		case p.opt.KeepContexts && o.kind == keyscheme.OpRemove: // of one dot: whether that makes an event depends on what is resolved
		case ok && m.in[o.context] == s.set:
			ops[j].Context = bigset.Saw(dot)
		}
	}
	res, err := p.store.Write(bg, []byte(s.set), ops, bigset.WriteOptions{Durability: d})
	must(m.t, err, "write")
	m.deltas[i] = res.Delta
	fmt.Fprint(&m.log, "removed ", res.Removed, " context ")
	item := 0
	for j, dot := range res.Dots {
		if dot != (clock.Dot{}) {
			m.by[s.set+dot.String()] = fmt.Sprint(m.ops + j)
			m.made[m.ops+j], m.in[m.ops+j] = dot, s.set
			fmt.Fprint(&m.log, m.names(s.set, res.Delta.Items[item].Context), " ")
			item++
		}
	}
	m.ops += len(ops)
}

// names renders dots of a set by the operations that made them.
func (m *metaRun) names(set string, dots []clock.Dot) []string {
	var names []string
	for _, d := range dots {
		names = append(names, m.by[set+d.String()])
	}
	slices.Sort(names)
	return names
}

// whole writes down all that is to be said of a set.
func (m *metaRun) whole(p *pair, set string) {
	if p.opt.KeepContexts { // what is dead depends on what is resolved
		_, err := p.store.Compact(bg, engine.CompactOptions{})
		must(m.t, err, "compact")
	}
	seen, dead, err := p.store.SeenAndDead([]byte(set))
	must(m.t, err, "Seen and Dead")
	fmt.Fprintf(&m.log, "%s: %d seen, %d dead\n", set, seen.Len(), dead.Len())
	for _, e := range p.read(m.t, set, bigset.ReadOptions{}) {
		fmt.Fprintf(&m.log, "%s %v\n", e.Name, m.names(set, e.Dots))
	}
}
