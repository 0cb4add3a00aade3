// Package choose decides which of some things an operation is on, by the distributions of workload files.
//
//	c := choose.New(role.Choose, window, rng)
//	rank := c.Choose(n) // 0 is the oldest of n things
//
// It is pure: what is chosen depends on the random numbers and on what was chosen before, never on time. One goroutine uses a Chooser.
package choose

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"bigset/bench/spec"
)

// Chooser chooses one of some things by a distribution.
type Chooser struct {
	spec.Distribution
	window int // of timeline, in elements
	rng    *rand.Rand
	cursor int // of sawtooth: the rank that comes next
	zipf   zipf
}

// New returns a Chooser. window is how many of the newest things timeline chooses from; other distributions have none.
func New(d spec.Distribution, window int, rng *rand.Rand) *Chooser {
	return &Chooser{Distribution: d, window: window, rng: rng, zipf: zipf{exponent: d.Theta}}
}

// Choose returns a rank of 0 to n-1, of which 0 is the oldest. n is at least 1.
func (c *Chooser) Choose(n int) int {
	switch c.Kind {
	case spec.Zipfian:
		return scattered(c.zipf.draw(n, c.rng), n)
	case spec.Latest:
		return n - 1 - c.zipf.draw(n, c.rng)
	case spec.Pareto:
		return scattered(c.part(n, c.Share, 1-c.Share), n)
	case spec.Young:
		return n - 1 - c.part(n, c.Share, c.Choices)
	case spec.Queue:
		return 0
	case spec.Sawtooth:
		if c.cursor >= n {
			c.cursor = 0
		}
		c.cursor++
		return c.cursor - 1
	case spec.Timeline:
		return n - 1 - c.rng.IntN(max(1, min(c.window, n)))
	}
	return c.rng.IntN(n)
}

// Removed is called when the thing that was chosen last, of that rank, is gone: those after it have moved up.
func (c *Chooser) Removed(rank int) {
	if rank < c.cursor {
		c.cursor--
	}
}

// Cursor returns the rank that sawtooth chooses next, and SetCursor has it go on there. Other distributions take no notice.
func (c *Chooser) Cursor() int { return c.cursor }

// SetCursor inverts Cursor.
func (c *Chooser) SetCursor(rank int) { c.cursor = rank }

// part returns a rank below share*n with the probability choices, else one of the other ranks.
func (c *Chooser) part(n int, share, choices float64) int {
	first := min(n, max(1, int(math.Ceil(share*float64(n)))))
	if first == n || c.rng.Float64() < choices {
		return c.rng.IntN(first)
	}
	return first + c.rng.IntN(n-first)
}

// scattered returns where the i-th of n things lies: a permutation of 0 to n-1. It stays the same while n stays within two powers of two, but for
// things that lie at n or above: they move.
func scattered(i, n int) int {
	if n < 2 {
		return 0
	}
	width := bits.Len(uint(n - 1))
	x := uint64(i)
	for {
		if x = permuted(x, width); x < uint64(n) { // walks along a cycle of the permutation, which comes back to i, and so below n
			return int(x)
		}
	}
}

// permuted is a permutation of the numbers of width bits. It looks random.
func permuted(x uint64, width int) uint64 {
	mask := uint64(1)<<width - 1
	half := (width + 1) / 2
	x = (x + 0x9E3779B97F4A7C15) & mask
	x = (x ^ x>>half) * 0xBF58476D1CE4E5B9 & mask
	x = (x ^ x>>half) * 0x94D049BB133111EB & mask
	return x ^ x>>half
}

// zipf draws ranks by Zipf's law: the i-th of n things, from 0, has a share of the draws in proportion to 1/(i+1)^exponent. It needs no table: W.
// Hörmann and G. Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", 1996.
type zipf struct {
	exponent float64 // above 0, below 1

	n                   int // for which the following was computed
	first, last, margin float64
}

// draw returns a rank below n.
func (z *zipf) draw(n int, rng *rand.Rand) int {
	if n != z.n {
		z.n = n
		z.first, z.last = z.area(1.5)-1, z.area(float64(n)+0.5)
		z.margin = 2 - z.inverse(z.area(2.5)-z.density(2))
	}
	for {
		u := z.last + rng.Float64()*(z.first-z.last)
		x := z.inverse(u)
		k := min(max(1, math.Floor(x+0.5)), float64(n))
		if k-x <= z.margin || u >= z.area(k+0.5)-z.density(k) {
			return int(k) - 1
		}
	}
}

func (z *zipf) density(x float64) float64 { return math.Pow(x, -z.exponent) }

// area is an integral of the density, and inverse its inverse function.
func (z *zipf) area(x float64) float64 { return (math.Pow(x, 1-z.exponent) - 1) / (1 - z.exponent) }

func (z *zipf) inverse(a float64) float64 {
	return math.Pow(1+max(-1, a*(1-z.exponent)), 1/(1-z.exponent))
}
