package bigset

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"bigset/bloomslice"
	"bigset/keyscheme"
)

// SliceSpec names one slice of a filter, and says how the filter was made. Between replicas every request on a slice carries one: a
// replica that does not have the slice yet makes it when something has to be stored in it, and a filter of a later generation
// replaces the earlier ones of its name.
type SliceSpec struct {
	Name       []byte
	Slice      uint32        // below Options.Slices
	Generation uint64        // chosen by the maker of the filter: above 0, used by no other filter, and above those of its name before
	Options    FilterOptions // all fields are set, none is a default; not InMemory
}

// NextGeneration returns the generation of a filter that is made now: above last, and at least the time in microseconds since 1970.
// If last is at least Filters.LastGeneration of every member, no filter has had that generation, not even one that a node made when
// it was alone.
func NextGeneration(last uint64, now time.Time) uint64 {
	return max(last+1, uint64(max(0, now.UnixMicro())))
}

// Slot returns the slot of the slice.
func (s *SliceSpec) Slot() keyscheme.Slot {
	return keyscheme.SlotOf(keyscheme.PartitionFilter, s.Name, s.Slice)
}

// Check returns what is wrong with a spec from which a slice is to be made: ErrRequest, ErrLimit, or bloomslice.ErrOptions.
func (s *SliceSpec) Check() error {
	switch {
	case s.Options.InMemory:
		return fmt.Errorf("%w: filter %q is only in memory, so replicas can't share it", ErrRequest, s.Name)
	case s.Generation == 0 || s.Generation > math.MaxInt64:
		return fmt.Errorf("%w: generation %d of filter %q", ErrRequest, s.Generation, s.Name)
	case s.Slice >= s.Options.Slices || s.Options.Owners == 0:
		return fmt.Errorf("%w: slice %d of filter %q, which has %d, for %d owners", ErrRequest, s.Slice, s.Name, s.Options.Slices, s.Options.Owners)
	}
	return errors.Join(CheckFilterName(s.Name), s.Options.Check())
}

// CheckHashes returns what is wrong with keys in a request on the slice: ErrLimit, or ErrRequest for a key of another slice.
func (s *SliceSpec) CheckHashes(hashes []bloomslice.Hash) error {
	if len(hashes) > MarksMax {
		return &LimitError{"keys of a slice at once", len(hashes), MarksMax}
	}
	for i := range hashes {
		if err := s.holds(&hashes[i]); err != nil {
			return err
		}
	}
	return nil
}

// holds returns an error for a key that belongs to another slice.
func (s *SliceSpec) holds(h *bloomslice.Hash) error {
	if at := h.Slice(s.Options.Slices); at != s.Slice {
		return fmt.Errorf("%w: a key of slice %d, in slice %d of %q", ErrRequest, at, s.Slice, s.Name)
	}
	return nil
}

// CheckSeat returns what is wrong with a seat from which the slice is to be filled: ErrRequest.
func (s *SliceSpec) CheckSeat(seat bloomslice.Seat) error {
	if uint32(seat) >= s.Options.Owners {
		return fmt.Errorf("%w: seat %d of filter %q, which is made for %d owners", ErrRequest, seat, s.Name, s.Options.Owners)
	}
	return nil
}

// checkOwner returns what is wrong with the owner of a layer that another replica names: it must be a seat of the filter.
func (s *SliceSpec) checkOwner(id bloomslice.LayerID) error {
	seat, ok := id.Seat()
	if !ok {
		return fmt.Errorf("%w: layer %d of filter %q has owner %.64q, which is not a seat", ErrRequest, id.Index, s.Name, id.Owner)
	}
	return s.CheckSeat(seat)
}

// checkShape returns what is wrong with the shape of a layer that another replica names: it must follow from the options. Layers of
// seat 0 may be older than the division among several owners, with shapes of a single owner. Those of a filter with one slice may
// have been imported, with any shape.
func (s *SliceSpec) checkShape(l *bloomslice.Layer) error {
	index := int(l.ID.Index)
	if shape, err := s.Options.Shape(index); err == nil && shape == l.Shape {
		return nil
	}
	if l.ID.Owner == "" {
		alone := s.Options.Options
		alone.Owners = 1
		if shape, err := alone.Shape(index); s.Options.Slices == 1 || err == nil && shape == l.Shape {
			return nil
		}
	}
	return fmt.Errorf("%w: layer %d of filter %q can't have %d bytes", ErrRequest, index, s.Name, l.Shape.Bytes)
}

