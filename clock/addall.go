package clock

import (
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"
)

// addAllSpread is the number of counters per page that AddAll requires before it makes room for the pages: a page of bits is 8 KiB.
const addAllSpread = 256

// AddAll puts counters of one actor into the clock, in whatever order they are. It does what Add does for each of them. For many
// counters that lie close together it takes a fraction of the time.
func (c *Clock) AddAll(a Actor, counters []uint64) {
	if len(counters) == 0 || !a.valid() {
		return
	}
	first, last := counters[0], counters[0]
	for _, n := range counters {
		first, last = min(first, n), max(last, n)
	}
	from := first >> pageBits
	pages := last>>pageBits - from + 1
	if first == 0 || pages > uint64(len(counters)/addAllSpread) {
		for _, n := range counters {
			c.Add(Dot{a, n})
		}
		return
	}
	words := make([]uint64, pages*(pageValues/64))
	for _, n := range counters {
		n -= from << pageBits
		words[n/64] |= 1 << (n % 64)
	}
	i, ok := c.find(string(a))
	if !ok {
		c.insert(i, a)
	}
	c.recs[i].addDense(from, words, c.token())
}

// addDense adds counters that are given as bits, page by page.
func (r *Counters) addDense(index uint64, words []uint64, tok *token) {
	for ; len(words) > 0; index, words = index+1, words[pageValues/64:] {
		low := words[:pageValues/64]
		n := 0
		for _, w := range low {
			n += bits.OnesCount64(w)
		}
		p := page{first: index, last: index, owner: tok, n: uint32(n)}
		switch {
		case n == 0 || p.end() <= r.base:
		case n == pageValues:
			r.addRange(p.start(), p.end(), tok)
		default:
			p.bits = roaring.FromDense(low, true)
			p.pack()
			r.unionPage(&p, tok, true)
		}
	}
	r.absorb(tok)
}
