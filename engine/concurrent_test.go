package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// fewer is tier.Times with smaller parts: for tests that keep both cores busy for seconds.
func fewer(n int) int {
	if *tier.Long {
		return tier.Times(n)
	}
	return max(1, tier.Pick(n/24, n/6, n))
}

// busy returns options of a store whose background never rests.
func busy(p *pair) {
	p.opt.BackgroundInterval = time.Millisecond
	p.opt.Strategy = eager(compaction.Default())
}

// hotAtRandom draws how much is remembered of elements that were looked up.
func hotAtRandom(p *pair, r *rand.Rand) {
	p.opt.HotBytes = []int64{-1, 0, 600, 3000, 512 << 10}[r.IntN(5)]
}

// writer does random operations on a store and writes them into a history.
type writer struct {
	r      *rand.Rand
	s      *engine.Store
	h      *testkit.History
	sets   []string
	id     int
	tokens []bigset.Op // contexts to use again
	wide   bool        // some contexts are wide
}

func (w *writer) element() []byte {
	if w.r.IntN(3) == 0 {
		return fmt.Appendf(nil, "shared-%02d", w.r.IntN(20))
	}
	return fmt.Appendf(nil, "own-%d-%03d", w.id, w.r.IntN(200))
}

func (w *writer) op() bigset.Op {
	kind := keyscheme.OpAdd
	if w.r.IntN(5) < 2 {
		kind = keyscheme.OpRemove
	}
	if len(w.tokens) > 0 && w.r.IntN(5) == 0 {
		k := w.tokens[w.r.IntN(len(w.tokens))]
		k.Kind = kind
		return k
	}
	return bigset.Op{Kind: kind, Element: w.element()}
}

// write does one operation. It returns an error that the store should not have had.
func (w *writer) write() error {
	set := w.sets[w.r.IntN(len(w.sets))]
	ops := make([]bigset.Op, 1)
	if w.r.IntN(4) == 0 {
		ops = make([]bigset.Op, 1+w.r.IntN(30))
	}
	for i := range ops {
		ops[i] = w.op()
		if w.wide && w.r.IntN(4) == 0 {
			seen, err := w.s.Seen(bg, []byte(set))
			if err == nil {
				ops[i].Context = bigset.SawAll(seen)
			}
		}
	}
	o := bigset.WriteOptions{Durability: bigset.NoSync, Policy: bigset.PolicyCoordinator}
	if w.r.IntN(3) == 0 {
		o.Durability = bigset.Sync
	}
	if w.r.IntN(4) == 0 {
		o.Policy = bigset.PolicyEmpty
	}
	h := w.h.Begin(set)
	res, err := w.s.Write(bg, []byte(set), ops, o)
	if errors.Is(err, bigset.ErrContext) { // a token of another set
		w.h.End(h, bigset.Delta{}, false)
		return nil
	}
	if err != nil {
		return err
	}
	w.h.End(h, res.Delta, o.Durability == bigset.Sync)
	if len(w.tokens) > 100 {
		w.tokens = nil
	}
	for i, d := range res.Dots {
		if d != (clock.Dot{}) && ops[i].Kind == keyscheme.OpAdd && len(w.sets) == 1 {
			w.tokens = append(w.tokens, bigset.Op{Element: ops[i].Element, Context: bigset.Saw(d)})
		}
	}
	return nil
}

// TestCrashUnderWriters cuts the power at random moments while eight goroutines write several sets, synced and not, with
// the drop filter and the rewriter running beside them.
func TestCrashUnderWriters(t *testing.T) {
	t.Parallel()
	r := tier.Random(t)
	rounds := fewer(24)
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) { crashUnderWriters(t, r) })
	}
	tier.Count(t, "rounds", rounds)
}

