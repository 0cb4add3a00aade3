package load

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"bigset/bench/spec"
	"bigset/bench/system"
)

// names makes elements from their numbers: different elements for different numbers.
type names struct {
	seed uint64
	spec.Elements
}

// Elements of at least textBytes are text: hexadecimal digits or, if they ascend, decimal ones. Shorter ones are binary: their number takes
// 8 bytes.
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
	for fill := hashed; len(dst)-begin < size; { // incompressible bytes, like a client's
		fill = system.Mix(fill)
		dst = append(dst, 'a'+byte(fill%26))
	}
	return dst
}

// number returns the number of an element that append made, and whether append can have made it.
func (e names) number(name []byte) (uint64, bool) {
	if e.MinBytes >= textBytes {
		if len(name) < textBytes {
			return 0, false
		}
		if e.Ascending {
			n, err := strconv.ParseUint(string(name[:textBytes]), 10, 64)
			return n, err == nil
		}
		var b [8]byte
		if _, err := hex.Decode(b[:], name[:textBytes]); err != nil {
			return 0, false
		}
		return system.Unmix(binary.BigEndian.Uint64(b[:])) - e.seed<<40, true
	}
	if len(name) < 8 {
		return 0, false
	}
	if n := binary.BigEndian.Uint64(name); e.Ascending {
		return n, true
	} else {
		return system.Unmix(n) - e.seed<<40, true
	}
}

// prefix returns the length of a prefix that about a hundred of n elements share.
func (e names) prefix(n int) (length int) {
	if e.Ascending { // all but the last digits of the number
		if e.MinBytes >= textBytes {
			return textBytes - 2
		}
		return 7
	}
	radix := 256
	if e.MinBytes >= textBytes {
		radix = 16
	}
	for n > 50*radix {
		n /= radix
		length++
	}
	return length
}
