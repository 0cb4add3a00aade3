package convergence

import "math/bits"

// bitset is a set of small numbers: events by their index in the history.
type bitset []uint64

func (b bitset) has(i int) bool { return i>>6 < len(b) && b[i>>6]&(1<<(i&63)) != 0 }

func (b *bitset) add(i int) {
	for i>>6 >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[i>>6] |= 1 << (i & 63)
}

func (b bitset) remove(i int) {
	if b.has(i) {
		b[i>>6] &^= 1 << (i & 63)
	}
}

func (b *bitset) union(o bitset) {
	for len(*b) < len(o) {
		*b = append(*b, 0)
	}
	for i, w := range o {
		(*b)[i] |= w
	}
}

func (b bitset) intersect(o bitset) {
	for i := range b {
		if i < len(o) {
			b[i] &= o[i]
		} else {
			b[i] = 0
		}
	}
}

// within reports whether o has all members.
func (b bitset) within(o bitset) bool {
	for i, w := range b {
		if w&^at(o, i) != 0 {
			return false
		}
	}
	return true
}

func at(b bitset, i int) uint64 {
	if i < len(b) {
		return b[i]
	}
	return 0
}

func (b bitset) clone() bitset { return append(bitset(nil), b...) }

func (b bitset) each(do func(i int) bool) {
	for n, w := range b {
		for ; w != 0; w &= w - 1 {
			if !do(n<<6 + bits.TrailingZeros64(w)) {
				return
			}
		}
	}
}
