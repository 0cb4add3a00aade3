package bloomslice

import (
	"encoding/binary"
	"math/bits"
)

// SpookyHash by Bob Jenkins, in the public domain; version 1, of 2012. Version 2 differs in how the short form takes in the length,
// and libraries only have version 2.

const (
	spookyConst      = 0xdeadbeefdeadbeef
	spookyVars       = 12
	spookyBlockBytes = spookyVars * 8
	spookyLongBytes  = 2 * spookyBlockBytes // keys of this length or more take the long form
)

// spooky returns the two halves of the hash of a key, with both seeds 0.
func spooky(key []byte) (h1, h2 uint64) {
	if len(key) < spookyLongBytes {
		return spookyShort(key)
	}
	return spookyLong(key)
}

func spookyShort(key []byte) (uint64, uint64) {
	var a, b, c, d uint64 = 0, 0, spookyConst, spookyConst
	rest := key
	for len(rest) >= 32 {
		c += binary.LittleEndian.Uint64(rest)
		d += binary.LittleEndian.Uint64(rest[8:])
		a, b, c, d = shortMix(a, b, c, d)
		a += binary.LittleEndian.Uint64(rest[16:])
		b += binary.LittleEndian.Uint64(rest[24:])
		rest = rest[32:]
	}
	if len(rest) >= 16 {
		c += binary.LittleEndian.Uint64(rest)
		d += binary.LittleEndian.Uint64(rest[8:])
		a, b, c, _ = shortMix(a, b, c, d)
		rest = rest[16:]
	}
	d = uint64(len(key)) << 56
	switch n := len(rest); {
	case n == 0:
		c += spookyConst
		d += spookyConst
	case n < 8:
		c += partial(rest)
	case n < 12:
		c += binary.LittleEndian.Uint64(rest)
		d += partial(rest[8:])
	default:
		c += binary.LittleEndian.Uint64(rest)
		d += uint64(binary.LittleEndian.Uint32(rest[8:]))
		d += partial(rest[12:]) << 32
	}
	return shortEnd(a, b, c, d)
}

// partial reads up to 7 bytes as a little-endian number.
func partial(b []byte) (v uint64) {
	for i, c := range b {
		v |= uint64(c) << (8 * i)
	}
	return v
}

func shortMix(a, b, c, d uint64) (uint64, uint64, uint64, uint64) {
	c = bits.RotateLeft64(c, 50) + d
	a ^= c
	d = bits.RotateLeft64(d, 52) + a
	b ^= d
	a = bits.RotateLeft64(a, 30) + b
	c ^= a
	b = bits.RotateLeft64(b, 41) + c
	d ^= b
	c = bits.RotateLeft64(c, 54) + d
	a ^= c
	d = bits.RotateLeft64(d, 48) + a
	b ^= d
	a = bits.RotateLeft64(a, 38) + b
	c ^= a
	b = bits.RotateLeft64(b, 37) + c
	d ^= b
	c = bits.RotateLeft64(c, 62) + d
	a ^= c
	d = bits.RotateLeft64(d, 34) + a
	b ^= d
	a = bits.RotateLeft64(a, 5) + b
	c ^= a
	b = bits.RotateLeft64(b, 36) + c
	d ^= b
	return a, b, c, d
}

func shortEnd(a, b, c, d uint64) (uint64, uint64) {
	d ^= c
	c = bits.RotateLeft64(c, 15)
	d += c
	a ^= d
	d = bits.RotateLeft64(d, 52)
	a += d
	b ^= a
	a = bits.RotateLeft64(a, 26)
	b += a
	c ^= b
	b = bits.RotateLeft64(b, 51)
	c += b
	d ^= c
	c = bits.RotateLeft64(c, 28)
	d += c
	a ^= d
	d = bits.RotateLeft64(d, 9)
	a += d
	b ^= a
	a = bits.RotateLeft64(a, 47)
	b += a
	c ^= b
	b = bits.RotateLeft64(b, 54)
	c += b
	d ^= c
	c = bits.RotateLeft64(c, 32)
	d += c
	a ^= d
	d = bits.RotateLeft64(d, 25)
	a += d
	b ^= a
	a = bits.RotateLeft64(a, 63)
	b += a
	return a, b
}

// mixTurns and endTurns are the rotations of the long form.
var (
	mixTurns = [spookyVars]int{11, 32, 43, 31, 17, 28, 39, 57, 55, 54, 22, 46}
	endTurns = [spookyVars]int{44, 15, 34, 21, 38, 33, 10, 13, 38, 53, 42, 54}
)

// spookyLong is for keys of spookyLongBytes or more. Such keys are rare: it is short rather than fast.
func spookyLong(key []byte) (uint64, uint64) {
	s := spookyState{2: spookyConst, 5: spookyConst, 8: spookyConst, 11: spookyConst}
	rest := key
	for ; len(rest) >= spookyBlockBytes; rest = rest[spookyBlockBytes:] {
		s.mix(rest)
	}
	var last [spookyBlockBytes]byte
	last[spookyBlockBytes-1] = byte(copy(last[:], rest))
	s.mix(last[:])
	for range 3 {
		s.end()
	}
	return s[0], s[1]
}

type spookyState [spookyVars]uint64

// mix takes in a block.
func (s *spookyState) mix(block []byte) {
	for i := range spookyVars {
		before, next := (i+spookyVars-1)%spookyVars, (i+1)%spookyVars
		s[i] += binary.LittleEndian.Uint64(block[8*i:])
		s[(i+2)%spookyVars] ^= s[(i+10)%spookyVars]
		s[before] ^= s[i]
		s[i] = bits.RotateLeft64(s[i], mixTurns[i])
		s[before] += s[next]
	}
}

// end is one of the three last rounds.
func (s *spookyState) end() {
	for i := range spookyVars {
		a, b, c := (i+11)%spookyVars, (i+1)%spookyVars, (i+2)%spookyVars
		s[a] += s[b]
		s[c] ^= s[a]
		s[b] = bits.RotateLeft64(s[b], endTurns[i])
	}
}
