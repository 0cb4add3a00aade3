package clock

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// PageBits is the binary logarithm of the number of counters that a page covers. It is part of the format.
const PageBits = pageBits

const (
	pageBits   = 16              // a page covers 2^pageBits counters: one roaring container; in the format
	pageValues = 1 << pageBits   // counters in a page
	lowMask    = pageValues - 1  // the part of a counter that is its value within the page
	indexMax   = 1<<(64-16) - 1  // the last page's index
	packRuns   = 128             // runs above which a page is kept as a bitmap or an array: searching runs is slow
	packEvery  = 256             // writes to a page after which packing it is worth the time
	bitmapHead = 80 + 8 + 16 + 8 // bytes of a roaring bitmap with one container, without the container
)

// page is a part of the cloud. With bits it is one page of counters: first == last, it is neither empty nor full, and bits holds
// the low 16 bits of its counters. Without bits it is an extent: all the counters of the pages first..last, so that a run of 2^60
// counters costs what a run of 2^17 does. Extents never touch each other.
type page struct {
	first, last uint64 // page indexes: counter >> pageBits
	bits        *roaring.Bitmap
	owner       *token // the token that may write bits in place
	n           uint32 // values in bits
	dirty       uint32 // values written since bits was packed, roughly
}

func extent(first, last uint64) page { return page{first: first, last: last} }

func (p *page) start() uint64 { return p.first << pageBits }

func (p *page) end() uint64 { return p.last<<pageBits | lowMask }

// size returns the number of counters. Page 0 is never full, so it is below 2^64.
func (p *page) size() uint64 {
	if p.bits == nil {
		return (p.last - p.first + 1) << pageBits
	}
	return uint64(p.n)
}

func (p *page) max() uint64 {
	if p.bits == nil {
		return p.end()
	}
	return p.start() | uint64(p.bits.Maximum())
}

// absentFrom returns the least value from low on that is not in the page, or pageValues if there is none. It does not use
// NextAbsentValue, which is wrong about the last value of a page.
func (p *page) absentFrom(low uint64) uint64 {
	for first, end := range p.bits.Ranges() {
		if uint64(first) > low {
			break
		}
		if end > low {
			return end
		}
	}
	return low
}

func (p *page) heapBytes() int {
	if p.bits == nil {
		return 0
	}
	return bitmapHead + int(p.bits.GetSizeInBytes())
}

// pack chooses the container again: runs if there are few, otherwise values or bits. With many runs, looking one up and adding one
// are slow, and joining two such lists is very slow.
func (p *page) pack() {
	p.dirty = 0
	runs := 0
	for range p.bits.Ranges() {
		if runs++; runs > packRuns {
			break
		}
	}
	if runs <= packRuns {
		p.bits.RunOptimize()
	} else if p.bits.HasRunCompression() {
		var words [pageValues / 64]uint64
		p.bits.WriteDenseTo(words[:])
		p.bits = roaring.FromDense(words[:], true)
	}
}

