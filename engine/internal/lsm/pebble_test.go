package lsm

import (
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
	"bigset/keyscheme"
)

// TestMergerKeepsOpen: the merger leaves out a record of a dead dot, and no unresolved key, which has to be resolved before.
func TestMergerKeepsOpen(t *testing.T) {
	prefix := keyscheme.NewPrefix([]byte("s"))
	dead := clock.Dot{Actor: "an actor", Counter: 7}
	h := hooks()
	h.Registry.Store(h.Registry.Load().With(map[string]*clock.Clock{string(prefix): clock.Of(dead)}))
	for what, c := range map[string]struct {
		dot   clock.Dot
		value []byte
		left  bool
	}{
		"dead":          {dead, keyscheme.ResolvedValue, true},
		"live":          {clock.Dot{Actor: "an actor", Counter: 8}, keyscheme.ResolvedValue, false},
		"dead and open": {dead, keyscheme.AppendElementValue(nil, clock.Of(clock.Dot{Actor: "other", Counter: 1})), false},
	} {
		var dropped atomic.Uint64
		m, err := newMerger(h.Registry, &dropped).Merge(prefix.AppendElement(nil, []byte("x"), c.dot, keyscheme.OpAdd), c.value)
		must(t, err, what)
		gone := false
		if d, ok := m.(pebble.DeletableValueMerger); ok {
			_, gone, _, err = d.DeletableFinish(true)
			must(t, err, what)
		}
		if gone != c.left || dropped.Load() > 0 != c.left {
			t.Errorf("%s: left out %v, %d counted", what, gone, dropped.Load())
		}
	}
}
