package run

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"bigset/bench/spec"
	"bigset/bench/system"
)

// names makes elements from their numbers: different ones for different numbers.
type names struct {
	seed uint64
	spec.Elements
}

// Elements are text from textBytes on: hexadecimal digits or, where they ascend, decimal ones. Shorter ones are binary: their number takes 8 bytes.
const textBytes = 16

// append appends the element of a number.
func (e names) append(dst []byte, number uint64) []byte {
	begin, hashed := len(dst), system.Mix(number+e.seed<<40)
	var b [8]byte
	switch {
	case e.MinBytes >= textBytes && e.Ascending:
		digits := strconv.AppendUint(make([]byte, 0, 20), number, 10)
		for range textBytes - len(digits) {
			dst = append(dst, '0')
		}
		dst = append(dst, digits...)
	case e.MinBytes >= textBytes:
		binary.BigEndian.PutUint64(b[:], hashed)
		dst = hex.AppendEncode(dst, b[:])
	case e.Ascending:
		dst = binary.BigEndian.AppendUint64(dst, number)
	default:
		dst = binary.BigEndian.AppendUint64(dst, hashed)
	}
	size := e.MinBytes
	if e.MaxBytes > e.MinBytes {
		size += int(system.Mix(hashed) % uint64(e.MaxBytes-e.MinBytes+1))
	}
	for fill := hashed; len(dst)-begin < size; { // bytes that don't compress well, as a client's would not
		fill = system.Mix(fill)
		dst = append(dst, 'a'+byte(fill%26))
	}
	return dst
}
