package filters

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"bigset"
	"bigset/bloomslice"
)

// pageSums are the hashes of the stored pages of an open slice, by layer, in order. Without them, repeated comparisons of slices
// would read all pages of a slice of which only a few have changed. They take 8 bytes for each page that the layers have room for,
// and are freed when the slice is closed.
type pageSums []layerSums

type layerSums struct {
	id    bloomslice.LayerID
	pages []uint64 // by page; 0 is a page that is not stored
}

// layer returns the hashes of a layer, and makes room for them.
func (s *pageSums) layer(id bloomslice.LayerID, shape bloomslice.Shape) []uint64 {
	at, found := slices.BinarySearchFunc(*s, id, func(l layerSums, id bloomslice.LayerID) int { return l.id.Compare(id) })
	if !found {
		*s = slices.Insert(*s, at, layerSums{id, make([]uint64, (shape.Bytes+bloomslice.PageBytes-1)/bloomslice.PageBytes)})
	}
	return (*s)[at].pages
}

// bytes returns how much memory they take.
func (s pageSums) bytes() (n int64) {
	for i := range s {
		n += 8 * int64(len(s[i].pages))
	}
	return n
}

// clone returns a copy that does not change with the original.
func (s pageSums) clone() pageSums {
	c := slices.Clone(s)
	for i := range c {
		c[i].pages = slices.Clone(c[i].pages)
	}
	return c
}

// each calls yield for the pages after a place (nil is the start) until it returns false. It reports whether it reached the end.
func (s pageSums) each(after *bigset.PagePlace, yield func(bigset.PageSum) bool) (done bool) {
	for i := range s {
		from := 0
		if after != nil {
			switch order := s[i].id.Compare(after.Layer); {
			case order < 0:
				continue
			case order == 0:
				from = int(after.Page) + 1
			}
		}
		for page := from; page < len(s[i].pages); page++ {
			sum := s[i].pages[page]
			if sum != 0 && !yield(bigset.PageSum{PagePlace: bigset.PagePlace{Layer: s[i].id, Page: uint32(page)}, Sum: sum}) {
				return false
			}
		}
	}
	return true
}

// keepSums stores the hashes of the stored pages in an open slice. The slice's lock is held.
func (f *filterSlice) keepSums(sums pageSums) {
	f.dropSums()
	f.rest = &sliceRest{sums: sums}
	f.of.fs.resident.Tables.Add(sums.bytes())
}

// dropSums frees them. The lock is held.
func (f *filterSlice) dropSums() {
	if f.rest != nil && f.rest.sums != nil {
		f.of.fs.resident.Tables.Add(-f.rest.sums.bytes())
		f.rest.sums = nil
	}
}

// stored records pages that have been written to disk.
func (f *filterSlice) stored(pages []bloomslice.DirtyPage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flags |= flagStored
	slice := f.slice.Load()
	if f.rest == nil || f.rest.sums == nil || slice == nil {
		return
	}
	sums, before := f.rest.sums, f.rest.sums.bytes()
	shapes := map[bloomslice.LayerID]bloomslice.Shape{}
	for _, l := range slice.Layers() {
		shapes[l.ID] = l.Shape
	}
	for i := range pages {
		p := &pages[i]
		sum := xxhash.Sum64(p.Value)
		sums.layer(p.ID, shapes[p.ID])[p.Page] = sum
		if sum == 0 { // 0 stands for no page
			f.dropSums()
			return
		}
	}
	f.rest.sums = sums
	f.of.fs.resident.Tables.Add(sums.bytes() - before)
}

// summing is a pass over all pages whose hashes may be kept.
type summing struct {
	of   *bloomslice.Slice // open from the beginning to the end; nil if they are not kept
	sums pageSums
}

// beginSums begins to collect hashes, unless another goroutine does, or the slice is closed.
func (f *filterSlice) beginSums() (s summing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slice := f.slice.Load(); slice != nil && f.flags&flagSumming == 0 {
		f.flags |= flagSumming
		f.flags &^= flagStored
		s.of = slice
	}
	return s
}

// endSums keeps what was collected, if it is complete and no page was stored in the meantime.
func (f *filterSlice) endSums(s *summing, whole bool) {
	if s.of == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flags &^= flagSumming
	if whole && f.slice.Load() == s.of && f.flags&flagStored == 0 && f.damaged() == nil {
		f.keepSums(s.sums)
	}
}

// add records a hash.
func (s *summing) add(p bigset.PageSum, layers []bloomslice.Layer) {
	if s.of == nil {
		return
	}
	at, found := slices.BinarySearchFunc(layers, p.Layer, func(l bloomslice.Layer, id bloomslice.LayerID) int { return l.ID.Compare(id) })
	if found {
		s.sums.layer(p.Layer, layers[at].Shape)[p.Page] = p.Sum
	}
}

// eachSum calls yield for the hashes of the stored pages after a place (nil is the start) until it returns false. They include
// marks from before the call. It returns all layers, and whether it reached the end.
func (f *filterSlice) eachSum(after *bigset.PagePlace, yield func(bigset.PageSum) bool) (layers []bloomslice.Layer, done bool, err error) {
	if err := f.flush(); err != nil {
		return nil, false, f.readError(err)
	}
	sums, layers, err := f.knownSums()
	if err != nil {
		return nil, false, err
	}
	if sums != nil {
		return layers, sums.each(after, yield), nil
	}
	var s summing
	if after == nil {
		s = f.beginSums()
	}
	zero := false
	defer func() { f.endSums(&s, done && err == nil && !zero) }()
	return f.eachPage(after, func(p bigset.PageSum, layers []bloomslice.Layer) bool {
		s.add(p, layers)
		zero = zero || p.Sum == 0
		return yield(p)
	})
}

// knownSums returns the hashes that are kept, with the layers as they are stored with these pages; nil if none are kept.
func (f *filterSlice) knownSums() (sums pageSums, layers []bloomslice.Layer, err error) {
	f.flushing.Lock() // nothing is stored until the end of the call
	defer f.flushing.Unlock()
	f.mu.Lock()
	if f.rest != nil && f.rest.sums != nil {
		sums = f.rest.sums.clone()
	}
	f.mu.Unlock()
	if sums == nil {
		return nil, nil, nil
	}
	r, err := f.reader()
	if err != nil {
		return nil, nil, err
	}
	return sums, r.Layers, r.Close()
}
