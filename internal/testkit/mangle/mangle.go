// Package mangle changes bytes a little, at random: tests give them to a decoder in place of a fuzzer. It imports nothing of the
// module but tier, so that the tests of any package can use it.
package mangle

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"bigset/internal/testkit/tier"
)

// Samples changes samples at random.
type Samples struct{ r *rand.Rand }

// New returns a source of changes that prints its seed if the test fails.
func New(t *testing.T) Samples {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return Samples{rand.New(rand.NewPCG(seed, 0))}
}

// Times returns how often a random test should repeat what it does n times in a full run.
func Times(n int) int {
	return tier.Pick(n/40, n/4, n)
}

// Of returns a copy of one of the samples with up to four bytes flipped, set, removed, doubled or cut off.
func (s Samples) Of(samples [][]byte) []byte {
	r := s.r
	b := bytes.Clone(samples[r.IntN(len(samples))])
	for range r.IntN(5) {
		if len(b) == 0 {
			return b
		}
		switch i := r.IntN(len(b)); r.IntN(5) {
		case 0:
			b[i] ^= 1 << r.IntN(8)
		case 1:
			b[i] = byte(r.Uint32())
		case 2:
			b = append(b[:i], b[i+1:]...)
		case 3:
			b = append(b[:i+1], b[i:]...)
		case 4:
			b = b[:i]
		}
	}
	return b
}
