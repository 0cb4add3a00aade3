package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// TestPagedRecords holds clocks and tombstones that are split into pages to plain ones: deltas of actors whose counters lie
// around the borders of pages, drops of ranges that fill pages or reach over them, this store's own writes, whatever the
// sizes at which records are split, which change at each open; with evictions, flushes, compactions, clean closes and crashes
// in between. What is on disk must say what memory says, and both what the plain clocks do.
func TestPagedRecords(t *testing.T) {
	t.Parallel()
	kinds := map[keyscheme.Kind]int{}
	check := func(t *rapid.T) {
		m := &pagedMachine{pair: newPair("paged"), seen: &clock.Clock{}, dead: &clock.Clock{}}
		m.opt.SetCacheBytes = 1
		m.open(t)
		defer func() { _ = m.store.Close() }() // what failed was reported
		t.Repeat(map[string]func(*rapid.T){
			"delta": m.delta, "delta2": m.delta, "delta3": m.delta, "clear": m.clear, "write": m.write, "drop": m.drop, "disk": m.between, "": m.check,
		})
		m.verify(t)
		have, err := m.store.CausalKeys(pagedSet)
		must(t, err, "causal keys")
		for k, n := range have {
			kinds[k] += n
		}
	}
	least := tier.Pick(10, 50, 50) // pages of each kind; some checks come to none, and a short run has few
	few := func() bool {
		return kinds[keyscheme.KindClockPage] < least || kinds[keyscheme.KindTombstonePage] < least
	}
	for tries := 0; tries < 50 && few(); tries++ {
		rapid.Check(t, check)
	}
	if few() {
		t.Errorf("keys of each kind in the end: %v", kinds)
	}
}

var pagedSet = []byte("paged")

type pagedMachine struct {
	*pair
	seen, dead *clock.Clock
	named      int
}

func (m *pagedMachine) open(t *rapid.T) {
	m.split = rapid.SampledFrom([][]int{{8, 8, 8, 0}, {24, 40, 32, 64}, {60, 24, 60, 8}, {100, 300, 100, 16}, {512, 64 << 10, 4 << 10, 64}}).Draw(t, "cut")
	m.pair.open(t)
}

func drawCounter(t *rapid.T) uint64 {
	page := rapid.SampledFrom([]uint64{0, 0, 1, 1, 2, 3, 9}).Draw(t, "page")
	return max(1, page<<16+rapid.SampledFrom([]uint64{0, 1, 2, 3, 4, 7, 65533, 65534, 65535}).Draw(t, "in page"))
}

func drawDot(t *rapid.T) clock.Dot {
	return clock.Dot{Actor: rapid.SampledFrom([]clock.Actor{"A", "B", "much longer"}).Draw(t, "actor"), Counter: drawCounter(t)}
}

func (m *pagedMachine) delta(t *rapid.T) {
	dot := drawDot(t)
	d := bigset.Delta{Set: pagedSet, Actor: dot.Actor, First: dot.Counter}
	for range rapid.IntRange(1, 4).Draw(t, "items") {
		m.named++
		it := bigset.Item{Kind: rapid.SampledFrom([]keyscheme.Op{keyscheme.OpAdd, keyscheme.OpRemove}).Draw(t, "kind"), Element: fmt.Append(nil, m.named)}
		for range rapid.IntRange(0, 2).Draw(t, "context") {
			it.Context = append(it.Context, drawDot(t))
		}
		d.Items = append(d.Items, it)
	}
	must(t, m.store.Replica().ApplyDelta(bg, d, bigset.ApplyOptions{Durability: bigset.NoSync}), "apply")
	m.did(d)
}

// clear drops a range of an actor's counters, and so joins or fills pages.
func (m *pagedMachine) clear(t *rapid.T) {
	from, to, k := drawDot(t), drawCounter(t), &clock.Clock{}
	k.AddRange(from.Actor, min(from.Counter, to), max(from.Counter, to))
	d := bigset.Delta{Set: pagedSet, Clear: k}
	must(t, m.store.Replica().ApplyDelta(bg, d, bigset.ApplyOptions{Durability: bigset.NoSync}), "clear")
	m.did(d)
	if rapid.Bool().Draw(t, "excised") {
		must(t, m.store.RunnerTick(bg), "tick")
	}
}

