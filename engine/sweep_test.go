package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// smallName is the name of the i-th small set.
func smallName(i int) string { return fmt.Sprintf("small-%04d", i) }

// smallSets makes a store of n small sets of six elements, settles them, and removes half of each; from each tenth set it removes
// all.
func smallSets(t *testing.T, n int, tune func(*pair)) *pair {
	t.Helper()
	p := newPair("store")
	p.opt.Strategy, p.opt.SpanBytes = eager(compaction.Default()), 16<<10
	if tune != nil {
		tune(p)
	}
	p.open(t)
	for i := range n {
		p.all(t, smallName(i), keyscheme.OpAdd, elementNames(i, i+6), bigset.NoSync)
	}
	must(t, p.store.FlushTables(), "flush")
	must(t, p.store.CompactTables(bg), "settle")
	for i := range n {
		gone := elementNames(i, i+3)
		if i%10 == 0 {
			gone = elementNames(i, i+6)
		}
		p.all(t, smallName(i), keyscheme.OpRemove, gone, bigset.NoSync)
	}
	return p
}

// checkSmall checks that nothing dead is left of any set, also not for a store that has just been opened.
func checkSmall(t *testing.T, p *pair) {
	t.Helper()
	for range 2 {
		p.check(t)
		for set := range p.model.Sets {
			p.checkClean(t, set)
		}
		p.verify(t)
		p.close(t)
		p.open(t)
	}
}