func crashUnderWriters(t *testing.T, r *rand.Rand) {
	sets := [][]string{{"s"}, {"s", "t", "u"}}[r.IntN(2)]
	p := newPair("store")
	busy(p)
	hotAtRandom(p, r)
	p.opt.KeepContexts = r.IntN(2) == 0
	p.opt.SpanBytes = []int{4 << 10, 1 << 20}[r.IntN(2)] // with the larger all sets are small
	p.open(t)
	h := &testkit.History{}
	stop := underWriters(t, p, r, h, sets)
	type crash struct {
		from, to int
		disk     *testkit.Disk
	}
	var crashes []crash
	for range 12 {
		c := crash{from: h.Now()} // before the power may fail
		took := p.disk.CrashAt(r.Int64N(60), []int{0, 0, 20, 50, 100}[r.IntN(5)], r.Uint64())
		for c.disk == nil && !t.Failed() {
			time.Sleep(time.Millisecond)
			c.disk, c.to = took(), h.Now()
			if c.disk == nil {
				took = p.disk.CrashAt(r.Int64N(60), 0, r.Uint64())
			}
		}
		crashes = append(crashes, c)
	}
	stop()
	p.verify(t)
	must(t, h.CheckUnique(), "dots")
	st, err := p.store.Stats()
	must(t, err, "stats")
	t.Logf("%d operations, filtered %d, %d spans swapped, %d flushes", len(h.Operations("")), st.Filtered, st.Rewrites, st.Flushes)
	first := p.store.Replica().Actor()
	must(t, p.store.Close(), "close")
	for i, c := range crashes {
		q := &pair{label: fmt.Sprintf("crash %d", i), disk: c.disk, opt: p.opt}
		q.open(t)
		left, written := map[string]*testkit.Set{}, false
		for _, set := range sets {
			left[set] = q.state(t, set)
			written = written || left[set].Known()
		}
		if written && q.store.Replica().Actor() == first {
			t.Errorf("%s: actor %x again", q.label, string(first))
		}
		if err := h.Survived(c.from, c.to, left); err != nil {
			t.Errorf("%s: %v", q.label, err)
		}
		q.verify(t)
		must(t, q.store.Close(), "close")
	}
}

// state returns what a store has of a set: Seen, Dead, and the live keys.
func (p *pair) state(t *testing.T, set string) *testkit.Set {
	t.Helper()
	seen, dead, err := p.store.SeenAndDead([]byte(set))
	must(t, err, "Seen and Dead")
	m := testkit.NewSet()
	for d := range seen.Dots() {
		m.Seen.Add(d)
	}
	for d := range dead.Dots() {
		m.Dead.Add(d)
	}
	for _, e := range p.read(t, set, bigset.ReadOptions{}) {
		for _, d := range e.Dots {
			m.Keys[d] = string(e.Name)
		}
	}
	return m
}

// TestHorizon replaces the same elements over and over while others look: an element that is present all along must never
// be missed, by no kind of read, whatever the drop filter, the rewriter, flushes and compactions do.
func TestHorizon(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		record   compaction.Record
		strategy compaction.Strategy
	}{
		{"default", compaction.Merge, eager(compaction.Default())},
		{"unresolved contexts", compaction.Merge, eager(compaction.Default())},
		{"filter", compaction.Merge, compaction.Filter()},
		{"rewriter", compaction.Merge, eager(compaction.Rewriter())},
		{"rewriter, set records", compaction.Set, eager(compaction.Rewriter())},
		{"point deletes", compaction.Set, compaction.PointDeletes()},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair("store")
			busy(p)
			hotAtRandom(p, tier.Random(t))
			p.opt.Record, p.opt.Strategy = c.record, c.strategy
			p.opt.KeepContexts = c.name == "unresolved contexts"
			p.open(t)
			horizon(t, p, time.Duration(fewer(1200))*time.Millisecond)
			p.verify(t)
			must(t, p.store.Close(), "close")
		})
	}
}

