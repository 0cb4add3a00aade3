package bloomslice

import (
	"math/bits"
	"slices"
)

// pageSet is a set of pages of a layer.
type pageSet struct {
	words []uint64
	n     int // pages in the set
}

func newPageSet(pages int) pageSet {
	return pageSet{words: make([]uint64, (pages+wordBits-1)/wordBits)}
}

func (p *pageSet) has(page uint32) bool { return p.words[page/wordBits]>>(page%wordBits)&1 != 0 }

func (p *pageSet) add(page uint32) {
	if !p.has(page) {
		p.words[page/wordBits] |= 1 << (page % wordBits)
		p.n++
	}
}

func (p *pageSet) remove(page uint32) {
	if p.has(page) {
		p.words[page/wordBits] &^= 1 << (page % wordBits)
		p.n--
	}
}

// list returns the pages, ascending.
func (p *pageSet) list() []uint32 {
	list := make([]uint32, 0, p.n)
	for i, w := range p.words {
		for ; w != 0; w &= w - 1 {
			list = append(list, uint32(i*wordBits+bits.TrailingZeros64(w)))
		}
	}
	return list
}

// DirtyPage is a page that has to be stored. Its value has all bits of the page.
type DirtyPage struct {
	ID    LayerID
	Page  uint32
	Value []byte // as AppendPage
}

// Dirty is what a slice has to store in one batch: a count covers the keys whose bits are stored with it or before.
type Dirty struct {
	Layers []Layer
	Pages  []DirtyPage // by layer, then by page
}

// Taking is one pass over what is dirty. It belongs to the slice's one writer.
type Taking struct {
	s      *Slice
	layers []takingLayer
}

type takingLayer struct {
	layer *layer
	pages []uint32 // ascending
}

// Take begins a pass over what is dirty now. What becomes dirty during the pass may be taken by it, or stays dirty.
func (s *Slice) Take() *Taking {
	t := &Taking{s: s}
	for _, l := range *s.layers.Load() {
		t.layers = append(t.layers, takingLayer{l, l.dirty.list()})
	}
	return t
}

// Pages returns how many pages the pass has not taken yet.
func (t *Taking) Pages() (n int) {
	for i := range t.layers {
		n += len(t.layers[i].pages)
	}
	return n
}

// Next takes what is dirty in the next pages, at most pagesMax of them. An empty result means that the pass has ended. What was
// taken counts as stored from then on; if storing it fails, it must be given back with PutBack. Evict must not be called until it
// is stored.
func (t *Taking) Next(pagesMax int) (d Dirty) {
	for i := range t.layers {
		tl := &t.layers[i]
		if l := tl.layer; l.counted {
			d.Layers = append(d.Layers, l.now())
			l.counted = false
		}
		n := min(len(tl.pages), pagesMax-len(d.Pages))
		for _, page := range tl.pages[:n] {
			d.Pages = append(d.Pages, tl.layer.take(page))
		}
		tl.pages = tl.pages[n:]
	}
	return d
}

// Empty reports whether there is nothing to store.
func (d *Dirty) Empty() bool { return len(d.Layers) == 0 && len(d.Pages) == 0 }

func (l *layer) take(page uint32) DirtyPage {
	l.dirty.remove(page)
	l.stored.Store(true)
	return DirtyPage{l.id, page, l.pages[page].Load().append(nil)}
}

// PutBack makes what was taken dirty again.
func (s *Slice) PutBack(d Dirty) {
	for i := range d.Layers {
		if l := s.find(d.Layers[i].ID); l != nil {
			l.counted = true
		}
	}
	for i := range d.Pages {
		if l := s.find(d.Pages[i].ID); l != nil {
			l.dirty.add(d.Pages[i].Page)
		}
	}
}

// Dirty reports whether there is anything to store: a page, a count or a layer.
func (s *Slice) Dirty() bool {
	return slices.ContainsFunc(*s.layers.Load(), func(l *layer) bool { return l.dirty.n > 0 || l.counted })
}

// Evict removes pages that have not changed since they were stored from memory, until want bytes are freed or no such pages are
// left. It returns how many bytes it has freed. Everything that was taken must be at the source by now.
func (s *Slice) Evict(want int64) (freed int64) {
	for _, l := range *s.layers.Load() {
		for range l.pages {
			if freed >= want {
				return freed
			}
			page := l.hand // goes on where it stopped, so that each page has its time
			l.hand = (l.hand + 1) % len(l.pages)
			if !l.dirty.has(uint32(page)) {
				freed += s.evict(l, page)
			}
		}
	}
	return freed
}

func (s *Slice) evict(l *layer, page int) int64 {
	if l.pages[page].Load() == nil {
		return 0 // as most pages of a large layer are
	}
	mu := &l.faults[page%len(l.faults)]
	mu.Lock()
	defer mu.Unlock()
	return s.evictLocked(l, page)
}

// evictLocked removes a page from memory. The page's lock is held.
func (s *Slice) evictLocked(l *layer, page int) int64 {
	w := l.pages[page].Load()
	if w == nil {
		return 0
	}
	l.pages[page].Store(nil)
	if w == &zeroPage {
		return 0
	}
	s.memory.Pages.Add(-PageBytes)
	return PageBytes
}

// Release removes all pages from memory for good. From then on a reader of the slice reads its pages from the source each time, and
// nothing can be added. Dirty pages are lost.
func (s *Slice) Release() {
	if s.released.Swap(true) {
		return
	}
	for _, l := range *s.layers.Load() {
		for i := range l.faults { // also of pages that are being read into memory
			l.faults[i].Lock()
			for page := i; page < len(l.pages); page += len(l.faults) {
				s.evictLocked(l, page)
			}
			l.faults[i].Unlock()
		}
		s.memory.Tables.Add(-l.bytes())
	}
}

// MergePage joins a page as another replica has it, given by its value. The slice must have the layer. Its error is ErrCorruptPage,
// or the source's; then nothing is joined. For layers that the slice does not have, and pages beyond a layer's end, the error is
// ErrOptions.
func (s *Slice) MergePage(id LayerID, page uint32, value []byte) error {
	var add words
	if err := add.orValue(value); err != nil {
		return err
	}
	l := s.find(id)
	if l == nil || int(page) >= len(l.pages) {
		return optionsError("no page %d of layer %d of %q", page, id.Index, id.Owner)
	}
	if used := uint64(add.used()); uint64(page)*PageBytes+used > l.shape.Bytes {
		return optionsError("page %d of layer %d goes beyond the layer's end", page, id.Index)
	}
	if err := s.bring(l, page); err != nil {
		return err
	}
	if w := l.pages[page].Load(); !add.within(w) {
		s.own(l, page).join(&add)
		l.dirty.add(page)
	}
	return nil
}
