package engine

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"bigset/comparator"
)

// placed is an element's place in a list, with the first bytes of the element that may differ from those of others.
type placed struct {
	head  uint64
	place int
}

// keyOrder returns the places of n elements in the order of their keys. Most comparisons are of the eight bytes after what all elements begin with.
func keyOrder(n int, element func(i int) []byte) []int {
	if n == 0 {
		return nil
	}
	alike := element(0)
	for i := 1; i < n && len(alike) > 0; i++ {
		alike = alike[:comparator.CommonLen(alike, element(i))]
	}
	list := make([]placed, n)
	for i := range list {
		list[i] = placed{headOf(element(i)[len(alike):]), i}
	}
	slices.SortFunc(list, func(a, b placed) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		return bytes.Compare(element(a.place), element(b.place))
	})
	order := make([]int, n)
	for i := range list {
		order[i] = list[i].place
	}
	return order
}

// headOf returns the first eight bytes of b as a number that is ordered as they are; bytes that b does not have count as zero.
func headOf(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var head [8]byte
	copy(head[:], b)
	return binary.BigEndian.Uint64(head[:])
}
