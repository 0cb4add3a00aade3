package engine_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// A kill that was acknowledged unsynced may be lost with the tail of the log. Then what it killed must be there again: so
// nothing durable may have relied on it. These tests make a kill unsynced, let the drop filter, the rewriter or the excise act on
// it, and cut the power before every single operation on the disk.

// tailCase is a way in which a dead key leaves the disk.
type tailCase struct {
	name     string
	record   compaction.Record
	strategy compaction.Strategy
	settled  bool // the keys are in the bottommost level, where no filter is asked
	kill     func(t *testing.T, p *pair)
	act      func(t *testing.T, p *pair)
}

const tailSet = "s"

func killHalf(t *testing.T, p *pair) {
	p.all(t, tailSet, keyscheme.OpRemove, elementNames(0, 150), bigset.NoSync)
}

func replaceHalf(t *testing.T, p *pair) {
	p.all(t, tailSet, keyscheme.OpAdd, elementNames(0, 150), bigset.NoSync)
}

// killWidely and replaceWidely do it by wide contexts, which the rewriter has to resolve.
func killWidely(t *testing.T, p *pair) { widely(t, p, keyscheme.OpRemove) }

func replaceWidely(t *testing.T, p *pair) { widely(t, p, keyscheme.OpAdd) }

func widely(t *testing.T, p *pair, kind keyscheme.Op) {
	seen := bigset.SawAll(p.context(t, tailSet))
	for i := range 8 {
		var ops []bigset.Op
		for _, e := range elementNames(10*i, 10*i+10) {
			ops = append(ops, bigset.Op{Kind: kind, Element: []byte(e), Context: seen})
		}
		p.write(t, tailSet, ops, bigset.WriteOptions{Durability: bigset.NoSync})
	}
}

func killAll(t *testing.T, p *pair) {
	p.all(t, tailSet, keyscheme.OpRemove, elementNames(0, 300), bigset.NoSync)
}

func dropAll(t *testing.T, p *pair) { p.drop(t, tailSet, nil, bigset.NoSync) }

func publish(t *testing.T, p *pair) {
	for range 3 {
		must(t, p.store.PublisherRound(), "publish")
	}
}

func publishAndFlush(t *testing.T, p *pair) {
	publish(t, p)
	must(t, p.store.FlushTables(), "flush")
}

func publishAndCompact(t *testing.T, p *pair) {
	publish(t, p)
	must(t, p.store.CompactElements(bg, []byte(tailSet)), "compact")
}

func rewriteAll(t *testing.T, p *pair) {
	for from, spans := []byte(nil), 0; spans == 0 || from != nil; spans++ {
		pass, err := p.store.RewriteSpan(bg, []byte(tailSet), from, 0)
		must(t, err, "rewrite")
		from = pass.Next
	}
}

// rewriteWhileKilled removes and adds elements while the rewriter copies.
func rewriteWhileKilled(t *testing.T, p *pair) {
	stop := p.whileCopied(func() {
		p.all(t, tailSet, keyscheme.OpRemove, elementNames(150, 200), bigset.NoSync)
		p.all(t, tailSet, keyscheme.OpAdd, elementNames(100, 160), bigset.NoSync)
	})
	if rewriteAll(t, p); !stop() {
		t.Error("nothing was copied")
	}
}

// rewriteThenKilled removes and adds elements while the log is synced for the swap: by writes that this sync does not hold.
func rewriteThenKilled(t *testing.T, p *pair) {
	must(t, p.store.FlushTables(), "flush") // or the pass flushes
	var wrote atomic.Bool
	stop := p.whileCopied(func() {
		p.all(t, "other", keyscheme.OpAdd, []string{"x"}, bigset.NoSync) // there is something to sync
		p.disk.SetHook("late", func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileSyncData && strings.HasSuffix(op.Path, ".log") && wrote.CompareAndSwap(false, true) {
				p.all(t, tailSet, keyscheme.OpRemove, elementNames(150, 200), bigset.NoSync)
				p.all(t, tailSet, keyscheme.OpAdd, elementNames(100, 160), bigset.NoSync)
			}
			return nil
		})
	})
	rewriteAll(t, p)
	if p.disk.SetHook("late", nil); !stop() || !wrote.Load() {
		t.Error("nothing was written late")
	}
}

