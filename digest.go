package bigset

import (
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"bigset/clock"
	"bigset/keyscheme"
)

// SetDigest is a short sum of what a store knows of a set. Two stores have the same sum if Seen, Dead and the number of unresolved
// keys are the same; it does not cover the keys.
type SetDigest struct {
	Slot keyscheme.Slot
	Name []byte
	Sum  [16]byte
}

// SetCount is a number of sets that have a live dot.
type SetCount struct {
	Sets  uint64
	Apart uint64 // of these, the sets for whose names engine.Options.CountApart returns true
}

// RangeDigest is a short sum of all sets in a range of slots, both ends included. Two stores have the same sum if they have the
// same sets there, with the same digests.
type RangeDigest struct {
	First, Last keyscheme.Slot
	Sets        uint64
	Sum         [16]byte // of the digests, in the order of the store; zero when there are no sets
}

// RangePartsMax is the largest number of parts into which RangeDigests splits a range.
const RangePartsMax = 4096

// ElementRange says which keys of a set are summed up by ElementDigests.
type ElementRange struct {
	After  []byte       // the elements after this one; nil is from the first
	UpTo   []byte       // the last element; nil is to the end
	Within *clock.Clock // only keys with these dots; nil is none
	// Mean is the approximate number of elements in a part; with 1 each element is a part. From 1 to ElementsMeanMax.
	Mean int
}

// ElementDigest sums up the live keys of a part of a set. Consecutive parts can be joined, so the sums of two stores can be
// compared at every element at which both have ended a part.
type ElementDigest struct {
	Bound    []byte   // the last element that the part covers; the next part begins after it
	Elements uint64   // elements with such keys
	Sum      [16]byte // of (element, dots), added up; zero when there are none
}

// Join joins a part with the next one.
func (d *ElementDigest) Join(next *ElementDigest) {
	d.Bound = next.Bound
	d.Elements += next.Elements
	d.add(&next.Sum)
}

// Same reports whether two parts hold the same keys.
func (d *ElementDigest) Same(o *ElementDigest) bool {
	return d.Elements == o.Elements && d.Sum == o.Sum
}

// Add adds an element to a part, given the hash of the element and its dots.
func (d *ElementDigest) Add(sum *[16]byte) {
	d.Elements++
	d.add(sum)
}

func (d *ElementDigest) add(sum *[16]byte) {
	low, carry := bits.Add64(binary.BigEndian.Uint64(d.Sum[8:]), binary.BigEndian.Uint64(sum[8:]), 0)
	high, _ := bits.Add64(binary.BigEndian.Uint64(d.Sum[:8]), binary.BigEndian.Uint64(sum[:8]), carry)
	binary.BigEndian.PutUint64(d.Sum[8:], low)
	binary.BigEndian.PutUint64(d.Sum[:8], high)
}

// ElementHash hashes elements for the parts of a count. The zero value is ready. It belongs to one goroutine.
type ElementHash struct{ buf []byte }

// Sum returns the hash of an element that is present by those dots, for ElementDigest.Add, and the hash of the element alone. Both
// are part of the protocol between replicas. A client that chooses elements can't choose sums, because the dots are hashed, too.
func (h *ElementHash) Sum(element []byte, dots []clock.Dot) (sum [16]byte, name uint64) {
	name = xxhash.Sum64(element)
	b := binary.BigEndian.AppendUint64(h.buf[:0], name)
	for i := range dots {
		b = append(binary.AppendUvarint(b, uint64(len(dots[i].Actor))), dots[i].Actor...)
		b = binary.BigEndian.AppendUint64(b, dots[i].Counter)
	}
	h.buf = b
	binary.BigEndian.PutUint64(sum[:8], name)
	binary.BigEndian.PutUint64(sum[8:], xxhash.Sum64(b))
	return sum, name
}

// ElementDigests are the parts of a range, in order.
type ElementDigests struct {
	Parts []ElementDigest
	Done  bool // the range has ended; otherwise it continues after the last part, and there is at least one
}

// Bounds of one call of ElementDigests, and of its Mean.
const (
	ElementPartsMax = 4096
	ElementsMeanMax = 1 << 20
)
