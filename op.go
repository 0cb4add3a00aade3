package bigset

import (
	"fmt"

	"bigset/clock"
	"bigset/keyscheme"
)

// Op is a client's operation on one element. Add and Remove make one.
type Op struct {
	Kind    keyscheme.Op // keyscheme.OpAdd or keyscheme.OpRemove
	Element []byte
	Context Context
}

// Add returns the operation that adds an element. With a context it replaces what its author had seen of the element, and nothing
// newer; without one, WriteOptions.Policy decides what it replaces. It panics if more than one context is given.
func Add(element []byte, seen ...Context) Op { return newOp(keyscheme.OpAdd, element, seen) }

// Remove returns the operation that removes an element. With a context it removes what its author had seen of the element, and
// nothing newer; without one, WriteOptions.Policy decides what it removes. It panics if more than one context is given.
func Remove(element []byte, seen ...Context) Op { return newOp(keyscheme.OpRemove, element, seen) }

// newOp makes an operation of a kind. Two contexts for one operation are a mistake of the calling program, which no input can
// cause.
func newOp(kind keyscheme.Op, element []byte, seen []Context) Op {
	op := Op{Kind: kind, Element: element}
	switch len(seen) {
	case 0:
	case 1:
		op.Context = seen[0]
	default:
		panic(fmt.Sprintf("bigset: %d contexts for one operation, at most one is allowed", len(seen)))
	}
	return op
}

// WriteOptions say how an operation is done. The zero value is policy coordinator and the store's durability.
type WriteOptions struct {
	Policy     Policy
	Durability Durability
	// Request, of at most 64 bytes, is an id that the client gave its request to this set, and to no other. If the request was
	// applied before, here or by a delta, nothing is done, and the result is that of the first time. Without an id, an add that is
	// tried again after its element was removed brings the element back. The id is known for engine.Options.RequestAge. It can't be
	// combined with engine.Options.KeepContexts.
	Request []byte
	// Try, if it is not 0, tells one try of the request from the other ones: a number that the coordinator of a cluster has drawn for it. A
	// store does not use it. A replica does not do a try after it has told one with a larger number that the request has not happened.
	Try uint64
	// SkipPresent makes an add without a context no event if its element is present, under policy coordinator. It is for sets that no other
	// replica writes: a remove elsewhere that has seen the present dot would take the element away, although the add was acknowledged. A remove
	// here with a context from before the add does so, too.
	SkipPresent bool
	// Applied, if it is not nil, is called at most once, with the result that Write is going to return, when the operation is
	// applied and its sync is in progress, so that the delta can be sent to other replicas during the sync. It is called before
	// Write returns, and only if Write waits for a sync. If Write fails after that, it is unknown whether a crash takes the
	// operation back here; its dots are never issued again. Applied must return soon, because other writers of the set wait, and
	// must not call the store. It is not sent to a replica in another process, which is asked to answer twice instead. The group is
	// that of the writers that share the sync; it is nil if no others are known.
	Applied func(Result, *Group)
}

// WriteRequest is one of several requests to change a set.
type WriteRequest struct {
	Ops []Op
	WriteOptions
}

// WriteOutcome is the outcome of a WriteRequest.
type WriteOutcome struct {
	Result
	Err error
}

// Group is what writers that share a sync have in common. One goroutine calls Applied of each of them, one after the other, and then Done.
type Group struct {
	// Value belongs to the functions that are called: the later ones find what the first one left here.
	Value any
	// Done, if one of them sets it, is called when Applied of all of them has returned. It must return soon.
	Done func()
}

// DropOptions say how a whole set is deleted. The zero value is all of it, with the store's durability.
type DropOptions struct {
	// Seen, if it is not nil, is the clock of the set when the author of the delete had read it: what was added later, or elsewhere, stays.
	Seen       *clock.Clock
	Durability Durability
}

// Durability says what an acknowledgement means.
type Durability byte

const (
	// DefaultDurability is that of the store's options.
	DefaultDurability Durability = iota
	// Sync acknowledges when the operation is on disk: it survives a power cut.
	Sync
	// NoSync acknowledges when the operation is in the log's buffer. A crash may take back the last of them, whole batches
	// from the end; the store never issues a dot twice, whatever was lost.
	NoSync
)

// Policy says what an operation without a context kills.
type Policy byte

const (
	// PolicyCoordinator, the default, kills the dots that this store has for the element: one seek.
	PolicyCoordinator Policy = iota
	// PolicyEmpty kills nothing: an add is concurrent with all others, a remove does nothing.
	PolicyEmpty
	// PolicyRequired refuses the operation with ErrContextRequired.
	PolicyRequired
)

// Result says what an operation did.
type Result struct {
	// Delta is to be sent to the other replicas. It is empty if nothing changed. Its elements are those of the operation, not
	// copies.
	Delta Delta
	// Dots has, for each operation, the dot it was given, or the zero Dot if it was not an event. The dot of an add is the narrow
	// context of the element after it.
	Dots []clock.Dot
	// Removed counts the removes that found something to remove, and those whose wide context is stored unresolved; for the latter
	// the store does not look up what they remove.
	Removed int
}

// Changed reports whether operation i changed what the set contains, as far as the replica that did it knew: an add whose element
// was absent, a remove whose element was present. This holds for operations of policy coordinator without a context; for an operation
// with a context, the context alone decides. In a batch every operation sees those before it.
func (r *Result) Changed(i int) bool {
	d, dot := &r.Delta, r.Dots[i]
	at := dot.Counter - d.First
	if dot.Actor != d.Actor || dot.Counter < d.First || at >= uint64(len(d.Items)) { // not an event, or not what a replica may answer
		return false
	}
	it := &d.Items[at]
	return it.Kind == keyscheme.OpRemove || len(it.Context) == 0 && it.Wide.Empty()
}

// CheckOps returns what is wrong with operations on a set, in one atomic batch: ErrLimit, ErrRequest or ErrContext.
func CheckOps(name []byte, ops []Op) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if len(ops) > BatchOpsMax {
		return &LimitError{"operations in a batch", len(ops), BatchOpsMax}
	}
	total, dots := 0, 0
	for i := range ops {
		op := &ops[i]
		if op.Kind != keyscheme.OpAdd && op.Kind != keyscheme.OpRemove {
			return fmt.Errorf("%w: operation %d has kind %q, want add or remove", ErrRequest, i, op.Kind)
		}
		if err := CheckElement(op.Element); err != nil {
			return err
		}
		if err := op.Context.Check(); err != nil {
			return err
		}
		total += len(op.Element) + op.Context.WideBytes()
		dots += len(op.Context.Dots)
	}
	if total > BatchBytesMax {
		return &LimitError{"bytes of elements in a batch", total, BatchBytesMax}
	}
	return checkBatch(name, len(ops), total, dots)
}
