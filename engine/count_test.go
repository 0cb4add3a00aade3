package engine_test

import (
	"sync"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// counted counts a whole set, and says whether keys were read for it.
func (p *pair) counted(t *testing.T, want int, scanned bool) {
	t.Helper()
	c, err := p.store.Count(bg, []byte("s"), engine.CountOptions{})
	must(t, err, "count")
	if c.Elements != uint64(want) || (c.Scanned > 0) != scanned {
		t.Errorf("%d elements by %d keys, want %d, keys read %v", c.Elements, c.Scanned, want, scanned)
	}
}

// TestCountWithoutScan: a count reads keys only while some element may have two live dots, once.
func TestCountWithoutScan(t *testing.T) {
	p := newPair("store")
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, []string{"a", "b", "c", "a"}, bigset.NoSync)
	p.all(t, "s", keyscheme.OpRemove, []string{"b"}, bigset.NoSync)
	p.counted(t, 2, false)
	add := func(c bigset.Context) {
		p.one(t, keyscheme.OpAdd, "d", c)
	}
	for what, raise := range map[string]func(){
		"an add that says what it saw": func() { add(bigset.Saw()) },
		"a delta": func() {
			p.apply(t, bigset.Delta{Set: []byte("s"), Actor: "elsewhere", First: 1 + p.model.Set("s").Last("elsewhere"),
				Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("d")}}}, bigset.NoSync)
		},
		"a wide context": func() { add(bigset.SawAll(clock.Of())) },
	} {
		t.Log(what)
		p.one(t, keyscheme.OpRemove, "d", bigset.Context{})
		p.counted(t, 2, false)
		raise()
		p.counted(t, 3, true)
		p.counted(t, 3, false)
		raise() // now it has two
		p.counted(t, 3, true)
		p.counted(t, 3, true)
		p.close(t)
		p.open(t)
		p.counted(t, 3, true) // also after an open
		p.one(t, keyscheme.OpRemove, "d", bigset.Context{})
		p.counted(t, 2, true)
		p.counted(t, 2, false)
		p.all(t, "s", keyscheme.OpAdd, []string{"a"}, bigset.NoSync) // writes down that there are none
		p.close(t)
		p.open(t)
		p.counted(t, 2, false)
	}
	c, err := p.store.Count(bg, []byte("s"), engine.CountOptions{ReadOptions: bigset.ReadOptions{Prefix: []byte("a")}})
	must(t, err, "count")
	if c.Elements != 1 || c.Scanned == 0 {
		t.Errorf("count of a prefix: %+v", c)
	}
	p.close(t)
}

// TestCountMissesNoSibling counts while another writer makes siblings: however they meet, a count that then says that it
// needs no scan is right.
func TestCountMissesNoSibling(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 50), bigset.NoSync)
	for range tier.Times(300) {
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := p.store.Count(bg, []byte("s"), engine.CountOptions{})
			must(t, err, "count")
		})
		wg.Go(func() {
			time.Sleep(time.Duration(tier.Random(t).IntN(100)) * time.Microsecond)
			_, err := p.store.Write(bg, []byte("s"), []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte(bulkName(25)), Context: bigset.Saw()}},
				bigset.WriteOptions{Durability: bigset.NoSync})
			must(t, err, "write")
		})
		wg.Wait()
		if c, err := p.store.Count(bg, []byte("s"), engine.CountOptions{}); err != nil || c.Elements != 50 {
			t.Fatalf("%+v, %v, want 50 elements", c, err)
		}
		_, err := p.store.Add(bg, []byte("s"), [][]byte{[]byte(bulkName(25))}, bigset.WriteOptions{Durability: bigset.NoSync}) // one dot again
		must(t, err, "add")
	}
	must(t, p.store.Close(), "close")
}
