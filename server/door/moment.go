package door

import (
	"context"
	"iter"
)

// Momentary is a Backend that can show several sets as they were at one moment.
type Momentary interface {
	// Moment returns sets as they are at one moment of the call. A set that no replica knows is empty. The caller must close it.
	Moment(ctx context.Context, sets [][]byte) (Moment, error)
}

// Moment is sets as they were at one moment. As long as it is open, the node keeps what the sets had then, on disk and in memory. It can be
// read for a minute; after that Elements fails with context.DeadlineExceeded. One goroutine at a time uses it.
type Moment interface {
	// Elements streams elements of the set at an index, in order: from an element on and before another one, nil means no bound, at most a
	// number of them, 0 means all. An element is valid until the next one.
	Elements(ctx context.Context, set int, from, to []byte, limit int) iter.Seq2[[]byte, error]
	// Contains reports in yes for each element whether the set at an index contains it. It is fastest if the elements are in order. It fails as
	// Elements does.
	Contains(ctx context.Context, set int, elements [][]byte, yes []bool) error
	// Close ends the use of the moment.
	Close()
}

// Sizer is a Backend that knows how many live dots a set has without reading anything.
type Sizer interface {
	// Live returns Stats.Live, or bigset.ErrNotFound.
	Live(ctx context.Context, set []byte) (uint64, error)
}
