package clock

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// Difference and intersection split a base and may make a new one, so they work on *flat* lists: the base is spelled out as pages
// before those of the cloud. It takes one extent and one page, whatever its length. A flat base contains the value 0, which is not
// a counter, so that its pages are full; absorb removes it again.

// combine returns r op o, in normal form. Pages of r that come out unchanged keep their owner.
func (r *Counters) combine(o *Counters, op func(a, b []page, tok *token) []page, tok *token) Counters {
	res := Counters{actor: r.actor, pages: op(r.flat(tok), o.flat(tok), tok), owner: tok}
	for i := range res.pages {
		res.count += res.pages[i].size()
	}
	res.absorb(tok)
	res.optimize(tok)
	return res
}

// flat returns the pages of r, including those of the base. The caller owns the list, but not the bitmaps, which it shares with r.
func (r *Counters) flat(tok *token) []page {
	if r.base == 0 {
		return slices.Clone(r.pages)
	}
	list := make([]page, 0, len(r.pages)+2)
	top := r.base >> pageBits
	if top > 0 {
		list = append(list, extent(0, top-1))
	}
	last, cloud := newPage(top, 0, r.base&lowMask, tok), r.pages
	if len(cloud) > 0 && cloud[0].first == top {
		last.bits.Or(cloud[0].bits) // not an extent: that would hold base+1
		cloud = cloud[1:]
	}
	return append(push(list, last), cloud...)
}

// push appends p to a list in normal form: nothing if it is empty, an extent if it is full.
func push(list []page, p page) []page {
	if p.bits != nil {
		p.n = uint32(p.bits.GetCardinality())
		if p.n == 0 {
			return list
		}
		if p.n < pageValues {
			return append(list, p)
		}
		p = extent(p.first, p.last)
	}
	if k := len(list) - 1; k >= 0 && list[k].bits == nil && list[k].last+1 == p.first {
		list[k].last = p.last
		return list
	}
	return append(list, p)
}

// and returns the intersection of both lists.
func and(a, b []page, tok *token) []page {
	var list []page
	for i, j := 0, 0; i < len(a) && j < len(b); {
		p, q := &a[i], &b[j]
		if first, last := max(p.first, q.first), min(p.last, q.last); first <= last {
			list = push(list, andPage(p, q, first, last, tok))
		}
		if p.last <= q.last {
			i++
		} else {
			j++
		}
	}
	return list
}

func andPage(p, q *page, first, last uint64, tok *token) page {
	switch {
	case p.bits == nil && q.bits == nil:
		return extent(first, last)
	case q.bits == nil:
		return *p
	case p.bits == nil:
		return page{first: first, last: last, bits: q.bits.Clone(), owner: tok}
	default:
		return page{first: first, last: last, bits: roaring.And(p.bits, q.bits), owner: tok, dirty: 1}
	}
}

// andNot returns what is in a but not in b.
func andNot(a, b []page, tok *token) []page {
	var list []page
	for i := range a {
		p := &a[i]
		for len(b) > 0 && b[0].last < p.first {
			b = b[1:]
		}
		switch {
		case p.bits == nil:
			list = extentNot(list, p, b, tok)
		case len(b) == 0 || b[0].first > p.first:
			list = append(list, *p)
		case b[0].bits != nil:
			rest := roaring.AndNot(p.bits, b[0].bits)
			list = push(list, page{first: p.first, last: p.last, bits: rest, owner: tok, dirty: 1})
		}
	}
	return list
}

// extentNot appends what remains of the extent p without b: extents, and complements of pages.
func extentNot(list []page, p *page, b []page, tok *token) []page {
	from := p.first
	for i := range b {
		q := &b[i]
		if q.first > p.last {
			break
		}
		if q.last < from {
			continue
		}
		if q.first > from {
			list = push(list, extent(from, q.first-1))
		}
		if q.bits != nil {
			rest := roaring.Flip(q.bits, 0, pageValues)
			list = push(list, page{first: q.first, last: q.last, bits: rest, owner: tok, dirty: 1})
		}
		from = q.last + 1
	}
	if from <= p.last {
		list = push(list, extent(from, p.last))
	}
	return list
}
