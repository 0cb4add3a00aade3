package system

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// ElementBytes is the length of every element.
const ElementBytes = 16

// SetName is the set that workloads use.
const SetName = "bench"

// Elements makes the elements of a run from their numbers: 16 hexadecimal digits, different for different numbers, in an order unrelated to
// the numbers.
type Elements struct{ Seed uint64 }

// Append appends the i-th element.
func (e Elements) Append(dst []byte, i int) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], Mix(uint64(i)+e.Seed<<40))
	return hex.AppendEncode(dst, b[:])
}

// Mix is a permutation of the numbers of 64 bits that looks random: the finalizer of splitmix64.
func Mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// Unmix inverts Mix.
func Unmix(x uint64) uint64 {
	x ^= x>>31 ^ x>>62
	x *= 0x319642B2D24D8EC3
	x ^= x>>27 ^ x>>54
	x *= 0x96DE1B173F119089
	x ^= x>>30 ^ x>>60
	return x - 0x9E3779B97F4A7C15
}

// Batch is a reused list of elements.
type Batch struct {
	Arena []byte
	List  [][]byte
	Dots  []uint64
}

// NewBatch returns an empty list with room for size elements.
func NewBatch(size int) *Batch {
	return &Batch{make([]byte, 0, size*ElementBytes), make([][]byte, 0, size), make([]uint64, 0, size)}
}

// Reset empties the list and returns it.
func (b *Batch) Reset() *Batch {
	b.Arena, b.List, b.Dots = b.Arena[:0], b.List[:0], b.Dots[:0]
	return b
}

// Add adds the i-th element to the batch, with its dot, or with room for the dot that it will get.
func (b *Batch) Add(e Elements, i int, dot uint64) {
	at := len(b.Arena)
	b.Arena = e.Append(b.Arena, i)
	b.List, b.Dots = append(b.List, b.Arena[at:]), append(b.Dots, dot)
}

// Scatter returns a permutation of 0 to n-1 that takes no memory.
func Scatter(n int, seed uint64) func(i int) int {
	step := max(1, int(float64(n)*0.6180339887)|1)
	for gcd(step, n) != 1 {
		step++
	}
	offset := int(Mix(seed) % uint64(max(1, n)))
	return func(i int) int { return int((uint64(i)*uint64(step) + uint64(offset)) % uint64(n)) }
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// InOrder appends an element that sorts by its number.
func InOrder(dst []byte, i int) []byte {
	digits := strconv.AppendInt(make([]byte, 0, ElementBytes), int64(i), 10)
	for range ElementBytes - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}