// TestSweep compacts a store of many small sets, some of them empty, with a large one among them, one with an unresolved key and one
// with a paged tombstone: it takes few swaps, and of all that is dead nothing is left.
func TestSweep(t *testing.T) {
	const n = 300
	p := smallSets(t, n, func(p *pair) {
		p.opt.Strategy = eager(compaction.Rewriter()) // the drop filter would drop what Pebble has moved to the bottom and not written again
		p.opt.KeepContexts, p.model.KeepsContexts, p.split = true, true, []int{60, 24, 16, 8}
	})
	p.all(t, "large", keyscheme.OpAdd, elementNames(0, 400), bigset.NoSync)
	p.all(t, "large", keyscheme.OpRemove, elementNames(100, 300), bigset.NoSync)
	wide := &clock.Clock{}
	wide.Add(clock.Dot{Actor: "elsewhere", Counter: 1})
	p.write(t, "open", []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x"), Context: bigset.SawAll(wide)}}, bigset.WriteOptions{})
	rep, err := p.store.Compact(bg, engine.CompactOptions{})
	must(t, err, "compact")
	if rep.Sets != n+2 || rep.Spans == 0 || rep.Spans > n/8 {
		t.Errorf("%d sets in %d spans", rep.Sets, rep.Spans)
	}
	if want := uint64(n*3 + n/10*3); rep.KeysDropped < want { // of the large one some may die on their way
		t.Errorf("%d keys dropped of %d", rep.KeysDropped, want)
	}
	checkSmall(t, p)
	if rep, err = p.store.Compact(bg, engine.CompactOptions{}); err != nil || rep.KeysDropped != 0 || rep.Spans != 0 {
		t.Errorf("again: %+v, %v", rep, err)
	}
	p.close(t)
}

// TestSweepKeepsPages sweeps a set whose tombstone has pages: it is as dead as before, and what was dead is gone.
func TestSweepKeepsPages(t *testing.T) {
	p := smallSets(t, 20, func(p *pair) { p.split, p.opt.SpanBytes = []int{60, 24, 16, 8}, 64<<10 })
	p.all(t, "paged", keyscheme.OpAdd, elementNames(0, 60), bigset.NoSync)
	for i := 0; i < 60; i += 2 {
		p.all(t, "paged", keyscheme.OpRemove, elementNames(i, i+1), bigset.NoSync)
	}
	kinds, err := p.store.CausalKeys([]byte("paged"))
	if must(t, err, "records"); kinds[keyscheme.KindTombstonePage] == 0 {
		t.Fatalf("no pages: %v", kinds)
	}
	before := p.known(t, "paged").Dead.Clone()
	for from, spans := []byte(nil), 0; spans == 0 || from != nil; spans++ {
		pass, own, err := p.store.RewriteSets(bg, from, 0)
		if must(t, err, "sweep"); own != nil {
			t.Errorf("%q is left to a pass of its own", own)
		}
		from = pass.Next
	}
	p.checkClean(t, "paged")
	p.close(t)
	p.open(t)
	if after := p.known(t, "paged").Dead; !after.Equal(before) {
		t.Errorf("dead are %v, were %v", after, before)
	}
	p.check(t)
	p.verify(t)
	p.close(t)
}

// TestSweepLateWrites writes sets while a sweep copies them: adds and removes, a drop, and sets that are new. None of it is lost.
func TestSweepLateWrites(t *testing.T) {
	const n = 200
	p := smallSets(t, n, nil)
	fresh, wrote, swapped := n, 0, 0
	for from, spans := []byte(nil), 0; spans == 0 || from != nil; spans++ {
		once := false
		p.disk.SetHook("late", func(op errorfs.Op) error {
			if op.Kind != errorfs.OpCreate || !strings.Contains(op.Path, "span-") || once {
				return nil
			}
			once = true
			for i := spans; i < n; i += 7 {
				p.all(t, smallName(i), keyscheme.OpAdd, []string{fmt.Sprint("late ", spans)}, bigset.NoSync)
				p.all(t, smallName(i), keyscheme.OpRemove, elementNames(i+4, i+5), bigset.NoSync)
				wrote++
			}
			p.drop(t, smallName(n-1-spans), nil, bigset.NoSync)
			for range 20 {
				p.all(t, smallName(fresh), keyscheme.OpAdd, elementNames(0, 3), bigset.NoSync)
				fresh++
			}
			return nil
		})
		pass, _, err := p.store.RewriteSets(bg, from, 0)
		p.disk.SetHook("late", nil)
		must(t, err, "sweep")
		if pass.Swapped {
			swapped++
		}
		from = pass.Next
		p.check(t)
	}
	if wrote == 0 || swapped < 3 || fresh < n+60 {
		t.Errorf("%d late writes, %d swaps, %d sets", wrote, swapped, fresh)
	}
	p.verify(t)
	p.lose(t, p.disk.CrashClone(100, 1))
	p.check(t)
	p.verify(t)
	must(t, p.store.TrimSets(), "trim")
	_, err := p.store.Compact(bg, engine.CompactOptions{})
	must(t, err, "compact")
	checkSmall(t, p)
	p.close(t)
}

// TestSweepLeft writes more sets while they are copied than a swap would merge: they are left, and nothing is lost.
func TestSweepLeft(t *testing.T) {
	const n = 2100
	p := smallSets(t, 100, func(p *pair) { p.opt.SpanBytes = 16 << 20; p.opt.MemTableBytes = 4 << 20 })
	once := false
	p.disk.SetHook("late", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "span-") && !once {
			once = true
			for i := range n {
				p.all(t, fmt.Sprint("new ", i), keyscheme.OpAdd, []string{"x"}, bigset.NoSync)
			}
		}
		return nil
	})
	pass, _, err := p.store.RewriteSets(bg, nil, 0)
	p.disk.SetHook("late", nil)
	must(t, err, "sweep")
	if !pass.Left || pass.Swapped {
		t.Errorf("%+v", pass)
	}
	p.check(t)
	p.verify(t)
	p.close(t)
}

