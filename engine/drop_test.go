package engine_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// TestDrop: a set that was dropped is empty, known, and left out of the list; what was added beside the delete or after it
// lives, also when the space is taken back; an old delta brings nothing back.
func TestDrop(t *testing.T) {
	for _, c := range []struct {
		name     string
		record   compaction.Record
		strategy compaction.Strategy
	}{
		{"default", compaction.Merge, eager(compaction.Default())},
		{"filter", compaction.Merge, compaction.Filter()},
		{"rewriter on set records", compaction.Set, eager(compaction.Rewriter())},
		{"point deletes", compaction.Set, compaction.PointDeletes()},
		{"none", compaction.Merge, compaction.None()},
	} {
		t.Run(c.name, func(t *testing.T) { dropAndAdd(t, c.record, c.strategy) })
	}
}

func dropAndAdd(t *testing.T, record compaction.Record, strategy compaction.Strategy) {
	p := newPair("store")
	p.opt.Record, p.opt.Strategy = record, strategy
	p.open(t)
	old := p.all(t, "s", keyscheme.OpAdd, elementNames(0, 200), bigset.Sync).Delta
	must(t, p.store.CompactTables(bg), "settle")
	drop, _ := p.drop(t, "s", nil, bigset.Sync)
	if got := p.read(t, "s", bigset.ReadOptions{}); len(got) != 0 {
		t.Errorf("after the drop: %d elements", len(got))
	}
	for info, err := range p.store.Sets(bg, bigset.SetsOptions{}) {
		t.Errorf("a dropped set is listed: %+v, %v", info, err)
	}
	beside := bigset.Delta{Set: []byte("s"), Actor: "elsewhere", First: 1,
		Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("beside"), Context: old.Items[0].Context}}}
	p.apply(t, beside, bigset.NoSync)
	p.all(t, "s", keyscheme.OpAdd, []string{"after"}, bigset.NoSync)
	p.apply(t, old, bigset.NoSync)
	tick(t, p)
	p.check(t)
	if _, err := p.store.Compact(bg, engine.CompactOptions{}); err != nil {
		t.Fatal(err)
	}
	p.check(t)
	p.verify(t)
	if got := p.read(t, "s", bigset.ReadOptions{}); len(got) != 2 {
		t.Errorf("after the space was taken back: %d elements, want 2", len(got))
	}
	// An older clock takes what it covers, and no more.
	p.drop(t, "s", clock.Of(clock.Dot{Actor: "elsewhere", Counter: 1}), bigset.Sync)
	tick(t, p)
	p.check(t)
	p.close(t)
	p.open(t)
	p.check(t)
	p.apply(t, old, bigset.Sync)
	p.apply(t, beside, bigset.Sync)
	p.check(t)
	p.verify(t)
	p.close(t)

	// Another replica hears of the delete before it hears of what was deleted.
	q := newPair("another")
	q.opt.Record, q.opt.Strategy = record, strategy
	q.open(t)
	q.apply(t, drop, bigset.Sync)
	q.check(t)
	q.close(t)
	q.open(t)
	q.check(t)
	q.verify(t)
	q.apply(t, beside, bigset.NoSync)
	q.apply(t, old, bigset.NoSync)
	q.all(t, "s", keyscheme.OpAdd, []string{"mine"}, bigset.NoSync)
	q.check(t)
	q.verify(t)
	q.close(t)
	q.open(t)
	q.check(t)
	q.verify(t)
	q.close(t)
}

// TestSetsBesideExcise: while the excise of a set waits for a flush, which on a full disk may last, sets can be written. The set itself is written
// and dropped again after that flush has begun, so that its writers wait for the next flush: the sets can be listed.
func TestSetsBesideExcise(t *testing.T) {
	p := newPair("store")
	var flushes atomic.Int32 // that have ended
	p.opt.Events = func(e engine.Event) {
		if e.Kind == engine.EventFlush {
			flushes.Add(1)
		}
	}
	p.opt.Tune(func(o *pebble.Options) {
		testkit.SmallTables(o)
		o.DisableAutomaticCompactions = true // the tables are those of flushes
	})
	p.opt.SetCacheBytes = 1
	p.open(t)
	defer p.close(t)
	p.all(t, "s", keyscheme.OpAdd, []string{"a"}, bigset.Sync)
	must(t, p.store.TrimSets(), "trim") // the set is loaded again
	p.drop(t, "s", nil, bigset.Sync)
	var begun [2]sync.Once
	began, goOn := [2]chan struct{}{make(chan struct{}), make(chan struct{})}, [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	before := flushes.Load()
	p.disk.SetHook("flush", func(op errorfs.Op) error {
		if n := int(flushes.Load() - before); n < len(begun) && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			begun[n].Do(func() { close(began[n]) })
			<-goOn[n]
		}
		return nil
	})
	ticked, written, listed := make(chan error, 1), make(chan struct{}), make(chan int, 1)
	go func() { ticked <- p.store.RunnerTick(bg) }()
	<-began[0]
	go func() {
		defer close(written)
		p.all(t, "u", keyscheme.OpAdd, []string{"a"}, bigset.NoSync)
		p.all(t, "s", keyscheme.OpAdd, []string{"b"}, bigset.NoSync)
		p.drop(t, "s", nil, bigset.NoSync)
	}()
	select {
	case <-written:
	case <-time.After(time.Minute):
		t.Error("writers wait for the flush")
		close(goOn[1])
	}
	close(goOn[0])
	if <-written; t.Failed() {
		must(t, <-ticked, "excise")
		return
	}
	<-began[1]
	go func() {
		n := 0
		for _, err := range p.store.Sets(bg, bigset.SetsOptions{}) {
			if n++; err != nil {
				t.Error(err)
			}
		}
		listed <- n
	}()
	select {
	case n := <-listed:
		if n != 1 {
			t.Errorf("%d sets are listed", n)
		}
	case <-time.After(time.Minute):
		t.Error("the list waits for the flush")
	}
	close(goOn[1])
	must(t, <-ticked, "excise")
	if stats, err := p.store.Stats(); err != nil || stats.Excises != 1 {
		t.Errorf("%d excises, %v", stats.Excises, err)
	}
}
