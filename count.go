package bigset

import (
	"fmt"

	"bigset/clock"
)

// CountRange says which elements of a set CountParts counts. The bounds are those of ReadOptions; nil is no bound.
type CountRange struct {
	From, To, Prefix, After []byte
	// Mean is the approximate number of elements in a part; with 1 each element is a part. From 1 to ElementsMeanMax.
	Mean int
	// Clock asks for PartCounts.Clock.
	Clock bool
}

// Check returns what is wrong with the range: ErrRequest or ErrLimit.
func (r *CountRange) Check() error {
	if r.Mean < 1 || r.Mean > ElementsMeanMax {
		return fmt.Errorf("%w: parts of %d elements", ErrRequest, r.Mean)
	}
	return r.Read().Check()
}

// Read returns the options of the read whose elements are counted.
func (r *CountRange) Read() ReadOptions {
	return ReadOptions{From: r.From, To: r.To, Prefix: r.Prefix, After: r.After}
}

// PartCounts are the elements of a range that are present, counted in parts. If two stores have both ended a part at the same
// element, and the sums of what lies before are equal, both have shown the same elements, by the same dots.
type PartCounts struct {
	ElementDigests
	// Clock is what the store had seen of the set when it counted, if that was asked for; otherwise nil. It must not be changed.
	Clock *clock.Clock
}
