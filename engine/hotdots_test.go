package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// hotPair is a store that remembers the dots of every element that is looked up.
func hotPair(t *testing.T, label string) *pair {
	t.Helper()
	p := newPair(label)
	p.opt.HotFrom(-1, 0)
	p.open(t)
	return p
}

// remembers looks an element up, so that its dots are remembered.
func (p *pair) remembers(t *testing.T, set, element string) {
	t.Helper()
	p.looksUp(t, set, element)
	if hot, _, err := p.store.HotDots([]byte(set)); err != nil || hot[element] == nil {
		t.Fatalf("%s: the dots of %q are not remembered: %v, %v", p.label, element, hot, err)
	}
}

// looksUp looks an element up and compares with the model, and everything else that is remembered.
func (p *pair) looksUp(t *testing.T, set, element string) {
	t.Helper()
	got, err := p.store.Look(bg, []byte(set), []byte(element))
	must(t, err, "look")
	if want := p.model.Set(set).Live(element); !slices.Equal(got.Context.Dots, want) {
		t.Fatalf("%s: %q is found with %v, want %v", p.label, element, got.Context.Dots, want)
	}
	p.checkSet(t, set)
}

// TestHotDotsFollow: dots that are remembered follow each kind of write, and a look-up that they answer finds what the keys have.
func TestHotDotsFollow(t *testing.T) {
	t.Parallel()
	const set = "s"
	unsynced := bigset.WriteOptions{Durability: bigset.NoSync}
	blind := bigset.WriteOptions{Durability: bigset.NoSync, Policy: bigset.PolicyEmpty}
	other := func(n uint64) clock.Dot { return clock.Dot{Actor: "elsewhere", Counter: n} }
	delta := func(item bigset.Item) bigset.Delta {
		return bigset.Delta{Set: []byte(set), Actor: "elsewhere", First: 1, Items: []bigset.Item{item}}
	}
	for name, change := range map[string]func(t *testing.T, p *pair){
		"add again": func(t *testing.T, p *pair) { p.write(t, set, []bigset.Op{addOp("e")}, unsynced) },
		"add blindly": func(t *testing.T, p *pair) {
			for range 3 {
				p.write(t, set, []bigset.Op{addOp("e")}, blind)
				if hot, _, err := p.store.HotDots([]byte(set)); err != nil || hot["e"] == nil {
					t.Errorf("an add that looks nothing up forgets what is remembered: %v, %v", hot, err)
				}
			}
		},
		"remove": func(t *testing.T, p *pair) { p.all(t, set, keyscheme.OpRemove, []string{"e"}, bigset.NoSync) },
		"remove and add": func(t *testing.T, p *pair) {
			p.all(t, set, keyscheme.OpRemove, []string{"e"}, bigset.NoSync)
			p.remembers(t, set, "e")
			p.write(t, set, []bigset.Op{addOp("e")}, unsynced)
		},
		"a batch in order": func(t *testing.T, p *pair) {
			p.all(t, set, keyscheme.OpAdd, []string{"d", "e", "f", "g", "h"}, bigset.NoSync)
			p.all(t, set, keyscheme.OpAdd, []string{"h", "e", "g", "d"}, bigset.NoSync)
		},
		"a batch with one element twice": func(t *testing.T, p *pair) {
			p.write(t, set, []bigset.Op{addOp("e"), addOp("new"), addOp("e"), rmOp("new"), addOp("new")}, unsynced)
			p.write(t, set, []bigset.Op{rmOp("e"), addOp("e"), rmOp("e")}, unsynced)
		},
		"first blindly, then by a look-up in the same group": func(t *testing.T, p *pair) {
			p.write(t, set, []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x"), Context: bigset.Saw()}, rmOp("e"), addOp("x")}, unsynced)
			p.looksUp(t, set, "x")
		},
		"many dots": func(t *testing.T, p *pair) {
			for range 20 {
				p.write(t, set, []bigset.Op{addOp("e")}, blind)
				p.looksUp(t, set, "e")
			}
			if hot, _, _ := p.store.HotDots([]byte(set)); hot["e"] != nil {
				t.Error("an element of 21 dots is remembered")
			}
			p.write(t, set, []bigset.Op{addOp("e")}, unsynced)
		},
		"delta": func(t *testing.T, p *pair) {
			p.apply(t, delta(bigset.Item{Kind: keyscheme.OpAdd, Element: []byte("e"), Context: p.model.Set(set).Live("e")}), bigset.NoSync)
		},
		"facts": func(t *testing.T, p *pair) {
			p.facts(t, bigset.Facts{Set: []byte(set), Keys: []fold.Element{element("e", other(7))}, Dead: clock.Of(p.model.Set(set).Live("e")...)}, bigset.NoSync)
		},
		"drop": func(t *testing.T, p *pair) {
			p.drop(t, set, nil, bigset.NoSync)
			p.remembers(t, set, "e")
			p.write(t, set, []bigset.Op{addOp("e")}, unsynced)
		},
		"portion": func(t *testing.T, p *pair) {
			q := hotPair(t, "another store")
			defer q.close(t)
			q.all(t, set, keyscheme.OpAdd, append(elementNames(0, 30), "e"), bigset.NoSync)
			before, err := p.store.Stats()
			must(t, err, "stats")
			for _, portion := range q.portions(t, set, 0) {
				p.ingest(t, portion)
			}
			if after, err := p.store.Stats(); err != nil || after.Ingests == before.Ingests {
				t.Errorf("no tables were ingested, %v", err)
			}
		},
		"range drop": func(t *testing.T, p *pair) {
			p.dropRange(t, 0, keyscheme.SlotMax)
			p.write(t, set, []bigset.Op{addOp("other")}, unsynced)
			p.looksUp(t, set, "e")
			p.write(t, set, []bigset.Op{addOp("e")}, unsynced)
		},
		"flush, compaction and rewrite": func(t *testing.T, p *pair) {
			for range 3 {
				p.write(t, set, []bigset.Op{addOp("e")}, unsynced)
				publish(t, p)
				p.flush(t)
				_, err := p.store.Compact(bg, engine.CompactOptions{})
				must(t, err, "compact")
				p.looksUp(t, set, "e")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, present := range []bool{true, false} {
				p := hotPair(t, fmt.Sprint("present ", present))
				p.all(t, set, keyscheme.OpAdd, []string{"a", "e", "z"}, bigset.NoSync)
				if !present {
					p.all(t, set, keyscheme.OpRemove, []string{"e"}, bigset.NoSync)
				}
				p.remembers(t, set, "e")
				change(t, p)
				p.looksUp(t, set, "e")
				_, before, _ := p.store.HotDots([]byte(set))
				p.looksUp(t, set, "e")
				if _, after, _ := p.store.HotDots([]byte(set)); after == before && name != "many dots" {
					t.Error("a second look-up reads keys")
				}
				p.write(t, set, []bigset.Op{addOp("e")}, unsynced)
				p.looksUp(t, set, "e")
				p.verify(t)
				p.close(t)
			}
		})
	}
}

// TestHotDotsOfUnresolved: a set with an unresolved key remembers nothing, because that key's context kills dots that are not in Dead.
func TestHotDotsOfUnresolved(t *testing.T) {
	t.Parallel()
	const set = "s"
	p := newPair("store")
	p.opt.HotFrom(-1, 0)
	p.opt.KeepContexts, p.model.KeepsContexts = true, true
	p.open(t)
	defer p.close(t)
	p.all(t, set, keyscheme.OpAdd, []string{"a", "e"}, bigset.NoSync)
	p.remembers(t, set, "e")
	seen, err := p.store.Seen(bg, []byte(set))
	must(t, err, "seen")
	p.write(t, set, []bigset.Op{{Kind: keyscheme.OpRemove, Element: []byte("e"), Context: bigset.SawAll(seen)}}, bigset.WriteOptions{Durability: bigset.NoSync})
	for _, e := range []string{"e", "a"} {
		p.looksUp(t, set, e)
	}
	if hot, _, err := p.store.HotDots([]byte(set)); err != nil || len(hot) > 0 {
		t.Errorf("%v are remembered, %v", hot, err)
	}
	_, err = p.store.Compact(bg, engine.CompactOptions{})
	must(t, err, "compact")
	p.remembers(t, set, "e")
}

// TestHotDotsOfALateReader: a look-up that began before a write remembers nothing, and dots that a look-up remembers while a batch that looks
// nothing up is under way are forgotten.
func TestHotDotsOfALateReader(t *testing.T) {
	t.Parallel()
	const set = "s"
	blind := bigset.WriteOptions{Durability: bigset.NoSync, Policy: bigset.PolicyEmpty}
	p := hotPair(t, "store")
	p.all(t, set, keyscheme.OpAdd, []string{"a", "e"}, bigset.Sync)
	p.flush(t)
	look := func() (bigset.Presence, error) { return p.store.Look(bg, []byte(set), []byte("e")) }

	p.reopen(t)
	late := false
	p.store.OnceLooked(func() {
		p.write(t, set, []bigset.Op{addOp("e")}, blind)
		late = true
	})
	_, err := look()
	if must(t, err, "look"); !late {
		t.Error("nothing was written during a look-up")
	}
	p.looksUp(t, set, "e")

	p.flush(t)
	p.reopen(t)
	var began atomic.Bool
	p.disk.SetHook("once", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync && began.CompareAndSwap(false, true) { // the mark, before the commit
			var wait sync.WaitGroup
			wait.Go(func() {
				if got, err := look(); err != nil || len(got.Context.Dots) != 2 {
					t.Errorf("%v, %v", got, err)
				}
			})
			wait.Wait()
		}
		return nil
	})
	p.write(t, set, []bigset.Op{addOp("e")}, blind)
	if !began.Load() {
		t.Error("the first write after an open has synced nothing")
	}
	p.disk.SetHook("once", nil)
	p.looksUp(t, set, "e")
	p.close(t)
}

