package engine_test

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// TestSpansKeepElementsWhole rewrites a set of elements with several dots each in spans that hold a few keys: a span never
// ends within an element.
func TestSpansKeepElementsWhole(t *testing.T) {
	for _, record := range []compaction.Record{compaction.Merge, compaction.Set} {
		p := newPair("store")
		p.opt.Record, p.opt.Strategy, p.opt.SpanBytes = record, compaction.Rewriter(), 1<<10
		p.open(t)
		var dots []clock.Dot
		for range 3 {
			ops := make([]bigset.Op, 100)
			for i := range ops {
				ops[i] = bigset.Op{Kind: keyscheme.OpAdd, Element: []byte(bulkName(i)), Context: bigset.Saw()}
			}
			dots = append(dots, p.write(t, "s", ops, bigset.WriteOptions{Durability: bigset.NoSync}).Dots...)
		}
		ops := make([]bigset.Op, 100) // of each element one dot goes, of every third all but one
		for i := range ops {
			seen := []clock.Dot{dots[i+100*(i%3)]}
			if i%3 == 0 {
				seen = append(seen, dots[i+100])
			}
			ops[i] = bigset.Op{Kind: keyscheme.OpRemove, Element: []byte(bulkName(i)), Context: bigset.Saw(seen...)}
		}
		p.write(t, "s", ops, bigset.WriteOptions{Durability: bigset.NoSync})
		spans := 0
		for from := []byte(nil); spans == 0 || from != nil; spans++ {
			pass, err := p.store.RewriteSpan(bg, []byte("s"), from, 0)
			must(t, err, "rewrite")
			from = pass.Next
			p.check(t)
		}
		if spans < 5 {
			t.Errorf("%d spans", spans)
		}
		p.checkClean(t, "s")
		p.verify(t)
		p.close(t)
	}
}

// TestSpanLeft writes more into a span than the rewriter notes while it copies: the span is left as it is, and nothing is lost.
func TestSpanLeft(t *testing.T) {
	p := newPair("store")
	p.opt.Strategy, p.opt.SpanBytes, p.opt.MemTableBytes = eager(compaction.Default()), 1<<20, 4<<20
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 200), bigset.Sync)
	p.all(t, "s", keyscheme.OpRemove, elementNames(50, 150), bigset.Sync)
	wrote := false
	p.disk.SetHook("writes", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "span-") && !wrote {
			wrote = true
			p.all(t, "s", keyscheme.OpAdd, elementNames(200, 2300), bigset.NoSync)
		}
		return nil
	})
	pass, err := p.store.RewriteSpan(bg, []byte("s"), nil, 1)
	p.disk.SetHook("writes", nil)
	must(t, err, "rewrite")
	if !wrote || !pass.Left || pass.Swapped {
		t.Errorf("%+v, written into: %v", pass, wrote)
	}
	p.check(t)
	p.verify(t)
	_, err = p.store.Compact(bg, engine.CompactOptions{})
	must(t, err, "compact")
	p.checkClean(t, "s")
	p.close(t)
}

// TestSlowReader reads a set so slowly that the engine renews its iterator: it goes on after what it has shown, in either
// direction, and shows what has happened there in between.
func TestSlowReader(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		t.Run(fmt.Sprint("reverse ", reverse), func(t *testing.T) {
			t.Parallel() // it takes its time: Pebble's pools cannot be shared with a bubble of testing/synctest
			slowReader(t, reverse)
		})
	}
}

func slowReader(t *testing.T, reverse bool) {
	p := newPair("store")
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 100), bigset.Sync)
	next, stop := iter.Pull2(p.store.Read(bg, []byte("s"), bigset.ReadOptions{BatchSize: 10, Reverse: reverse}))
	defer stop()
	var got []fold.Element
	for i := 0; ; i++ {
		chunk, err, ok := next()
		if !ok {
			break
		}
		must(t, err, "read")
		got = append(got, chunk.Elements...)
		if i == 3 {
			time.Sleep(1100 * time.Millisecond)
			p.all(t, "s", keyscheme.OpRemove, []string{bulkName(20), bulkName(80)}, bigset.Sync) // one was shown, one is to come
		} else if i == 4 { // with this chunk the old iterator goes
			must(t, p.store.PublisherRound(), "publish")
			must(t, p.store.CompactTables(bg), "compact")
		}
	}
	var want []fold.Element
	gone := map[bool]int{false: 80, true: 20}[reverse]
	for i := range 100 {
		if i != gone {
			want = append(want, fold.Element{Name: []byte(bulkName(i))})
		}
	}
	if reverse {
		slices.Reverse(want)
	}
	if g, w := testkit.Names(got), testkit.Names(want); !slices.Equal(g, w) {
		t.Errorf("reverse %v: %q, want %q", reverse, g, w)
	}
	p.close(t)
}

// TestSlowCount counts a set so slowly that the engine renews its iterator: it counts what it then finds, and its context is
// still that of the beginning, which does not cover it.
func TestSlowCount(t *testing.T) {
	t.Parallel() // it takes its time
	p := newPair("store")
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 100), bigset.Sync)
	began, err := p.store.Seen(bg, []byte("s"))
	must(t, err, "context")
	var told []uint64
	o := engine.CountOptions{ReadOptions: bigset.ReadOptions{BatchSize: 10, From: []byte{}}} // a part, which is not known without a look
	o.Progress = func(n uint64) {
		if told = append(told, n); len(told) == 3 {
			p.all(t, "s", keyscheme.OpRemove, []string{bulkName(1), bulkName(80)}, bigset.Sync) // one was shown, one is to come
			p.all(t, "s", keyscheme.OpAdd, elementNames(100, 120), bigset.Sync)
			time.Sleep(1100 * time.Millisecond)
		}
	}
	c, err := p.store.Count(bg, []byte("s"), o)
	must(t, err, "count")
	if c.Elements != 119 || !c.Context.Equal(began) {
		t.Errorf("%d elements as of %v, want 119 as of %v", c.Elements, c.Context, began)
	}
	if len(told) < 11 || !slices.IsSorted(told) || told[0] != 10 || told[len(told)-1] >= c.Elements { // the last elements are in c
		t.Errorf("told %v", told)
	}
	p.drop(t, "s", c.Context, bigset.Sync)
	if left := p.read(t, "s", bigset.ReadOptions{}); len(left) != 20 {
		t.Errorf("%d elements left of 20 that came later", len(left))
	}
	p.check(t)
	p.close(t)
}
