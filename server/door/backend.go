package door

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
)

// Backend is what stands behind a door that knows sets: a store alone, or the coordinator of a cluster. Its methods may be called by any
// number of goroutines. Contexts are tokens: a client can give them back, and can't make or change one. No request names a dot, an epoch or
// an incarnation.
//
// An error of a method that changes a set says what is known: one that wraps ErrUnavailable says that nothing happened and another node may
// be asked; one that wraps ErrUnknown that nobody knows; every other that nothing happened and asking again will not help.
type Backend interface {
	// Write does operations on a set, in order and as one atomic batch.
	Write(ctx context.Context, w Write) (Written, error)
	// Subset reports, for each element, whether the set contains it, with the context to act on it.
	Subset(ctx context.Context, s Subset) ([]Presence, error)
	// Read streams elements in order. The last part, and only that, is Done. What a part holds is good until the next.
	Read(ctx context.Context, r Read) iter.Seq2[Part, error]
	// Count counts the elements that Read would give.
	Count(ctx context.Context, r Read) (Count, error)
	// Context returns the context of the whole set.
	Context(ctx context.Context, set []byte, r int) (Token, error)
	// Stats returns figures of a set, by r replicas; 0 is the default.
	Stats(ctx context.Context, set []byte, r int) (Stats, error)
	// Drop removes everything in the set or, with a context, what that saw. It returns how many dots are left of those that were live when it
	// began: none without a context. That is known before anything is removed, so that an error says as for other changes what happened.
	Drop(ctx context.Context, d Drop) (left uint64, err error)
	// Names lists sets: those with elements or, with all, also those that are empty. Their order is fixed and none of their names; with after, which need not
	// be a set any more, it begins with the one that follows that name in it. No set comes twice.
	Names(ctx context.Context, all bool, after []byte) iter.Seq2[Name, error]
	// Changes says what has happened since a follower was told last. The last part, and only that, is Done. What a part holds may be kept.
	Changes(ctx context.Context, q Changes) iter.Seq2[Changed, error]
	// Remote reports whether requests wait for other nodes: else only for memory and a disk.
	Remote() bool
}

// ChangesOf returns Written.Changed of a write.
func ChangesOf(r *bigset.Result) []bool {
	changed := make([]bool, len(r.Dots))
	for i := range changed {
		changed[i] = r.Changed(i)
	}
	return changed
}

// Token is a sealed context: of an element, of a whole set, or of the place where a page ended. Empty is none.
type Token = bigset.Token

// Quorum says how many replicas must have done a write. Zero is the default of the cluster, which for a node alone is 1 and 1.
type Quorum struct {
	W  int // replicas that have it
	DW int // replicas that have it on disk; NotDurable is none
}

// NotDurable as a DW acknowledges a write before any disk has it.
const NotDurable = -1

// Op is an operation on one element.
type Op struct {
	Kind    keyscheme.Op // keyscheme.OpAdd or keyscheme.OpRemove
	Element []byte
	Context Token // narrow, of this element; empty is none
}

// Write is a request to change a set.
type Write struct {
	Set     []byte
	Ops     []Op
	Context Token // wide, for all operations without one of their own; empty is none
	Policy  bigset.Policy
	Quorum  Quorum
	// Request is the id of the request, at most keyscheme.RequestIDBytesMax bytes. What is sent again with it is done once.
	Request []byte
	// Retry says that the request may have been done before. It needs a Request.
	Retry bool
	// Contexts asks for the contexts of what was added, and Changes for Written.Changed.
	Contexts, Changes bool
}

// Written says what a write came to.
type Written struct {
	Contexts       []Token // of each operation, if they were asked for; empty for what was no event
	Removed        int     // removes that found something
	Changed        []bool  // of each operation, if it was asked for: bigset.Result.Changed
	Acked, Durable int     // replicas that have it, and those that have it on disk
}

// Subset asks about elements of a set.
type Subset struct {
	Set      []byte
	Elements [][]byte
	R        int  // replicas to ask; 0 is the default
	Bare     bool // no contexts are wanted, and need not come
}

// Presence says whether a set contains an element.
type Presence struct {
	Present bool
	Context Token // narrow; empty if none was wanted
}

// Read asks for elements of a set. Nil bounds are none.
type Read struct {
	Set              []byte
	From, To, Prefix []byte // From is inclusive, To exclusive
	After            Token  // goes on where a page ended that ran in the same direction
	Reverse          bool
	Limit            int // elements; 0 is no limit
	Batch            int // elements in a part at most, up to BatchMax; 0 leaves it to the node, which sends more at a time the longer a read goes on
	R                int // replicas to ask; 0 is the default
	Contexts         bool
	Bare             bool // not even the context of the whole set is wanted, and need not come
}

// BatchMax is the largest Read.Batch.
const BatchMax = 1000