// checkLayers returns what is wrong with layers that another replica names. A filter of one slice and one owner may have been imported, with
// layers of any owner and shape.
func (s *SliceSpec) checkLayers(layers []bloomslice.Layer) error {
	imported := s.Options.Slices == 1 && s.Options.Owners == 1
	bytes := uint64(0)
	for i := range layers {
		l := &layers[i]
		if err := l.Shape.Validate(); err != nil {
			return err
		}
		if !imported {
			if err := errors.Join(s.checkShape(l), s.checkOwner(l.ID)); err != nil {
				return err
			}
		}
		if len(l.ID.Owner) > bloomslice.OwnerBytesMax {
			return fmt.Errorf("%w: an owner's name of %d bytes, at most %d", ErrRequest, len(l.ID.Owner), bloomslice.OwnerBytesMax)
		}
		if l.Count > l.Shape.Capacity {
			return fmt.Errorf("%w: layer %d of filter %q has %d keys, at most %d", ErrRequest, l.ID.Index, s.Name, l.Count, l.Shape.Capacity)
		}
		if bytes += l.Shape.Bytes; bytes > layersBytesMax {
			return &LimitError{"bytes of layers at once", int(bytes), layersBytesMax}
		}
	}
	return nil
}

// layersBytesMax bounds the layers that another replica names at once: an open slice takes memory in proportion to their sizes.
const layersBytesMax = 4 * bloomslice.LayerBytesMax

// Mark is a marked key and the layer that has its bits.
type Mark struct {
	Layer int // of Marks.Layers
	Hash  bloomslice.Hash
}

// Marks are marks of keys of one slice: what one replica decided, for the others to apply. Applying them twice, late, or in another
// order changes nothing.
type Marks struct {
	SliceSpec
	Layers []bloomslice.Layer // the layers that the marks name, each once. A count has all the marks of its layer
	Marks  []Mark             // at most MarksMax
}

// Check returns what is wrong with marks: ErrLimit, ErrRequest, or bloomslice.ErrOptions.
func (m *Marks) Check() error {
	if len(m.Marks) > MarksMax {
		return &LimitError{"marks at once", len(m.Marks), MarksMax}
	}
	if err := m.checkLayers(m.Layers); err != nil {
		return err
	}
	for i := range m.Marks {
		if at := m.Marks[i].Layer; at < 0 || at >= len(m.Layers) {
			return fmt.Errorf("%w: a mark of layer %d of %d", ErrRequest, at, len(m.Layers))
		}
		if err := m.holds(&m.Marks[i].Hash); err != nil {
			return err
		}
	}
	return nil
}

// SliceDigest says what a store has of a slice: equal digests mean the same layers, counts and bits.
type SliceDigest struct {
	SliceSpec      // for a dropped slice, Options has only Slices
	Dropped   bool // the generation, and all before it, are dropped for good: the store has nothing of them, and Sum is zero
	Sum       [16]byte
}

// PagePlace is the place of a page: its layer and its number. Places are in the order of layers (bloomslice.LayerID.Compare), then
// of pages.
type PagePlace struct {
	Layer bloomslice.LayerID
	Page  uint32
}

// Compare orders places: by layer, then by page.
func (p PagePlace) Compare(q PagePlace) int {
	return cmp.Or(p.Layer.Compare(q.Layer), cmp.Compare(p.Page, q.Page))
}

// PageSum is a hash of a stored page. Equal sums mean equal bits.
type PageSum struct {
	PagePlace
	Sum uint64
}

// PageSums are the hashes of a run of a slice's pages.
type PageSums struct {
	Layers []bloomslice.Layer // all of the slice, in order
	Sums   []PageSum          // in order, at most PageSumsMax. Pages missing from the run are not stored
	Done   bool               // there are no pages after the last; otherwise the run continues there
}

// SlicePages are pages of a slice, as one replica has them, for another to join.
type SlicePages struct {
	SliceSpec
	Layers []bloomslice.Layer // at least those of the pages, in order
	Pages  []SlicePage        // in order, at most PagesMax
}

// SlicePage is a page of a slice.
type SlicePage struct {
	PagePlace
	Value []byte // as bloomslice.AppendPage writes it
}

// Check returns what is wrong with pages, except for their values: ErrLimit, ErrRequest, or bloomslice.ErrOptions.
func (p *SlicePages) Check() error {
	if len(p.Pages) > PagesMax {
		return &LimitError{"pages at once", len(p.Pages), PagesMax}
	}
	if err := p.checkLayers(p.Layers); err != nil {
		return err
	}
	for i := range p.Pages {
		id := p.Pages[i].Layer
		if !slices.ContainsFunc(p.Layers, func(l bloomslice.Layer) bool { return l.ID == id }) {
			return fmt.Errorf("%w: a page of layer %d of %q, without the layer", ErrRequest, id.Index, id.Owner)
		}
	}
	return nil
}

// The bounds of what is sent of a slice at a time.
const (
	MarksMax    = 1 << 14
	PageSumsMax = 1 << 15
	PagesMax    = 1 << 9
)