func horizon(t *testing.T, p *pair, d time.Duration) {
	r := tier.Random(t)
	const kept = 40
	names := make([][]byte, kept)
	for i := range names {
		names[i] = fmt.Appendf(nil, "keep-%03d", i)
	}
	set := []byte("s")
	_, err := p.store.Add(bg, set, names, bigset.WriteOptions{})
	must(t, err, "add")
	began := time.Now()
	var wg sync.WaitGroup
	var looks, replaced, resolved atomic.Int64
	over := func() bool { // on a busy machine an unresolved key is resolved late
		took := time.Since(began)
		return took >= d && (!p.opt.KeepContexts || resolved.Load() > 0 || took >= time.Minute)
	}
	loop := func(f func(r *rand.Rand) error) {
		r := rand.New(rand.NewPCG(r.Uint64(), 2))
		wg.Go(func() {
			for !over() && !t.Failed() {
				if err := f(r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 {
		loop(func(r *rand.Rand) error { // replaces one or many, and makes garbage beside them
			n := 1 + r.IntN(3)*r.IntN(kept/2)
			from := r.IntN(kept - n + 1)
			replaced.Add(int64(n))
			batch := append(slices.Clone(names[from:from+n]), fmt.Appendf(nil, "keep-%03d-other", r.IntN(100)))
			if err := p.replace(set, batch, r); err != nil {
				return err
			}
			_, err := p.store.Remove(bg, set, batch[n:], bigset.WriteOptions{Durability: bigset.NoSync})
			return err
		})
	}
	loop(func(r *rand.Rand) error {
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		if p.opt.KeepContexts && r.IntN(2) == 0 { // the background waits for a quiet moment, which does not come
			if _, err := p.store.RewriteSpan(bg, set, nil, 0); err != nil {
				return err
			}
			st, err := p.store.Stats()
			resolved.Store(int64(st.RewriteResolved))
			return err
		}
		if r.IntN(2) == 0 {
			return p.store.FlushTables()
		}
		return p.store.CompactTables(bg)
	})
	loop(func(r *rand.Rand) error {
		e := names[r.IntN(kept)]
		got, err := p.store.Look(bg, set, e)
		if err == nil && !got.Present {
			return fmt.Errorf("Contains missed %q", e)
		}
		looks.Add(1)
		return err
	})
	loop(func(r *rand.Rand) error {
		got, err := p.store.Subset(bg, set, names)
		for i, c := range got {
			if !c.Present {
				return fmt.Errorf("Subset missed %q", names[i])
			}
		}
		return err
	})
	loop(func(r *rand.Rand) error {
		return readsAll(p.store, set, names, bigset.ReadOptions{BatchSize: 1 + r.IntN(10), Reverse: r.IntN(2) == 0}, r)
	})
	loop(func(r *rand.Rand) error {
		c, err := p.store.Count(bg, set, engine.CountOptions{ReadOptions: bigset.ReadOptions{From: names[0], To: names[1]}})
		if err == nil && c.Elements == 0 {
			return fmt.Errorf("Count missed %q", names[0])
		}
		return err
	})
	wg.Wait()
	st, err := p.store.Stats()
	must(t, err, "stats")
	if p.opt.KeepContexts && st.RewriteResolved == 0 {
		t.Error("no unresolved key was resolved")
	}
	t.Logf("%d replaced, %d looks, filtered %d, published %d, %d spans swapped, %d flushes, %d compactions",
		replaced.Load(), looks.Load(), st.Filtered, st.TombstonesPublished, st.Rewrites, st.Flushes, st.Compactions)
}

// readsAll fails if a read misses one of the names.
func readsAll(s *engine.Store, set []byte, names [][]byte, o bigset.ReadOptions, r *rand.Rand) error {
	missing := map[string]bool{}
	for _, e := range names {
		missing[string(e)] = true
	}
	last := ""
	for chunk, err := range s.Read(bg, set, o) {
		if err != nil {
			return err
		}
		for _, e := range chunk.Elements {
			if last != "" && testkit.Beyond([]byte(last), e.Name, o.Reverse) || last == string(e.Name) {
				return fmt.Errorf("%q after %q", e.Name, last)
			}
			last = string(e.Name)
			delete(missing, last)
		}
		if r.IntN(4) == 0 {
			time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond) // a reader that takes its time
		}
	}
	for e := range missing {
		return fmt.Errorf("Read missed %q", e)
	}
	return nil
}

// TestCloseWhileBusy closes a store under writers, readers and compactions: each gets its answer or bigset.ErrClosed, and what was
// acknowledged is readable after the next open, under the same incarnation.
func TestCloseWhileBusy(t *testing.T) {
	t.Parallel()
	r := tier.Random(t)
	for range tier.Times(6) {
		p := newPair("store")
		busy(p)
		hotAtRandom(p, r)
		p.open(t)
		h := &testkit.History{}
		var wg sync.WaitGroup
		for id := range 6 {
			w := &writer{r: rand.New(rand.NewPCG(r.Uint64(), 3)), s: p.store, h: h, sets: []string{"s", "t"}, id: id}
			wg.Go(func() {
				for {
					if err := w.write(); err != nil {
						if !errors.Is(err, bigset.ErrClosed) {
							t.Errorf("write: %v", err)
						}
						return
					}
				}
			})
		}
		for range 2 {
			wg.Go(func() {
				for {
					if _, err := readAll(p.store, "s", bigset.ReadOptions{BatchSize: 5}); errors.Is(err, bigset.ErrClosed) {
						return
					} else if err != nil && !errors.Is(err, bigset.ErrNotFound) {
						t.Errorf("read: %v", err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			for {
				if _, err := p.store.Compact(bg, engine.CompactOptions{}); errors.Is(err, bigset.ErrClosed) {
					return
				} else if err != nil {
					t.Errorf("compact: %v", err)
					return
				}
			}
		})
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
		actor := p.store.Replica().Actor()
		must(t, p.store.Close(), "close")
		if err := p.store.Close(); !errors.Is(err, bigset.ErrClosed) {
			t.Errorf("a second close: %v", err)
		}
		wg.Wait()
		p.open(t)
		if p.store.Replica().Actor() != actor {
			t.Errorf("actor %x after a clean close of %x", string(p.store.Replica().Actor()), string(actor))
		}
		h.Answer()
		if err := h.Survived(h.Now(), h.Now(), map[string]*testkit.Set{"s": p.state(t, "s"), "t": p.state(t, "t")}); err != nil {
			t.Error(err)
		}
		p.verify(t)
		must(t, p.store.Close(), "close")
	}
}

// TestCancel: a call whose context is done says so, and does nothing.
func TestCancel(t *testing.T) {
	p := newPair("store")
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 10), bigset.Sync)
	ctx, cancel := context.WithCancel(bg)
	cancel()
	name, e := []byte("s"), []byte("x")
	_, write := p.store.Add(ctx, name, [][]byte{e}, bigset.WriteOptions{})
	_, drop := p.store.Drop(ctx, name, bigset.DropOptions{Durability: bigset.Sync})
	_, contains := p.store.Look(ctx, name, e)
	_, count := p.store.Count(ctx, name, engine.CountOptions{})
	_, compact := p.store.Compact(ctx, engine.CompactOptions{})
	_, seen := p.store.Seen(ctx, name)
	calls := map[string]error{
		"add": write, "drop": drop, "contains": contains, "count": count, "compact": compact, "context": seen,
		"apply": p.store.Replica().ApplyDelta(ctx, bigset.Delta{Set: name, Clear: clock.Of(clock.Dot{Actor: "x", Counter: 1})}, bigset.ApplyOptions{Durability: bigset.Sync}),
		"flush": p.store.Flush(ctx),
	}
	for chunk, err := range p.store.Read(ctx, name, bigset.ReadOptions{}) {
		calls["read"] = err
		if chunk != nil {
			t.Errorf("a chunk from a cancelled read")
		}
	}
	for what, err := range calls {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
	p.check(t)
	ctx, cancel = context.WithCancel(bg)
	defer cancel()
	chunks := 0
	for chunk, err := range p.store.Read(ctx, name, bigset.ReadOptions{BatchSize: 2}) {
		if chunks++; chunks == 2 {
			cancel()
		}
		if chunks == 3 && (chunk != nil || !errors.Is(err, context.Canceled)) {
			t.Errorf("after cancelling: %v, %v", chunk, err)
		}
	}
	if chunks != 3 {
		t.Errorf("%d chunks, want 2 and an error", chunks)
	}
	p.close(t)
}
