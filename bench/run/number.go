package run

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// number returns the number of an element that append made, and whether it is one.
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
		return unmixed(binary.BigEndian.Uint64(b[:])) - e.seed<<40, true
	}
	if len(name) < 8 {
		return 0, false
	}
	if n := binary.BigEndian.Uint64(name); e.Ascending {
		return n, true
	} else {
		return unmixed(n) - e.seed<<40, true
	}
}

// unmixed inverts mix.
func unmixed(x uint64) uint64 {
	x ^= x>>31 ^ x>>62
	x *= 0x319642B2D24D8EC3
	x ^= x>>27 ^ x>>54
	x *= 0x96DE1B173F119089
	x ^= x>>30 ^ x>>60
	return x - 0x9E3779B97F4A7C15
}

// prefix returns the length of a prefix that about a hundred of n elements have.
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
