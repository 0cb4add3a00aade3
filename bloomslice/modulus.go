package bloomslice

import "math/bits"

// modulus is a divisor for which only remainders are needed. Multiplying by its reciprocal takes less time than dividing.
type modulus struct {
	m          uint64 // at least 1
	reciprocal uint64 // of 2^64, rounded down
}

func newModulus(m uint64) modulus { return modulus{m, ^uint64(0) / m} }

// of returns n mod m. With the reciprocal r, 2^64/m - 1 <= r < 2^64/m, so n*r/2^64 is less than n/m, and by less than 1: the
// quotient that it gives is right, or 1 too small. Which of the two can't be predicted, so the code does not branch on it.
func (d modulus) of(n uint64) uint64 {
	q, _ := bits.Mul64(n, d.reciprocal)
	n, borrow := bits.Sub64(n-q*d.m, d.m, 0)
	return n + d.m&-borrow
}
