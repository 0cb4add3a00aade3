package ring

import (
	"fmt"
	"iter"
	"math/bits"
)

// Slot is a place in the hash space. It is the same number as keyscheme.Slot: a hash with its bits reversed.
type Slot uint32

// BucketsMax is the largest number of buckets that a cluster is born with.
const BucketsMax = 1 << 20

// splitBits is how many bits one split adds to the mask by default: a bucket becomes 16.
const splitBits = 4

// Bucket is the set of all hashes whose low bits, those in Mask, are Key. The zero Bucket has all hashes.
//
//	000F/0004 = hashes that end in 4 = slots from 0x20000000 to 0x2FFFFFFF
type Bucket struct {
	Mask uint32 // a number of low bits, no gaps
	Key  uint32 // no bit outside Mask
}

// BucketOf returns the bucket of a slot whose mask has n bits, 0 to 32.
func BucketOf(s Slot, n int) Bucket {
	mask := uint32(1<<n - 1)
	return Bucket{Mask: mask, Key: bits.Reverse32(uint32(s)) & mask}
}

// Buckets returns n buckets of equal size that together have all slots, in the order of their slots. n must be a power of two and
// at most BucketsMax.
func Buckets(n int) ([]Bucket, error) {
	if n < 1 || n > BucketsMax || n&(n-1) != 0 {
		return nil, fmt.Errorf("%w: %d buckets, must be a power of two from 1 to %d", ErrSettings, n, BucketsMax)
	}
	return Bucket{}.Split(bits.TrailingZeros(uint(n))), nil
}

// Check returns an error that is ErrBucket for a mask with gaps or a key outside it.
func (b Bucket) Check() error {
	if b.Mask&(b.Mask+1) != 0 || b.Key&^b.Mask != 0 {
		return fmt.Errorf("%w: mask %#x, key %#x", ErrBucket, b.Mask, b.Key)
	}
	return nil
}

// Bits returns the number of bits of the mask: a bucket has 1/2^Bits of all slots.
func (b Bucket) Bits() int { return bits.OnesCount32(b.Mask) }

// First returns the bucket's first slot.
func (b Bucket) First() Slot { return Slot(bits.Reverse32(b.Key)) }

// Last returns the bucket's last slot.
func (b Bucket) Last() Slot { return b.First() | Slot(^bits.Reverse32(b.Mask)) }

// Size returns how many slots the bucket has.
func (b Bucket) Size() uint64 { return 1 << (32 - b.Bits()) }

// Has reports whether a slot is in the bucket.
func (b Bucket) Has(s Slot) bool { return bits.Reverse32(uint32(s))&b.Mask == b.Key }

// Covers reports whether all slots of another bucket are in this one.
func (b Bucket) Covers(o Bucket) bool { return b.Mask&^o.Mask == 0 && o.Key&b.Mask == b.Key }

// Meets reports whether the buckets have a slot in common; if so, one covers the other.
func (b Bucket) Meets(o Bucket) bool { return b.Covers(o) || o.Covers(b) }

// Parent returns the bucket whose mask has n bits fewer, which covers this one. It returns the bucket of all slots if n is too large.
func (b Bucket) Parent(n int) Bucket { return BucketOf(b.First(), max(0, b.Bits()-n)) }

// Split returns the 2^n buckets of equal size that this one consists of, in the order of their slots. The mask must have room for n
// more bits.
func (b Bucket) Split(n int) []Bucket {
	depth := b.Bits() + n
	out := make([]Bucket, 0, 1<<n)
	for j := range uint64(1) << n {
		out = append(out, BucketOf(b.First()+Slot(j<<(32-depth)), depth))
	}
	return out
}

// Without returns the buckets that remain of this one without the slots of a smaller one: one of each size, at most 32, in the
// order of their slots.
func (b Bucket) Without(small Bucket) iter.Seq[Bucket] {
	return func(yield func(Bucket) bool) {
		depth, end := b.Bits(), small.Bits()
		for d := depth + 1; d <= end; d++ { // what lies before small: the larger ones come first
			if half := BucketOf(small.First(), d); half.Key&(1<<(d-1)) != 0 && !yield(Bucket{half.Mask, half.Key &^ (1 << (d - 1))}) {
				return
			}
		}
		for d := end; d > depth; d-- { // what lies after it: the smaller ones come first
			if half := BucketOf(small.First(), d); half.Key&(1<<(d-1)) == 0 && !yield(Bucket{half.Mask, half.Key | 1<<(d-1)}) {
				return
			}
		}
	}
}

// String returns mask and key in hexadecimal, as in 00FF/0012.
func (b Bucket) String() string { return fmt.Sprintf("%04X/%04X", b.Mask, b.Key) }
