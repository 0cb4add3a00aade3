package peer

import (
	"encoding/binary"
	"fmt"
	"math"

	"bigset"
	"bigset/bloomslice"
	"bigset/keyscheme"
)

// The kinds of frames about slices of bloom filters. They are on the wire.
const (
	kindMark           = 'm'
	kindMarked         = 'n'
	kindMarks          = 'd'
	kindCheck          = 'c'
	kindKeyAnswers     = 'v'
	kindDropGeneration = 'x'
	kindSliceDigests   = 'g'
	kindAskPageSums    = 'h'
	kindPageSums       = 'k'
	kindAskPages       = 'e'
	kindSlicePages     = 'p'
	kindFlushSlice     = 'f'
)

// sliceMessage decodes the rest of a frame as a message about slices, or returns nil if the kind is not one.
func (d *decoder) sliceMessage(kind byte) Message {
	switch kind {
	case kindMark:
		return Mark(d.sliceKeys())
	case kindMarked:
		return d.marked()
	case kindMarks:
		return d.marks()
	case kindCheck:
		return Check(d.sliceKeys())
	case kindKeyAnswers:
		return KeyAnswers(d.bits())
	case kindDropGeneration:
		return d.dropGeneration()
	case kindSliceDigests:
		return d.sliceDigests()
	case kindAskPageSums:
		return d.askPageSums()
	case kindPageSums:
		return d.pageSums()
	case kindAskPages:
		return d.askPages()
	case kindSlicePages:
		return d.slicePages()
	case kindFlushSlice:
		return FlushSlice{d.spec()}
	}
	return nil
}

func (e *encoder) spec(s *bigset.SliceSpec) error {
	if err := checkSpec(s); err != nil {
		return err
	}
	e.bytes(s.Name)
	e.uvarint(uint64(s.Slice))
	e.uvarint(s.Generation)
	e.filterOptions(&s.Options)
	return nil
}

func (d *decoder) spec() bigset.SliceSpec {
	s := bigset.SliceSpec{Name: d.filterName(), Slice: uint32(d.upTo(math.MaxUint32)), Generation: d.uvarint(), Options: d.filterOptions()}
	if err := checkSpec(&s); d.err == nil && err != nil {
		d.failed("slice", err)
	}
	return s
}

func (d *decoder) filterName() []byte { return d.bytes(keyscheme.FilterNameBytesMax) }

// checkSpec checks the name of a slice, and the options of its filter.
func checkSpec(s *bigset.SliceSpec) error {
	if err := checkSlice(s); err != nil {
		return err
	}
	return checkFilterOptions(&s.Options)
}

// checkSlice checks the fields that a SliceSpec of a dropped slice has, too.
func checkSlice(s *bigset.SliceSpec) error {
	if err := checkGeneration(s.Name, s.Options.Slices, s.Generation); err != nil {
		return err
	}
	if s.Slice >= s.Options.Slices {
		return fmt.Errorf("%w: slice %d of %d", ErrFrame, s.Slice, s.Options.Slices)
	}
	return nil
}

func checkGeneration(name []byte, slices uint32, generation uint64) error {
	switch {
	case len(name) > keyscheme.FilterNameBytesMax:
		return fmt.Errorf("%w: a filter's name of %d bytes", ErrFrameTooLarge, len(name))
	case slices < 1 || slices > bloomslice.SlicesMax || slices&(slices-1) != 0:
		return fmt.Errorf("%w: %d slices", ErrFrame, slices)
	case generation == 0:
		return fmt.Errorf("%w: generation 0 of a filter", ErrFrame)
	}
	return nil
}

// checkFilterOptions also refuses values that stand for a default: replicas must not differ by it.
func checkFilterOptions(o *bigset.FilterOptions) error {
	if o.InMemory || o.Slices < 1 || o.Owners < 1 || o.Durability > bigset.FilterSync {
		return fmt.Errorf("%w: a filter of %d slices, %d owners, durability %d, in memory only: %v", ErrFrame, o.Slices, o.Owners, o.Durability, o.InMemory)
	}
	if err := o.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return nil
}

func (e *encoder) filterOptions(o *bigset.FilterOptions) {
	e.uvarint(o.Capacity)
	e.float(o.Probability)
	e.uvarint(uint64(o.Scale))
	e.float(o.Reduction)
	e.uvarint(uint64(o.Slices))
	e.uvarint(uint64(o.Owners))
	e.byte(byte(o.Durability))
}

