package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// openPair returns a pair that keeps wide contexts open.
func openPair(t *testing.T, label string) *pair {
	t.Helper()
	p := newPair(label)
	p.opt.KeepContexts, p.model.KeepsContexts, p.opt.Strategy = true, true, eager(compaction.Default())
	p.open(t)
	return p
}

func (p *pair) context(t *testing.T, set string) *clock.Clock {
	t.Helper()
	c, err := p.store.Seen(bg, []byte(set))
	must(t, err, "context")
	return c
}

// one does one operation with a context.
func (p *pair) one(t *testing.T, kind keyscheme.Op, element string, c bigset.Context) bigset.Result {
	t.Helper()
	return p.write(t, "s", []bigset.Op{{Kind: kind, Element: []byte(element), Context: c}}, bigset.WriteOptions{Durability: bigset.NoSync})
}

func (p *pair) unresolved(t *testing.T, want int) {
	t.Helper()
	unresolved, err := p.store.UnresolvedKeys([]byte("s"))
	must(t, err, "unresolved keys")
	n, err := p.store.UnresolvedCount([]byte("s"))
	must(t, err, "count of unresolved keys")
	if len(unresolved) != want || n != int64(want) {
		t.Fatalf("%s: %d unresolved keys, %d counted, want %d", p.label, len(unresolved), n, want)
	}
}

// settle drives everything to the bottom, through the drop filter and the rewriter.
func (p *pair) settle(t *testing.T) {
	t.Helper()
	p.check(t)
	for range 3 {
		must(t, p.store.PublisherRound(), "publish")
	}
	p.flush(t)
	p.check(t)
	must(t, p.store.CompactTables(bg), "compact tables")
	p.check(t)
	_, err := p.store.Compact(bg, engine.CompactOptions{})
	must(t, err, "compact")
	p.check(t)
	p.checkClean(t, "s")
	p.verify(t)
}

// TestWideDeltaOfSeenDot: a narrow context may name an event before it comes; its own context still kills. While that names
// what is not seen the event is stored, once; else it is resolved at once. When it is resolved a duplicate changes nothing.
func TestWideDeltaOfSeenDot(t *testing.T) {
	for _, kind := range []keyscheme.Op{keyscheme.OpAdd, keyscheme.OpRemove} {
		for _, covered := range []bool{false, true} {
			p, q := openPair(t, "p"), openPair(t, "q")
			first := p.one(t, keyscheme.OpAdd, "x", bigset.Saw())
			second := p.one(t, kind, "x", bigset.SawAll(p.context(t, "s")))
			unresolved := 1
			if covered {
				unresolved = 0
				q.apply(t, first.Delta, bigset.NoSync)
			}
			q.one(t, keyscheme.OpAdd, "x", bigset.Saw(second.Dots[0])) // q learns of it by its dot alone
			for range 2 {                                              // and the second time it is a duplicate
				q.apply(t, second.Delta, bigset.NoSync)
				q.unresolved(t, unresolved)
				q.check(t)
			}
			q.apply(t, first.Delta, bigset.NoSync)
			if got := q.read(t, "s", bigset.ReadOptions{}); len(got) != 1 || len(got[0].Dots) != 1 {
				t.Errorf("%c, covered %v: %v is present, want the newest add alone", kind, covered, got)
			}
			q.settle(t)
			q.unresolved(t, 0)
			q.apply(t, second.Delta, bigset.NoSync)
			q.unresolved(t, 0)
			q.settle(t)
			p.close(t)
			q.close(t)
		}
	}
}

// TestWideDuplicateOfResolved: a delta with a wide context comes again when the fold pass has resolved it. Nothing is written
// of it, whether its key has gone or has stayed without its context.
func TestWideDuplicateOfResolved(t *testing.T) {
	for _, kind := range []keyscheme.Op{keyscheme.OpAdd, keyscheme.OpRemove} {
		for _, replaced := range []bool{false, true} {
			p, q := openPair(t, "p"), openPair(t, "q")
			first := p.one(t, keyscheme.OpAdd, "x", bigset.Saw())
			second := p.one(t, kind, "x", bigset.SawAll(p.context(t, "s")))
			q.apply(t, first.Delta, bigset.NoSync)
			q.apply(t, second.Delta, bigset.NoSync)
			q.unresolved(t, 1)
			if replaced {
				q.one(t, keyscheme.OpAdd, "x", bigset.Saw(second.Dots[0]))
			}
			q.settle(t)
			q.unresolved(t, 0)
			before, err := q.store.StoredKeys([]byte("s"))
			must(t, err, "stored keys")
			added := q.store.Added()
			for range 2 {
				q.apply(t, second.Delta, bigset.NoSync)
				q.unresolved(t, 0)
				q.check(t)
			}
			after, err := q.store.StoredKeys([]byte("s"))
			must(t, err, "stored keys")
			if !maps.Equal(before, after) || q.store.Added() != added {
				t.Errorf("%c, replaced %v: %v are stored, %d more were written; want %v", kind, replaced, after, q.store.Added()-added, before)
			}
			q.settle(t)
			p.close(t)
			q.close(t)
		}
	}
}

