package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// dropRange drops a range in store and model.
func (p *pair) dropRange(t rapid.TB, first, last keyscheme.Slot) {
	t.Helper()
	must(t, p.store.Replica().DropRange(bg, first, last), p.label+": drop range")
	for set := range p.model.Sets {
		if slot := keyscheme.SetSlot([]byte(set)); slot >= first && slot <= last {
			delete(p.model.Sets, set)
		}
	}
	p.model.Acknowledged()
}

// slotsOf returns names of sets in ascending order of their slots.
func slotsOf(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("set %d", i))
	}
	slices.SortFunc(names, func(a, b string) int {
		if keyscheme.SetSlot([]byte(a)) < keyscheme.SetSlot([]byte(b)) {
			return -1
		}
		return 1
	})
	return names
}

// TestDropRange: sets of a range are gone with their clocks, the others are as they were, and what is written there again has dots
// that were never issued before.
func TestDropRange(t *testing.T) {
	t.Parallel()
	for _, strategy := range []compaction.Strategy{compaction.Default(), compaction.Filter(), compaction.None()} {
		for _, evicted := range []bool{false, true} {
			p := newPair(fmt.Sprintf("%s, evicted %v", strategy.Name(), evicted))
			p.opt.Strategy, p.opt.SetCacheBytes = strategy, 1
			p.split = []int{24, 40, 32, 64}
			p.open(t)
			names := slotsOf(9)
			minted := map[string]bool{}
			p.minted = func(t rapid.TB, d bigset.Delta) {
				for i := range d.Items {
					id := fmt.Sprintf("%s %x %d", d.Set, string(d.Actor), d.First+uint64(i))
					if minted[id] {
						t.Fatalf("%s: dot %s issued twice", p.label, id)
					}
					minted[id] = true
				}
			}
			fills := 0
			fill := func() {
				fills++
				for i, name := range names {
					p.all(t, name, keyscheme.OpAdd, elementNames(10*i, 10*i+40), bigset.NoSync)
					p.all(t, name, keyscheme.OpRemove, elementNames(10*i, 10*i+7*i), bigset.NoSync)
					p.write(t, name, []bigset.Op{addOp("asked")}, bigset.WriteOptions{Request: fmt.Appendf(nil, "id %d", fills), Durability: bigset.NoSync})
				}
			}
			fill()
			publish(t, p)
			must(t, p.store.CompactTables(bg), "compact")
			fill()
			if evicted {
				must(t, p.store.TrimSets(), "trim")
			}
			actor := p.store.Replica().Actor()
			p.dropRange(t, keyscheme.SetSlot([]byte(names[3])), keyscheme.SetSlot([]byte(names[5])))
			if p.store.Replica().Actor() == actor {
				t.Error("the incarnation is the same")
			}
			gone := func() {
				t.Helper()
				for _, name := range names[3:6] {
					if _, err := p.store.Replica().State(bg, []byte(name)); !errors.Is(err, bigset.ErrNotFound) {
						t.Errorf("%s: %q is known: %v", p.label, name, err)
					}
				}
				if all := digests(t, p.store, 0, keyscheme.SlotMax); len(all) != 6 {
					t.Errorf("%s: %d sets, want 6", p.label, len(all))
				}
			}
			gone()
			if n, err := p.store.KeptRequests(); err != nil || n != 6*fills {
				t.Errorf("%s: %d requests are kept, want those of 6 sets, %v", p.label, n, err)
			}
			p.check(t)
			p.verify(t)
			left := p.disk.CrashClone(0, 1)
			q := &pair{label: p.label + ", crashed", disk: left, opt: p.opt, model: p.model.Clone(), split: p.split}
			q.open(t)
			q.check(t)
			q.verify(t)
			q.close(t)
			fill() // also the sets that are gone
			publish(t, p)
			must(t, p.store.CompactTables(bg), "compact")
			p.check(t)
			p.verify(t)
			p.close(t)
			p.open(t)
			p.check(t)
			p.dropRange(t, 0, keyscheme.SlotMax)
			if rep, err := p.store.Verify(bg, engine.VerifyOptions{}); err != nil || !rep.OK() || rep.Keys != 0 || rep.Sets != 0 {
				t.Errorf("%s: %+v, %v", p.label, rep, err)
			}
			if n, err := p.store.KeptRequests(); err != nil || n != 0 {
				t.Errorf("%s: %d requests are kept, %v", p.label, n, err)
			}
			fill()
			p.check(t)
			p.verify(t)
			p.close(t)
		}
	}
	p := newPair("store")
	p.open(t)
	if err := p.store.Replica().DropRange(bg, 2, 1); !errors.Is(err, bigset.ErrRequest) {
		t.Errorf("no range: %v", err)
	}
	p.close(t)
	if err := p.store.Replica().DropRange(bg, 1, 2); !errors.Is(err, bigset.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestRangeComesBack: a range that was dropped is given to the store again, deltas of old included. Dots that were dead then are
// not filtered out now, before they are known to be dead.
func TestRangeComesBack(t *testing.T) {
	p := newPair("store")
	p.opt.Strategy = compaction.Filter()
	p.open(t)
	x := clock.Dot{Actor: "x", Counter: 1}
	f := bigset.Facts{Set: []byte("s"), Keys: []fold.Element{element("a", x)}}
	p.facts(t, f, bigset.NoSync)
	p.facts(t, bigset.Facts{Set: []byte("s"), Dead: clock.Of(x)}, bigset.NoSync)
	publish(t, p)
	must(t, p.store.CompactTables(bg), "compact")
	if p.store.Filtered() == 0 {
		t.Error("nothing was filtered")
	}
	slot := keyscheme.SetSlot([]byte("s"))
	p.dropRange(t, slot, slot)
	p.facts(t, f, bigset.NoSync)
	publish(t, p)
	must(t, p.store.CompactTables(bg), "compact")
	p.check(t)
	p.verify(t)
	p.has(t, "a", true)
	p.close(t)
}

// TestDropRangeWhileTrimmed drops a range while the cache forgets a set of it: what the drop filter knew of the set is gone with it, and what is
// stored there again stays.
func TestDropRangeWhileTrimmed(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.opt.Strategy, p.opt.SetCacheBytes = compaction.Filter(), 1
	p.open(t)
	x := clock.Dot{Actor: "x", Counter: 1}
	f := bigset.Facts{Set: []byte("s"), Keys: []fold.Element{element("a", x)}}
	p.facts(t, f, bigset.NoSync)
	p.facts(t, bigset.Facts{Set: []byte("s"), Dead: clock.Of(x)}, bigset.NoSync)
	publish(t, p)
	slot := keyscheme.SetSlot([]byte("s"))
	dropped := make(chan error, 1)
	again := func(err error) {
		must(t, err, "drop range")
		delete(p.model.Sets, "s")
		p.model.Acknowledged()
		p.facts(t, f, bigset.NoSync)
		must(t, p.store.FlushTables(), "flush")
	}
	trimmed, done := 0, false
	p.store.WhileTrimmed(func() {
		if trimmed++; trimmed > 1 {
			return
		}
		go func() { dropped <- p.store.Replica().DropRange(bg, slot, slot) }()
		select {
		case err := <-dropped:
			done = true
			again(err)
		case <-settled(p): // it waits until the set has left the drop filter, too
		}
	})
	must(t, p.store.TrimSets(), "trim")
	if trimmed == 0 {
		t.Fatal("no set was trimmed")
	}
	if !done {
		again(<-dropped)
	}
	p.check(t)
	p.has(t, "a", true)
	p.verify(t)
	p.close(t)
}

// TestDropRangeCrashes crashes at every operation on the disk of it: the range is whole or gone.
func TestDropRangeCrashes(t *testing.T) {
	names := slotsOf(4)
	first, last := keyscheme.SetSlot([]byte(names[1])), keyscheme.SetSlot([]byte(names[2]))
	for at := int64(0); ; at++ {
		p := newPair(fmt.Sprintf("crash at %d", at))
		p.open(t)
		for i, name := range names {
			p.all(t, name, keyscheme.OpAdd, elementNames(0, 40), bigset.NoSync)
			p.all(t, name, keyscheme.OpRemove, elementNames(0, 10+i), bigset.Sync)
		}
		before := p.model.Clone()
		actors := []clock.Actor{p.store.Replica().Actor()}
		crash := p.disk.CrashAt(at, []int{0, 50, 100}[at%3], uint64(at))
		p.dropRange(t, first, last)
		actors = append(actors, p.store.Replica().Actor())
		left := crash()
		must(t, p.store.Close(), "close")
		if left == nil {
			if at < 5 {
				t.Errorf("only %d disk operations", at)
			}
			return
		}
		p.disk = left
		p.open(t)
		_, errOne := p.store.Replica().State(bg, []byte(names[1]))
		_, errTwo := p.store.Replica().State(bg, []byte(names[2]))
		if errors.Is(errOne, bigset.ErrNotFound) != errors.Is(errTwo, bigset.ErrNotFound) {
			t.Errorf("%s: a part is gone: %v, %v", p.label, errOne, errTwo)
		}
		if errOne == nil {
			p.model = before
		}
		p.check(t)
		p.verify(t)
		if slices.Contains(actors, p.store.Replica().Actor()) {
			t.Errorf("%s: an incarnation comes again", p.label)
		}
		for _, name := range names {
			p.all(t, name, keyscheme.OpAdd, elementNames(0, 3), bigset.Sync)
		}
		p.check(t)
		p.close(t)
	}
}

// TestDropRangeMeanwhile drops a range over and over while its sets are written, read and rewritten. No answer is a mixture: who
// reads a set sees every element by a dot that its clock covers, and no dot is issued twice. The set outside the range keeps its actor.
func TestDropRangeMeanwhile(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.opt.BackgroundInterval, p.opt.SetCacheBytes = 1, 1
	p.opt.Strategy = eager(compaction.Default())
	p.open(t)
	names := slotsOf(3)
	quit, done := make(chan struct{}), make(chan error, 3)
	first := p.store.Replica().Actor()
	for i, name := range names {
		go func() {
			done <- func() error {
				minted := map[clock.Dot]bool{}
				for n := 0; ; n++ {
					select {
					case <-quit:
						return nil
					default:
					}
					tier.Breathe(n)
					res, err := p.store.Add(bg, []byte(name), [][]byte{[]byte(bulkName(n % 40))}, bigset.WriteOptions{Durability: bigset.NoSync, Request: fmt.Appendf(nil, "%d", n)})
					if err != nil {
						return err
					}
					if minted[res.Dots[0]] {
						return fmt.Errorf("dot %v issued twice", res.Dots[0])
					}
					minted[res.Dots[0]] = true
					if name == names[2] && res.Dots[0].Actor != first {
						return fmt.Errorf("%s is outside the range and has actor %x, had %x", name, string(res.Dots[0].Actor), string(first))
					}
					if n%20 != i {
						continue
					}
					for chunk, err := range p.store.Read(bg, []byte(name), bigset.ReadOptions{}) {
						if errors.Is(err, bigset.ErrNotFound) {
							break
						}
						if err != nil {
							return err
						}
						live, err := p.store.Replica().State(bg, []byte(name))
						if errors.Is(err, bigset.ErrNotFound) {
							break
						}
						if err != nil {
							return err
						}
						have := chunk.Clock.Clone()
						have.Subtract(live.Dead)
						if live.Seen.Descends(chunk.Clock) { // no drop since
							for _, e := range chunk.Elements {
								for _, d := range e.Dots {
									have.Subtract(clock.Of(d))
								}
							}
							if !have.Empty() {
								return fmt.Errorf("live dots %v have no element", have)
							}
						}
					}
				}
			}()
		}()
	}
	for range tier.Times(60) {
		must(t, p.store.Replica().DropRange(bg, keyscheme.SetSlot([]byte(names[0])), keyscheme.SetSlot([]byte(names[1]))), "drop range")
	}
	close(quit)
	for range names {
		must(t, <-done, "writer")
	}
	p.verify(t)
	must(t, p.store.Close(), "close")
}

// TestReadersAcrossDropRange: a reader from before a DropRange is still open when keys that it shows die in the next life of the set. The drop filter
// gets those deaths when the reader has ended.
func TestReadersAcrossDropRange(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	defer func() { must(t, p.store.Close(), "close") }()
	replica, dot := p.store.Replica(), func(n uint64) clock.Dot { return clock.Dot{Actor: "elsewhere", Counter: n} }
	facts := func(f bigset.Facts) {
		t.Helper()
		f.Set = []byte("s")
		_, err := replica.ApplyFacts(bg, f, bigset.ApplyOptions{Durability: bigset.Sync})
		must(t, err, "facts")
	}
	facts(bigset.Facts{Keys: []fold.Element{{Name: []byte("x"), Dots: []clock.Dot{dot(1)}}, {Name: []byte("y"), Dots: []clock.Dot{dot(2)}}}})
	m := openMoment(t, p.store, "s")
	facts(bigset.Facts{Dead: clock.Of(dot(2))})
	publish(t, p)
	must(t, replica.DropRange(bg, 0, keyscheme.SlotMax), "drop range")
	facts(bigset.Facts{Keys: []fold.Element{{Name: []byte("x"), Dots: []clock.Dot{dot(3)}}}, Dead: clock.Of(dot(1))})
	publish(t, p)
	if got := momentNames(t, m, 0, bigset.ReadOptions{}); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("a reader from before shows %q", got)
	}
	must(t, m.Close(), "close the moment")
	publish(t, p)
	if stats, err := p.store.Stats(); err != nil || stats.TombstonesPublished == 0 {
		t.Errorf("%d tombstones are published after the reader, %v", stats.TombstonesPublished, err)
	}
}

// TestDropRangeFailsLate: the log fails right after the excise, when what the directory of filters has of the range is to be removed. The sets are
// gone in memory as they are on disk.
func TestDropRangeFailsLate(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	var renewed, excised atomic.Bool
	p.opt.Events = func(e engine.Event) {
		if e.Kind == engine.EventIncarnation {
			renewed.Store(true)
		}
	}
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 20), bigset.Sync)
	_, err := p.store.Filters().Create(bg, []byte("f"), bigset.FilterOptions{})
	must(t, err, "create a filter")
	p.flush(t)
	renewed.Store(false)
	p.disk.SetHook("late", func(op errorfs.Op) error {
		if renewed.Load() && strings.Contains(op.Path, "MANIFEST") && testkit.IsWrite(op) {
			excised.Store(true)
		}
		if excised.Load() && strings.HasSuffix(op.Path, ".log") && testkit.IsWrite(op) {
			return syscall.EIO
		}
		return nil
	})
	if err := p.store.Replica().DropRange(bg, 0, keyscheme.SlotMax); !errors.Is(err, bigset.ErrFailed) {
		t.Errorf("drop range: %v", err)
	}
	if _, err := p.store.Replica().State(bg, []byte("s")); !errors.Is(err, bigset.ErrNotFound) {
		t.Errorf("a set without keys is known: %v", err)
	}
	_ = p.store.Close() // of a failed store
}