// TestHotDotsOfAFailedStore: a batch that failed may have been applied, so nothing is remembered after it.
func TestHotDotsOfAFailedStore(t *testing.T) {
	t.Parallel()
	const set = "s"
	p := hotPair(t, "store")
	p.all(t, set, keyscheme.OpAdd, []string{"a", "e"}, bigset.Sync)
	p.flush(t)
	p.reopen(t)
	p.remembers(t, set, "e")
	broken := errors.New("broken")
	p.disk.SetHook("fails", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync {
			return broken
		}
		return nil
	})
	if _, err := p.store.Write(bg, []byte(set), []bigset.Op{addOp("e")}, bigset.WriteOptions{}); err == nil {
		t.Fatal("a write succeeds without its mark")
	}
	if hot, _, err := p.store.HotDots([]byte(set)); err != nil || len(hot) > 0 {
		t.Errorf("%v are remembered, %v", hot, err)
	}
	p.disk.SetHook("fails", nil)
	_ = p.store.Close()
}

// TestHotDotsAreBounded: what is remembered stays within its bound over all sets, what is in use stays in it, and sets that are forgotten take
// nothing.
func TestHotDotsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 20_000
	p := newPair("store")
	p.opt.HotFrom(-1, most)
	p.opt.SetCacheBytes = 1
	p.open(t)
	defer p.close(t)
	check := func(when string) {
		t.Helper()
		if sums, counted, _ := p.store.HotBytes(); sums != counted || sums[0] > most+2000 {
			t.Fatalf("%s: %d bytes, counted %d, at most %d", when, sums, counted, most)
		}
	}
	names := []string{"s", "t", "u"}
	inUse := 0
	for i := range 300 {
		set := names[i/100]
		p.all(t, set, keyscheme.OpAdd, []string{bulkName(i), "in use"}, bigset.NoSync)
		p.looksUp(t, set, bulkName(i))
		if hot, _, _ := p.store.HotDots([]byte(set)); hot["in use"] != nil {
			inUse++
		}
		check("while elements are added")
	}
	if inUse < 290 {
		t.Errorf("an element in use was remembered %d of 300 times", inUse)
	}
	for _, set := range names {
		p.checkSet(t, set)
	}
	if _, _, sets := p.store.HotBytes(); sets > 2 {
		t.Errorf("%d sets remember something, though the last one has filled both generations", sets)
	}
	publish(t, p) // a set is pinned until its Dead is published
	must(t, p.store.TrimSets(), "trim")
	if sums, _, sets := p.store.HotBytes(); sums != [2]int64{} || sets != 0 {
		t.Errorf("%d bytes of %d sets after all sets were forgotten", sums, sets)
	}
}