// search returns the first page whose last index is at least index. In a dense cloud it computes the position and needs no search.
func (r *Counters) search(index uint64) int {
	pages := r.pages
	lo, hi := 0, len(pages)
	if hi == 0 || index <= pages[0].last {
		return 0
	}
	if index > pages[hi-1].last {
		return hi
	}
	if guess := index - pages[0].last; guess < uint64(hi) {
		if pages[guess].first <= index { // its last cannot be less: indexes grow by one or more
			return int(guess)
		}
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if pages[mid].last < index {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// writable returns page i, after making the list and the page's bitmap writable by tok.
func (r *Counters) writable(i int, tok *token) *page {
	r.own(tok)
	p := &r.pages[i]
	if p.owner != tok {
		p.bits, p.owner = p.bits.Clone(), tok
	}
	return p
}

// recount brings n and count up to date after page i's bitmap was written, and turns a full page into an extent.
func (r *Counters) recount(i int, tok *token) {
	p := &r.pages[i]
	n := uint32(p.bits.GetCardinality())
	r.count += uint64(n) - uint64(p.n)
	p.n = n
	if n == pageValues {
		r.addExtent(p.first, p.last, tok)
	} else if p.dirty >= packEvery {
		p.pack()
	}
}

// addLow adds the values lo..hi of one page.
func (r *Counters) addLow(index, lo, hi uint64, tok *token) {
	if lo == 0 && hi == lowMask {
		r.addExtent(index, index, tok)
		return
	}
	i := r.search(index)
	if i == len(r.pages) || r.pages[i].first > index {
		r.insertPage(i, newPage(index, lo, hi, tok), tok)
		return
	}
	if r.pages[i].bits == nil {
		return
	}
	p := r.writable(i, tok)
	p.bits.AddRange(lo, hi+1)
	p.dirty++
	r.recount(i, tok)
}

// addCloudOne adds one value of a page and reports whether it is new. It is separate from addLow because asking first is cheaper
// than counting afterwards.
func (r *Counters) addCloudOne(index, low uint64, tok *token) bool {
	i := r.search(index)
	if i == len(r.pages) || r.pages[i].first > index {
		r.insertPage(i, newPage(index, low, low, tok), tok)
		return true
	}
	if p := &r.pages[i]; p.bits == nil || p.bits.Contains(uint32(low)) {
		return false
	}
	p := r.writable(i, tok)
	p.bits.Add(uint32(low))
	p.n++
	p.dirty++
	r.count++
	if p.n == pageValues {
		r.addExtent(index, index, tok)
	} else if p.dirty >= packEvery && p.bits.HasRunCompression() {
		p.pack() // a page that grows value by value is left a bitmap until the next one is begun
	}
	return true
}

// newPage returns a page of the values lo..hi.
func newPage(index, lo, hi uint64, tok *token) page {
	b := roaring.New()
	b.AddRange(lo, hi+1)
	return page{first: index, last: index, bits: b, owner: tok, n: uint32(hi - lo + 1), dirty: 1}
}

// insertPage makes p page i. Counters mostly grow, so the page before is likely complete and is packed.
func (r *Counters) insertPage(i int, p page, tok *token) {
	r.own(tok)
	if i > 0 {
		if q := &r.pages[i-1]; q.owner == tok && q.dirty >= packEvery {
			q.pack()
		}
	}
	r.pages = slices.Insert(r.pages, i, p)
	r.count += p.size()
}

// addExtent makes the pages first..last full. It joins the pages that they cover and the extents next to them.
func (r *Counters) addExtent(first, last uint64, tok *token) {
	r.own(tok)
	i := r.search(first)
	j := i
	for j < len(r.pages) && r.pages[j].first <= last {
		j++
	}
	if i > 0 && r.pages[i-1].bits == nil && r.pages[i-1].last+1 == first {
		i--
	}
	if j < len(r.pages) && r.pages[j].bits == nil && r.pages[j].first == last+1 {
		j++
	}
	for k := i; k < j; k++ {
		p := &r.pages[k]
		if r.count -= p.size(); p.bits == nil {
			first, last = min(first, p.first), max(last, p.last)
		}
	}
	e := extent(first, last)
	r.count += e.size()
	r.pages = slices.Replace(r.pages, i, j, e)
}

// unionPage joins a page of values into the cloud. The caller must call absorb afterwards, because the page may hold values that
// base covers. If adopt is set, p's bitmap becomes r's own; otherwise it is copied.
func (r *Counters) unionPage(p *page, tok *token, adopt bool) {
	i := r.search(p.first)
	if i == len(r.pages) || r.pages[i].first > p.first {
		q := *p
		if !adopt {
			q.bits = p.bits.Clone()
		}
		q.owner = tok
		r.insertPage(i, q, tok)
		return
	}
	if r.pages[i].bits == nil {
		return
	}
	q := r.writable(i, tok)
	q.bits.Or(p.bits)
	q.dirty += p.n
	r.recount(i, tok)
}
