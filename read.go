package bigset

import (
	"fmt"

	"bigset/fold"
)

// ReadOptions say which part of a set is read. The zero value is all of it, in order, in chunks of 1,000.
type ReadOptions struct {
	// From is the first element, inclusive; To the end, exclusive. Nil is no bound.
	From, To []byte
	// Prefix limits the read to elements that begin with it.
	Prefix []byte
	// After resumes a read after an element: with the elements after it, or with Reverse those before it.
	After []byte
	// Reverse reads in descending order. From stays the lower bound.
	Reverse bool
	// Limit ends the read after that many elements; 0 is no limit.
	Limit int
	// BatchSize is the number of elements in a chunk; 0 is 1,000.
	BatchSize int
	// Scrap, if it is not nil, is called before each chunk. It returns a chunk that is no longer used, whose memory is used again,
	// or nil.
	Scrap func() *fold.Chunk
}

// SetInfo is a set in a list.
type SetInfo struct {
	Name []byte
	// Live is the number of dots by which elements are present: one for each element, unless it was added twice concurrently. 0 if the
	// set is empty.
	Live uint64
	// Seen is the number of events that are known of the set.
	Seen uint64
}

// SetsOptions select the sets of a list. The zero value selects those that contain elements.
type SetsOptions struct {
	// Empty includes sets that contain no element, because they were dropped or emptied: they keep their clock for ever, so that nothing
	// is resurrected.
	Empty bool
	// After continues a list after a name, in the order of the list. It need not be the name of a set. Empty means the beginning.
	After []byte
}

// BatchSizeMax is the largest chunk that a read may ask for, in elements.
const BatchSizeMax = 1 << 20

// Check returns what is wrong with the options: ErrRequest or ErrLimit.
func (o ReadOptions) Check() error {
	if o.Limit < 0 || o.BatchSize < 0 || o.BatchSize > BatchSizeMax {
		return fmt.Errorf("%w: limit %d, batch size %d (0 to %d)", ErrRequest, o.Limit, o.BatchSize, BatchSizeMax)
	}
	for _, e := range [][]byte{o.From, o.To, o.Prefix, o.After} {
		if err := CheckElement(e); err != nil {
			return err
		}
	}
	return nil
}