// TestHotDotsThatGrow: what is remembered stays within its bound while each element gets more dots, until it has too many to be remembered. A
// set in which all have too many has nothing remembered.
func TestHotDotsThatGrow(t *testing.T) {
	t.Parallel()
	const most, elements = 40_000, 60
	set := []byte("s")
	p := newPair("store")
	p.opt.HotFrom(-1, most)
	p.open(t)
	defer p.close(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, elements), bigset.NoSync)
	worst := int64(0)
	for range 17 {
		for i := range elements {
			_, err := p.store.Look(bg, set, []byte(bulkName(i)))
			must(t, err, "look")
			_, err = p.store.Write(bg, set, []bigset.Op{addOp(bulkName(i))}, bigset.WriteOptions{Durability: bigset.NoSync, Policy: bigset.PolicyEmpty})
			must(t, err, "add")
			sums, counted, _ := p.store.HotBytes()
			if sums != counted {
				t.Fatalf("%d bytes, counted %d", sums, counted)
			}
			worst = max(worst, sums[0])
		}
	}
	if worst < most/2 || worst > most+2000 {
		t.Errorf("at worst %d bytes, want at most %d", worst, most)
	}
	if sums, _, sets := p.store.HotBytes(); sums != [2]int64{} || sets != 0 {
		t.Errorf("%d bytes of %d sets after all elements have too many dots", sums, sets)
	}
}

