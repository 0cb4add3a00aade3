package comparator

import (
	"bytes"
	"encoding/binary"

	"bigset/keyscheme"
)

// Separator appends a key k with a <= k < b, short where that is easy, given a < b. k is a, or a whole prefix to Split that ends
// right after the first field in which a and b differ.
func Separator(dst, a, b []byte) []byte {
	start := len(dst)
	dst = appendCandidate(dst, a, b)
	// A candidate that is b itself, or that was made from keys that end inside a field, may be no bound. a always is one.
	if k := dst[start:]; len(k) < len(a) && Compare(a, k) <= 0 && Compare(k, b) < 0 {
		return dst
	}
	return append(dst[:start], a...)
}

// appendCandidate appends the shortest head of b that ends between two fields and is not a head of a. If the elements differ, it
// shortens b's element as far as it still differs from a's. For keys that end inside a field it may append anything.
func appendCandidate(dst, a, b []byte) []byte {
	if len(a) < headBytes || len(b) < headBytes || !bytes.Equal(a[:slotBytes], b[:slotBytes]) {
		return append(dst, b[:min(slotBytes, len(b))]...)
	}
	if !bytes.Equal(a[:headBytes], b[:headBytes]) {
		return append(dst, b[:headBytes]...)
	}
	end := setEnd(b)
	if end >= uint64(len(a)) || end >= uint64(len(b)) {
		return append(dst, a...)
	}
	if !bytes.Equal(a[:end], b[:end]) {
		return append(dst, b[:end]...)
	}
	if a[end] != b[end] || a[end] != keyscheme.DesignatorElement {
		return append(dst, b[:end+1]...)
	}
	return appendElementCandidate(append(dst, b[:end+1]...), a[end+1:], b[end+1:])
}

// appendElementCandidate appends the shortest head of b's element that is larger than a's element, with its length. Its arguments
// begin after the designators.
func appendElementCandidate(dst, a, b []byte) []byte {
	x, y := fieldEnd(a), fieldEnd(b)
	if x == 0 || y == 0 {
		return dst
	}
	ea, eb := a[lengthBytes:x], b[lengthBytes:y]
	n := min(CommonLen(ea, eb)+1, len(eb))
	return append(binary.LittleEndian.AppendUint32(dst, uint32(n)), eb[:n]...)
}

// CommonLen returns how many bytes at the beginning of a and b are equal.
func CommonLen(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Successor appends a short key k with a <= k: the slot after that of a, or a itself if a is in the last slot.
func Successor(dst, a []byte) []byte {
	if len(a) <= slotBytes {
		return append(dst, a...)
	}
	slot := binary.BigEndian.Uint32(a)
	if slot == uint32(keyscheme.SlotMax) {
		return append(dst, a...)
	}
	return binary.BigEndian.AppendUint32(dst, slot+1)
}

// ImmediateSuccessor appends the least prefix above the prefix a, where Split(a) is len(a). After an element, that is the same
// element with one more zero byte, which its length counts.
func ImmediateSuccessor(dst, a []byte) []byte {
	if len(a) < slotBytes {
		return appendNextCut(dst, a, slotBytes)
	}
	dst, a = append(dst, a[:slotBytes]...), a[slotBytes:]
	if len(a) < lengthBytes {
		return appendNextCut(dst, a, lengthBytes)
	}
	name := uint64(binary.LittleEndian.Uint32(a))
	dst, a = append(dst, a[:lengthBytes]...), a[lengthBytes:]
	if uint64(len(a)) < name {
		return appendNextCut(dst, a, name)
	}
	dst, a = append(dst, a[:name]...), a[name:]
	if len(a) == 0 {
		return append(dst, 0)
	}
	dst, designator, rest := append(dst, a[0]), a[0], a[1:]
	switch designator {
	case keyscheme.DesignatorElement:
		return appendNextElement(dst, rest)
	case keyscheme.DesignatorClock, keyscheme.DesignatorTombstone:
		return appendNextPage(dst, rest)
	}
	return append(append(dst, rest...), 0)
}

func appendNextElement(dst, rest []byte) []byte {
	end := fieldEnd(rest)
	if end == 0 {
		return appendNextCutField(dst, rest)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(end-lengthBytes+1))
	return append(append(dst, rest[lengthBytes:end]...), 0)
}

func appendNextPage(dst, rest []byte) []byte {
	end := fieldEnd(rest)
	if end == 0 {
		return appendNextCutField(dst, rest)
	}
	dst, page := append(dst, rest[:end]...), rest[end:]
	if len(page) < keyscheme.PageBytes {
		return appendNextCut(dst, page, keyscheme.PageBytes)
	}
	return append(append(dst, page...), 0)
}

// appendNextCutField appends the next bytes, in bytewise order, that also end inside a field of a length and as many bytes.
func appendNextCutField(dst, cut []byte) []byte {
	switch {
	case len(cut) < lengthBytes-1 || len(cut) == lengthBytes-1 && !allBytes(cut, 0):
		return append(append(dst, cut...), 0)
	case len(cut) < lengthBytes:
		return append(append(dst, cut...), 1) // one more zero byte would make the length 0, and the field whole
	}
	return appendNextCut(dst, cut, lengthBytes+uint64(binary.LittleEndian.Uint32(cut)))
}

// appendNextCut appends the next bytes, in bytewise order, that also end inside a field of that width; if there are none, the least
// whole field.
func appendNextCut(dst, cut []byte, width uint64) []byte {
	if uint64(len(cut))+1 < width {
		return append(append(dst, cut...), 0)
	}
	start := len(dst)
	dst = append(dst, cut...)
	for i := len(dst) - 1; i >= start; i-- {
		if dst[i] != 0xFF {
			dst[i]++
			return dst[:i+1]
		}
	}
	return append(dst[:start], make([]byte, width)...)
}

func allBytes(b []byte, want byte) bool {
	for _, c := range b {
		if c != want {
			return false
		}
	}
	return true
}
