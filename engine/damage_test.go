// Damage and single crashes need no race detector, and Pebble asserts other things under it.

//go:build !race

package engine_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"bigset"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// TestDamagedTable: the error of a damaged block names the file, the sets and the elements that it holds, in every kind of read;
// it is reported by one event, and the rest of the store can be read and written.
func TestDamagedTable(t *testing.T) {
	p := newPair("store")
	p.opt.Strategy = eager(compaction.Default())
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 60), bigset.Sync)
	must(t, p.store.CompactTables(bg), "settle")
	other := "other" // any whose slot comes after
	for keyscheme.SetSlot([]byte(other)) < keyscheme.SetSlot([]byte("s")) {
		other += "!"
	}
	p.all(t, other, keyscheme.OpAdd, elementNames(0, 3), bigset.Sync)
	p.all(t, "s", keyscheme.OpRemove, elementNames(0, 30), bigset.Sync)
	p.close(t)
	sst, data := "", []byte(nil)
	for _, name := range tablesOn(t, p.disk) {
		if b := testkit.ReadFile(t, p.disk, "store/"+name); len(b) > len(data) {
			sst, data = "store/"+name, b
		}
	}
	for i := 400; i < len(data)/2; i += 100 { // in every block of keys but the first, which has the store's own
		data[i] ^= 4
	}
	testkit.WriteFile(t, p.disk, sst, data)

	var mu sync.Mutex
	told := map[string]int{}
	p.opt.Events = func(e engine.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == engine.EventCorruption {
			var damage *engine.CorruptionError
			if !errors.As(e.Err, &damage) {
				t.Errorf("event without a place: %v", e.Err)
				return
			}
			told[damage.Path]++
		}
	}
	p.open(t)
	_, read := readAll(p.store, "s", bigset.ReadOptions{})
	_, contains := p.store.Look(bg, []byte("s"), []byte(bulkName(40)))
	rep, err := p.store.Verify(bg, engine.VerifyOptions{})
	if must(t, err, "verify"); len(rep.Problems) != 1 || string(rep.Problems[0].Set) != "s" {
		t.Errorf("verify: %+v", rep)
	}
	_, rewrite := p.store.RewriteSpan(bg, []byte("s"), nil, 1)
	_, compact := p.store.Compact(bg, engine.CompactOptions{})
	for what, err := range map[string]error{"read": read, "contains": contains, "rewrite": rewrite,
		"compact": compact, "compact tables": p.store.CompactTables(bg)} {
		var damage *engine.CorruptionError
		switch {
		case !errors.As(err, &damage) && what == "compact tables": // Pebble's own error
			if err == nil {
				t.Error("tables compacted over damage")
			}
		case !errors.As(err, &damage) || !errors.Is(err, bigset.ErrCorrupt):
			t.Errorf("%s: %v", what, err)
		case damage.Path != sst || string(damage.Set) != "s" && string(damage.LastSet) != "s":
			t.Errorf("%s: %+v", what, damage)
		case !strings.Contains(err.Error(), `of set "s"`):
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, p.store.Failed(), "damage in a table is no failure of the store")
	_, write := p.store.Add(bg, []byte("s"), [][]byte{[]byte(bulkName(45))}, bigset.WriteOptions{})
	if !errors.Is(write, bigset.ErrCorrupt) {
		t.Errorf("a write that looks up in the damaged table: %v", write)
	}
	p.write(t, other, []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("more")}}, bigset.WriteOptions{Policy: bigset.PolicyEmpty})
	if got := p.read(t, other, bigset.ReadOptions{}); len(got) != 4 {
		t.Errorf("the other set has %d elements", len(got))
	}
	stats, err := p.store.Stats()
	must(t, err, "stats")
	must(t, p.store.Close(), "close")
	mu.Lock()
	defer mu.Unlock()
	if told[sst] != 1 || stats.Corruptions < 2 {
		t.Errorf("told %v, met %d times", told, stats.Corruptions)
	}
}
