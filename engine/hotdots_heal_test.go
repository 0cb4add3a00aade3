//go:build !race

package engine_test

import (
	"testing"

	"bigset"
	"bigset/compaction"
	"bigset/fold"
)

// TestHotDotsOfAHealedSet: elements that were remembered without a lost dot, or with one stored under the wrong element, are looked up again
// after Heal.
func TestHotDotsOfAHealedSet(t *testing.T) {
	t.Parallel()
	p, lost := healable(t, compaction.Merge, compaction.Default(), false)
	p.close(t)
	p.opt.HotBytes = 512 << 10 // all shards are used from the beginning
	p.open(t)
	has := func(element string, want bool) {
		t.Helper()
		for range 2 {
			if got, err := p.store.Contains(bg, []byte(healSet), []byte(element)); err != nil || got != want {
				t.Errorf("%q: %v, want %v, %v", element, got, want, err)
			}
		}
	}
	first := string(lost.Keys[0].Name)
	has(first, false)
	p.reopen(t)
	late := false
	p.store.OnceLooked(func() {
		p.heals(t, lost, bigset.HealResult{Healed: 12})
		late = true
	})
	_, err := p.store.Look(bg, []byte(healSet), []byte(first))
	if must(t, err, "look"); !late {
		t.Error("nothing was healed during a look-up")
	}
	has(first, true)
	p.looksUp(t, healSet, first)

	dot := p.model.Set(healSet).Live(bulkName(250))[0]
	p.swaps(t, bulkName(250), "wrong", dot)
	has("wrong", true)
	has(bulkName(250), false)
	right := bigset.Facts{Set: lost.Set, Keys: []fold.Element{element(bulkName(250), dot)}}
	if res, err := p.store.Replica().Heal(bg, right, []fold.Element{element("wrong", dot)}); err != nil || res.Taken != 1 || res.Healed != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	has("wrong", false)
	p.looksUp(t, healSet, bulkName(250))
	p.verify(t)
	p.close(t)
}
