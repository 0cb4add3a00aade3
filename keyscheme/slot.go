package keyscheme

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// Slot is the place of a partition in the hash space, and the first 4 bytes, big-endian, of every key in it. It is the
// partition's hash with its bits reversed, so that a mask of the hash's low bits is a range of slots.
type Slot uint32

// SlotMax is the last slot.
const SlotMax Slot = 1<<32 - 1

// PartitionKind says what kind of thing a name names; sets and filters of the same name lie in different slots. It is hashed, and
// therefore part of the disk format.
type PartitionKind byte

// The kinds of partition.
const (
	PartitionSet    PartitionKind = 's'
	PartitionFilter PartitionKind = 'b'
)

// SetSlot returns the slot of a set that has one slice.
func SetSlot(name []byte) Slot { return SlotOf(PartitionSet, name, 0) }

// SlotOf returns the slot of one slice of a partition: Reverse32(low 32 bits of xxhash64(kind, name) xor slice). A partition that
// is not split has only slice 0. The function is fixed forever.
func SlotOf(kind PartitionKind, name []byte, slice uint32) Slot {
	var buf [256]byte // most names are short, and then nothing is allocated
	keyed := append(append(buf[:0], byte(kind)), name...)
	return Slot(bits.Reverse32(uint32(xxhash.Sum64(keyed)) ^ slice))
}

// OfSlice returns the slot of a slice, as SlotOf does, given that s is the slot of slice 0 of the same partition.
func (s Slot) OfSlice(slice uint32) Slot { return s ^ Slot(bits.Reverse32(slice)) }

// SliceAt inverts SlotOf: it returns the slice of a partition that lies in a slot.
func SliceAt(kind PartitionKind, name []byte, slot Slot) uint32 {
	return bits.Reverse32(uint32(slot)) ^ bits.Reverse32(uint32(SlotOf(kind, name, 0)))
}

// SplitSlots splits the slots from first to last, both included, into parts whose sizes differ by at most one slot. If there are fewer
// slots than parts, each part is a single slot. It returns the last slot of each part, and nothing if last is before first. All
// replicas must split the same way: it is part of their protocol.
func SplitSlots(first, last Slot, parts int) (ends []Slot) {
	if first > last || parts < 1 {
		return nil
	}
	size := uint64(last-first) + 1
	n := min(uint64(parts), size)
	for i := uint64(1); i <= n; i++ {
		ends = append(ends, first+Slot(i*size/n-1)) // no overflow: a caller that splits into 2^32 parts has no memory for them
	}
	return ends
}

// AppendSlot appends the slot's 4 bytes, which are also the lower bound of all its keys.
func AppendSlot(dst []byte, s Slot) []byte { return binary.BigEndian.AppendUint32(dst, uint32(s)) }

// CheckSetName returns an error that is ErrNameTooLong when no key can hold the name. The empty name is a name.
func CheckSetName(name []byte) error {
	if len(name) > SetNameBytesMax {
		return fmt.Errorf("%w: a set's name of %d bytes, at most %d", ErrNameTooLong, len(name), SetNameBytesMax)
	}
	return nil
}

// CheckElement returns an error that is ErrNameTooLong when no key can hold the element. The empty element is an element.
func CheckElement(element []byte) error {
	if len(element) > ElementBytesMax {
		return fmt.Errorf("%w: an element of %d bytes, at most %d", ErrNameTooLong, len(element), ElementBytesMax)
	}
	return nil
}
