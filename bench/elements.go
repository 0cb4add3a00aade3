package bench

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// elementBytes is the length of every element.
const elementBytes = 16

// setName is the set that workloads use.
const setName = "bench"

// elements makes the elements of a run from their numbers: 16 hexadecimal digits, different ones for different numbers, in
// an order that has nothing to do with the numbers.
type elements struct{ seed uint64 }

// append appends the i-th element.
func (e elements) append(dst []byte, i int) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], mix(uint64(i)+e.seed<<40))
	return hex.AppendEncode(dst, b[:])
}

// mix is a permutation of the numbers of 64 bits that looks random: the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// batch is a reused list of elements.
type batch struct {
	arena []byte
	list  [][]byte
	dots  []uint64
}

func newBatch(size int) *batch {
	return &batch{make([]byte, 0, size*elementBytes), make([][]byte, 0, size), make([]uint64, 0, size)}
}

func (b *batch) reset() *batch {
	b.arena, b.list, b.dots = b.arena[:0], b.list[:0], b.dots[:0]
	return b
}

// add takes the i-th element into the batch, with the dot that it has or room for the one that it will get.
func (b *batch) add(e elements, i int, dot uint64) {
	at := len(b.arena)
	b.arena = e.append(b.arena, i)
	b.list, b.dots = append(b.list, b.arena[at:]), append(b.dots, dot)
}

// scatter returns a permutation of 0 to n-1 that takes no memory.
func scatter(n int, seed uint64) func(i int) int {
	step := max(1, int(float64(n)*0.6180339887)|1)
	for gcd(step, n) != 1 {
		step++
	}
	offset := int(mix(seed) % uint64(max(1, n)))
	return func(i int) int { return int((uint64(i)*uint64(step) + uint64(offset)) % uint64(n)) }
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// prefixDigits is how many hexadecimal digits pick about a hundred of n elements.
func prefixDigits(n int) int {
	digits := 0
	for n > 800 {
		n /= 16
		digits++
	}
	return digits
}

// inOrder appends an element that sorts by its number.
func inOrder(dst []byte, i int) []byte {
	digits := strconv.AppendInt(make([]byte, 0, elementBytes), int64(i), 10)
	for range elementBytes - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}
