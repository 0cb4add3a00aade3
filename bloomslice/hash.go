package bloomslice

import "github.com/twmb/murmur3"

// Hash is what a key is reduced to: four 64-bit hashes, from which the places of all its bits follow. It is all that a slice needs
// of a key, and part of the log format.
type Hash [4]uint64

// Sum returns the hash of a key: the two halves of MurmurHash3 x64-128 with the seed 0, then the two halves of SpookyHash V1 with
// the seeds 0. These are bloomd's functions, so a slice has the same bits and the same false positives as a bloomd filter of the
// same shape. Sum allocates nothing. The function is fixed forever.
func Sum(key []byte) (h Hash) {
	h[0], h[1] = murmur3.Sum128(key)
	h[2], h[3] = spooky(key)
	return h
}

// Slice returns which slice of a filter a key belongs to. slices is a power of two, or 0. Slice i of n becomes slices i and i+n of
// 2n. The slice comes from the first hash, by a product that keeps it independent of the remainder that determines a place. The
// function is fixed forever.
func (h *Hash) Slice(slices uint32) uint32 {
	if slices <= 1 {
		return 0
	}
	return uint32(h[0]*sliceFactor>>32) & (slices - 1)
}

// sliceFactor is odd, and has no structure: 2^64 over the golden ratio.
const sliceFactor = 0x9E3779B97F4A7C15

// hashPrime is the modulus of the products that make up further hashes: the largest prime below 2^64.
const hashPrime = 1<<64 - 59

// at returns the i-th hash function's value.
func (h *Hash) at(i uint32) uint64 {
	if i < uint32(len(h)) {
		return h[i]
	}
	product := uint64(i) * h[3]
	if product >= hashPrime {
		product -= hashPrime
	}
	return h[1] + product
}
