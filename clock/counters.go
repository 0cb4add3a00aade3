package clock

import (
	"slices"
	"unsafe"
)

// Counters is what a clock holds of one actor: the counters 1..base and a cloud of pages beyond a gap. Clock.Counters returns
// one for reading. A nil *Counters is empty.
type Counters struct {
	actor Actor
	base  uint64 // maximal: base+1 is not in the cloud
	count uint64 // base plus the values of all pages; at most 2^64-1, as 0 is no counter
	pages []page // sorted, apart, none empty; every value is at least base+2
	owner *token // the token that may write pages in place
}

// Contains reports whether the actor's event n is in the clock.
func (r *Counters) Contains(n uint64) bool {
	if r == nil {
		return false
	}
	if n <= r.base {
		return n != 0
	}
	return len(r.pages) != 0 && r.cloud(n)
}

func (r *Counters) cloud(n uint64) bool {
	index := n >> pageBits
	i := r.search(index)
	if i == len(r.pages) || r.pages[i].first > index {
		return false
	}
	p := &r.pages[i]
	return p.bits == nil || p.bits.Contains(uint32(n&lowMask))
}

// ContainsAny reports whether at least one of the actor's events first..last is in the clock.
func (r *Counters) ContainsAny(first, last uint64) bool {
	if first = max(first, 1); r == nil || first > last {
		return false
	}
	if first <= r.base {
		return true
	}
	for i := r.search(first >> pageBits); i < len(r.pages) && r.pages[i].start() <= last; i++ {
		p := &r.pages[i]
		from, to := max(first, p.start()), min(last, p.end())
		if p.bits == nil || cardinalityIn(p.bits, from&lowMask, to&lowMask) > 0 {
			return true
		}
	}
	return false
}

// Base returns the highest n for which all of 1..n are in the clock.
func (r *Counters) Base() uint64 {
	if r == nil {
		return 0
	}
	return r.base
}

// Max returns the highest counter, 0 if there is none.
func (r *Counters) Max() uint64 {
	if r == nil {
		return 0
	}
	if len(r.pages) == 0 {
		return r.base
	}
	return r.pages[len(r.pages)-1].max()
}

// Len returns the number of counters.
func (r *Counters) Len() uint64 {
	if r == nil {
		return 0
	}
	return r.count
}

func (r *Counters) heapBytes() int {
	n := int(unsafe.Sizeof(*r)) + len(r.actor) + cap(r.pages)*int(unsafe.Sizeof(page{}))
	for i := range r.pages {
		n += r.pages[i].heapBytes()
	}
	return n
}

func (r *Counters) add(n uint64, tok *token) bool {
	if n <= r.base {
		return false
	}
	if n == r.base+1 {
		if len(r.pages) == 0 {
			r.base, r.count = n, r.count+1
			return true
		}
		r.setBase(n)
		r.absorb(tok)
		return true
	}
	return r.addCloudOne(n>>pageBits, n&lowMask, tok)
}

// addRange adds first..last; first is at least 1 and last at least first.
func (r *Counters) addRange(first, last uint64, tok *token) {
	switch {
	case last <= r.base:
	case first-1 <= r.base:
		r.setBase(last)
		r.absorb(tok)
	default:
		r.addCloud(max(first, r.base+1), last, tok)
	}
}

// addCloud adds a range that lies beyond a gap: the ends page by page, the pages between them as one extent.
func (r *Counters) addCloud(first, last uint64, tok *token) {
	i, j := first>>pageBits, last>>pageBits
	if i == j {
		if first == last {
			r.addCloudOne(i, first&lowMask, tok)
		} else {
			r.addLow(i, first&lowMask, last&lowMask, tok)
		}
		return
	}
	if first&lowMask != 0 {
		r.addLow(i, first&lowMask, lowMask, tok)
		i++
	}
	if last&lowMask != lowMask {
		r.addLow(j, 0, last&lowMask, tok)
		j--
	}
	if i <= j {
		r.addExtent(i, j, tok)
	}
}

// union adds everything that o has. It costs O(size of o) and the pages of r that it touches.
func (r *Counters) union(o *Counters, tok *token) {
	if o.base != 0 {
		r.addRange(1, o.base, tok)
	}
	for i := range o.pages {
		p := &o.pages[i]
		if p.bits == nil {
			r.addRange(p.start(), p.end(), tok)
		} else if p.end() > r.base {
			r.unionPage(p, tok, false)
		}
	}
	r.absorb(tok)
}

func (r *Counters) setBase(n uint64) {
	r.count += n - r.base
	r.base = n
}

// absorb restores the normal form after base has grown, or after a page that straddles base was written. Counters that base covers
// leave the cloud, and base advances through the runs and extents that follow it without a gap.
func (r *Counters) absorb(tok *token) {
	for len(r.pages) != 0 {
		p := &r.pages[0]
		switch {
		case p.end() <= r.base:
			r.dropFirst(tok)
		case r.base+1 < p.start():
			return
		case p.bits == nil:
			r.setBase(p.end())
			r.dropFirst(tok)
		default:
			low := (r.base + 1) & lowMask
			next := p.absentFrom(low)
			if next == low && p.bits.Minimum() > uint32(low) {
				return
			}
			r.setBase(p.start() + next - 1)
			r.trimFirst(next, tok)
		}
	}
}

// dropFirst removes the first page. It needs no copy of a shared list.
func (r *Counters) dropFirst(tok *token) {
	r.count -= r.pages[0].size()
	if r.owner == tok {
		r.pages[0] = page{} // let go of the bitmap
	}
	if r.pages = r.pages[1:]; len(r.pages) == 0 {
		r.pages = nil
	}
}

// trimFirst removes the values below low from the first page, and the page itself if nothing is left.
func (r *Counters) trimFirst(low uint64, tok *token) {
	if uint64(r.pages[0].bits.Maximum()) < low {
		r.dropFirst(tok)
		return
	}
	p := r.writable(0, tok)
	p.bits.RemoveRange(0, low)
	r.recount(0, tok)
}

// own makes the page list writable by tok.
func (r *Counters) own(tok *token) {
	if r.owner != tok {
		r.pages = slices.Clone(r.pages)
		r.owner = tok
	}
}

func (r *Counters) optimize(tok *token) {
	if r.owner != tok {
		return
	}
	for i := range r.pages {
		if p := &r.pages[i]; p.owner == tok && p.dirty != 0 {
			p.pack()
		}
	}
}