// TestHotElementOfAGroup: a group that writes an element with many dead keys several times looks it up in its keys once.
func TestHotElementOfAGroup(t *testing.T) {
	t.Parallel()
	for _, ops := range []int{1, 3, 1000} {
		for _, present := range []bool{true, false} {
			p := newPair("store")
			p.open(t)
			p.all(t, "s", keyscheme.OpAdd, []string{"z"}, bigset.NoSync) // nothing is looked up in an empty set
			p.addsElsewhere(t, "e", 60, present)
			before := p.store.KeysLookedUp()
			adds := make([]bigset.Op, ops)
			for i := range adds {
				adds[i] = addOp("e")
			}
			_, err := p.store.Write(bg, []byte("s"), adds, bigset.WriteOptions{Durability: bigset.NoSync})
			must(t, err, "adds")
			if n := p.store.KeysLookedUp() - before; n != 1 {
				t.Errorf("%d adds, present %v: %d look-ups read keys, want one", ops, present, n)
			}
			if got, err := p.store.Look(bg, []byte("s"), []byte("e")); err != nil || len(got.Context.Dots) != 1 {
				t.Errorf("%d adds, present %v: %v, %v", ops, present, got, err)
			}
			if hot, _, err := p.store.HotDots([]byte("s")); err != nil || len(hot["e"]) != 1 {
				t.Errorf("%d adds, present %v: %v are remembered, %v", ops, present, hot, err)
			}
			p.verify(t)
			p.close(t)
		}
	}
}

// TestHotAmongOthers: of the elements of one call, only those whose own look-ups step far become hot.
func TestHotAmongOthers(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	defer p.close(t)
	p.addsElsewhere(t, "e", 60, true)
	names := [][]byte{[]byte("e"), []byte("x"), []byte("y")}
	for range 2 {
		_, err := p.store.Subset(bg, []byte("s"), names)
		must(t, err, "subset")
		if hot, _, err := p.store.HotDots([]byte("s")); err != nil || len(hot) != 1 || hot["e"] == nil {
			t.Errorf("%v are remembered, %v", hot, err)
		}
	}
}

// addsElsewhere gives an element of set s as many keys as another replica's adds leave, which replace each other; the last one is live if
// present is set. None of them looks the element up.
func (p *pair) addsElsewhere(t *testing.T, e string, adds uint64, present bool) {
	t.Helper()
	for n := uint64(1); n <= adds; n++ {
		item := bigset.Item{Kind: keyscheme.OpAdd, Element: []byte(e)}
		if n > 1 {
			item.Context = []clock.Dot{{Actor: "elsewhere", Counter: n - 1}}
		}
		if n == adds && !present {
			item.Kind = keyscheme.OpRemove
		}
		d := bigset.Delta{Set: []byte("s"), Actor: "elsewhere", First: n, Items: []bigset.Item{item}}
		must(t, p.store.Replica().ApplyDelta(bg, d, bigset.ApplyOptions{Durability: bigset.NoSync}), "delta")
	}
}