// sweepWhileKilled sweeps, and writes the set and a new one while the sweep copies.
func sweepWhileKilled(t *testing.T, p *pair) {
	stop := p.whileCopied(func() {
		p.all(t, tailSet, keyscheme.OpRemove, elementNames(150, 200), bigset.NoSync)
		p.all(t, tailSet, keyscheme.OpAdd, elementNames(100, 160), bigset.NoSync)
		p.all(t, "new", keyscheme.OpAdd, elementNames(0, 3), bigset.NoSync)
	})
	pass, own, err := p.store.RewriteSets(bg, nil, 0)
	must(t, err, "sweep")
	if !stop() || !pass.Swapped || own != nil {
		t.Errorf("%+v, %q is too large", pass, own)
	}
}

func tick(t *testing.T, p *pair) { must(t, p.store.RunnerTick(bg), "tick") }

func TestLostTail(t *testing.T) {
	t.Parallel()
	merge, set := compaction.Merge, compaction.Set
	share := tier.ShareOf(t, 6, 6)
	for i, c := range []tailCase{
		{"filter, flush", merge, compaction.Filter(), false, killHalf, publishAndFlush},
		{"filter, flush, replaced", merge, compaction.Filter(), false, replaceHalf, publishAndFlush},
		{"filter, compaction", merge, compaction.Filter(), false, killHalf, publishAndCompact},
		{"filter, compaction, dropped", merge, compaction.Default(), false, dropAll, publishAndCompact},
		{"rewriter, settled", merge, compaction.Default(), true, killHalf, rewriteAll},
		{"rewriter, settled, replaced", merge, compaction.Default(), true, replaceHalf, rewriteAll},
		{"rewriter, fresh", merge, compaction.Default(), false, killHalf, rewriteAll},
		{"rewriter, everything dead", merge, compaction.Default(), true, killAll, rewriteAll},
		{"rewriter, late writes", merge, compaction.Default(), true, killHalf, rewriteWhileKilled},
		{"rewriter, writes after its sync", merge, compaction.Default(), true, killHalf, rewriteThenKilled},
		{"rewriter, set records", set, compaction.Rewriter(), true, killHalf, rewriteWhileKilled},
		{"sweep, settled", merge, compaction.Default(), true, killHalf, sweepWhileKilled},
		{"sweep, fresh, set records", set, compaction.Rewriter(), false, killHalf, sweepWhileKilled},
		{"excise, removed", merge, eager(compaction.Default()), true, killAll, rewriteAll},
		{"excise, dropped", merge, eager(compaction.Default()), true, dropAll, tick},
		{"excise, dropped, fresh", merge, eager(compaction.Default()), false, dropAll, tick},
		{"excise, dropped, set records", set, eager(compaction.Rewriter()), true, dropAll, tick},
		{"unresolved keys, removed", merge, eager(compaction.Default()), true, killWidely, rewriteAll},
		{"unresolved keys, replaced", merge, eager(compaction.Default()), true, replaceWidely, rewriteWhileKilled},
		{"unresolved keys, fresh, set records", set, eager(compaction.Rewriter()), false, killWidely, rewriteAll},
		{"point deletes", set, compaction.PointDeletes(), true, killHalf, publishAndCompact},
	} {
		if share.Has(i) {
			t.Run(c.name, func(t *testing.T) { c.run(t) })
		}
	}
}

