package engine_test

import (
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
)

// TestDuplicateIsDurable: a request that finds nothing to do acknowledges what was done before, so that must be on disk, whoever did
// it and however.
func TestDuplicateIsDurable(t *testing.T) {
	x := clock.Dot{Actor: "x", Counter: 1}
	delta := bigset.Delta{Set: []byte("s"), Actor: "x", First: 1, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("a")}}}
	key := bigset.Facts{Set: []byte("s"), Keys: []fold.Element{element("a", x)}}
	dead := bigset.Facts{Set: []byte("s"), Keys: []fold.Element{element("a", x)}, Dead: clock.Of(x)}
	clear := bigset.Delta{Set: []byte("s"), Clear: clock.Of(x)}
	asDelta := func(d bigset.Delta) func(*pair, bigset.Durability) {
		return func(p *pair, sync bigset.Durability) { p.apply(t, d, sync) }
	}
	asFacts := func(f bigset.Facts) func(*pair, bigset.Durability) {
		return func(p *pair, sync bigset.Durability) { p.facts(t, f, sync) }
	}
	for what, c := range map[string]struct {
		first, again func(*pair, bigset.Durability)
	}{
		"delta":              {asDelta(delta), asDelta(delta)},
		"facts":              {asFacts(key), asFacts(key)},
		"facts, then delta":  {asFacts(key), asDelta(delta)},
		"delta, then facts":  {asDelta(delta), asFacts(key)},
		"deaths":             {asFacts(dead), asFacts(dead)},
		"deaths, then clear": {asFacts(dead), asDelta(clear)},
	} {
		for _, evict := range []bool{false, true} {
			p := newPair(what)
			p.opt.SetCacheBytes = 1
			p.open(t)
			c.first(p, bigset.NoSync)
			if evict { // it is found on disk, which is not the same as durable
				must(t, p.store.TrimSets(), "trim")
			}
			c.again(p, bigset.Sync)
			if p.lose(t, p.disk.CrashClone(0, 1)) != 0 {
				t.Errorf("%s: lost after the duplicate was acknowledged", what)
			}
			p.check(t)
			p.verify(t)
			p.close(t)
		}
	}
}