func (m *pagedMachine) write(t *rapid.T) {
	ops := make([]bigset.Op, rapid.IntRange(1, 3).Draw(t, "operations"))
	for i := range ops {
		ops[i] = bigset.Op{Kind: rapid.SampledFrom([]keyscheme.Op{keyscheme.OpAdd, keyscheme.OpRemove}).Draw(t, "kind"),
			Element: fmt.Append(nil, rapid.IntRange(0, 9).Draw(t, "element"))}
	}
	res, err := m.store.Write(bg, pagedSet, ops, bigset.WriteOptions{Durability: bigset.NoSync})
	must(t, err, "write")
	m.did(res.Delta)
}

func (m *pagedMachine) drop(t *rapid.T) {
	if m.seen.Empty() || rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		t.Skip("not so often")
	}
	d, err := m.store.Drop(bg, pagedSet, bigset.DropOptions{Durability: bigset.NoSync})
	must(t, err, "drop")
	m.did(d)
	if rapid.Bool().Draw(t, "excised") {
		must(t, m.store.RunnerTick(bg), "tick")
	}
}

// did does to the plain clocks what a delta says.
func (m *pagedMachine) did(d bigset.Delta) {
	for i, it := range d.Items {
		dot := clock.Dot{Actor: d.Actor, Counter: d.First + uint64(i)}
		m.seen.Add(dot)
		if it.Kind == keyscheme.OpRemove {
			m.dead.Add(dot)
		}
		for _, c := range it.Context {
			m.seen.Add(c)
			m.dead.Add(c)
		}
	}
	m.seen.Union(d.Clear)
	m.dead.Union(d.Clear)
}

func (m *pagedMachine) between(t *rapid.T) {
	switch rapid.IntRange(0, 5).Draw(t, "what") {
	case 0:
		must(t, m.store.TrimSets(), "trim")
	case 1:
		must(t, m.store.FlushTables(), "flush")
	case 2:
		must(t, m.store.CompactTables(bg), "compact")
	case 3:
		_, err := m.store.Compact(bg, engine.CompactOptions{})
		must(t, err, "compact")
	case 4:
		must(t, m.store.Close(), "close")
		m.open(t)
	case 5:
		must(t, m.store.Flush(bg), "flush")
		left := m.disk.CrashClone(0, 1)
		_ = m.store.Close() // of the past
		m.disk = left
		m.open(t)
	}
}

func (m *pagedMachine) check(t *rapid.T) {
	for what, get := range map[string]func([]byte) (*clock.Clock, *clock.Clock, error){"memory": m.store.SeenAndDead, "disk": m.store.DiskSeenAndDead} {
		seen, dead, err := get(pagedSet)
		must(t, err, what)
		if !seen.Equal(m.seen) || !dead.Equal(m.dead) {
			t.Fatalf("%s says\n%v seen, want\n%v;\n%v dead, want\n%v", what, seen, m.seen, dead, m.dead)
		}
	}
	for info, err := range m.store.Sets(bg, bigset.SetsOptions{Empty: true}) {
		must(t, err, "sets")
		if info.Seen != m.seen.Len() || info.Live != m.seen.Len()-m.dead.Len() {
			t.Fatalf("listed with %d seen, %d live, want %d, %d", info.Seen, info.Live, m.seen.Len(), m.seen.Len()-m.dead.Len())
		}
	}
}

