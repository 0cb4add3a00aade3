//go:build !race

package engine_test

import (
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
)

// TestHealDiesMeanwhile: a lost dot that dies before its span is copied is not put back.
func TestHealDiesMeanwhile(t *testing.T) {
	p := newPair("dies before")
	p.opt.SpanBytes = 1 << 20
	p.open(t)
	p.all(t, healSet, keyscheme.OpAdd, elementNames(0, 4000), bigset.Sync)
	lost := p.loses(t, bulkName(10), bulkName(3990)) // far apart: each has a span of its own
	dies := lost.Keys[1].Dots[0]
	stop := p.whileCopied(func() {
		p.facts(t, bigset.Facts{Set: lost.Set, Dead: clock.Of(dies)}, bigset.NoSync)
	})
	p.heals(t, lost, bigset.HealResult{Healed: 1, Dead: 1})
	keys, err := p.store.StoredKeys(lost.Set)
	must(t, err, "keys")
	if name, ok := keys[dies]; ok || !stop() {
		t.Errorf("%q is stored again", name)
	}
	p.check(t)
	p.verify(t)
	p.close(t)
}