func (d *decoder) filterOptions() (o bigset.FilterOptions) {
	o.Capacity, o.Probability = d.uvarint(), d.float()
	o.Scale, o.Reduction = uint32(d.upTo(math.MaxUint32)), d.float()
	o.Slices, o.Owners = uint32(d.upTo(math.MaxUint32)), uint32(d.upTo(math.MaxUint32))
	o.Durability = bigset.FilterDurability(d.byte())
	return o
}

func (e *encoder) float(v float64) { e.uint64(math.Float64bits(v)) }
func (e *encoder) uint64(v uint64) { e.b = binary.BigEndian.AppendUint64(e.b, v) }

func (d *decoder) float() float64 { return math.Float64frombits(d.uint64()) }
func (d *decoder) uint64() uint64 { return binary.BigEndian.Uint64(d.raw(8)) }

func (e *encoder) layerID(id bloomslice.LayerID) error {
	if len(id.Owner) > bloomslice.OwnerBytesMax {
		return fmt.Errorf("%w: an owner's name of %d bytes", ErrFrameTooLarge, len(id.Owner))
	}
	e.uvarint(uint64(id.Index))
	e.named(&e.owners, id.Owner)
	return nil
}

func (d *decoder) layerID() bloomslice.LayerID {
	return bloomslice.LayerID{Index: uint16(d.upTo(math.MaxUint16)), Owner: d.named(&d.owners, 0, bloomslice.OwnerBytesMax)}
}

// layerBytesMin is the minimum size of a layer: index, owner, bytes, bits per key, capacity, count.
const layerBytesMin = 6

func (e *encoder) layers(all []bloomslice.Layer) error {
	if len(all) > bloomslice.LayersMax {
		return fmt.Errorf("%w: %d layers", ErrFrameTooLarge, len(all))
	}
	e.uvarint(uint64(len(all)))
	for i := range all {
		l := &all[i]
		if err := l.Shape.Validate(); err != nil {
			return fmt.Errorf("%w: %w", ErrFrame, err)
		}
		if err := e.layerID(l.ID); err != nil {
			return err
		}
		e.uvarint(l.Shape.Bytes)
		e.uvarint(uint64(l.Shape.K))
		e.uvarint(l.Shape.Capacity)
		e.uvarint(l.Count)
	}
	return nil
}

func (d *decoder) layers() []bloomslice.Layer {
	n := d.count(layerBytesMin, bloomslice.LayersMax)
	if n == 0 {
		return nil
	}
	all := d.layersRoom.take(n, min(layersRoom, d.rest()/layerBytesMin))
	for i := range all {
		l := bloomslice.Layer{ID: d.layerID()}
		l.Shape.Bytes, l.Shape.K = d.uvarint(), uint32(d.upTo(math.MaxUint32))
		l.Shape.Capacity, l.Count = d.uvarint(), d.uvarint()
		if err := l.Shape.Validate(); d.err == nil && err != nil {
			d.failed("layer", err)
		}
		if d.err != nil {
			return nil
		}
		all[i] = l
	}
	return all
}

// layersRoom is the number of layers, of several slices, for which memory is allocated at once.
const layersRoom = 64

// checkLayersInOrder checks that layers ascend, without duplicates.
func checkLayersInOrder(all []bloomslice.Layer) error {
	for i := 1; i < len(all); i++ {
		if all[i-1].ID.Compare(all[i].ID) >= 0 {
			return fmt.Errorf("%w: layers are not in order", ErrFrame)
		}
	}
	return nil
}

// bits writes answers, eight per byte, the first in the lowest bit.
func (e *encoder) bits(v []bool) error {
	if len(v) > bigset.MarksMax {
		return fmt.Errorf("%w: %d answers", ErrFrameTooLarge, len(v))
	}
	e.uvarint(uint64(len(v)))
	at := len(e.b)
	e.b = append(e.b, make([]byte, (len(v)+7)/8)...)
	for i := range v {
		if v[i] {
			e.b[at+i/8] |= 1 << (i % 8)
		}
	}
	return nil
}

// answersRoom is the number of answers, of several slices, for which memory is allocated at once.
const answersRoom = 512

func (d *decoder) bits() []bool {
	n := int(d.upTo(bigset.MarksMax))
	packed := d.raw((n + 7) / 8)
	if d.err != nil || n == 0 {
		return nil
	}
	if packed[len(packed)-1]>>((n-1)%8) > 1 {
		d.fail("answers after the last")
	}
	v := d.answers.take(n, min(answersRoom, 8*d.rest()))
	for i := range v {
		v[i] = packed[i/8]>>(i%8)&1 != 0
	}
	return v
}
