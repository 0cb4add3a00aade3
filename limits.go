package bigset

import (
	"fmt"

	"bigset/clock"
	"bigset/keyscheme"
)

// Limits of one operation.
const (
	// SetNameBytesMax and ElementBytesMax are the longest names, in bytes; both may be any bytes. An element may be
	// empty, a set name may not.
	SetNameBytesMax = keyscheme.SetNameBytesMax
	ElementBytesMax = keyscheme.ElementBytesMax
	// BatchOpsMax is the largest number of operations in one atomic batch.
	BatchOpsMax = 100_000
	// BatchBytesMax is the largest sum of element bytes in one atomic batch.
	BatchBytesMax = 32 << 20
	// BatchKeysBytesMax is the largest batch on disk, in bytes: each operation writes the set's name again.
	BatchKeysBytesMax = 256 << 20
	// ContextDotsMax is the largest number of dots in a narrow context that comes with an operation.
	ContextDotsMax = 10_000
	// DeltaDotsMax is the largest number of dots that one event names as seen: an operation without a context may find more
	// dots of its element than any context has.
	DeltaDotsMax = 1 << 20
	// WideContextBytesMax is the largest wide context of an operation on an element, and ClockBytesMax the largest clock of a
	// whole-set delete, in bytes of memory.
	WideContextBytesMax = 1 << 20
	ClockBytesMax       = 64 << 20
)

// BatchDotBytes is the approximate size in a batch of a dot of a context, and BatchKeyBytes that of a key without its names.
const (
	BatchDotBytes = 16
	BatchKeyBytes = 48
)

// LimitError says which limit was exceeded. errors.Is finds ErrLimit in it.
type LimitError struct {
	What     string // what was too large, for instance "element"
	Got, Max int    // in the unit that What implies: bytes, or a count of operations
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%v: %d %s, at most %d", ErrLimit, e.Got, e.What, e.Max)
}

// Unwrap makes errors.Is find ErrLimit.
func (e *LimitError) Unwrap() error { return ErrLimit }

// CheckName returns what is wrong with the name of a set: ErrRequest for an empty name, or ErrLimit.
func CheckName(name []byte) error {
	if len(name) == 0 {
		return fmt.Errorf("%w: a set has no name", ErrRequest)
	}
	if len(name) > SetNameBytesMax {
		return &LimitError{"bytes of a set name", len(name), SetNameBytesMax}
	}
	return nil
}

// CheckElement returns what is wrong with an element: ErrLimit.
func CheckElement(e []byte) error {
	if len(e) > ElementBytesMax {
		return &LimitError{"bytes of an element", len(e), ElementBytesMax}
	}
	return nil
}

// CheckClock returns what is wrong with a clock from outside: ErrLimit. A nil clock is valid.
func CheckClock(c *clock.Clock) error {
	if n := c.HeapBytes(); n > ClockBytesMax {
		return &LimitError{"bytes of a clock", n, ClockBytesMax}
	}
	return nil
}

// CheckRequest returns what is wrong with the id of a client's request: ErrLimit.
func CheckRequest(id []byte) error {
	if len(id) > keyscheme.RequestIDBytesMax {
		return &LimitError{"bytes of a request's id", len(id), keyscheme.RequestIDBytesMax}
	}
	return nil
}

// checkBatch bounds the size of a batch on disk: each operation writes the set's name again. Pebble panics at 4 GiB.
func checkBatch(name []byte, ops, elementBytes, dots int) error {
	if n := ops*(len(name)+BatchKeyBytes) + elementBytes + dots*BatchDotBytes; n > BatchKeysBytesMax {
		return &LimitError{"bytes of keys in a batch", n, BatchKeysBytesMax}
	}
	return nil
}
