package remote

import (
	"context"

	"bigset/keyscheme"
)

// Class says what a verb needs of the range that it is about, for a Gate.
type Class byte

// Classes.
const (
	// Mint decides something: which dots a write gets, which layer a key goes to. It needs an owner that may coordinate.
	Mint Class = 1 + iota
	// Take takes what another replica has decided, or has. It needs an owner, whole or joining.
	Take
	// Answer answers for a client's read or write, and counts to its quorum. It needs an owner whose copy is whole.
	Answer
	// Compare answers questions of repairs and exchanges.
	Compare
	// Copy gives a copy away.
	Copy
)

// Gate decides whether a request may be answered here, by the map that is in force. Its methods may be called by any number of goroutines.
type Gate interface {
	// Enter is called before a request on a range of slots, both ends included, is looked up or done, and for each part of a stream again. When it
	// returns nil, the map that allowed the request stays in force for the range until leave is called; leave is called once, and soon: never
	// while a consumer is waited for. An error refuses the request: nothing has happened. peer.ErrNotMine, as a *peer.EpochError, is the one of
	// another epoch. A filter that is dropped as a whole is of all slots.
	Enter(ctx context.Context, c Class, first, last keyscheme.Slot, epoch uint64) (leave func(), err error)

	// EnterMany is Enter of some slots at once, for a request about many slices: errs has an error for each that is refused, and nil for the
	// others, which leave ends together; it is nil where none is refused. It is one call so that a map that waits to take force never comes between two of them.
	EnterMany(ctx context.Context, c Class, at []keyscheme.Slot, epoch uint64) (leave func(), errs []error)
}

// Open is a Gate that lets everything pass.
type Open struct{}

// Enter implements Gate.
func (Open) Enter(context.Context, Class, keyscheme.Slot, keyscheme.Slot, uint64) (func(), error) {
	return func() {}, nil
}

// EnterMany implements Gate.
func (Open) EnterMany(context.Context, Class, []keyscheme.Slot, uint64) (func(), []error) {
	return func() {}, nil
}
