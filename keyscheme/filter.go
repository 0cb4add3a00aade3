package keyscheme

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"bigset/bloomslice"
)

// FilterNameBytesMax is the longest name of a bloom filter. It is part of the disk format, and the limit in bloomd.
const FilterNameBytesMax = 200

// FilterPart says what a key of a filter holds. It is on disk.
type FilterPart byte

// The parts of a filter, in their order.
const (
	FilterHead  FilterPart = 'h' // options; one key
	FilterLayer FilterPart = 'l' // shape and count of a layer
	FilterPage  FilterPart = 'p' // a page of bits of a layer
)

// Constants of the directory's keys, which follow all slots. They are on disk.
const (
	directoryKind = 0xFF // where a kind of a slot's own keys would be, in the last slot
)

// EntryKind says what an entry of the directory means. It is on disk.
type EntryKind byte

// The kinds of entries.
const (
	EntryDropped EntryKind = 'd' // no replica may bring back the filter's generations up to this one. Slice is how many slices it has
	EntryPresent EntryKind = 'f' // the store has this slice of the filter
	EntryLeft    EntryKind = 'g' // the store has dropped this slice, but has not excised all that is left of it
)

// FilterPrefix is what all keys of one slice of a filter start with: the slot's own namespace, the kind, the name. It is also their
// lower bound. It must not be changed.
type FilterPrefix []byte

// NewFilterPrefix returns the prefix of one slice of a filter; slice is 0 if the filter is not split. The name must pass
// CheckFilterName.
func NewFilterPrefix(name []byte, slice uint32) FilterPrefix {
	return AppendFilterPrefix(make([]byte, 0, SlotBytes+LengthBytes+2+len(name)), name, slice)
}

// AppendFilterPrefix appends the prefix of one slice of a filter.
func AppendFilterPrefix(dst, name []byte, slice uint32) []byte {
	dst = AppendSlotKey(dst, SlotOf(PartitionFilter, name, slice), SlotBloom, nil)
	return append(append(dst, byte(len(name))), name...)
}

// CheckFilterName returns an error that is ErrNameTooLong when no key can hold the name.
func CheckFilterName(name []byte) error {
	if len(name) > FilterNameBytesMax {
		return fmt.Errorf("%w: a filter's name of %d bytes, at most %d", ErrNameTooLong, len(name), FilterNameBytesMax)
	}
	return nil
}

// AppendHead appends the key of the head of one generation of the filter.
func (p FilterPrefix) AppendHead(dst []byte, generation uint64) []byte {
	return p.appendPart(dst, generation, FilterHead)
}

func (p FilterPrefix) appendPart(dst []byte, generation uint64, part FilterPart) []byte {
	return append(binary.BigEndian.AppendUint64(append(dst, p...), generation), byte(part))
}

// AppendLayer appends the key of a layer, in one generation of the filter. The owner has at most bloomslice.OwnerBytesMax bytes.
func (p FilterPrefix) AppendLayer(dst []byte, generation uint64, id bloomslice.LayerID) []byte {
	return p.appendLayer(dst, generation, FilterLayer, id)
}

// AppendPage appends the key of a page of a layer.
func (p FilterPrefix) AppendPage(dst []byte, generation uint64, id bloomslice.LayerID, page uint32) []byte {
	return binary.BigEndian.AppendUint32(p.appendLayer(dst, generation, FilterPage, id), page)
}

func (p FilterPrefix) appendLayer(dst []byte, generation uint64, part FilterPart, id bloomslice.LayerID) []byte {
	dst = p.appendPart(dst, generation, part)
	dst = append(binary.BigEndian.AppendUint16(dst, id.Index), byte(len(id.Owner)))
	return append(dst, id.Owner...)
}

// All bounds all keys of the slice.
func (p FilterPrefix) All() Bounds {
	return Bounds{p[:len(p):len(p)], headSuccessor(p)} // not all 0xFF: the kind is not
}

// Generation bounds all keys of one generation.
func (p FilterPrefix) Generation(generation uint64) Bounds {
	lower := binary.BigEndian.AppendUint64(append([]byte(nil), p...), generation)
	return Bounds{lower, headSuccessor(lower)}
}

// Layers bounds the layers of one generation.
func (p FilterPrefix) Layers(generation uint64) Bounds {
	lower := p.appendPart(nil, generation, FilterLayer)
	return Bounds{lower, headSuccessor(lower)}
}

// FilterKey is a key of a filter taken apart. The name aliases the key.
type FilterKey struct {
	Part       FilterPart
	Name       []byte
	Generation uint64
	Layer      bloomslice.LayerID // layer, page
	Page       uint32             // page
}

