package remote

import (
	"context"

	"bigset/keyscheme"
)

// Class says what a verb requires of the range that it is about, for a Gate.
type Class byte

// Classes.
const (
	// Mint decides something: which dots a write gets, which layer a key goes into. It needs an owner that may coordinate.
	Mint Class = 1 + iota
	// Take takes what another replica has decided or has. It needs an owner, complete or joining.
	Take
	// Answer answers a client's read or write, and counts towards its quorum. It needs an owner whose copy is complete.
	Answer
	// Compare answers questions of repairs and exchanges.
	Compare
	// Copy sends a copy.
	Copy
)

// Gate decides whether a request may be answered here, by the map in force. The methods may be called by any number of goroutines.
type Gate interface {
	// Enter is called before a request on a range of slots, both ends included, is looked up or done, and again for each part of a stream.
	// When it returns nil, the map that allowed the request stays in force for the range until leave is called. leave is called once, and
	// soon: never while waiting for a consumer. An error refuses the request: nothing has happened. For a request of another epoch the
	// error is peer.ErrNotMine, as a *peer.EpochError. The drop of a whole filter enters all slots.
	Enter(ctx context.Context, c Class, first, last keyscheme.Slot, epoch uint64) (leave func(), err error)

	// EnterMany is Enter for several slots at once, for a request about many slices. errs has an error for each refused slot and nil for
	// the others, which leave ends together; it is nil if none is refused. It is a single call so that a map that waits to take force never
	// comes between two of the slots.
	EnterMany(ctx context.Context, c Class, at []keyscheme.Slot, epoch uint64) (leave func(), errs []error)
}

// Open is a Gate that lets every request pass.
type Open struct{}

// Enter implements Gate.
func (Open) Enter(context.Context, Class, keyscheme.Slot, keyscheme.Slot, uint64) (func(), error) {
	return func() {}, nil
}

// EnterMany implements Gate.
func (Open) EnterMany(context.Context, Class, []keyscheme.Slot, uint64) (func(), []error) {
	return func() {}, nil
}