// Check returns what is wrong with a read: bigset.ErrRequest or bigset.ErrLimit.
func (r *Read) Check() error {
	if r.Limit < 0 || r.Batch < 0 || r.Batch > BatchMax {
		return fmt.Errorf("%w: limit %d, batch %d (0 to %d)", bigset.ErrRequest, r.Limit, r.Batch, BatchMax)
	}
	return bigset.CheckName(r.Set)
}

// Element is an element of a set.
type Element struct {
	Name    []byte
	Context Token // narrow; empty unless asked for
}

// Part is a part of a read. It is good until the next.
type Part struct {
	Elements []Element
	Context  Token // of the whole set when the read began; in the first part, unless the read is Bare
	After    Token // in the last part of a read that its limit ended, if there are more elements: where the next page begins
	Done     bool
}

// Count is a number of elements, with the context of the whole set when counting began.
type Count struct {
	Elements uint64
	Context  Token
}

// Stats are figures of what replicas know of a set together. What takes space where, a node alone knows of its own folder.
type Stats struct {
	Live uint64 // dots by which elements are present: one an element, where nobody added it twice at the same time
	Seen uint64 // all events
	Dead uint64 // events that are removed or replaced
	// Of the clock: actors that have events in it, gaps in their counters, and the bytes of it and of the tombstone, as a store encodes them.
	Actors, Gaps, ClockBytes, TombstoneBytes uint64
}

// StatsOf returns the figures of what is known of a set.
func StatsOf(s *bigset.State) Stats {
	return Stats{Live: s.Seen.Len() - s.Dead.Len(), Seen: s.Seen.Len(), Dead: s.Dead.Len(), Actors: uint64(len(s.Seen.Actors())), Gaps: uint64(s.Seen.GapCount()),
		ClockBytes:     uint64(len(keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: s.Seen}))),
		TombstoneBytes: uint64(len(keyscheme.AppendTombstoneValue(nil, s.Dead)))}
}

// Drop asks for a set to be dropped.
type Drop struct {
	Set     []byte
	Context Token // wide: only what that saw; empty drops everything
	Quorum  Quorum
}

// Leaves returns how many live dots of a set a drop leaves that has seen so much of it; nil has seen everything.
func (d *Drop) Leaves(s *bigset.State, seen *clock.Clock) uint64 {
	if seen == nil || s.Seen == nil {
		return 0
	}
	live := s.Seen.Clone()
	live.Subtract(s.Dead)
	live.Subtract(seen)
	return live.Len()
}

// Name is a set in a list.
type Name struct {
	Set        []byte
	Live, Seen uint64 // dots by which elements are present, and all events
}

// Errors of backends. See Backend.
var (
	// ErrUnavailable says that nothing happened, and that another node may be able to do it.
	ErrUnavailable = errors.New("door: this node can't do it now")
	// ErrUnknown says that nobody knows whether the request was done; *UnknownError says how far it came. The same request with the same
	// id can be sent again.
	ErrUnknown = errors.New("door: outcome unknown, it may have happened")
	// ErrQuorum says that a request wants more replicas than there are.
	ErrQuorum = errors.New("door: more replicas wanted than there are")
)

// UnknownError says how far a write came that too few replicas have acknowledged. errors.Is finds ErrUnknown in it, and the cause.
type UnknownError struct {
	Acked, Durable int // replicas that have it, and those that have it on disk
	W, DW          int // how many there should have been; both 0 where nothing is known of that
	Err            error
}

// Error implements error.
func (e *UnknownError) Error() string {
	text := ErrUnknown.Error()
	if e.W > 0 || e.DW > 0 {
		text = fmt.Sprintf("%v: %d of %d replicas have it, %d of %d on disk", ErrUnknown, e.Acked, e.W, e.Durable, e.DW)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap makes errors.Is find ErrUnknown and the cause.
func (e *UnknownError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrUnknown}
	}
	return []error{ErrUnknown, e.Err}
}

// Retried returns the error of a change that its client has sent before: this try did nothing where it says so, but nobody knows about the one before. Errors that
// say that asking again will not help stay as they are: they judge the request, not what became of it.
func Retried(retry bool, err error) error {
	if !retry || err == nil || !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknown) {
		return err
	}
	return &UnknownError{Err: err}
}

// Opened returns the operations of a write, with what the tokens of it hold.
func (w *Write) Opened(t *bigset.Tokens) ([]bigset.Op, error) {
	seen, err := t.Seen(w.Context)
	if err != nil {
		return nil, err
	}
	ops := make([]bigset.Op, len(w.Ops))
	for i := range w.Ops {
		op := &w.Ops[i]
		ops[i] = bigset.Op{Kind: op.Kind, Element: op.Element}
		switch {
		case len(op.Context) > 0:
			if ops[i].Context, err = t.Context(op.Context, op.Element); err != nil {
				return nil, fmt.Errorf("context of element %.64q: %w", op.Element, err)
			}
		case seen != nil:
			ops[i].Context = bigset.SawAll(seen)
		}
	}
	return ops, nil
}
