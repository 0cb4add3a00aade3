package bloomslice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// LayerID names a layer of a slice.
type LayerID struct {
	Index uint16
	Owner string // the owner fills the layer, counts its keys and decides that it is full: Seat.Owner. At most OwnerBytesMax bytes
}

// Seat is an owner's place among the owners of a filter: below Options.Owners, 0 if there is only one. Each replica that fills a
// slice has a seat there. A replica that takes its place is handed the seat, with the counts of its layers. So however many
// replicas have filled a slice, it has layers of no more owners than the filter is made for; shapes are divided among those.
type Seat uint8

// Owner returns the owner of the layers that a seat fills: empty for seat 0, as on a node alone, otherwise one byte. It is part of
// the disk format.
func (s Seat) Owner() string {
	if s == 0 {
		return ""
	}
	return string([]byte{byte(s)})
}

// Seat returns the seat that fills a layer. It reports false for an owner that is not a seat.
func (id LayerID) Seat() (s Seat, ok bool) {
	switch {
	case id.Owner == "":
		return 0, true
	case len(id.Owner) == 1 && id.Owner[0] > 0:
		return Seat(id.Owner[0]), true
	}
	return 0, false
}

// String says which layer it is, for errors: "layer 2 of seat 1".
func (id LayerID) String() string {
	if seat, ok := id.Seat(); ok {
		return fmt.Sprintf("layer %d of seat %d", id.Index, seat)
	}
	return fmt.Sprintf("layer %d of %q", id.Index, id.Owner)
}

// Compare orders layers: by index, then by owner, the shorter name first. It is the order in which they are stored.
func (a LayerID) Compare(b LayerID) int {
	return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(len(a.Owner), len(b.Owner)), strings.Compare(a.Owner, b.Owner))
}

// OwnerBytesMax is the longest name of an owner. It is part of the disk format.
const OwnerBytesMax = 255

// Layer is what is stored of a layer in addition to its pages.
type Layer struct {
	ID    LayerID
	Shape Shape
	Count uint64 // keys. Joined by maximum: only the owner counts
}

// A Source gives the stored pages of a slice.
type Source interface {
	// Page returns the value of a page, as AppendPage made it, or nil if none is stored. It may be called by several goroutines at
	// a time. The slice does not keep the value.
	Page(id LayerID, page uint32) (value []byte, err error)
}

// Memory counts the bytes that slices have in memory. The zero value is ready.
type Memory struct {
	Pages  atomic.Int64 // pages of bits
	Tables atomic.Int64 // what the layers take without any pages: 8 bytes for each page that a layer has room for, and a little
}

// Bytes returns the sum.
func (m *Memory) Bytes() int64 { return m.Pages.Load() + m.Tables.Load() }

// Slice is the part of a filter that lies in one place: layers of pages. The pages in use are in memory. It only grows.
//
// Check may be called by any number of goroutines, concurrently with one that calls the other methods: those must be called one at
// a time.
type Slice struct {
	opt      Options
	source   Source
	memory   *Memory
	bound    func(next Shape) error   // called before a layer is added for a key; nil allows all
	released atomic.Bool              // pages are no longer kept
	layers   atomic.Pointer[[]*layer] // in order; a list is never changed
	admitted struct {                 // what Commit sets: bits of the key that are missing in the layer
		layer *layer
		bits  []uint64
	}
}

// New returns a slice with these layers, none of whose pages are in memory. The source has the pages; with a nil source none are
// stored anywhere. What the slice has in memory is counted in memory, which may be nil, until it is released.
func New(opt Options, layers []Layer, source Source, memory *Memory) (*Slice, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	if memory == nil {
		memory = new(Memory)
	}
	s := &Slice{opt: opt, source: source, memory: memory}
	s.layers.Store(&[]*layer{})
	for i := range layers {
		if err := s.restore(layers[i], true); err != nil {
			s.Release()
			return nil, err
		}
	}
	for _, l := range *s.layers.Load() {
		l.counted = false // they are stored
	}
	return s, nil
}

// Bound sets a function that Admit calls before it adds a layer of a shape. If the function returns an error, Admit returns that
// error and adds nothing. A key that is already in the slice is found before the call. Bound must be called before the slice has
// another caller.
func (s *Slice) Bound(may func(next Shape) error) { s.bound = may }

// Check reports whether a key is in the slice, by its hash: false is certain, true is not. If it has to read a page and can't, it
// fails with the source's error or ErrCorruptPage, and then nothing is known.
func (s *Slice) Check(h *Hash) (bool, error) {
	l, err := s.holder(h, nil)
	return l != nil, err
}

// holder returns a layer that has all bits of a key, or nil. It skips the layer but, unless that is nil.
func (s *Slice) holder(h *Hash, but *layer) (*layer, error) {
	layers := *s.layers.Load()
	for i := len(layers) - 1; i >= 0; i-- {
		if layers[i] == but {
			continue
		}
		if has, err := s.layerHas(layers[i], h); err != nil {
			return nil, err
		} else if has {
			return layers[i], nil
		}
	}
	return nil, nil
}

