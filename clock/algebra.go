package clock

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// Equal reports whether c and o hold the same dots.
func (c *Clock) Equal(o *Clock) bool {
	return slices.EqualFunc(c.records(), o.records(), func(a, b Counters) bool {
		return a.actor == b.actor && a.base == b.base && a.count == b.count && slices.EqualFunc(a.pages, b.pages, samePage)
	})
}

func samePage(a, b page) bool {
	if a.first != b.first || a.last != b.last || (a.bits == nil) != (b.bits == nil) || a.n != b.n {
		return false
	}
	return a.bits == b.bits || a.bits.Equals(b.bits)
}

// Descends reports whether every dot of o is in c. It allocates nothing.
func (c *Clock) Descends(o *Clock) bool {
	theirs := o.records()
	for i := range theirs {
		if mine := c.Counters(theirs[i].actor); mine == nil || !mine.covers(&theirs[i]) {
			return false
		}
	}
	return true
}

// HasMore reports whether c has a dot that o has not, for an o whose dots are all in c. It looks at actors until one
// differs in its number of dots, and allocates nothing.
func (c *Clock) HasMore(o *Clock) bool {
	mine := c.records()
	for i := range mine {
		if mine[i].count != o.Counters(mine[i].actor).Len() {
			return true
		}
	}
	return false
}

// Intersects reports whether a dot is in both c and o. It allocates nothing.
func (c *Clock) Intersects(o *Clock) bool {
	theirs := o.records()
	for i := range theirs {
		if mine := c.Counters(theirs[i].actor); mine != nil && mine.meets(&theirs[i]) {
			return true
		}
	}
	return false
}

// Union adds every dot of o to c. It costs O(size of o) and the pages of c that it touches, whatever the size of c. It
// does not keep parts of o.
func (c *Clock) Union(o *Clock) {
	if c == o {
		return
	}
	theirs := o.records()
	for i := range theirs {
		r := &theirs[i]
		j, ok := c.find(string(r.actor))
		if !ok {
			c.insert(j, r.actor)
		}
		c.recs[j].union(r, c.token())
	}
}

// Subtract removes every dot of o from c. It costs O(pages) of the actors that both have.
func (c *Clock) Subtract(o *Clock) {
	if c == o {
		c.recs = nil
		return
	}
	theirs := o.records()
	for i := range theirs {
		j, ok := c.find(string(theirs[i].actor))
		if !ok || !c.recs[j].meets(&theirs[i]) {
			continue
		}
		c.recs[j] = c.recs[j].combine(&theirs[i], andNot, c.token())
	}
	c.dropEmpty()
}

// Intersect removes from c every dot that o does not have. It costs O(pages) of the actors that both have.
func (c *Clock) Intersect(o *Clock) {
	if c == o {
		return
	}
	for i := range c.recs {
		mine := &c.recs[i]
		theirs := o.Counters(mine.actor)
		if theirs == nil {
			*mine = Counters{actor: mine.actor}
		} else if !theirs.covers(mine) {
			*mine = mine.combine(theirs, and, c.token())
		}
	}
	c.dropEmpty()
}

func (c *Clock) dropEmpty() {
	c.recs = slices.DeleteFunc(c.recs, func(r Counters) bool { return r.count == 0 })
}

// covers reports whether r has every counter of o.
func (r *Counters) covers(o *Counters) bool {
	if o.count > r.count || !r.coversRange(1, o.base) {
		return false
	}
	for i := range o.pages {
		p := &o.pages[i]
		if p.bits == nil {
			if !r.coversRange(p.start(), p.end()) {
				return false
			}
		} else if p.end() > r.base && !r.coversPage(p) {
			return false
		}
	}
	return true
}

func (r *Counters) coversRange(first, last uint64) bool {
	if first = max(first, r.base+1); last <= r.base || last < first {
		return true // r.base+1 wraps only where the base covers everything
	}
	return r.cloudCount(first, last) == last-first+1
}

func (r *Counters) coversPage(p *page) bool {
	based := uint64(0) // values of p that r's base covers; r's page has none of them
	if p.start() <= r.base {
		based = p.bits.Rank(uint32(r.base & lowMask))
	}
	q := r.pageAt(p.first)
	switch {
	case q == nil:
		return based == uint64(p.n)
	case q.bits == nil:
		return true
	default:
		return based+p.bits.AndCardinality(q.bits) == uint64(p.n)
	}
}

// meets reports whether r and o have a counter in common.
func (r *Counters) meets(o *Counters) bool {
	if r.base != 0 && o.base != 0 || r.cloudMeets(o.base) || o.cloudMeets(r.base) {
		return true
	}
	for i := range o.pages {
		if p := &o.pages[i]; r.meetsPage(p) {
			return true
		}
	}
	return false
}

// cloudMeets reports whether a counter of the cloud is at most base.
func (r *Counters) cloudMeets(base uint64) bool { return base != 0 && r.cloudMin()-1 < base }

// cloudMin returns the least counter of the cloud, 0 if there is none.
func (r *Counters) cloudMin() uint64 {
	if len(r.pages) == 0 {
		return 0
	}
	p := &r.pages[0]
	if p.bits == nil {
		return p.start()
	}
	return p.start() | uint64(p.bits.Minimum())
}

func (r *Counters) meetsPage(p *page) bool {
	i := r.search(p.first)
	if i == len(r.pages) || r.pages[i].first > p.last {
		return false
	}
	q := &r.pages[i]
	return p.bits == nil || q.bits == nil || p.bits.Intersects(q.bits)
}

// pageAt returns the page or extent that index lies in, or nil if no page covers it.
func (r *Counters) pageAt(index uint64) *page {
	if i := r.search(index); i < len(r.pages) && r.pages[i].first <= index {
		return &r.pages[i]
	}
	return nil
}

// cloudCount returns how many counters of the cloud are in first..last.
func (r *Counters) cloudCount(first, last uint64) uint64 {
	sum := uint64(0)
	for i := r.search(first >> pageBits); i < len(r.pages) && r.pages[i].start() <= last; i++ {
		p := &r.pages[i]
		from, to := max(first, p.start()), min(last, p.end())
		if p.bits == nil {
			sum += to - from + 1
		} else {
			sum += cardinalityIn(p.bits, from&lowMask, to&lowMask)
		}
	}
	return sum
}

func cardinalityIn(b *roaring.Bitmap, lo, hi uint64) uint64 {
	n := b.Rank(uint32(hi))
	if lo > 0 {
		n -= b.Rank(uint32(lo - 1))
	}
	return n
}
