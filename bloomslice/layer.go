package bloomslice

import (
	"sync"
	"sync/atomic"
)

// layer is a layer in memory.
type layer struct {
	id      LayerID
	shape   Shape
	perHash modulus     // bits for each of the K hashes
	count   uint64      // keys
	stored  atomic.Bool // the source may have pages of it
	counted bool        // the count, or the layer, has changed since they were last taken
	pages   []atomic.Pointer[words]
	hand    int            // where Evict continues
	dirty   pageSet        // pages that have changed since they were stored
	faults  [16]sync.Mutex // by page: pages are loaded and evicted one at a time, or a stale page could be put back
}

// zeroPage stands for a page without bits until one is set.
var zeroPage words

func newLayer(l Layer, stored bool) *layer {
	n := &layer{
		id:      l.ID,
		shape:   l.Shape,
		count:   l.Count,
		perHash: newModulus(l.Shape.Bytes * 8 / uint64(l.Shape.K)),
		pages:   make([]atomic.Pointer[words], l.Shape.pages()),
		dirty:   newPageSet(l.Shape.pages()),
	}
	n.stored.Store(stored)
	return n
}

// bytes returns how much memory a layer takes without any pages.
func (l *layer) bytes() int64 { return int64(len(l.pages)+len(l.dirty.words)) * 8 }

// look looks for the bits of a key, from the i-th on. If the page of one is not in memory, at is the number of that bit. Otherwise
// at is K, and has says whether all bits are set.
func (l *layer) look(h *Hash, i uint32) (has bool, at uint32) {
	pages, k, perHash := l.pages, l.shape.K, l.perHash
	for base := uint64(i) * perHash.m; i < k; i++ {
		bit := base + perHash.of(h.at(i))
		base += perHash.m
		w := pages[bit/pageBits].Load()
		if w == nil {
			return false, i
		}
		if !w.has(bit % pageBits) {
			return false, k
		}
	}
	return true, k
}

// place returns the place of the i-th bit of a key.
func (l *layer) place(h *Hash, i uint32) uint64 {
	return uint64(i)*l.perHash.m + l.perHash.of(h.at(i))
}

// missing returns the places of the bits of a key that are not set, in the memory of dst. If a page is not in memory, it returns
// that page, and known is false. The number of missing bits can't be predicted, so the loop does not branch on it: then the
// processor waits for all cache misses at once.
func (l *layer) missing(dst []uint64, h *Hash) (bits []uint64, page uint32, known bool) {
	k, perHash := l.shape.K, l.perHash
	if cap(dst) < int(k) {
		dst = make([]uint64, k)
	}
	dst = dst[:k]
	var base uint64
	for i := range dst {
		dst[i] = base + perHash.of(h.at(uint32(i)))
		base += perHash.m
	}
	pages, n := l.pages, 0
	for _, bit := range dst {
		w := pages[bit/pageBits].Load()
		if w == nil {
			return dst, uint32(bit / pageBits), false
		}
		dst[n] = bit
		n += w.lacks(bit % pageBits)
	}
	return dst[:n], 0, true
}

// now returns what is to be stored of the layer in addition to its pages.
func (l *layer) now() Layer { return Layer{l.id, l.shape, l.count} }

// raise makes the count at least n.
func (l *layer) raise(n uint64) {
	if n > l.count {
		l.count = n
		l.counted = true
	}
}
