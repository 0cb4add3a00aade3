package keyscheme

// The sizes of a key's fields, in bytes. They are part of the disk format. Package comparator finds the fields by them.
const (
	SlotBytes    = 4 // big-endian
	LengthBytes  = 4 // little-endian, before a set's name, an element or an actor
	CounterBytes = 8 // little-endian
	OpBytes      = 1
	PageBytes    = 8 // big-endian
)

// The byte that follows the set and says what the rest of a key is. They are on disk.
const (
	DesignatorClock     = 'c' // the clock's own key if nothing follows, otherwise one of its pages
	DesignatorTombstone = 'd' // the tombstone's own key if nothing follows, otherwise one of its pages
	DesignatorElement   = 'e'
	DesignatorEnd       = 'z'
)

// SlotNamespace is a length that no set's name has. Keys that belong to a slot and to no set have it in place of the length; they
// sort after the slot's sets.
const SlotNamespace = 1<<32 - 1

// The longest names, in bytes. They are part of the disk and wire formats.
const (
	SetNameBytesMax = 64 << 10
	ElementBytesMax = 64 << 10
)

// StoreMetaBytesMax is the longest key of the store's own metadata: keys of 1 to 3 bytes are in no slot.
const StoreMetaBytesMax = SlotBytes - 1
