package engine_test

import (
	"testing"

	"pgregory.net/rapid"

	"bigset"
	"bigset/keyscheme"
)

// TestBatch: operations of one batch happen in their order. What a later one takes from the coordinator is what the earlier
// ones have left, also where they and it share a batch with others.
func TestBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPair("store")
		p.open(t)
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			ops := make([]bigset.Op, rapid.IntRange(1, 8).Draw(t, "operations"))
			for i := range ops {
				ops[i].Kind = rapid.SampledFrom([]keyscheme.Op{keyscheme.OpAdd, keyscheme.OpRemove}).Draw(t, "kind")
				ops[i].Element = []byte(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "element"))
				if rapid.IntRange(0, 3).Draw(t, "empty context") == 0 {
					ops[i].Context = bigset.Saw()
				}
			}
			p.write(t, "s", ops, bigset.WriteOptions{Durability: bigset.NoSync})
			p.check(t)
		}
		p.verify(t)
		p.close(t)
	})
}
