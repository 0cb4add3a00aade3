package comparator

import (
	"encoding/binary"

	"bigset/keyscheme"
)

// Split returns the length of a key's prefix. In an element key the prefix ends after the element, so that bloom filters are by
// element. In any other key, including one that ends inside the element or right after it, it is the whole key.
func Split(key []byte) int {
	if rest, ok := elementRest(key); ok {
		if end := fieldEnd(rest); end != 0 {
			return len(key) - len(rest) + end
		}
	}
	return len(key)
}

// elementRest returns what follows the designator of an element key; ok is false for other keys.
func elementRest(key []byte) (rest []byte, ok bool) {
	if len(key) < headBytes {
		return nil, false
	}
	end := setEnd(key)
	if end >= uint64(len(key)) || key[end] != keyscheme.DesignatorElement {
		return nil, false
	}
	return key[end+1:], true
}

// AbbreviatedKey returns a number whose order never contradicts Compare: the slot, then the length of the set's name and its first
// two bytes. All keys of one set have the same number.
func AbbreviatedKey(key []byte) uint64 {
	if len(key) < slotBytes {
		return 0
	}
	abbreviated := uint64(binary.BigEndian.Uint32(key)) << 32
	if len(key) < headBytes {
		return abbreviated
	}
	n := binary.LittleEndian.Uint32(key[slotBytes:])
	if n >= 0xFFFF {
		return abbreviated | 0xFFFFFFFF // longer than the number can represent
	}
	abbreviated |= uint64(n) << 16
	if n < 2 || len(key) < headBytes+int(n) {
		return abbreviated // a name that is cut short sorts before all whole ones of its length
	}
	return abbreviated | uint64(binary.BigEndian.Uint16(key[headBytes:]))
}
