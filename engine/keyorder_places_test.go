package engine_test

import (
	"math/rand/v2"
	"testing"

	"bigset/engine"
)

// TestKeyOrder: elements are ordered as their keys are, whatever they have in common.
func TestKeyOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		list := make([][]byte, r.IntN(40))
		head := []byte("element-0000"[:r.IntN(13)])
		for i := range list {
			list[i] = append([]byte(nil), head...)
			for range r.IntN(12) {
				list[i] = append(list[i], byte(r.IntN(3))*0x7f)
			}
		}
		order := engine.KeyOrder(list)
		if len(order) != len(list) {
			t.Fatalf("%d places of %d", len(order), len(list))
		}
		seen := map[int]bool{}
		for n, i := range order {
			if seen[i] {
				t.Fatalf("place %d comes twice", i)
			}
			seen[i] = true
			if n > 0 && string(list[order[n-1]]) > string(list[i]) {
				t.Fatalf("%q is before %q", list[order[n-1]], list[i])
			}
		}
	}
}