func (c tailCase) run(t *testing.T) {
	p := newPair(c.name)
	p.opt.Record, p.opt.Strategy = c.record, c.strategy
	p.opt.KeepContexts = strings.HasPrefix(c.name, "unresolved keys")
	p.model.KeepsContexts = p.opt.KeepContexts
	if strings.HasPrefix(c.name, "sweep") {
		p.opt.SpanBytes = 1 << 20
	}
	filter := strings.HasPrefix(c.name, "filter")
	if filter { // which is asked only of what lies above the bottom: nothing gets there by itself
		p.opt.MemTableBytes = 1 << 20
		p.opt.Tune(func(po *pebble.Options) {
			testkit.SmallTables(po)
			po.DisableAutomaticCompactions = true
		})
	}
	p.open(t)
	p.all(t, tailSet, keyscheme.OpAdd, elementNames(0, 300), bigset.Sync)
	p.flush(t)
	if c.settled {
		must(t, p.store.CompactTables(bg), "settle")
	}
	if strings.HasPrefix(c.name, "filter, compaction") { // of two tables that overlap: one alone would be moved, which asks no filter
		p.all(t, tailSet, keyscheme.OpAdd, []string{bulkName(0), bulkName(299)}, bigset.Sync)
		p.flush(t)
	}
	if strings.HasPrefix(c.name, "filter, flush") { // the keys are in the memtable that will be flushed, their kill in the same
		p.all(t, tailSet, keyscheme.OpAdd, elementNames(0, 150), bigset.NoSync)
	}
	c.kill(t, p)
	crashes, before := p.disk.CrashEverywhere(0, 50), p.store.Filtered()
	c.act(t, p)
	if filter && p.store.Filtered() == before {
		t.Error("the drop filter left nothing out")
	}
	p.check(t)
	left := crashes()
	lost := 0
	for i, disk := range left {
		after := p.survivor(t, fmt.Sprintf("crash %d of %d", i, len(left)), disk)
		if after > 0 {
			lost++
		}
	}
	tier.Count(t, "crashes", len(left))
	t.Logf("%d crashes, %d of them lost something", len(left), lost)
	p.close(t)
}

// survivor opens what a crash has left, checks it, and returns how many batches it lost.
func (p *pair) survivor(t *testing.T, label string, left *testkit.Disk) int {
	t.Helper()
	q := &pair{label: label, disk: left, opt: p.opt, model: p.model.Clone()}
	q.open(t)
	defer q.close(t)
	lost := q.recovered(t)
	q.check(t)
	q.verify(t)
	return lost
}

// TestIncarnation: a dot that a crash took back is not issued again for something else; a store that was closed in order
// goes on counting.
func TestIncarnation(t *testing.T) {
	p := newPair("store")
	p.open(t)
	first := p.store.Replica().Actor()
	r := p.all(t, "s", keyscheme.OpAdd, []string{"a"}, bigset.NoSync)
	if n := p.lose(t, p.disk.CrashClone(0, 0)); n != 1 {
		t.Fatalf("%d batches lost, want the one", n)
	}
	second := p.store.Replica().Actor()
	if second == first {
		t.Fatalf("actor %x again after a crash", string(first))
	}
	p.all(t, "s", keyscheme.OpAdd, []string{"b"}, bigset.NoSync)
	p.apply(t, r.Delta, bigset.NoSync) // a peer has it still
	p.check(t)
	p.close(t)
	p.open(t)
	if p.store.Replica().Actor() != second {
		t.Fatalf("actor %x after a clean close of %x", string(p.store.Replica().Actor()), string(second))
	}
	got := p.all(t, "s", keyscheme.OpAdd, []string{"c"}, bigset.Sync)
	if want := (clock.Dot{Actor: second, Counter: 2}); got.Dots[0] != want {
		t.Fatalf("dot %v, want %v", got.Dots[0], want)
	}
	p.verify(t)
	p.close(t)
}

// TestNoEventIsDurable: an operation that changes nothing is acknowledged as synced only when what it found is on disk.
func TestNoEventIsDurable(t *testing.T) {
	other := bigset.Delta{Set: []byte("s"), Actor: "elsewhere", First: 1, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("x")}}}
	for what, do := range map[string]func(p *pair, d bigset.Durability){
		"a delta that came before": func(p *pair, d bigset.Durability) { p.apply(t, other, d) },
		"a remove of what is removed": func(p *pair, d bigset.Durability) {
			p.all(t, "s", keyscheme.OpRemove, []string{"a"}, d)
		},
		"a drop of what is dropped": func(p *pair, d bigset.Durability) { p.drop(t, "s", nil, d) },
	} {
		p := newPair(what)
		p.open(t)
		p.all(t, "s", keyscheme.OpAdd, []string{"a", "b"}, bigset.Sync)
		do(p, bigset.NoSync)
		if n := p.survivor(t, what, p.disk.CrashClone(0, 0)); n != 1 {
			t.Errorf("%s: %d batches lost before the sync, want 1", what, n)
		}
		do(p, bigset.Sync)
		if n := p.survivor(t, what, p.disk.CrashClone(0, 0)); n != 0 {
			t.Errorf("%s: %d batches lost after the sync", what, n)
		}
		p.close(t)
	}
}
