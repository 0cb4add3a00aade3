package convergence

import (
	"math/bits"
	"slices"
)

// lowWords is how many words of a bitset need no allocation: most schedules have fewer events than these words have bits.
const lowWords = 2

// bitset is a set of small numbers: events by their index in the history. A copy is independent only if it is made by clone. The
// zero value is empty.
type bitset struct {
	low  [lowWords]uint64
	high []uint64
}

func (b *bitset) words() int { return lowWords + len(b.high) }

func (b *bitset) word(n int) uint64 {
	switch {
	case n < lowWords:
		return b.low[n]
	case n-lowWords < len(b.high):
		return b.high[n-lowWords]
	}
	return 0
}

func (b *bitset) has(i int) bool { return b.word(i>>6)&(1<<(i&63)) != 0 }

// at returns a word for writing.
func (b *bitset) at(n int) *uint64 {
	if n < lowWords {
		return &b.low[n]
	}
	for n-lowWords >= len(b.high) {
		b.high = append(b.high, 0)
	}
	return &b.high[n-lowWords]
}

func (b *bitset) add(i int) { *b.at(i >> 6) |= 1 << (i & 63) }

func (b *bitset) remove(i int) {
	if b.has(i) {
		*b.at(i >> 6) &^= 1 << (i & 63)
	}
}

func (b *bitset) union(o *bitset) {
	for n := range b.low {
		b.low[n] |= o.low[n]
	}
	for n, w := range o.high {
		*b.at(lowWords + n) |= w
	}
}

func (b *bitset) intersect(o *bitset) {
	for n := range b.words() {
		*b.at(n) &= o.word(n)
	}
}

func (b *bitset) empty() bool {
	return b.low == [lowWords]uint64{} && !slices.ContainsFunc(b.high, func(w uint64) bool { return w != 0 })
}

// within reports whether o has all members of b.
func (b *bitset) within(o *bitset) bool {
	for n := range b.words() {
		if b.word(n)&^o.word(n) != 0 {
			return false
		}
	}
	return true
}

func (b *bitset) clone() bitset {
	c := *b
	if b.high != nil {
		c.high = slices.Clone(b.high)
	}
	return c
}

// each visits the members in ascending order until do returns false.
func (b *bitset) each(do func(i int) bool) {
	for n := range b.words() {
		for w := b.word(n); w != 0; w &= w - 1 {
			if !do(n<<6 + bits.TrailingZeros64(w)) {
				return
			}
		}
	}
}

// commonWithin reports whether c has all common members of two sets.
func commonWithin(a, b, c *bitset) bool {
	for n := range min(a.words(), b.words()) {
		if a.word(n)&b.word(n)&^c.word(n) != 0 {
			return false
		}
	}
	return true
}

// among reports whether a common member of two sets passes the test.
func among(a, b *bitset, test func(i int) bool) bool { return amongFrom(0, a, b, test) }

// amongFrom is among for the members from a number on.
func amongFrom(from int, a, b *bitset, test func(i int) bool) bool {
	for n := from >> 6; n < min(a.words(), b.words()); n++ {
		w := a.word(n) & b.word(n)
		if n == from>>6 {
			w &^= 1<<(from&63) - 1
		}
		for ; w != 0; w &= w - 1 {
			if test(n<<6 + bits.TrailingZeros64(w)) {
				return true
			}
		}
	}
	return false
}