// TestSweepLeavesMostlyDead: a set that is large on disk is not for a sweep, however little of it lives: it would be read again while
// writers are held.
func TestSweepLeavesMostlyDead(t *testing.T) {
	p := smallSets(t, 100, nil)
	p.all(t, "mostly dead", keyscheme.OpAdd, elementNames(0, 200), bigset.NoSync)
	must(t, p.store.FlushTables(), "flush")
	must(t, p.store.CompactTables(bg), "settle")
	p.all(t, "mostly dead", keyscheme.OpRemove, elementNames(1, 200), bigset.NoSync)
	var own []string
	for from, spans := []byte(nil), 0; spans == 0 || from != nil; spans++ {
		pass, set, err := p.store.RewriteSets(bg, from, 0)
		must(t, err, "sweep")
		if set != nil {
			own = append(own, string(set))
		}
		from = pass.Next
	}
	if !slices.Equal(own, []string{"mostly dead"}) {
		t.Errorf("sets for passes of their own: %q", own)
	}
	p.check(t)
	p.verify(t)
	p.close(t)
}

// TestSweepReaders reads, loads, lists and writes small sets while they are swapped again and again. An element that stays is
// always there, and a set that is loaded in the middle of a swap has its clock.
func TestSweepReaders(t *testing.T) {
	t.Parallel()
	const n = 40
	p := smallSets(t, n, func(p *pair) { p.opt.SetCacheBytes = 1; p.opt.MemTableBytes = 1 << 20 })
	var done atomic.Bool
	var wg sync.WaitGroup
	kept := func(i int) []byte { return []byte(bulkName(i + 5)) }
	work := func(r *rand.Rand, worker int) error {
		i := r.IntN(n)
		set := []byte(smallName(i))
		if i%10 == 0 {
			return nil
		}
		got, err := p.store.Look(bg, set, kept(i))
		if err != nil || len(got.Context.Dots) == 0 {
			return fmt.Errorf("%q has lost %q: %v", set, kept(i), err)
		}
		all, err := readAll(p.store, string(set), bigset.ReadOptions{})
		if err != nil || len(all) < 3 {
			return fmt.Errorf("%q has %d elements: %v", set, len(all), err)
		}
		if live, err := p.store.Live(bg, set); err != nil || live < 3 {
			return fmt.Errorf("%q has %d live dots: %v", set, live, err)
		}
		mine := [][]byte{fmt.Appendf(nil, "of worker %d", worker)}
		o := bigset.WriteOptions{Durability: bigset.NoSync}
		if _, err := p.store.Add(bg, set, mine, o); err != nil {
			return err
		}
		if got, err := p.store.Look(bg, set, mine[0]); err != nil || len(got.Context.Dots) == 0 {
			return fmt.Errorf("%q has lost %q: %v", set, mine, err)
		}
		_, err = p.store.Remove(bg, set, mine, o)
		return err
	}
	looking := func(r *rand.Rand, _ int) error { // as often as it can, at what never changes
		i := r.IntN(n/10)*10 + 1 + r.IntN(9)
		if got, err := p.store.Look(bg, []byte(smallName(i)), kept(i)); err != nil || len(got.Context.Dots) == 0 {
			return fmt.Errorf("%q has lost %q: %v", smallName(i), kept(i), err)
		}
		if seen, _, err := p.store.DiskSeenAndDead([]byte(smallName(i))); err != nil || seen.Empty() {
			return fmt.Errorf("%q was loaded without a clock: %v", smallName(i), err)
		}
		return nil
	}
	listing := func(*rand.Rand, int) error {
		sets := 0
		for _, err := range p.store.Sets(bg, bigset.SetsOptions{Empty: true}) {
			if err != nil {
				return err
			}
			sets++
		}
		if sets != n {
			return fmt.Errorf("%d sets listed", sets)
		}
		return p.store.TrimSets()
	}
	for worker, act := range []func(*rand.Rand, int) error{work, work, looking, looking, listing} {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(worker)))
			for round := 0; !done.Load(); round++ {
				tier.Breathe(round)
				if err := act(r, worker); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	swaps, passes := 0, tier.Pick(4, 6, 100)
	if *tier.Long {
		passes = tier.Times(100)
	}
	for range passes {
		rep, err := p.store.Compact(bg, engine.CompactOptions{})
		if err != nil {
			t.Error(err)
			break
		}
		swaps += rep.Spans
	}
	done.Store(true)
	wg.Wait()
	if swaps == 0 {
		t.Error("no swap")
	}
	p.verify(t)
	must(t, p.store.Close(), "close")
	p.open(t)
	for i := range n {
		var want []string
		if i%10 != 0 {
			want = elementNames(i+3, i+6)
		}
		var got []string
		for _, e := range p.read(t, smallName(i), bigset.ReadOptions{}) {
			got = append(got, string(e.Name))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", smallName(i), got, want)
		}
	}
	p.verify(t)
	must(t, p.store.Close(), "close")
}

