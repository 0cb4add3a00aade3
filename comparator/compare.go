package comparator

import (
	"bytes"
	"cmp"
	"encoding/binary"

	"bigset/keyscheme"
)

// Name is the name of this order. A store records it and refuses to open with another; it is fixed forever.
const Name = "bigset.v1"

const (
	slotBytes   = keyscheme.SlotBytes
	lengthBytes = keyscheme.LengthBytes
	headBytes   = slotBytes + lengthBytes // where a set's name begins
)

// Compare returns -1, 0 or 1 as a sorts before, equal to or after b. It is 0 only for equal bytes.
func Compare(a, b []byte) int {
	if len(a) < headBytes || len(b) < headBytes {
		return compareHeads(a, b)
	}
	// One load each: slot and length differ in the slot, or almost never at all.
	if binary.LittleEndian.Uint64(a) != binary.LittleEndian.Uint64(b) {
		return compareHeads(a, b)
	}
	end := setEnd(a)
	element := end + 1 + lengthBytes
	if element > uint64(len(a)) || element > uint64(len(b)) {
		return compareSets(a, b, end)
	}
	n, m := binary.LittleEndian.Uint32(a[element-lengthBytes:]), binary.LittleEndian.Uint32(b[element-lengthBytes:])
	x, y := element+uint64(n), element+uint64(m)
	if a[end] != keyscheme.DesignatorElement || x > uint64(len(a)) || y > uint64(len(b)) {
		return compareSets(a, b, end)
	}
	// If the lengths are equal, one bytewise comparison covers names, designators and elements. b may have another designator, but
	// then the designator is what differs, unless the names do.
	if n == m {
		if c := bytes.Compare(a[headBytes:x], b[headBytes:x]); c != 0 {
			return c
		}
		return ComparePointSuffixes(a[x:], b[x:])
	}
	if !bytes.Equal(a[headBytes:element-lengthBytes], b[headBytes:element-lengthBytes]) {
		return compareSets(a, b, end)
	}
	return bytes.Compare(a[element:x], b[element:y]) // never 0: their lengths differ
}

// Equal reports whether Compare(a, b) is 0.
func Equal(a, b []byte) bool { return bytes.Equal(a, b) }

// setEnd returns where the name of the set ends, which may be past the end of the key. The key must have its head. In a slot's own
// namespace it is past the end of any key, so that the whole rest counts as a cut name and compares bytewise.
func setEnd(key []byte) uint64 {
	return headBytes + uint64(binary.LittleEndian.Uint32(key[slotBytes:]))
}

// compareHeads compares two keys that differ in slot or length, or one of which is shorter than a head.
func compareHeads(a, b []byte) int {
	if len(a) < slotBytes || len(b) < slotBytes {
		return compareCut(a, b, len(a) >= slotBytes, len(b) >= slotBytes)
	}
	if c := bytes.Compare(a[:slotBytes], b[:slotBytes]); c != 0 {
		return c
	}
	if len(a) < headBytes || len(b) < headBytes {
		return compareCut(a[slotBytes:], b[slotBytes:], len(a) >= headBytes, len(b) >= headBytes)
	}
	return cmp.Compare(binary.LittleEndian.Uint32(a[slotBytes:]), binary.LittleEndian.Uint32(b[slotBytes:]))
}

// compareSets compares two keys with the same head, starting at the names of their sets.
func compareSets(a, b []byte, end uint64) int {
	if end >= uint64(len(a)) || end >= uint64(len(b)) {
		return compareCutNames(a, b, end)
	}
	if x, y := a[headBytes:end], b[headBytes:end]; !bytes.Equal(x, y) {
		return bytes.Compare(x, y)
	}
	return compareRests(a[end:], b[end:])
}

// compareCutNames compares two keys with the same head, one of which ends with or inside its set's name.
func compareCutNames(a, b []byte, end uint64) int {
	wholeA, wholeB := end <= uint64(len(a)), end <= uint64(len(b))
	if !wholeA || !wholeB {
		return compareCut(a[headBytes:], b[headBytes:], wholeA, wholeB)
	}
	// Both names are whole and one key ends after its name: compare bytewise, by name, then the shorter key first.
	return bytes.Compare(a[headBytes:], b[headBytes:])
}

// compareRests compares two keys of one set, starting at their designators.
func compareRests(a, b []byte) int {
	if a[0] != b[0] {
		return cmp.Compare(a[0], b[0])
	}
	switch a[0] {
	case keyscheme.DesignatorElement: // at least one of them is cut: Compare has handled the others
		return compareCut(a, b, fieldEnd(a[1:]) != 0, fieldEnd(b[1:]) != 0)
	case keyscheme.DesignatorClock, keyscheme.DesignatorTombstone:
		return comparePages(a[1:], b[1:])
	}
	return bytes.Compare(a, b)
}

// comparePages compares what follows the designator of clock and tombstone keys: nothing, or actor and page.
func comparePages(a, b []byte) int {
	x, y := fieldEnd(a), fieldEnd(b)
	if x == 0 || y == 0 {
		return compareCut(a, b, x != 0, y != 0)
	}
	if c := bytes.Compare(a[lengthBytes:x], b[lengthBytes:y]); c != 0 {
		return c
	}
	a, b = a[x:], b[y:]
	if wholeA, wholeB := len(a) >= keyscheme.PageBytes, len(b) >= keyscheme.PageBytes; wholeA != wholeB {
		return compareCut(a, b, wholeA, wholeB)
	}
	return bytes.Compare(a, b) // the page is big-endian
}

// ComparePointSuffixes compares what Split leaves of two element keys: actor, counter, op. The empty suffix is the least.
func ComparePointSuffixes(a, b []byte) int {
	x, y := fieldEnd(a), fieldEnd(b)
	if x == 0 || y == 0 {
		return compareCut(a, b, x != 0, y != 0)
	}
	if c := bytes.Compare(a[lengthBytes:x], b[lengthBytes:y]); c != 0 {
		return c
	}
	a, b = a[x:], b[y:]
	wholeA, wholeB := len(a) >= keyscheme.CounterBytes, len(b) >= keyscheme.CounterBytes
	if !wholeA || !wholeB {
		return compareCut(a, b, wholeA, wholeB)
	}
	if c := cmp.Compare(binary.LittleEndian.Uint64(a), binary.LittleEndian.Uint64(b)); c != 0 {
		return c
	}
	return bytes.Compare(a[keyscheme.CounterBytes:], b[keyscheme.CounterBytes:])
}

// CompareRangeSuffixes is ComparePointSuffixes: a store has no range keys, and the order knows no ties.
func CompareRangeSuffixes(a, b []byte) int { return ComparePointSuffixes(a, b) }

// compareCut compares the rests of two keys, starting at a field inside which at least one of them ends. wholeA and wholeB say
// which key has the whole field.
func compareCut(a, b []byte, wholeA, wholeB bool) int {
	switch {
	case wholeA:
		return 1
	case wholeB:
		return -1
	}
	return bytes.Compare(a, b)
}

// fieldEnd returns where the field at the start of b ends (a length and as many bytes), or 0 if b ends inside it.
func fieldEnd(b []byte) int {
	if len(b) < lengthBytes {
		return 0
	}
	end := lengthBytes + uint64(binary.LittleEndian.Uint32(b))
	if end > uint64(len(b)) {
		return 0
	}
	return int(end)
}
