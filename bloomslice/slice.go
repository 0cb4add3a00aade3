package bloomslice

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// LayerID names a layer of a slice.
type LayerID struct {
	Index uint16
	Owner string // who fills the layer, counts its keys and decides that it is full; "" on a node alone. At most OwnerBytesMax bytes
}

// OwnerBytesMax is the longest name of an owner. It is part of the disk format.
const OwnerBytesMax = 255

// Layer is what is stored of a layer beside its pages.
type Layer struct {
	ID    LayerID
	Shape Shape
	Count uint64 // keys. Joined by maximum: only the owner counts
}

// A Source gives the stored pages of a slice.
type Source interface {
	// Page returns the value of a page, as AppendPage made it, or nil where none is stored. It may be called by many at a time. The value
	// is not kept.
	Page(id LayerID, page uint32) (value []byte, err error)
}

// Slice is the part of a filter that lies in one place: layers of pages, of which those in use are in memory. It grows only.
//
// Check may be called by any number of goroutines, also beside one that calls the other methods: those must come one at a time.
type Slice struct {
	opt      Options
	source   Source
	resident *atomic.Int64
	released atomic.Bool              // pages are no longer kept
	layers   atomic.Pointer[[]*layer] // by index, then by owner; a list is never changed
	admitted struct {                 // what Commit sets
		layer *layer
		bits  []uint64
	}
}

