package engine_test

import (
	"fmt"
	"testing"

	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/keyscheme"
)

// TestFilterBeforeClock drops the last keys of a set right before the clock of the next one, of which the same flush holds
// a whole record and operands over it. Pebble's compaction iterator forgets where it stands after a dropped record, and
// panics if the next key is a merge over a set (issue 6168): so no such key may follow.
func TestFilterBeforeClock(t *testing.T) {
	p := newPair("store")
	p.opt.Strategy = compaction.Filter()
	p.open(t)
	before, after := "s", "t"
	if keyscheme.SetSlot([]byte(before)) > keyscheme.SetSlot([]byte(after)) {
		before, after = after, before
	}
	p.all(t, before, keyscheme.OpAdd, elementNames(0, 10), engine.Sync)
	for i := range 60 { // a clock of many actors is large
		p.apply(t, engine.Delta{Set: []byte(after), Actor: clock.Actor(fmt.Sprintf("actor-%03d", i)), First: uint64(2 + i%2),
			Items: []engine.Item{{Kind: keyscheme.OpAdd, Element: []byte(bulkName(i))}}}, engine.Sync)
	}
	p.all(t, before, keyscheme.OpRemove, elementNames(5, 10), engine.Sync)
	publish(t, p)
	must(t, p.store.FlushTables(), "flush")
	if p.store.Filtered() == 0 {
		t.Error("nothing was filtered")
	}
	must(t, p.store.CompactTables(bg), "compact")
	p.check(t)
	p.close(t)
}