// TestDeadUnresolvedKeyCounts: an unresolved add that was itself replaced keeps what it replaced away, whatever compaction does.
func TestDeadUnresolvedKeyCounts(t *testing.T) {
	p := openPair(t, "p")
	late := bigset.Delta{Set: []byte("s"), Actor: "elsewhere", First: 1, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("x")}}}
	seen := clock.Of(clock.Dot{Actor: "elsewhere", Counter: 1})
	second := p.one(t, keyscheme.OpAdd, "x", bigset.SawAll(seen)) // has seen what this store has not
	p.one(t, keyscheme.OpAdd, "x", bigset.Saw(second.Dots[0]))
	p.settle(t)
	p.unresolved(t, 1)
	p.close(t)
	p.open(t)
	p.settle(t)
	p.unresolved(t, 1)
	p.apply(t, late, bigset.NoSync)
	if got := p.read(t, "s", bigset.ReadOptions{}); len(got) != 1 || len(got[0].Dots) != 1 {
		t.Errorf("%v is present, want the newest add alone", got)
	}
	c, err := p.store.Look(bg, []byte("s"), []byte("x"))
	must(t, err, "contains")
	if len(c.Context.Dots) != 1 {
		t.Errorf("contains: %v, want the newest add alone", c)
	}
	p.settle(t)
	p.unresolved(t, 0)
	p.close(t)
}

// TestDropKeepsUnresolvedKeys: a set that is dropped is not excised while the context of an unresolved key in it names what is not seen.
func TestDropKeepsUnresolvedKeys(t *testing.T) {
	p := openPair(t, "p")
	late := bigset.Delta{Set: []byte("s"), Actor: "elsewhere", First: 1, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("x")}}}
	p.all(t, "s", keyscheme.OpAdd, []string{"x", "y"}, bigset.NoSync)
	p.one(t, keyscheme.OpRemove, "x", bigset.SawAll(clock.Of(clock.Dot{Actor: "elsewhere", Counter: 1})))
	p.drop(t, "s", nil, bigset.NoSync)
	for range 2 {
		must(t, p.store.RunnerTick(bg), "tick")
		p.settle(t)
	}
	p.unresolved(t, 1)
	p.apply(t, late, bigset.NoSync)
	if got := p.read(t, "s", bigset.ReadOptions{}); len(got) != 0 {
		t.Errorf("%v is present, want nothing", got)
	}
	p.settle(t)
	p.unresolved(t, 0)
	p.close(t)
}

// TestUnresolvedBatch: what an operation of a batch stores unresolved counts for those after it.
func TestUnresolvedBatch(t *testing.T) {
	p := openPair(t, "p")
	p.all(t, "s", keyscheme.OpAdd, []string{"x", "y"}, bigset.NoSync)
	all := bigset.SawAll(p.context(t, "s"))
	op := func(kind keyscheme.Op, element string, c bigset.Context) bigset.Op {
		return bigset.Op{Kind: kind, Element: []byte(element), Context: c}
	}
	r := p.write(t, "s", []bigset.Op{
		op(keyscheme.OpRemove, "x", all),
		op(keyscheme.OpRemove, "x", bigset.Context{}), // nothing is left of it
		op(keyscheme.OpAdd, "y", all),
		op(keyscheme.OpAdd, "y", bigset.Context{}), // replaces the one before alone
	}, bigset.WriteOptions{Durability: bigset.NoSync})
	if len(r.Delta.Items) != 3 || r.Removed != 1 || len(r.Delta.Items[2].Context) != 1 {
		t.Errorf("%d events, %d removed: %+v", len(r.Delta.Items), r.Removed, r.Delta.Items)
	}
	p.unresolved(t, 2)
	q := openPair(t, "q") // gets it twice in one group, and before what it kills
	q.apply(t, bigset.Delta{Set: r.Delta.Set, Actor: r.Delta.Actor, First: r.Delta.First, Items: r.Delta.Items}, bigset.NoSync)
	q.apply(t, r.Delta, bigset.NoSync)
	q.unresolved(t, 2)
	q.settle(t)
	q.unresolved(t, 2)
	p.settle(t)
	p.unresolved(t, 0)
	p.close(t)
	q.close(t)
}