// DecodeFilterKey decodes the rest (Key.Rest) of a key of KindSlotBloom. It reports false for what the Append functions of a
// FilterPrefix do not write.
func DecodeFilterKey(rest []byte) (k FilterKey, ok bool) {
	if len(rest) == 0 || int(rest[0]) > FilterNameBytesMax || len(rest) < 1+int(rest[0])+8+1 {
		return k, false
	}
	n := 1 + int(rest[0])
	k.Name, rest = rest[1:n:n], rest[n:]
	k.Generation, k.Part, rest = binary.BigEndian.Uint64(rest), FilterPart(rest[8]), rest[9:]
	if k.Part == FilterHead {
		return k, len(rest) == 0
	}
	const least = 2 + 1
	if k.Part != FilterLayer && k.Part != FilterPage || len(rest) < least {
		return k, false
	}
	k.Layer.Index = binary.BigEndian.Uint16(rest)
	owner := int(rest[least-1])
	if rest = rest[least:]; len(rest) < owner {
		return k, false
	}
	k.Layer.Owner, rest = string(rest[:owner]), rest[owner:]
	if k.Part == FilterLayer {
		return k, len(rest) == 0
	}
	if len(rest) != 4 {
		return k, false
	}
	k.Page = binary.BigEndian.Uint32(rest)
	return k, true
}

// Directory bounds the directory: what the store has of filters, by name. It follows all slots, belongs to none, and is not moved
// with any.
func Directory() Bounds {
	lower := AppendSlotKey(nil, SlotMax, directoryKind, nil)
	return Bounds{lower, append(lower[:len(lower):len(lower)], 0xFF)}
}

// DirectoryEntry is one key of the directory. Its value is empty unless it is that of a slice that is present. For each kind, a
// slice of a generation gets an entry once and loses it once.
type DirectoryEntry struct {
	Kind       EntryKind
	Name       []byte
	Slice      uint32
	Generation uint64
}

// AppendDirectoryKey appends the key of an entry.
func AppendDirectoryKey(dst []byte, e DirectoryEntry) []byte {
	dst = append(appendDirectoryName(dst, e.Kind, e.Name), 0, 0, 0, 0)
	binary.BigEndian.PutUint32(dst[len(dst)-4:], e.Slice)
	return binary.BigEndian.AppendUint64(dst, e.Generation)
}

func appendDirectoryName(dst []byte, kind EntryKind, name []byte) []byte {
	dst = append(AppendSlotKey(dst, SlotMax, directoryKind, nil), byte(kind), byte(len(name)))
	return append(dst, name...)
}

// DirectoryOf bounds the entries of one kind for one filter, by slice, then by generation.
func DirectoryOf(kind EntryKind, name []byte) Bounds {
	lower := appendDirectoryName(nil, kind, name)
	return Bounds{lower, append(lower[:len(lower):len(lower)], bytes.Repeat([]byte{0xFF}, 4+8+1)...)}
}

// DecodeDirectoryKey inverts AppendDirectoryKey, given the rest (Key.Rest) of a key of KindDirectory. The name aliases the rest.
func DecodeDirectoryKey(rest []byte) (e DirectoryEntry, ok bool) {
	if len(rest) < 2 || int(rest[1]) > FilterNameBytesMax || len(rest) != 2+int(rest[1])+4+8 {
		return e, false
	}
	n := 2 + int(rest[1])
	e.Kind, e.Name = EntryKind(rest[0]), rest[2:n:n]
	e.Slice, e.Generation = binary.BigEndian.Uint32(rest[n:]), binary.BigEndian.Uint64(rest[n+4:])
	return e, e.Kind == EntryDropped || e.Kind == EntryPresent || e.Kind == EntryLeft
}

// AppendPresentValue appends the value of the entry of a slice that is present: the number of the filter's slices. For one slice
// the value is empty.
func AppendPresentValue(dst []byte, slices uint32) []byte {
	if slices <= 1 {
		return dst
	}
	return binary.BigEndian.AppendUint32(dst, slices)
}

// DecodePresentValue inverts AppendPresentValue for the entry of the given slice. Its error is ErrCorruptValue.
func DecodePresentValue(value []byte, slice uint32) (slices uint32, err error) {
	slices = 1
	if len(value) == 4 {
		slices = binary.BigEndian.Uint32(value)
	}
	if len(value) != 0 && (len(value) != 4 || slices <= 1 || slices > bloomslice.SlicesMax || slices&(slices-1) != 0) || slice >= slices {
		return 0, corrupt("directory", "bad number of slices")
	}
	return slices, nil
}

