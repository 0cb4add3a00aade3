package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
	p.opt.HotBytes = 512 << 10 // all shards are used from the beginning
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
		"first by a look-up, then blindly in the same group": func(t *testing.T, p *pair) {
			blindly := bigset.Op{Kind: keyscheme.OpAdd, Element: []byte("e"), Context: bigset.Saw()}
			p.write(t, set, []bigset.Op{addOp("e"), blindly, addOp("new"), addOp("f"), blindly}, unsynced)
			if hot, _, err := p.store.HotDots([]byte(set)); err != nil || len(hot["e"]) != 3 || len(hot["new"]) != 1 {
				t.Errorf("%v are remembered, %v", hot, err)
			}
			p.looksUp(t, set, "new")
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
	p.opt.HotBytes = 512 << 10 // all shards are used from the beginning
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
	p.all(t, set, keyscheme.OpRemove, []string{"absent"}, bigset.NoSync) // writes nothing
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

// TestHotDotsBesideAdds: adds of other elements, with or without a look-up, keep few look-ups from remembering what they find.
func TestHotDotsBesideAdds(t *testing.T) {
	t.Parallel()
	const set, looks = "s", 40
	p := hotPair(t, "store")
	defer p.close(t)
	p.all(t, set, keyscheme.OpAdd, elementNames(0, looks), bigset.NoSync)
	p.reopen(t)
	for i := range looks {
		o := bigset.WriteOptions{Durability: bigset.NoSync}
		if i%2 > 0 {
			o.Policy = bigset.PolicyEmpty
		}
		p.store.OnceLooked(func() { p.write(t, set, []bigset.Op{addOp("other"), addOp("another")}, o) })
		p.looksUp(t, set, bulkName(i))
	}
	hot, _, err := p.store.HotDots([]byte(set))
	if kept := len(hot) - 2; err != nil || kept < looks-5 {
		t.Errorf("%d of %d elements are remembered, %v", kept, looks, err)
	}
}

// TestHotDotsAreBounded: what is remembered stays within its bound over all sets, an element in use is mostly remembered, a set that is loaded again
// remembers nothing, and no memory is taken before something is looked up.
func TestHotDotsAreBounded(t *testing.T) {
	t.Parallel()
	for _, most := range []int64{1000, 20_000, 300_000} {
		p := newPair(fmt.Sprint("bytes ", most))
		p.opt.HotBytes = most
		p.opt.SetCacheBytes = 1
		p.open(t)
		names := []string{"s", "t", "u"}
		if sum, counted, _ := p.store.HotBytes(); sum != 0 || counted != 0 {
			t.Errorf("%s: %d bytes, counted %d, before the first look-up", p.label, sum, counted)
		}
		inUse, worst := 0, 0
		for i := range 300 {
			set := names[i/100]
			p.all(t, set, keyscheme.OpAdd, []string{bulkName(i), "in use"}, bigset.NoSync)
			p.looksUp(t, set, bulkName(i))
			if hot, _, _ := p.store.HotDots([]byte(set)); hot["in use"] != nil {
				inUse++
			}
			sum, counted, entries := p.store.HotBytes()
			if sum != counted || sum > most {
				t.Fatalf("%s: %d bytes, counted %d", p.label, sum, counted)
			}
			worst = max(worst, entries)
		}
		if inUse < 290 {
			t.Errorf("%s: an element in use was remembered %d of 300 times", p.label, inUse)
		}
		if want := min(300, most/70); int64(worst) < want {
			t.Errorf("%s: %d elements are remembered, want %d", p.label, worst, want)
		}
		for _, set := range names {
			p.checkSet(t, set)
		}
		publish(t, p) // a set is pinned until its Dead is published
		must(t, p.store.TrimSets(), "trim")
		if hot, _, err := p.store.HotDots([]byte("u")); err != nil || len(hot) > 0 {
			t.Errorf("%s: a set that was loaded again remembers %v, %v", p.label, hot, err)
		}
		p.close(t)
	}
}

// TestNoHotDots: without memory for it nothing is remembered.
func TestNoHotDots(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	defer p.close(t)
	for range 3 {
		p.all(t, "s", keyscheme.OpAdd, elementNames(0, 20), bigset.NoSync)
		p.looksUp(t, "s", bulkName(0))
	}
	if hot, hits, err := p.store.HotDots([]byte("s")); err != nil || len(hot) > 0 || hits > 0 {
		t.Errorf("%v are remembered, %d look-ups are answered, %v", hot, hits, err)
	}
	if sum, _, _ := p.store.HotBytes(); sum != 0 {
		t.Errorf("%d bytes are taken", sum)
	}
}

// TestHotDotsThatGrow: what is remembered stays within its bound while each element gets more dots, until it has too many to be remembered.
func TestHotDotsThatGrow(t *testing.T) {
	t.Parallel()
	const most, elements = 40_000, 60
	set := []byte("s")
	p := newPair("store")
	p.opt.HotBytes = most
	p.open(t)
	defer p.close(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, elements), bigset.NoSync)
	for dots := 2; dots <= 18; dots++ {
		for i := range elements {
			_, err := p.store.Look(bg, set, []byte(bulkName(i)))
			must(t, err, "look")
			_, err = p.store.Write(bg, set, []bigset.Op{addOp(bulkName(i))}, bigset.WriteOptions{Durability: bigset.NoSync, Policy: bigset.PolicyEmpty})
			must(t, err, "add")
		}
		hot, _, err := p.store.HotDots(set)
		must(t, err, "remembered dots")
		n := 0
		for _, of := range hot {
			if len(of) == dots {
				n++
			}
		}
		want := elements
		if dots > 16 {
			want = 0
		}
		if n != want {
			t.Errorf("%d elements are remembered with %d dots, want %d", n, dots, want)
		}
		if sum, counted, _ := p.store.HotBytes(); sum != counted || sum > most {
			t.Fatalf("%d bytes, counted %d", sum, counted)
		}
	}
}