// New returns a slice with these layers, none of whose pages are in memory. The source has the pages; with a nil source none is stored
// anywhere. Bytes of pages in memory are added to resident, which may be nil.
func New(opt Options, layers []Layer, source Source, resident *atomic.Int64) (*Slice, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	if resident == nil {
		resident = new(atomic.Int64)
	}
	s := &Slice{opt: opt, source: source, resident: resident}
	s.layers.Store(&[]*layer{})
	for i := range layers {
		if err := s.Restore(layers[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// layer is a layer in memory.
type layer struct {
	id      LayerID
	shape   Shape
	perHash modulus // bits for each of the K hashes
	count   atomic.Uint64
	stored  atomic.Bool // the source may have pages of it
	counted bool        // the count, or the layer, has changed since they were last taken
	pages   []atomic.Pointer[words]
	hand    int            // where Evict goes on
	dirty   pageSet        // pages that have changed since they were stored
	faults  [16]sync.Mutex // by page: pages come and go one at a time, or a stale one could be put back
}

// zeroPage stands for a page without bits until one is set.
var zeroPage words

func newLayer(l Layer, stored bool) *layer {
	n := &layer{
		id:      l.ID,
		shape:   l.Shape,
		perHash: newModulus(l.Shape.Bytes * 8 / uint64(l.Shape.K)),
		pages:   make([]atomic.Pointer[words], l.Shape.pages()),
		dirty:   newPageSet(l.Shape.pages()),
	}
	n.count.Store(l.Count)
	n.stored.Store(stored)
	return n
}

// Check reports whether a key is in the slice, by its hash: false is certain, true is not. Where a page has to be read that can't be, it
// fails with what the source said, or ErrCorruptPage, and then nothing is known.
func (s *Slice) Check(h *Hash) (bool, error) {
	layers := *s.layers.Load()
	for i := len(layers) - 1; i >= 0; i-- {
		if has, err := s.layerHas(layers[i], h); has || err != nil {
			return has, err
		}
	}
	return false, nil
}

// Look does what Check does, where no page has to be read for it; else known is false.
func (s *Slice) Look(h *Hash) (has, known bool) {
	layers := *s.layers.Load()
	for i := len(layers) - 1; i >= 0; i-- {
		l := layers[i]
		has, at := l.look(h, 0)
		if has || at < l.shape.K {
			return has, has
		}
	}
	return false, true
}

func (s *Slice) layerHas(l *layer, h *Hash) (bool, error) {
	for i := uint32(0); i < l.shape.K; i++ {
		has, at := l.look(h, i)
		if at == l.shape.K {
			return has, nil
		}
		i = at
		bit := l.place(h, i)
		w, err := s.fault(l, uint32(bit/pageBits))
		if err != nil || !w.has(bit%pageBits) {
			return false, err
		}
	}
	return true, nil
}

// look looks for the bits of a key, from the i-th on. Where the page of one is not in memory it returns which; else K, and whether all
// are there.
func (l *layer) look(h *Hash, i uint32) (has bool, at uint32) {
	for ; i < l.shape.K; i++ {
		bit := l.place(h, i)
		w := l.pages[bit/pageBits].Load()
		if w == nil {
			return false, i
		}
		if !w.has(bit % pageBits) {
			return false, l.shape.K
		}
	}
	return true, l.shape.K
}

// place returns where the i-th bit of a key is.
func (l *layer) place(h *Hash, i uint32) uint64 {
	return uint64(i)*l.perHash.m + l.perHash.of(h.at(i))
}

// fault brings a page into memory.
func (s *Slice) fault(l *layer, page uint32) (*words, error) {
	mu := &l.faults[page%uint32(len(l.faults))]
	mu.Lock()
	defer mu.Unlock()
	if w := l.pages[page].Load(); w != nil {
		return w, nil
	}
	w := &zeroPage
	if s.asks(l) {
		value, err := s.source.Page(l.id, page)
		if err != nil {
			return nil, fmt.Errorf("bloomslice: page %d of layer %d: %w", page, l.id.Index, err)
		}
		if value != nil {
			w = new(words)
			if err := w.orValue(value); err != nil {
				return nil, fmt.Errorf("page %d of layer %d: %w", page, l.id.Index, err)
			}
		}
	}
	if s.released.Load() {
		return w, nil
	}
	if w != &zeroPage {
		s.resident.Add(PageBytes)
	}
	l.pages[page].Store(w)
	return w, nil
}

// Admit decides what becomes of a key that is to be added. Where it is there already, added is false. Else it names the layer that takes
// it, with the count that it will then have; Commit, called before anything else is, sets its bits. All that can fail is done by Admit. A
// layer of the owner's is added where there is none, or the newest has as many keys as it may.
func (s *Slice) Admit(h *Hash, owner string) (to Layer, added bool, err error) {
	if has, err := s.Check(h); has || err != nil {
		return Layer{}, false, err
	}
	l := s.newest(owner)
	if l == nil || l.count.Load() >= l.shape.Capacity {
		if l, err = s.grow(owner); err != nil {
			return Layer{}, false, err
		}
	}
	if err := s.load(l, h); err != nil {
		return Layer{}, false, err
	}
	return Layer{l.id, l.shape, l.count.Load() + 1}, true, nil
}

// AdmitNow does what Admit does where the source is not asked for a page, and no layer added; else known is false.
func (s *Slice) AdmitNow(h *Hash, owner string) (added, known bool) {
	layers := *s.layers.Load()
	for i := len(layers) - 1; i >= 0; i-- {
		l := layers[i]
		has, at := l.look(h, 0)
		if at < l.shape.K {
			if s.asks(l) {
				return false, false
			}
			if has, err := s.layerHas(l, h); has || err != nil {
				return false, has
			}
		}
		if has {
			return false, true
		}
	}
	l := s.newest(owner)
	if l == nil || l.count.Load() >= l.shape.Capacity || s.asks(l) && !l.inMemory(h) {
		return false, false
	}
	return true, s.load(l, h) == nil
}

// asks reports whether the source is asked for a page of the layer that is not in memory.
func (s *Slice) asks(l *layer) bool { return s.source != nil && l.stored.Load() }

// inMemory reports whether the pages of all bits of a key are.
func (l *layer) inMemory(h *Hash) bool {
	for i := uint32(0); i < l.shape.K; i++ {
		if l.pages[l.place(h, i)/pageBits].Load() == nil {
			return false
		}
	}
	return true
}

// Commit sets the bits of the key that was admitted last, and counts it.
func (s *Slice) Commit() {
	l := s.admitted.layer
	for _, bit := range s.admitted.bits {
		s.set(l, uint32(bit/pageBits), uint16(bit%pageBits))
	}
	l.raise(l.count.Load() + 1)
}

// Set sets the bits of a key in a layer, and makes its count at least what is said. A layer that the slice does not have is added; of one
// that it has the shape must be the same, or the error is ErrOptions. It is how a log is replayed, and how one replica does what another
// has decided.
func (s *Slice) Set(to Layer, h *Hash) error {
	l := s.find(to.ID)
	if l == nil || l.shape != to.Shape {
		if err := s.Restore(Layer{to.ID, to.Shape, 0}); err != nil {
			return err
		}
		l = s.find(to.ID)
	}
	if err := s.load(l, h); err != nil {
		return err
	}
	for _, bit := range s.admitted.bits {
		s.set(l, uint32(bit/pageBits), uint16(bit%pageBits))
	}
	l.raise(to.Count)
	return nil
}

// load works out the bits of a key and brings their pages into memory.
func (s *Slice) load(l *layer, h *Hash) error {
	s.admitted.layer, s.admitted.bits = l, s.admitted.bits[:0]
	for i := uint32(0); i < l.shape.K; i++ {
		bit := l.place(h, i)
		if l.pages[bit/pageBits].Load() == nil {
			if _, err := s.fault(l, uint32(bit/pageBits)); err != nil {
				return err
			}
		}
		s.admitted.bits = append(s.admitted.bits, bit)
	}
	return nil
}

// set sets a bit of a page that is in memory. Whether the bit is there already can't be foretold, so nothing branches on it.
func (s *Slice) set(l *layer, page uint32, place uint16) {
	w := l.pages[page].Load()
	if w == &zeroPage {
		w = new(words)
		s.resident.Add(PageBytes)
		w.or(place)
		l.pages[page].Store(w)
		l.dirty.add(page)
		return
	}
	shift := wordBits - 1 - place%wordBits
	old := atomic.OrUint64(&w[place/wordBits%pageWords], 1<<shift)
	l.dirty.addIf(page, ^old>>(shift%wordBits)&1)
}

// raise makes the count at least n.
func (l *layer) raise(n uint64) {
	if n > l.count.Load() {
		l.count.Store(n)
		l.counted = true
	}
}

func (s *Slice) newest(owner string) (newest *layer) {
	for _, l := range *s.layers.Load() {
		if l.id.Owner == owner && (newest == nil || l.id.Index > newest.id.Index) {
			newest = l
		}
	}
	return newest
}

func (s *Slice) find(id LayerID) *layer {
	for _, l := range *s.layers.Load() {
		if l.id == id {
			return l
		}
	}
	return nil
}

// grow adds a layer of the owner's behind all that there are.
func (s *Slice) grow(owner string) (*layer, error) {
	index := 0
	for _, l := range *s.layers.Load() {
		index = max(index, int(l.id.Index)+1)
	}
	shape, err := s.opt.Shape(index)
	if err != nil {
		return nil, err
	}
	return s.add(newLayer(Layer{LayerID{uint16(index), owner}, shape, 0}, false))
}

// AddLayer adds the owner's first layer, where there is none, so that a new slice has a size before it has a key.
func (s *Slice) AddLayer(owner string) error {
	if s.newest(owner) != nil {
		return nil
	}
	_, err := s.grow(owner)
	return err
}

func (s *Slice) add(l *layer) (*layer, error) {
	layers := *s.layers.Load()
	if len(layers) >= LayersMax {
		return nil, optionsError("more than %d layers", LayersMax)
	}
	l.counted = !l.stored.Load()
	at, _ := slices.BinarySearchFunc(layers, l.id, func(l *layer, id LayerID) int {
		return cmp.Or(cmp.Compare(l.id.Index, id.Index), strings.Compare(l.id.Owner, id.Owner))
	})
	layers = slices.Insert(slices.Clone(layers), at, l)
	s.layers.Store(&layers)
	return l, nil
}

// Restore adds a layer that is stored, or that another replica has, or raises its count to what it is there. It is idempotent. It fails
// with ErrOptions where the slice has the layer in another shape, or no layer can have the shape.
func (s *Slice) Restore(l Layer) error {
	if err := l.Shape.Validate(); err != nil {
		return err
	}
	if have := s.find(l.ID); have != nil {
		if have.shape != l.Shape {
			return optionsError("layer %d of %q has another shape here", l.ID.Index, l.ID.Owner)
		}
		have.raise(l.Count)
		return nil
	}
	_, err := s.add(newLayer(l, true))
	return err
}

// Layers returns the layers, by index, then by owner.
func (s *Slice) Layers() []Layer {
	layers := *s.layers.Load()
	out := make([]Layer, len(layers))
	for i, l := range layers {
		out[i] = Layer{l.id, l.shape, l.count.Load()}
	}
	return out
}

// Figures are what bloomd tells of a filter.
type Figures struct {
	Capacity uint64 // keys, of all layers
	Size     uint64 // keys that were added
	Storage  uint64 // bytes of the layers, with the head that bloomd's files have. Not what is on disk here
}

// Sums returns the figures of a slice with these layers.
func Sums(layers []Layer) (f Figures) {
	for i := range layers {
		f.Capacity += layers[i].Shape.Capacity
		f.Size += layers[i].Count
		f.Storage += layers[i].Shape.Bytes + HeaderBytes
	}
	return f
}

// Probability returns the probability of a false positive at which a layer of the shape has its capacity: what a bloom filter of its
// bytes, bits a key and keys has.
func (s Shape) Probability() float64 {
	perHash := float64(s.Bytes * 8 / uint64(s.K))
	return math.Pow(1-math.Exp(-float64(s.Capacity)/perHash), float64(s.K))
}