// Look does what Check does if it needs to read no page for it; otherwise known is false.
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
		s.memory.Pages.Add(PageBytes)
	}
	l.pages[page].Store(w)
	return w, nil
}

// Admit decides what becomes of a key that is to be added. If the key is already in the slice, added is false and to is a layer
// that has its bits. Otherwise to is the layer that takes the key, with the count that it will then have. Commit sets the bits; it
// must be called before any other method. Everything that can fail is done by Admit. Admit adds a layer for the owner if the owner
// has none, or if its newest has as many keys as it may.
func (s *Slice) Admit(h *Hash, owner string) (to Layer, added bool, err error) {
	l := s.newest(owner)
	full := l == nil || l.count >= l.shape.Capacity
	asked := !full && s.lacking(l, h)
	if asked && len(s.admitted.bits) == 0 {
		return l.now(), false, nil
	}
	but := l
	if !asked {
		but = nil
	}
	if has, err := s.holder(h, but); err != nil {
		return Layer{}, false, err
	} else if has != nil {
		return has.now(), false, nil
	}
	if full {
		if l, err = s.grow(owner); err != nil {
			return Layer{}, false, err
		}
	}
	if !asked {
		if err := s.load(l, h); err != nil {
			return Layer{}, false, err
		}
	}
	to = l.now()
	to.Count++
	return to, true, nil
}

// AdmitNow does what Admit does if that requires neither a page from the source nor a new layer; otherwise known is false.
func (s *Slice) AdmitNow(h *Hash, owner string) (added, known bool) {
	l := s.newest(owner)
	if l == nil || l.count >= l.shape.Capacity {
		return false, false
	}
	if !s.lacking(l, h) && (s.asks(l) || s.load(l, h) != nil) {
		return false, false
	}
	if len(s.admitted.bits) == 0 {
		return false, true
	}
	for _, other := range *s.layers.Load() {
		if other == l {
			continue
		}
		if has, at := other.look(h, 0); has || at < other.shape.K {
			return false, has
		}
	}
	return true, true
}

// asks reports whether a page of the layer that is not in memory has to be read from the source.
func (s *Slice) asks(l *layer) bool { return s.source != nil && l.stored.Load() }

// Commit sets the bits of the key that was admitted last, and counts it.
func (s *Slice) Commit() {
	s.set()
	l := s.admitted.layer
	l.raise(l.count + 1)
}

// Needs returns how many bytes of pages Commit will allocate.
func (s *Slice) Needs() (bytes int64) {
	var last *atomic.Pointer[words]
	for _, bit := range s.admitted.bits { // ascending
		page := &s.admitted.layer.pages[bit/pageBits]
		if page != last && page.Load() == &zeroPage {
			bytes += PageBytes
		}
		last = page
	}
	return bytes
}

// Set sets the bits of a key in a layer, whether or not the key is in another, and raises the layer's count to at least to.Count. A
// layer that the slice does not have is added. If the slice has the layer in another shape, the error is ErrOptions. Set replays a
// log, and does at one replica what another has decided.
func (s *Slice) Set(to Layer, h *Hash) error {
	if err := s.prepare(to, h); err != nil {
		return err
	}
	s.CommitSet(to)
	return nil
}

// AdmitSet works out what Set would do, and reports whether the key is in the slice already. CommitSet does it; it must be called
// before any other method. Everything that can fail is done by AdmitSet. It may add a layer.
func (s *Slice) AdmitSet(to Layer, h *Hash) (has bool, err error) {
	if err := s.prepare(to, h); err != nil {
		return false, err
	}
	if len(s.admitted.bits) == 0 {
		return true, nil
	}
	other, err := s.holder(h, s.admitted.layer)
	return other != nil, err
}

// Changes reports whether CommitSet will change anything: set a bit, or raise the layer's count.
func (s *Slice) Changes(to Layer) bool {
	return len(s.admitted.bits) > 0 || to.Count > s.admitted.layer.count
}

// CommitSet sets the bits of the key of the last AdmitSet in that layer.
func (s *Slice) CommitSet(to Layer) {
	s.set()
	s.admitted.layer.raise(to.Count)
}

// prepare finds the layer, or adds it, and finds the bits of the key that are not set in it.
func (s *Slice) prepare(to Layer, h *Hash) error {
	l := s.find(to.ID)
	if l == nil || l.shape != to.Shape {
		if err := s.Restore(Layer{to.ID, to.Shape, 0}); err != nil {
			return err
		}
		l = s.find(to.ID)
	}
	return s.load(l, h)
}

// lacking works out which bits of a key are not set in a layer. It reports false if that can't be known, because a page is not in
// memory.
func (s *Slice) lacking(l *layer, h *Hash) (known bool) {
	s.admitted.layer = l
	s.admitted.bits, _, known = l.missing(s.admitted.bits, h)
	return known
}

// load does what lacking does, but reads missing pages into memory.
func (s *Slice) load(l *layer, h *Hash) error {
	s.admitted.layer = l
	for {
		bits, page, known := l.missing(s.admitted.bits, h)
		s.admitted.bits = bits
		if known {
			return nil
		}
		if err := s.bring(l, page); err != nil {
			return err
		}
	}
}