// TestHotElements: an element whose look-ups step over many dead keys becomes hot, whoever looks it up, and others do not.
func TestHotElements(t *testing.T) {
	t.Parallel()
	const adds = 200
	hits := func(p *pair) uint64 {
		_, n, err := p.store.HotDots([]byte("s"))
		must(t, err, "remembered dots")
		return n
	}
	again := func(t *testing.T, p *pair, o bigset.WriteOptions) {
		for range adds {
			_, err := p.store.Write(bg, []byte("s"), []bigset.Op{addOp("e")}, o)
			must(t, err, "add")
		}
	}
	unsynced := bigset.WriteOptions{Durability: bigset.NoSync}
	t.Run("added again", func(t *testing.T) {
		t.Parallel()
		p := newPair("store")
		p.open(t)
		defer p.close(t)
		again(t, p, unsynced)
		if n := hits(p); n < adds-10 {
			t.Errorf("%d of %d adds were answered by remembered dots", n, adds)
		}
		for _, e := range elementNames(0, 100) {
			_, err := p.store.Write(bg, []byte("s"), []bigset.Op{addOp(e), addOp(e + "x")}, unsynced)
			must(t, err, "add")
			if found, err := p.store.Contains(bg, []byte("s"), []byte(e)); err != nil || !found {
				t.Errorf("%q: %v, %v", e, found, err)
			}
		}
		if hot, _, err := p.store.HotDots([]byte("s")); err != nil || len(hot) != 1 {
			t.Errorf("%d elements are remembered, want 1, %v", len(hot), err)
		}
	})
	t.Run("present, and skipped", func(t *testing.T) {
		t.Parallel()
		p := newPair("store")
		p.opt.HotFrom(-1, 0)
		p.open(t)
		defer p.close(t)
		again(t, p, bigset.WriteOptions{Durability: bigset.NoSync, SkipPresent: true})
		if n := hits(p); n < adds-3 {
			t.Errorf("%d of %d adds were answered by remembered dots", n, adds)
		}
	})
	t.Run("asked for beside a replica's deltas", func(t *testing.T) {
		t.Parallel()
		p := newPair("store")
		p.open(t)
		defer p.close(t)
		p.addsElsewhere(t, "e", 1, true)
		stop, n := make(chan struct{}), uint64(1)
		var writers sync.WaitGroup
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				n++
				item := bigset.Item{Kind: keyscheme.OpAdd, Element: []byte("e"), Context: []clock.Dot{{Actor: "elsewhere", Counter: n - 1}}}
				d := bigset.Delta{Set: []byte("s"), Actor: "elsewhere", First: n, Items: []bigset.Item{item}}
				if err := p.store.Replica().ApplyDelta(bg, d, bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
					t.Error(err)
					return
				}
			}
		})
		const enough = 10_000
		for i := 0; i < 20*enough && (i%64 > 0 || hits(p) < enough); i++ {
			got, err := p.store.Look(bg, []byte("s"), []byte("e"))
			if n := len(got.Context.Dots); err != nil || n != 1 && n != 2 { // two while a batch is visible and not published
				t.Errorf("%v, %v", got, err)
				break
			}
		}
		close(stop)
		writers.Wait()
		if hits(p) < enough {
			t.Error("no look-up was answered by remembered dots")
		}
	})
}

// TestHotDotsUnderWriters: writers and readers of a few elements see what they have been promised while the entries come and go, and in the end
// entries and keys agree.
func TestHotDotsUnderWriters(t *testing.T) {
	t.Parallel()
	r := tier.Random(t)
	for range tier.Times(4) {
		p := newPair("store")
		busy(p)
		hotAtRandom(p, r)
		p.open(t)
		var work sync.WaitGroup
		set := []byte("s")
		for w := range 4 {
			shared, own := []byte("shared"), fmt.Appendf(nil, "own %d", w)
			seed := r.Uint64()
			work.Go(func() {
				present := false
				for i := range 300 {
					x := (seed >> (i % 60)) & 3
					ops := []bigset.Op{{Kind: keyscheme.OpAdd, Element: own}, {Kind: keyscheme.OpAdd, Element: shared}}
					if x == 0 {
						ops[0].Kind = keyscheme.OpRemove
					}
					o := bigset.WriteOptions{Durability: bigset.NoSync}
					if x == 1 {
						o.Policy = bigset.PolicyEmpty
					}
					if _, err := p.store.Write(bg, set, ops, o); err != nil {
						t.Error(err)
						return
					}
					present = x != 0
					got, err := p.store.Subset(bg, set, [][]byte{own, shared})
					if err != nil || got[0].Present != present || !got[1].Present {
						t.Errorf("%q: %+v, want %v, %v", own, got, present, err)
						return
					}
				}
			})
		}
		work.Wait()
		keys, err := p.store.StoredKeys(set)
		must(t, err, "keys")
		_, dead, err := p.store.SeenAndDead(set)
		must(t, err, "Dead")
		hot, _, err := p.store.HotDots(set)
		must(t, err, "remembered dots")
		for e, dots := range hot {
			var want []clock.Dot
			for d, name := range keys {
				if name == e && !dead.Contains(d) {
					want = append(want, d)
				}
			}
			if slices.SortFunc(want, clock.Dot.Compare); !slices.Equal(dots, want) {
				t.Errorf("the dots of %q are remembered as %v, want %v", e, dots, want)
			}
		}
		p.close(t)
	}
}
