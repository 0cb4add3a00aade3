package engine

import (
	"bigset/bloomslice"
	"bigset/keyscheme"
)

// SliceSpec names one slice of a filter, and says what the filter was made with. Between replicas every request on a slice carries one: a
// replica that has not the slice yet makes it when something is to be stored in it, and a filter of a later generation takes the place of
// the earlier ones of its name.
type SliceSpec struct {
	Name       []byte
	Slice      uint32        // below Options.Slices
	Generation uint64        // given by who makes the filter: above 0, of no other filter, and above those of its name before
	Options    FilterOptions // all set, none a default; not InMemory
}

// Slot returns where the slice lies.
func (s *SliceSpec) Slot() keyscheme.Slot {
	return keyscheme.SlotOf(keyscheme.PartitionFilter, s.Name, s.Slice)
}

// Mark is a key that was marked: which layer has its bits.
type Mark struct {
	Layer int // of Marks.Layers
	Hash  bloomslice.Hash
}

// Marks are marks of keys of one slice: what one replica decided, for the others to do. To apply them twice, late, or in another order
// changes nothing.
type Marks struct {
	SliceSpec
	Layers []bloomslice.Layer // that the marks name, each once. A count has all the marks of its layer
	Marks  []Mark             // at most MarksMax
}

// SliceDigest says what a store has of a slice: equal ones mean the same layers, counts and bits.
type SliceDigest struct {
	SliceSpec      // of one that was dropped without options, but for Slices
	Dropped   bool // the generation, and all before it, are dropped for good: it has nothing of them, and Sum is zero
	Sum       [16]byte
}

// PagePlace says where a page is: of which layer, and which. They are in the order of layers (bloomslice.LayerID.Compare), then of pages.
type PagePlace struct {
	Layer bloomslice.LayerID
	Page  uint32
}

// PageSum is a hash of a page that is stored. Equal ones mean equal bits.
type PageSum struct {
	PagePlace
	Sum uint64
}

// PageSums are the hashes of a run of a slice's pages.
type PageSums struct {
	Layers []bloomslice.Layer // all of the slice, in order
	Sums   []PageSum          // in order, at most PageSumsMax. Of pages of the run that do not come nothing is stored
	Done   bool               // there are no pages behind the last; else the run goes on there
}

// SlicePages are pages of a slice, as one replica has them, for another to join.
type SlicePages struct {
	SliceSpec
	Layers []bloomslice.Layer // those of the pages at least, in order
	Pages  []SlicePage        // in order, at most PagesMax
}

// SlicePage is a page of a slice.
type SlicePage struct {
	PagePlace
	Value []byte // as bloomslice.AppendPage
}

// The bounds of what is sent of slices at a time.
const (
	MarksMax    = 1 << 14
	PageSumsMax = 1 << 15
	PagesMax    = 1 << 9
)
