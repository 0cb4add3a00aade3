package keyscheme

import (
	"encoding/binary"

	"bigset/clock"
)

// Op says what an element key did.
type Op byte

// The operations. They are the last byte of an element key.
const (
	OpAdd    Op = 'a'
	OpRemove Op = 'r'
)

// Valid reports whether o is one of the operations.
func (o Op) Valid() bool { return o == OpAdd || o == OpRemove }

// String returns the operation's letter.
func (o Op) String() string { return string(rune(o)) }

// Prefix is what all keys of one set start with: slot, length, name. It is also their lower bound. Callers build it once per set
// and keep it. It must not be changed after that, and may be used concurrently.
type Prefix []byte

// NewPrefix returns the prefix of a set that is not split into slices. The name must pass CheckSetName.
func NewPrefix(set []byte) Prefix {
	return AppendPrefix(make([]byte, 0, SlotBytes+LengthBytes+len(set)), SetSlot(set), set)
}

// AppendPrefix appends the prefix of a set, or of the slice of it that lies in the slot.
func AppendPrefix(dst []byte, slot Slot, set []byte) []byte {
	return appendBytes(AppendSlot(dst, slot), set)
}

// Slot returns the slot that the prefix lies in. p must be whole.
func (p Prefix) Slot() Slot { return Slot(binary.BigEndian.Uint32(p)) }

// Set returns the name of the set, aliasing p. p must be whole.
func (p Prefix) Set() []byte { return p[SlotBytes+LengthBytes:] }

// AppendClock appends the key of the set's clock.
func (p Prefix) AppendClock(dst []byte) []byte { return append(append(dst, p...), DesignatorClock) }

// AppendClockPage appends the key of one page of one actor's part of a large clock. The actor has 1 to clock.ActorBytesMax bytes.
// Pages sort after the clock's own key, by actor, then by page.
func (p Prefix) AppendClockPage(dst []byte, actor clock.Actor, page uint64) []byte {
	return appendPage(p.AppendClock(dst), actor, page)
}

// AppendTombstone appends the key of the set's tombstone.
func (p Prefix) AppendTombstone(dst []byte) []byte {
	return append(append(dst, p...), DesignatorTombstone)
}

// AppendTombstonePage appends the key of one page of one actor's part of a large tombstone. The actor has 1 to clock.ActorBytesMax
// bytes. Pages sort after the tombstone's own key, by actor, then by page.
func (p Prefix) AppendTombstonePage(dst []byte, actor clock.Actor, page uint64) []byte {
	return appendPage(p.AppendTombstone(dst), actor, page)
}

func appendPage(dst []byte, actor clock.Actor, page uint64) []byte {
	return binary.BigEndian.AppendUint64(appendString(dst, string(actor)), page)
}

// AppendElement appends the key of one event: the insert or the remove of an element under its dot. The element must pass
// CheckElement; the dot's actor has 1 to clock.ActorBytesMax bytes and its counter is at least 1.
func (p Prefix) AppendElement(dst, element []byte, dot clock.Dot, op Op) []byte {
	dst = appendString(p.AppendElementBound(dst, element), string(dot.Actor))
	dst = binary.LittleEndian.AppendUint64(dst, dot.Counter)
	return append(dst, byte(op))
}

// AppendEnd appends a key that sorts after everything that is stored of the set. It is a bound and never stored.
func (p Prefix) AppendEnd(dst []byte) []byte { return append(append(dst, p...), DesignatorEnd) }

// SlotKind says what a key in a slot's own namespace holds. It is on disk.
type SlotKind byte

// The kinds of a slot's own keys.
const (
	SlotBloom SlotKind = 'b' // the pages of bloom filter slices
	SlotMeta  SlotKind = 'm' // metadata of the slot
)

// AppendSlotKey appends a key that belongs to a slot and to no set. The rest is free; it sorts bytewise.
func AppendSlotKey(dst []byte, slot Slot, kind SlotKind, rest []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(AppendSlot(dst, slot), SlotNamespace)
	return append(append(dst, byte(kind)), rest...)
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(b))), b...)
}

func appendString(dst []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(s))), s...)
}