// TestWideResolved: without unresolved contexts a wide one is resolved when it comes, where all that it names is seen.
func TestWideResolved(t *testing.T) {
	p, q := newPair("p"), newPair("q")
	p.open(t)
	q.open(t)
	p.all(t, "s", keyscheme.OpAdd, []string{"x", "y"}, bigset.NoSync)
	seen := p.context(t, "s")
	newest := p.one(t, keyscheme.OpAdd, "x", bigset.Saw())
	r := p.one(t, keyscheme.OpRemove, "x", bigset.SawAll(seen))
	if want := []clock.Dot{{Actor: p.store.Replica().Actor(), Counter: 1}}; !slices.Equal(r.Delta.Items[0].Context, want) || r.Delta.Items[0].Wide != nil {
		t.Errorf("resolved to %+v, want %v", r.Delta.Items[0], want)
	}
	if r := p.one(t, keyscheme.OpRemove, "z", bigset.SawAll(seen)); !r.Delta.Empty() {
		t.Errorf("a remove of what was absent made %+v", r.Delta)
	}
	q.apply(t, newest.Delta, bigset.NoSync)
	ops := []bigset.Op{{Kind: keyscheme.OpRemove, Element: []byte("x"), Context: bigset.SawAll(seen)}}
	if _, err := q.store.Write(bg, []byte("s"), ops, bigset.WriteOptions{}); !errors.Is(err, bigset.ErrBehind) {
		t.Errorf("a context that is ahead: %v, want %v", err, bigset.ErrBehind)
	}
	q.check(t)
	p.check(t)
	p.close(t)
	q.close(t)
}

// TestWideRefused: what can't be is refused, and changes nothing.
func TestWideRefused(t *testing.T) {
	t.Parallel()
	p := openPair(t, "p")
	p.one(t, keyscheme.OpAdd, "x", bigset.Saw())
	wide := clock.Of(clock.Dot{Actor: "elsewhere", Counter: 1})
	delta := bigset.Delta{Set: []byte("s"), Actor: "elsewhere", First: 2, Items: []bigset.Item{{Kind: keyscheme.OpRemove, Element: []byte("x"), Wide: wide}}}
	own := clock.Of(clock.Dot{Actor: p.store.Replica().Actor(), Counter: 2})
	ahead := delta
	ahead.Items = []bigset.Item{{Kind: keyscheme.OpRemove, Element: []byte("x"), Wide: own}}
	huge := &clock.Clock{}
	for i := uint64(1); huge.HeapBytes() <= bigset.WideContextBytesMax; i += 2 {
		huge.AddRange(clock.Actor(fmt.Sprintf("actor %d", i)), 1, 2)
	}
	write := func(c *clock.Clock) error {
		_, err := p.store.Write(bg, []byte("s"), []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x"), Context: bigset.SawAll(c)}}, bigset.WriteOptions{})
		return err
	}
	for what, c := range map[string]struct{ err, want error }{
		"a dot that was never issued":            {write(own), bigset.ErrContext},
		"a delta with one":                       {p.store.Replica().ApplyDelta(bg, ahead, bigset.ApplyOptions{Durability: bigset.NoSync}), bigset.ErrDelta},
		"a huge context":                         {write(huge), bigset.ErrLimit},
		"a remove that has seen nothing at all":  {write(&clock.Clock{}), nil},
		"a strategy that deletes by point":       {pointDeletesUnresolved(), compaction.ErrStrategy},
		"a wide delta where none is to be open":  {resolvedApply(t, delta), bigset.ErrDelta},
		"a wide delta where they may, the first": {p.store.Replica().ApplyDelta(bg, delta, bigset.ApplyOptions{Durability: bigset.NoSync}), nil},
	} {
		if !errors.Is(c.err, c.want) || (c.err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", what, c.err, c.want)
		}
	}
	must(t, p.store.Close(), "close")
}

func pointDeletesUnresolved() error {
	_, err := engine.Open("store", &engine.Options{FS: testkit.NewDisk(), Record: compaction.Set, KeepContexts: true})
	return err
}

func resolvedApply(t *testing.T, d bigset.Delta) error {
	p := newPair("closed")
	p.open(t)
	defer p.close(t)
	return p.store.Replica().ApplyDelta(bg, d, bigset.ApplyOptions{Durability: bigset.NoSync})
}

// TestFoldPassCrashes crashes at every disk operation of a fold pass: the answers are the same after it, and the pass that
// then runs to its end leaves nothing open and counts it right. Also when the pass is the first to write after an open, and
// nothing but the count is left to write, as the contexts name nothing of their elements.
func TestFoldPassCrashes(t *testing.T) {
	t.Parallel()
	for _, other := range []int{0, 60} {
		for at := int64(0); crashFoldPass(t, at, other); at++ {
		}
	}
}

// crashFoldPass lets wide contexts name elements, some of which are not those in the set. It reports whether
// there were as many disk operations.
func crashFoldPass(t *testing.T, at int64, other int) bool {
	p := openPair(t, fmt.Sprintf("crash at %d, %d other elements", at, other))
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 60), bigset.NoSync)
	seen := bigset.SawAll(p.context(t, "s"))
	for i := range 60 {
		kind := keyscheme.OpAdd
		if i%3 == 0 {
			kind = keyscheme.OpRemove
		}
		if i%4 > 0 {
			p.one(t, kind, bulkName(other+i), seen)
		}
	}
	p.unresolved(t, 45)
	p.flush(t)
	p.close(t)
	p.open(t)
	crash := p.disk.CrashAt(at, []int{0, 50, 100}[at%3], uint64(at))
	_, err := p.store.Compact(bg, engine.CompactOptions{})
	must(t, err, "compact")
	left := crash()
	if left == nil {
		p.checkClean(t, "s")
		p.close(t)
		if at < 10 {
			t.Errorf("only %d disk operations", at)
		}
		return false
	}
	p.lose(t, left)
	p.check(t)
	p.verify(t)
	p.settle(t)
	p.unresolved(t, 0)
	p.close(t)
	return true
}

