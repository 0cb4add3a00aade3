package engine

import (
	"bigset/clock"
	"bigset/keyscheme"
)

// Context is what the author of an operation had seen: of its element, the dots by which that was present (narrow), or the
// clock of the whole set (wide). The zero Context is none; see Policy. Narrow ones come from Contains and from the elements
// of a read, wide ones from Store.Context and the chunks of a read. They are trusted here: bytes from outside are unsealed
// by keyscheme first.
type Context struct {
	Given bool
	Dots  []clock.Dot
	// Wide, if it is not nil, is the clock of a whole set that the author had read, and Dots is not looked at. It kills the
	// dots of the operation's element that it covers. It must not change afterwards. See Options.OpenContexts.
	Wide *clock.Clock
}

// Saw returns the context of an author who saw the element present by those dots, or absent if there are none.
func Saw(dots ...clock.Dot) Context { return Context{Given: true, Dots: dots} }

// SawAll returns the context of an author who had read the whole set when this was its clock.
func SawAll(seen *clock.Clock) Context { return Context{Given: true, Wide: seen} }

// Present reports whether the element was present when the context was taken.
func (c Context) Present() bool { return len(c.Dots) > 0 }

// Op is what a client wants done with one element.
type Op struct {
	Kind    keyscheme.Op // keyscheme.OpAdd or keyscheme.OpRemove
	Element []byte
	Context Context
}

// WriteOptions say how an operation is done. The zero value is policy coordinator and the store's durability.
type WriteOptions struct {
	Policy     Policy
	Durability Durability
	// Request, of at most 64 bytes, is an id that the client has given its request to this set, and to no other. Where the
	// request was applied before, here or by a delta, nothing is done: the result is that of the first time. Without one, an add
	// that is tried again after somebody has removed its element brings the element back. It is known for Options.RequestAge.
	// Not together with Options.OpenContexts.
	Request []byte
}

// Delta is what one atomic batch did, to be applied by other replicas with ApplyDelta, in any order and any number of
// times. Item i has the dot (Actor, First+i). A whole-set delete has no items but a Clear.
type Delta struct {
	Set   []byte
	Actor clock.Actor
	First uint64
	Items []Item
	Clear *clock.Clock
	// Request is the id of the client's request that made it, if it had one. Who applies the delta knows the request from then on.
	Request []byte
}

// Item is one event of a delta: an add or a remove of an element, and the dots that it killed.
type Item struct {
	Kind    keyscheme.Op
	Element []byte
	Context []clock.Dot
	// Wide, if it is not nil, takes the place of Context: the event kills the dots of its element that this covers, which
	// each replica finds out for itself. Only stores with Options.OpenContexts make and take such items.
	Wide *clock.Clock
}

// Empty reports whether the delta holds no event.
func (d Delta) Empty() bool { return len(d.Items) == 0 && d.Clear.Empty() }

// Result says what an operation did.
type Result struct {
	// Delta is to be sent to the other replicas. It is empty when nothing changed. Its elements are those of the
	// operation, not copies.
	Delta Delta
	// Dots has, for each operation, the dot it was given, or the zero Dot if it was no event. The dot of an add is the
	// narrow context of the element after it.
	Dots []clock.Dot
	// Removed counts the removes that found something to remove, and those whose wide context is stored unresolved: what they
	// remove is not looked for.
	Removed int
}
