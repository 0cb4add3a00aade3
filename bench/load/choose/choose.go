// Package choose decides on which item an operation acts, by the distributions of workload files.
//
//	c := choose.New(role.Choose, window, rng)
//	rank := c.Choose(n) // 0 is the oldest of n items
//
// It is pure: choices depend on the random numbers and on earlier choices, never on time. Only one goroutine may use a Chooser.
package choose

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"bigset/bench/spec"
)

// Chooser chooses items by a distribution.
type Chooser struct {
	spec.Distribution
	window int // of timeline, in elements
	rng    *rand.Rand
	cursor int // of sawtooth: the next rank
	zipf   zipf
}

// New returns a Chooser. window is how many of the newest items timeline chooses from; other distributions ignore it.
func New(d spec.Distribution, window int, rng *rand.Rand) *Chooser {
	return &Chooser{Distribution: d, window: window, rng: rng, zipf: zipf{exponent: d.Theta}}
}

// Choose returns a rank from 0 to n-1; 0 is the oldest. n must be at least 1.
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

// Removed must be called when the item chosen last, at that rank, has been removed: the items after it have moved up.
func (c *Chooser) Removed(rank int) {
	if rank < c.cursor {
		c.cursor--
	}
}

// Cursor returns the rank that sawtooth chooses next. Other distributions ignore it.
func (c *Chooser) Cursor() int { return c.cursor }

// SetCursor makes sawtooth continue at a rank.
func (c *Chooser) SetCursor(rank int) { c.cursor = rank }

// part returns a rank below share*n with probability choices, otherwise one of the other ranks.
func (c *Chooser) part(n int, share, choices float64) int {
	first := min(n, max(1, int(math.Ceil(share*float64(n)))))
	if first == n || c.rng.Float64() < choices {
		return c.rng.IntN(first)
	}
	return first + c.rng.IntN(n-first)
}

// scattered returns the position of the i-th of n items: a permutation of 0 to n-1. It stays the same while n stays between two powers of
// two, except for items whose position would be n or above: these move.
func scattered(i, n int) int {
	if n < 2 {
		return 0
	}
	width := bits.Len(uint(n - 1))
	x := uint64(i)
	for {
		if x = permuted(x, width); x < uint64(n) { // follows a cycle of the permutation, which returns to i, and so gets below n
			return int(x)
		}
	}
}

// permuted is a permutation of the numbers with width bits. It looks random.
func permuted(x uint64, width int) uint64 {
	mask := uint64(1)<<width - 1
	half := (width + 1) / 2
	x = (x + 0x9E3779B97F4A7C15) & mask
	x = (x ^ x>>half) * 0xBF58476D1CE4E5B9 & mask
	x = (x ^ x>>half) * 0x94D049BB133111EB & mask
	return x ^ x>>half
}

// zipf draws ranks by Zipf's law: the i-th of n items, from 0, gets a share of the draws in proportion to 1/(i+1)^exponent. It needs no
// table: W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", 1996.
type zipf struct {
	exponent float64 // above 0, below 1

	n                   int // the fields below were computed for this n
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

// area is an integral of the density; inverse is its inverse function.
func (z *zipf) area(x float64) float64 { return (math.Pow(x, 1-z.exponent) - 1) / (1 - z.exponent) }

func (z *zipf) inverse(a float64) float64 {
	return math.Pow(1+max(-1, a*(1-z.exponent)), 1/(1-z.exponent))
}
