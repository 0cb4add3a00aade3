package filters_test

import (
	"fmt"
	"testing"

	"bigset"
	"bigset/bloomslice"
)

// TestHashes: a filter knows about how many bits its keys have, once it was used since the open.
func TestHashes(t *testing.T) {
	p := newRoom("store")
	p.open(t)
	defer p.close(t)
	for rate, least := range map[float64]int{1e-48: 160, 1e-4: 13, 1e-300: 997} {
		o := bigset.FilterOptions{Options: bloomslice.DefaultOptions()}
		o.Capacity, o.Probability = bloomslice.CapacityMin+1, rate
		f, err := p.store.Filters().Create(bg, fmt.Append(nil, rate), o)
		must(t, err, "create")
		must(t, f.MarkAll(bg, [][]byte{[]byte("x")}, make([]bool, 1)), "mark")
		if n := f.Hashes(); n < least || n > least+10 {
			t.Errorf("rate %v: %d hashes, want %d or a few more", rate, n, least)
		}
	}
}