// TestRecordsAfterFailure: what a batch was going to spill into pages is not taken for written when the batch was not. The
// first write after an open writes the mark before its batch, and that may fail without failing the store.
func TestRecordsAfterFailure(t *testing.T) {
	p := newPair("failing")
	p.split = []int{40, 40, 1 << 10, 64}
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, []string{"a", "b", "c", "d", "e", "f"}, bigset.Sync)
	for i := range 6 { // dots apart from each other, of actors enough to fill heads
		p.apply(t, bigset.Delta{Set: []byte("s"), Actor: clock.Actor(fmt.Sprintf("other actor %d", i)), First: 5, Items: []bigset.Item{
			{Kind: keyscheme.OpRemove, Element: []byte("x")}}}, bigset.Sync)
		must(t, p.store.Close(), "close")
		p.open(t)
		p.disk.SetHook("mark", func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "IDENTITY") {
				return errors.New("no room for a mark")
			}
			return nil
		})
		_, err := p.store.Remove(bg, []byte("s"), [][]byte{[]byte("a"), []byte("c"), []byte("e")}, bigset.WriteOptions{})
		p.disk.SetHook("mark", nil)
		if err == nil {
			t.Fatal("the mark was written all the same")
		}
		must(t, p.store.Failed(), "failed")
	}
	p.all(t, "s", keyscheme.OpRemove, []string{"a", "c", "e"}, bigset.Sync)
	p.apply(t, bigset.Delta{Set: []byte("s"), Actor: "one more actor", First: 9, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("y")}}}, bigset.Sync)
	must(t, p.store.Close(), "close")
	p.open(t)
	p.check(t)
	p.verify(t)
	must(t, p.store.Close(), "close")
}

// TestUnpaged: a set that is emptied keeps a tombstone of a few runs, and its pages go with its elements. What dies later is
// split into pages again.
func TestUnpaged(t *testing.T) {
	t.Parallel()
	p := newPair("emptied")
	p.split = []int{30, 80, 100, 64}
	p.open(t)
	scatter := func(from int) {
		for i := from; i < from+600; i += 2 {
			p.all(t, "s", keyscheme.OpAdd, []string{bulkName(i), bulkName(i + 1)}, bigset.NoSync)
			p.all(t, "s", keyscheme.OpRemove, []string{bulkName(i)}, bigset.NoSync)
		}
	}
	pages := func() int {
		t.Helper()
		kinds, err := p.store.CausalKeys([]byte("s"))
		must(t, err, "causal keys")
		seen, dead, err := p.store.SeenAndDead([]byte("s"))
		must(t, err, "memory")
		onDisk, deadOnDisk, err := p.store.DiskSeenAndDead([]byte("s"))
		must(t, err, "disk")
		if !seen.Equal(onDisk) || !dead.Equal(deadOnDisk) {
			t.Fatalf("on disk %v and %v, in memory %v and %v", onDisk, deadOnDisk, seen, dead)
		}
		if kinds[keyscheme.KindClockPage] == 0 {
			t.Error("the clock is in one key")
		}
		return kinds[keyscheme.KindTombstonePage]
	}
	p.apply(t, bigset.Delta{Set: []byte("s"), Actor: "another actor", First: 7, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("y")}}}, bigset.NoSync)
	p.apply(t, bigset.Delta{Set: []byte("s"), Actor: "one more actor", First: 7, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("z")}}}, bigset.NoSync)
	scatter(0)
	if pages() == 0 {
		t.Fatal("a large tombstone is in one key")
	}
	_, ok := p.drop(t, "s", nil, bigset.Sync)
	if before := pages(); !ok || before == 0 {
		t.Fatalf("dropped %v, %d pages before the space is taken back", ok, before)
	}
	for i := range uint64(21) { // so that the heads are not all there is
		p.apply(t, bigset.Delta{Set: []byte("s"), Actor: "z", First: i + 1, Items: []bigset.Item{{Kind: keyscheme.OpRemove, Element: []byte("y")}}}, bigset.NoSync)
	}
	must(t, p.store.RunnerTick(bg), "tick")
	if n := pages(); n != 0 {
		t.Errorf("%d pages of a tombstone of a few runs", n)
	}
	p.check(t)
	p.verify(t)
	must(t, p.store.Close(), "close")
	p.open(t)
	p.check(t)
	scatter(600)
	if pages() == 0 {
		t.Error("a tombstone that is large again is in one key")
	}
	p.check(t)
	p.verify(t)
	must(t, p.store.Close(), "close")
}
