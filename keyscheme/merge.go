package keyscheme

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"bigset/clock"
)

// MergeClockValues appends the union of clock values and operands of one key, oldest first. It never fails. If one of them cannot
// be decoded, or the count of unresolved keys is out of range, it appends a bundle of all of them, verbatim; a later merge starts
// again from it. A single operand is returned unchanged. Values may be united in any grouping.
func MergeClockValues(dst []byte, operands [][]byte) []byte {
	return merge(dst, operands, unionClockValues)
}

// MergeTombstoneValues does for tombstone values and operands what MergeClockValues does for clocks.
func MergeTombstoneValues(dst []byte, operands [][]byte) []byte {
	return merge(dst, operands, unionTombstoneValues)
}

// merge appends the union of the operands, or a bundle of them if union refuses.
func merge(dst []byte, operands [][]byte, union func([]byte, [][]byte) ([]byte, bool)) []byte {
	operands = flatten(operands)
	if len(operands) == 1 {
		return append(dst, operands[0]...)
	}
	if united, ok := union(dst, operands); ok {
		return united
	}
	return appendBundle(dst, operands)
}

func unionClockValues(dst []byte, operands [][]byte) ([]byte, bool) {
	var sum ClockValue
	var unresolved wideSum
	for _, operand := range operands {
		v, encoded, err := clockHead(operand)
		if err != nil {
			return nil, false
		}
		if sum.Seen, err = unite(sum.Seen, encoded); err != nil {
			return nil, false
		}
		sum.Flags |= v.Flags
		unresolved.add(v.Unresolved)
	}
	var ok bool
	if sum.Unresolved, ok = unresolved.int64(); !ok {
		return nil, false
	}
	return AppendClockValue(dst, sum), true
}

func unionTombstoneValues(dst []byte, operands [][]byte) ([]byte, bool) {
	var dead *clock.Clock
	for _, operand := range operands {
		encoded, err := cutVersion("tombstone", operand)
		if err != nil {
			return nil, false
		}
		if dead, err = unite(dead, encoded); err != nil {
			return nil, false
		}
	}
	return AppendTombstoneValue(dst, dead), true
}

// unite adds what encoded holds to c, which is nil at first: the oldest operand is usually the largest, and decoding it
// costs less than adding it.
func unite(c *clock.Clock, encoded []byte) (*clock.Clock, error) {
	if c == nil {
		return clock.Decode(encoded)
	}
	return c, c.UnionEncoded(encoded)
}

// wideSum is a sum of int64s that cannot overflow in between, so that the grouping doesn't matter.
type wideSum struct{ hi, lo uint64 }

func (s *wideSum) add(n int64) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, uint64(n), 0)
	s.hi, _ = bits.Add64(s.hi, uint64(n>>63), carry)
}

// int64 returns the sum; ok is false if it is not an int64.
func (s *wideSum) int64() (int64, bool) {
	n := int64(s.lo)
	return n, s.hi == uint64(n>>63)
}

// appendBundle appends operands as they are, each with its length.
func appendBundle(dst []byte, operands [][]byte) []byte {
	dst = append(dst, bundleVersion)
	for _, operand := range operands {
		dst = append(binary.AppendUvarint(dst, uint64(len(operand))), operand...)
	}
	return dst
}

// DecodeBundle returns the operands, oldest first, that a merge could not unite and kept verbatim; they alias value. Its
// error is ErrCorruptValue.
func DecodeBundle(value []byte) ([][]byte, error) {
	if len(value) < 2 || !maybeBundle(value) {
		return nil, corrupt("bundle", "not one")
	}
	var operands [][]byte
	for rest := value[1:]; len(rest) > 0; {
		size, n := binary.Uvarint(rest)
		if n <= 0 || n > 1 && rest[n-1] == 0 || size > uint64(len(rest)-n) {
			return nil, corrupt("bundle", "bad length of an operand")
		}
		end := n + int(size)
		operands = append(operands, rest[n:end:end])
		rest = rest[end:]
	}
	return operands, nil
}

// flatten replaces each bundle by its operands. A damaged bundle stays an operand.
func flatten(operands [][]byte) [][]byte {
	if !slices.ContainsFunc(operands, maybeBundle) {
		return operands
	}
	flat := make([][]byte, 0, 2*len(operands))
	for _, operand := range operands {
		if bundled, err := DecodeBundle(operand); err == nil {
			flat = append(flat, bundled...)
		} else {
			flat = append(flat, operand)
		}
	}
	return flat
}

func maybeBundle(value []byte) bool { return len(value) > 0 && value[0] == bundleVersion }
