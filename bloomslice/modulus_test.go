package bloomslice

import (
	"math/rand/v2"
	"testing"
)

// TestModulus compares remainders with those of divisions, around the places where the quotient changes.
func TestModulus(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	edges := []uint64{1, 2, 3, 5, 7, 64, 1 << 31, 1<<32 - 1, 1 << 32, 1<<32 + 1, 1 << 63, 1<<63 + 1, 1<<64 - 59, 1<<64 - 2, 1<<64 - 1}
	for range 20_000 {
		edges = append(edges, r.Uint64()>>r.IntN(64)|1)
	}
	for _, m := range edges {
		d := newModulus(m)
		last := ^uint64(0) / m * m // the largest multiple
		ns := []uint64{0, 1, m - 1, m, m + 1, last - 1, last, last + 1, 1<<63 - 1, 1 << 63, 1<<64 - 1}
		for range 20 {
			n := r.Uint64() >> r.IntN(64)
			ns = append(ns, n, n/m*m, n/m*m-1)
		}
		for _, n := range ns {
			if got := d.of(n); got != n%m {
				t.Fatalf("%d mod %d: %d, want %d", n, m, got, n%m)
			}
		}
	}
}