// TestHotElementOfAGroup: a group that writes an element several times looks it up in its keys once.
func TestHotElementOfAGroup(t *testing.T) {
	t.Parallel()
	for _, ops := range []int{1, 3, 1000} {
		for _, present := range []bool{true, false} {
			p := hotPair(t, "store")
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

// TestHotElementOfRequests: requests of one group that write the same element look it up in its keys once.
func TestHotElementOfRequests(t *testing.T) {
	t.Parallel()
	for _, ops := range []int{1, 4, 30} {
		p := hotPair(t, "store")
		p.all(t, "s", keyscheme.OpAdd, []string{"z"}, bigset.NoSync)
		before := p.store.KeysLookedUp()
		all := make([]bigset.WriteRequest, 5)
		for i := range all {
			for range ops {
				all[i].Ops = append(all[i].Ops, addOp("e"))
			}
			all[i].Durability = bigset.NoSync
		}
		for _, o := range p.store.WriteAll(bg, []byte("s"), all) {
			must(t, o.Err, "adds")
		}
		if n := p.store.KeysLookedUp() - before; n != 1 {
			t.Errorf("%d adds in each of 5 requests: %d look-ups read keys, want one", ops, n)
		}
		if got, err := p.store.Look(bg, []byte("s"), []byte("e")); err != nil || len(got.Context.Dots) != 1 {
			t.Errorf("%d adds in each of 5 requests: %v, %v", ops, got, err)
		}
		p.close(t)
	}
}

// TestHotSkipped: an element whose add is skipped, because it is present, is remembered.
func TestHotSkipped(t *testing.T) {
	t.Parallel()
	p := hotPair(t, "store")
	defer p.close(t)
	names := elementNames(0, 10)
	p.all(t, "s", keyscheme.OpAdd, names, bigset.NoSync)
	p.reopen(t)
	before := p.store.KeysLookedUp()
	for range 2 {
		r, err := p.store.Add(bg, []byte("s"), [][]byte{[]byte(names[3]), []byte(names[1]), []byte(names[7]), []byte(names[5])},
			bigset.WriteOptions{Durability: bigset.NoSync, SkipPresent: true})
		must(t, err, "add")
		if !r.Delta.Empty() {
			t.Errorf("adds of the present are events: %v", r.Delta)
		}
	}
	if n := p.store.KeysLookedUp() - before; n != 4 {
		t.Errorf("%d look-ups read keys, want 4", n)
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

// TestHotElements: an element that is looked up again is found in memory, whoever looks it up.
func TestHotElements(t *testing.T) {
	t.Parallel()
	const adds = 200
	hits := func(p *pair) uint64 {
		_, n, err := p.store.HotDots([]byte("s"))
		must(t, err, "remembered dots")
		return n
	}
	for name, o := range map[string]bigset.WriteOptions{
		"added again": {Durability: bigset.NoSync}, "present, and skipped": {Durability: bigset.NoSync, SkipPresent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := hotPair(t, "store")
			defer p.close(t)
			for range adds {
				_, err := p.store.Write(bg, []byte("s"), []bigset.Op{addOp("e")}, o)
				must(t, err, "add")
			}
			if n := hits(p); n < adds-2 { // the first finds the set empty
				t.Errorf("%d of %d adds were answered by remembered dots", n, adds)
			}
		})
	}
	t.Run("asked for", func(t *testing.T) {
		t.Parallel()
		p := hotPair(t, "store")
		defer p.close(t)
		p.all(t, "s", keyscheme.OpAdd, elementNames(0, 100), bigset.NoSync)
		p.reopen(t)
		var names [][]byte
		for _, e := range elementNames(50, 150) {
			names = append(names, []byte(e))
		}
		check := func(found []bigset.Presence, err error) {
			t.Helper()
			must(t, err, "subset")
			for i, e := range names {
				if want := p.model.Set("s").Live(string(e)); !slices.Equal(found[i].Context.Dots, want) || found[i].Present != (len(want) > 0) {
					t.Errorf("%q: %+v, want %v", e, found[i], want)
				}
			}
		}
		some, err := p.store.Subset(bg, []byte("s"), names[40:60])
		if must(t, err, "subset"); len(some) != 20 || hits(p) != 0 {
			t.Errorf("%d answers, of which %d by remembered dots", len(some), hits(p))
		}
		for _, want := range []uint64{20, 120} {
			check(p.store.Subset(bg, []byte("s"), names))
			if n := hits(p); n != want {
				t.Errorf("%d look-ups were answered by remembered dots, want %d", n, want)
			}
		}
	})
	t.Run("asked for beside a replica's deltas", func(t *testing.T) {
		t.Parallel()
		p := hotPair(t, "store")
		defer p.close(t)
		p.addsElsewhere(t, "e", 1, true)
		_, err := p.store.Look(bg, []byte("s"), []byte("e")) // with writers beside it, a look-up may not remember what it finds
		must(t, err, "look-up")
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
		for i, end := 0, time.Now().Add(20*time.Second); i%64 > 0 || hits(p) < enough && time.Now().Before(end); i++ {
			got, err := p.store.Look(bg, []byte("s"), []byte("e"))
			if n := len(got.Context.Dots); err != nil || n != 1 && n != 2 { // two while a batch is visible and not published
				t.Errorf("%v, %v", got, err)
				break
			}
		}
		close(stop)
		writers.Wait()
		if n := hits(p); n == 0 {
			t.Error("no look-up was answered by remembered dots")
		} else if n < enough {
			t.Logf("%d look-ups were answered by remembered dots", n) // this machine was busy
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
		p.opt.HotBytes = []int64{600, 3000, 2 << 20}[r.IntN(3)]
		p.open(t)
		var work, turns sync.WaitGroup
		set, stop := []byte("s"), make(chan struct{})
		turns.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					p.store.UseFewHotShards(n%2 == 0)
				}
			}
		})
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
		close(stop)
		turns.Wait()
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

// shardedPair opens a store whose table of elements has all shards.
func shardedPair(t *testing.T) *pair {
	t.Helper()
	p := newPair("store")
	p.opt.HotBytes = 4 << 20
	p.open(t)
	return p
}

// TestHotShards: while few shards are used, few elements are remembered. When these are looked up again, all shards are used.
func TestHotShards(t *testing.T) {
	t.Parallel()
	p := shardedPair(t)
	defer p.close(t)
	p.all(t, "s", keyscheme.OpAdd, []string{"e"}, bigset.NoSync)
	const n = 3200
	var names [][]byte
	for _, e := range elementNames(0, n) {
		names = append(names, []byte(e))
	}
	remembered := func() int {
		_, err := p.store.Subset(bg, []byte("s"), names)
		must(t, err, "subset")
		_, _, entries := p.store.HotBytes()
		return entries
	}
	p.store.UseFewHotShards(true)
	if got := remembered(); got == 0 || got > n/8 {
		t.Fatalf("%d of %d elements are remembered in few shards", got, n)
	}
	for range 200 {
		if remembered() >= n {
			return
		}
	}
	t.Errorf("few elements are remembered although they are looked up again and again")
}

// TestHotElementsInFewShards: while few shards are used, each element that is added again and again becomes a remembered one.
func TestHotElementsInFewShards(t *testing.T) {
	t.Parallel()
	p := shardedPair(t)
	defer p.close(t)
	for _, name := range elementNames(0, 8) {
		p.store.UseFewHotShards(true)
		const most = 1000
		read := uint64(1)
		for adds := 0; adds < most && (adds < 3 || read > 0); adds++ { // the first ones may find the set empty
			before := p.store.KeysLookedUp()
			_, err := p.store.Write(bg, []byte("s"), []bigset.Op{addOp(name)}, bigset.WriteOptions{Durability: bigset.NoSync})
			must(t, err, "add")
			read = p.store.KeysLookedUp() - before
		}
		if read > 0 {
			t.Errorf("%q was added %d times, and each look-up has read its keys", name, most)
		}
	}
}