// TestSweepPicked: the background finds garbage in small sets that no table names and that are not in memory, and leaves tables
// alone in which there is none.
func TestSweepPicked(t *testing.T) {
	p := smallSets(t, 300, func(p *pair) { p.opt.Strategy = eager(compaction.Rewriter()) })
	p.close(t)
	p.open(t)
	must(t, p.store.FlushTables(), "flush")
	must(t, p.store.CompactTables(bg), "settle")
	ticks := func() (rewrites uint64) {
		before, err := p.store.Stats()
		must(t, err, "stats")
		for range 400 {
			p.store.RunnerForgets()
			must(t, p.store.RunnerTick(bg), "tick")
		}
		after, err := p.store.Stats()
		must(t, err, "stats")
		return after.Rewrites - before.Rewrites
	}
	dead := func() (n int) {
		for set := range p.model.Sets {
			keys, err := p.store.StoredKeys([]byte(set))
			must(t, err, "keys")
			n += len(keys) - len(p.model.Set(set).Keys)
		}
		return n
	}
	before := dead()
	if n := ticks(); n == 0 || n > 60 {
		t.Errorf("%d swaps", n)
	}
	if after := dead(); before < 900 || after > before/20 { // what a table has of keys is a guess once it was cut
		t.Errorf("%d dead keys left of %d", after, before)
	}
	_, err := p.store.Compact(bg, engine.CompactOptions{})
	must(t, err, "compact")
	checkSmall(t, p)
	if n := ticks(); n != 0 {
		t.Errorf("%d swaps where there is nothing to drop", n)
	}
	p.close(t)
}

// TestSweepResolves: the background resolves unresolved keys of small sets that no table names.
func TestSweepResolves(t *testing.T) {
	const n = 50
	p := newPair("store")
	p.opt.KeepContexts, p.model.KeepsContexts, p.opt.Strategy = true, true, eager(compaction.Rewriter())
	p.open(t)
	for i := range n {
		p.all(t, smallName(i), keyscheme.OpAdd, elementNames(0, 3), bigset.NoSync)
		elsewhere := clock.Dot{Actor: "elsewhere", Counter: 1}
		p.write(t, smallName(i), []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x"), Context: bigset.SawAll(clock.Of(elsewhere))}},
			bigset.WriteOptions{})
		p.apply(t, bigset.Delta{Set: []byte(smallName(i)), Actor: elsewhere.Actor, First: elsewhere.Counter,
			Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("y")}}}, bigset.NoSync)
	}
	p.flush(t)
	must(t, p.store.CompactTables(bg), "settle")
	must(t, p.store.TrimSets(), "trim")
	open := func() (keys int64) {
		for i := range n {
			k, err := p.store.UnresolvedCount([]byte(smallName(i)))
			must(t, err, "unresolved keys")
			keys += k
		}
		return keys
	}
	if got := open(); got != n {
		t.Fatalf("%d unresolved keys, want %d", got, n)
	}
	for range 400 {
		p.store.RunnerForgets()
		must(t, p.store.RunnerTick(bg), "tick")
	}
	if got := open(); got != 0 {
		t.Errorf("%d unresolved keys are left", got)
	}
	p.check(t)
	p.verify(t)
	p.close(t)
}