// bring reads a page into memory, to be written to.
func (s *Slice) bring(l *layer, page uint32) error {
	if s.released.Load() {
		return errReleased
	}
	_, err := s.fault(l, page)
	return err
}

// set sets the bits that were found to be missing.
func (s *Slice) set() {
	l := s.admitted.layer
	for _, bit := range s.admitted.bits {
		page := uint32(bit / pageBits)
		s.own(l, page).set(bit % pageBits)
		l.dirty.add(page)
	}
}

// own returns a page in memory that may be written to.
func (s *Slice) own(l *layer, page uint32) *words {
	w := l.pages[page].Load()
	if w == &zeroPage {
		w = new(words)
		s.memory.Pages.Add(PageBytes)
		l.pages[page].Store(w)
	}
	return w
}

// newest returns the owner's last layer, or nil.
func (s *Slice) newest(owner string) *layer {
	layers := *s.layers.Load()
	for i := len(layers) - 1; i >= 0; i-- {
		if layers[i].id.Owner == owner {
			return layers[i]
		}
	}
	return nil
}

// find returns a layer that the slice has, or nil.
func (s *Slice) find(id LayerID) *layer {
	for _, l := range *s.layers.Load() {
		if l.id == id {
			return l
		}
	}
	return nil
}

// grow adds a layer for the owner, after its other layers, at the first index that does not have a layer of each owner yet. So the
// layers of an index together have the probability that the one layer would have with a single owner.
func (s *Slice) grow(owner string) (*layer, error) {
	index := 0
	if l := s.newest(owner); l != nil {
		index = int(l.id.Index) + 1
	}
	for s.layersAt(index) >= max(1, int(s.opt.Owners)) || s.wholeAt(index) {
		index++
	}
	shape, err := s.opt.Shape(index)
	if err != nil {
		return nil, err
	}
	if s.bound != nil {
		if err := s.bound(shape); err != nil {
			return nil, err
		}
	}
	return s.add(newLayer(Layer{LayerID{uint16(index), owner}, shape, 0}, false))
}

// SetOwners says how many owners fill the slice from now on. Existing layers stay as they are. If their shapes differ from those
// that the options now give, as those of a single owner do, no other layer is added at their indexes. Like Admit, SetOwners must
// not be called concurrently with methods other than Check.
func (s *Slice) SetOwners(n uint32) { s.opt.Owners = n }

// wholeAt reports whether a layer of an index has a shape that is not divided among the owners: that layer has the probability of
// all of them.
func (s *Slice) wholeAt(index int) bool {
	for _, l := range *s.layers.Load() {
		if int(l.id.Index) == index {
			if shape, err := s.opt.Shape(index); err != nil || shape != l.shape {
				return true
			}
		}
	}
	return false
}

// layersAt returns how many layers have an index.
func (s *Slice) layersAt(index int) (n int) {
	for _, l := range *s.layers.Load() {
		if int(l.id.Index) == index {
			n++
		}
	}
	return n
}

// AddLayer adds the owner's first layer if the owner has none, so that a new slice has a size before it has a key.
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
	at, _ := slices.BinarySearchFunc(layers, l.id, func(l *layer, id LayerID) int { return l.id.Compare(id) })
	layers = slices.Insert(slices.Clone(layers), at, l)
	s.layers.Store(&layers)
	s.memory.Tables.Add(l.bytes())
	return l, nil
}

// Restore adds a layer that another replica or the log of marks has, or raises its count to the one given. It is idempotent. It
// fails with ErrOptions if the slice has the layer in another shape, or if no layer can have the shape.
func (s *Slice) Restore(l Layer) error { return s.restore(l, false) }

// restore adds a layer. stored says that the source may have pages of it; otherwise the layer is still to be stored.
func (s *Slice) restore(l Layer, stored bool) error {
	have := s.find(l.ID)
	if have != nil && have.shape == l.Shape {
		have.raise(l.Count)
		return nil
	}
	if err := l.Shape.Validate(); err != nil {
		return err
	}
	if have != nil {
		return optionsError("layer %d of %q has another shape here", l.ID.Index, l.ID.Owner)
	}
	_, err := s.add(newLayer(l, stored))
	return err
}

// LayerCount returns the number of layers.
func (s *Slice) LayerCount() int { return len(*s.layers.Load()) }

// Layers returns the layers, in order.
func (s *Slice) Layers() []Layer {
	layers := *s.layers.Load()
	out := make([]Layer, len(layers))
	for i, l := range layers {
		out[i] = l.now()
	}
	return out
}

// Figures are what bloomd reports of a filter.
type Figures struct {
	Capacity uint64 // keys, of all layers
	Size     uint64 // keys that were added
	Storage  uint64 // bytes of the layers, with the head that bloomd's files have; not what is on disk here
}

// FiguresOf returns the figures of a slice with these layers.
func FiguresOf(layers []Layer) (f Figures) {
	for i := range layers {
		f.Capacity += layers[i].Shape.Capacity
		f.Size += layers[i].Count
		f.Storage += layers[i].Shape.Bytes + HeaderBytes
	}
	return f
}