// TestUnresolvedKeysCountedOnce: the stored count is trusted in a store that never crashed. After a crash it is made exact once, and
// not again when the set leaves memory and comes back.
func TestUnresolvedKeysCountedOnce(t *testing.T) {
	p := openPair(t, "p")
	p.opt.SetCacheBytes = 1
	p.close(t)
	p.open(t)
	p.one(t, keyscheme.OpAdd, "x", bigset.SawAll(clock.Of(clock.Dot{Actor: "elsewhere", Counter: 1})))
	compacted := func(when string, want int64) {
		t.Helper()
		_, err := p.store.Compact(bg, engine.CompactOptions{})
		must(t, err, "compact")
		must(t, p.store.TrimSets(), "trim")
		if n, err := p.store.UnresolvedCount([]byte("s")); err != nil || n != want {
			t.Errorf("%s: %d unresolved keys are counted, want %d: %v", when, n, want, err)
		}
	}
	must(t, p.store.AmendUnresolvedCount([]byte("s"), 1), "amend")
	compacted("never crashed", 2)
	must(t, p.store.Flush(bg), "flush")
	p.lose(t, p.disk.CrashClone(100, 1))
	compacted("after a crash", 1)
	must(t, p.store.AmendUnresolvedCount([]byte("s"), 1), "amend")
	compacted("counted before", 2)
	must(t, p.store.AmendUnresolvedCount([]byte("s"), -1), "amend")
	p.unresolved(t, 1)
	p.close(t)
}

// replace adds elements again, unsynced. On a store that keeps contexts open, half of the time by the set's whole clock.
func (p *pair) replace(set []byte, elements [][]byte, r *rand.Rand) error {
	o := bigset.WriteOptions{Durability: bigset.NoSync}
	if !p.opt.KeepContexts || r.IntN(2) == 0 {
		_, err := p.store.Add(bg, set, elements, o)
		return err
	}
	seen, err := p.store.Seen(bg, set)
	if err != nil {
		return err
	}
	ops := make([]bigset.Op, len(elements))
	for i, e := range elements {
		ops[i] = bigset.Op{Kind: keyscheme.OpAdd, Element: e, Context: bigset.SawAll(seen)}
	}
	_, err = p.store.Write(bg, set, ops, o)
	return err
}

// TestFoldPassRefused: the first write of a store after its open is the fold pass's, and can't be made. What it was about to write into pages of the
// tombstone is not taken for written.
func TestFoldPassRefused(t *testing.T) {
	t.Parallel()
	for removed := 22; removed < 25; removed++ { // so that different parts are in pages
		p := newPair(fmt.Sprintf("%d removed", removed))
		p.opt.KeepContexts, p.model.KeepsContexts, p.split = true, true, []int{60, 40, 16, 8}
		p.opt.Strategy = eager(compaction.Rewriter())
		p.open(t)
		names := elementNames(0, 100)
		p.all(t, tailSet, keyscheme.OpAdd, names, bigset.NoSync)
		for i := range removed {
			p.all(t, tailSet, keyscheme.OpRemove, names[99-2*i:100-2*i], bigset.NoSync)
		}
		killWidely(t, p)
		p.close(t)
		p.open(t)
		p.disk.SetHook("refuse", func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "IDENTITY") {
				return syscall.EIO
			}
			return nil
		})
		if _, err := p.store.RewriteSpan(bg, []byte(tailSet), nil, 0); err == nil {
			t.Errorf("%s: the pass has not met the error", p.label)
		}
		p.disk.SetHook("refuse", nil)
		must(t, p.store.Failed(), "the store has failed")
		for i := range 12 {
			p.all(t, tailSet, keyscheme.OpRemove, names[80+i:81+i], bigset.NoSync)
		}
		p.check(t)
		p.close(t)
		p.open(t)
		p.check(t)
		p.verify(t)
		p.close(t)
	}
}
