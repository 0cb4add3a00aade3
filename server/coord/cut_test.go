package coord

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBySlice has keys counted and sorted: both give each slice its keys together, in the order of the request.
func TestBySlice(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ keys, slices int }{{0, 1}, {2, 1}, {1000, 1}, {1000, 256}, {64, 256}, {63, 256}, {5, 1 << 14}} {
		order := make([]uint64, c.keys)
		for i := range order {
			order[i] = uint64(r.IntN(c.slices))<<32 | uint64(i)
		}
		for i := range min(2, c.keys) { // the last slice has keys, too
			order[i] = uint64(c.slices-1)<<32 | uint64(i)
		}
		want := slices.Sorted(slices.Values(order))
		if got := new(splitting).bySlice(order, uint32(c.slices)); !slices.Equal(got, want) {
			t.Errorf("%d keys of %d slices are not in order", c.keys, c.slices)
		}
	}
}