// FilterDurability says how durable a mark is when it is acknowledged. It is on disk.
type FilterDurability byte

// The durabilities of a filter's marks.
const (
	FilterServer   FilterDurability = iota // as the store's options say
	FilterInterval                         // at once; marks that were not flushed yet are lost in a crash
	FilterLog                              // after it is written to the log: it survives the process, not the machine
	FilterSync                             // after it is on disk
)

// FilterOptions are the options with which a filter was made. They are in its head.
type FilterOptions struct {
	bloomslice.Options
	Generation uint64 // larger than that of any filter of this name before
	InMemory   bool   // it has no pages on disk
	Durability FilterDurability
}

const filterVersion = 1

const filterInMemory = 1 << 0

const (
	filterHeadBytes  = 3 + 8 + 8 + 8 + 4 + 8 // of a filter of one slice and one owner
	filterPartsBytes = 4 + 4                 // slices and owners, if either is more than one
)

// AppendFilterHead appends the value of a filter's head.
func AppendFilterHead(dst []byte, o FilterOptions) []byte {
	var flags byte
	if o.InMemory {
		flags |= filterInMemory
	}
	dst = append(dst, filterVersion, flags, byte(o.Durability))
	dst = binary.BigEndian.AppendUint64(dst, o.Generation)
	dst = binary.BigEndian.AppendUint64(dst, o.Capacity)
	dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(o.Probability))
	dst = binary.BigEndian.AppendUint32(dst, o.Scale)
	dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(o.Reduction))
	if o.Slices <= 1 && o.Owners <= 1 {
		return dst
	}
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(dst, o.Slices), o.Owners)
}

// DecodeFilterHead inverts AppendFilterHead. Its error is ErrCorruptValue, which it also returns for options that no filter may
// have.
func DecodeFilterHead(value []byte) (o FilterOptions, err error) {
	parts := len(value) == filterHeadBytes+filterPartsBytes
	if !parts && len(value) != filterHeadBytes || value[0] != filterVersion || value[1] > filterInMemory || FilterDurability(value[2]) > FilterSync {
		return o, corrupt("filter", "bad head")
	}
	o.InMemory, o.Durability = value[1] == filterInMemory, FilterDurability(value[2])
	o.Generation = binary.BigEndian.Uint64(value[3:])
	o.Capacity = binary.BigEndian.Uint64(value[11:])
	o.Probability = math.Float64frombits(binary.BigEndian.Uint64(value[19:]))
	o.Scale = binary.BigEndian.Uint32(value[27:])
	o.Reduction = math.Float64frombits(binary.BigEndian.Uint64(value[31:]))
	o.Slices, o.Owners = 1, 1
	if parts {
		o.Slices, o.Owners = binary.BigEndian.Uint32(value[filterHeadBytes:]), binary.BigEndian.Uint32(value[filterHeadBytes+4:])
		if o.Slices < 1 || o.Owners < 1 || o.Slices == 1 && o.Owners == 1 {
			return o, corrupt("filter", "bad parts")
		}
	}
	if err := o.Validate(); err != nil {
		return o, fmt.Errorf("%w: %w", corrupt("filter", "options"), err)
	}
	return o, nil
}

// AppendFilterLayer appends the value of a layer's key: its shape and count.
func AppendFilterLayer(dst []byte, l bloomslice.Layer) []byte {
	dst = binary.AppendUvarint(append(dst, filterVersion), l.Shape.Bytes)
	dst = binary.AppendUvarint(dst, uint64(l.Shape.K))
	dst = binary.AppendUvarint(dst, l.Shape.Capacity)
	return binary.AppendUvarint(dst, l.Count)
}

// DecodeFilterLayer inverts AppendFilterLayer; the layer's id is in its key. Its error is ErrCorruptValue.
func DecodeFilterLayer(value []byte) (l bloomslice.Layer, err error) {
	if len(value) == 0 || value[0] != filterVersion {
		return l, corrupt("layer", "unknown version")
	}
	p := requestParser{b: value[1:]}
	l.Shape.Bytes = p.number()
	k := p.number()
	l.Shape.K, l.Shape.Capacity, l.Count = uint32(k), p.number(), p.number()
	if p.bad || len(p.b) > 0 || uint64(l.Shape.K) != k {
		return l, corrupt("layer", "bad numbers")
	}
	if err := l.Shape.Validate(); err != nil {
		return l, fmt.Errorf("%w: %w", corrupt("layer", "shape"), err)
	}
	return l, nil
}
