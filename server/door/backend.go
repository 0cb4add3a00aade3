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

// Backend serves the sets of a door: a store without a cluster, or the coordinator of a cluster. Its methods may be called by any number of
// goroutines. Contexts are tokens: a client can give them back, but can't make or change one. No request names a dot, an epoch or an
// incarnation.
//
// An error of a method that changes a set says what is known. An error that wraps ErrUnavailable: nothing has happened, and another node
// may be asked. An error that wraps ErrUnknown: the outcome is unknown. Any other error: nothing has happened, and a repeated request will
// not help.
type Backend interface {
	// Write does operations on a set, in order and as one atomic batch.
	Write(ctx context.Context, w Write) (Result, error)
	// Subset reports for each element whether the set contains it, with the context to act on it.
	Subset(ctx context.Context, s Subset) ([]Presence, error)
	// Read streams elements in order. Only the last part is Done. The bytes of a part are valid until the next part.
	Read(ctx context.Context, r Read) iter.Seq2[Part, error]
	// Count counts the elements that Read would return.
	Count(ctx context.Context, r Read) (Count, error)
	// Context returns the context of the whole set.
	Context(ctx context.Context, set []byte, r int) (Token, error)
	// Stats returns figures of a set, by r replicas; 0 means the default.
	Stats(ctx context.Context, set []byte, r int) (Stats, error)
	// Drop removes everything in the set or, with a context, what that context saw.
	Drop(ctx context.Context, d Drop) (Dropped, error)
	// Names lists the sets that contain elements; with all, also the empty ones. Their order is fixed, but is not the order of the names.
	// With after, the list begins with the set that follows that name in this order; after need not be a set any more. No set occurs twice.
	Names(ctx context.Context, all bool, after []byte) iter.Seq2[bigset.SetInfo, error]
	// CountSets counts the sets that Names lists without all, without listing them. Apart are those whose name is not one of a key: see
	// setname.Key.
	CountSets(ctx context.Context) (bigset.SetCount, error)
	// Changes returns what has happened since the follower's last answer. The last part, and only that, is Done. The caller may keep the contents
	// of a part.
	Changes(ctx context.Context, q Changes) iter.Seq2[Changed, error]
	// Remote reports whether requests wait for other nodes rather than only for memory and a disk.
	Remote() bool
}

// ManyWriter is a Backend that does writes that have come together in one go.
type ManyWriter interface {
	// WriteMany does what Write does for each of several independent writes. It may return before the last outcome is known.
	WriteMany(calls []WriteCall)
}

// WriteCall is a write for a caller that does not wait in a goroutine.
type WriteCall struct {
	Context context.Context
	Write   Write // the caller must not change its memory afterwards
	// Done is called once with the results of Backend.Write, possibly before WriteMany returns. It must not wait.
	Done func(Result, error)
}

// ChangesOf returns Result.Changed for a write.
func ChangesOf(r *bigset.Result) []bool {
	changed := make([]bool, len(r.Dots))
	for i := range changed {
		changed[i] = r.Changed(i)
	}
	return changed
}

// Token is a sealed context: of an element, of a whole set, or of the place where a page ended. Empty means none.
type Token = bigset.Token

// Quorum says how many replicas must have done a write. Zero means the default of the cluster, or 1 and 1 on a node without a cluster.
type Quorum struct {
	W  int // replicas that have the write
	DW int // replicas that have it on disk; NotDurable means none
}

// NotDurable as a DW acknowledges a write before any disk has it.
const NotDurable = -1

// Replicas are numbers of replicas of a cluster, for the words that clients use. They are 0 while the cluster has not been born.
type Replicas struct {
	N    int // of a set
	R, W int // that a read and a write ask for if the request gives no number
}

// AtLeast returns how many replicas a request asks for. The request names n, where 0 is the usual number, and demands least, where 0 is no
// demand. The result is 0 if both are 0.
func AtLeast(least, n, usual int) int {
	if n == 0 && least > 0 {
		n = usual
	}
	return max(n, least)
}

// Op is an operation on one element.
type Op struct {
	Kind    keyscheme.Op // keyscheme.OpAdd or keyscheme.OpRemove
	Element []byte
	Context Token // narrow, of this element; empty means none
}

// Write is a request to change a set.
type Write struct {
	Set     []byte
	Ops     []Op
	Context Token // wide, for all operations without one of their own; empty means none
	Policy  bigset.Policy
	Quorum  Quorum
	// Request is the id of the request, at most keyscheme.RequestIDBytesMax bytes. A write that is sent again with it is done once.
	Request []byte
	// Retry says that the request may have been done before. It needs a Request.
	Retry bool
	// Contexts asks for the contexts of added elements, Changes for Result.Changed, and Later for Result.Later.
	Contexts, Changes, Later bool
}

// Result is the result of a write.
type Result struct {
	Contexts       []Token // of each operation, if requested; empty for an operation that was not an event
	Removed        int     // removes that found something
	Changed        []bool  // for each operation, if requested: bigset.Result.Changed
	Acked, Durable int     // replicas that have the write, and those that have it on disk; 0 if it was no event
	Later          Acks    // counts on, if requested; nil if no other replica can acknowledge the write
}

// Acks counts the replicas that acknowledge a change after it was answered.
type Acks interface {
	// Wait returns how many have acknowledged it, as soon as they are n, no other one can, or ctx has ended.
	Wait(ctx context.Context, n int) (acked int)
}

// Subset asks about elements of a set.
type Subset struct {
	Set      []byte
	Elements [][]byte
	R        int  // replicas to ask; 0 means the default
	Bare     bool // contexts are not needed and may be missing
}

// Presence says whether a set contains an element.
type Presence struct {
	Present bool
	Context Token // narrow; empty if not requested
}

// Read asks for elements of a set. Nil bounds mean no bounds.
type Read struct {
	Set              []byte
	From, To, Prefix []byte // From is inclusive, To exclusive
	After            Token  // continues after a page in the same direction
	Reverse          bool
	Limit            int // elements; 0 means no limit
	Batch            int // elements in a part at most, up to BatchMax; 0 leaves it to the node, whose parts grow the longer a read runs
	R                int // replicas to ask; 0 means the default
	Contexts         bool
	Bare             bool   // not even the context of the whole set is needed; it may be missing
	Part             func() // Count calls it after each part, of some thousand keys, but not after the last; nil means not at all. A backend that is Remote need not
}

// BatchMax is the largest Read.Batch.
const BatchMax = 1000

// ContextsMax is for how many elements a door requests contexts at a time: what a backend returns is not counted before the door has it, and the
// context of an element takes some 20 KiB if it has as many dots as it may have.
const ContextsMax = 128

// Check returns bigset.ErrRequest or bigset.ErrLimit for an invalid read.
func (r *Read) Check() error {
	if r.Limit < 0 || r.Batch < 0 || r.Batch > BatchMax {
		return fmt.Errorf("%w: limit %d, batch %d (0 to %d)", bigset.ErrRequest, r.Limit, r.Batch, BatchMax)
	}
	return bigset.CheckName(r.Set)
}

// Element is an element of a set.
type Element struct {
	Name    []byte
	Context Token // narrow; empty unless requested
}

// Part is a part of a read. It is valid until the next part.
type Part struct {
	Elements []Element
	Context  Token // of the whole set at the start of the read; in the first part, unless the read is Bare
	After    Token // in the last part of a read that ended at its limit, if more elements follow: where the next page begins
	Done     bool
}

// Count is a number of elements, with the context of the whole set at the start of the count.
type Count struct {
	Elements uint64
	Context  Token
}

// Stats are figures of a set as the replicas know it together. Only a node without a cluster knows how much space each part takes in its
// folder.
type Stats struct {
	Live uint64 // dots by which elements are present: one for each element, unless it was added twice concurrently
	Seen uint64 // all events
	Dead uint64 // events that are removed or replaced
	// Of the clock: the actors with events in it, the gaps in their counters, and the encoded sizes of the clock and of the tombstone in a
	// store.
	Actors, Gaps, ClockBytes, TombstoneBytes uint64
}

// StatsOf returns the figures of a set's state.
func StatsOf(s *bigset.State) Stats {
	return Stats{Live: s.Seen.Len() - s.Dead.Len(), Seen: s.Seen.Len(), Dead: s.Dead.Len(), Actors: uint64(len(s.Seen.Actors())), Gaps: uint64(s.Seen.GapCount()),
		ClockBytes:     uint64(len(keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: s.Seen}))),
		TombstoneBytes: uint64(len(keyscheme.AppendTombstoneValue(nil, s.Dead)))}
}

// Drop asks a node to drop a set.
type Drop struct {
	Set     []byte
	Context Token // wide: remove only what it saw; empty drops everything
	Quorum  Quorum
	Later   bool // asks for Dropped.Later
}

// Dropped is the result of a drop.
type Dropped struct {
	// Left is how many of the dots that were live at the start are left; without a context, none are. It is known before anything is removed,
	// so errors mean the same as for other changes.
	Left  uint64
	Acked int  // replicas that have the drop
	Later Acks // as Result.Later
}

// Leaves returns how many live dots of a set are left by a drop whose context saw seen; nil means that it saw everything.
func (d *Drop) Leaves(s *bigset.State, seen *clock.Clock) uint64 {
	if seen == nil || s.Seen == nil {
		return 0
	}
	live := s.Seen.Clone()
	live.Subtract(s.Dead)
	live.Subtract(seen)
	return live.Len()
}

// Errors of backends. See Backend.
var (
	// ErrUnavailable: nothing has happened, and another node may be able to do the request.
	ErrUnavailable = errors.New("door: this node can't do it now")
	// ErrMembersAway: what was asked takes all members of a cluster, and some are away. It wraps ErrUnavailable: nothing has happened. But every
	// node says the same until the members are back.
	ErrMembersAway = fmt.Errorf("%w: members are away", ErrUnavailable)
	// ErrUnknown: it is unknown whether the request was done; *UnknownError says how far it came. The same request may be sent again with
	// the same id.
	ErrUnknown = errors.New("door: outcome unknown, it may have happened")
	// ErrQuorum: the request asks for more replicas than exist.
	ErrQuorum = errors.New("door: more replicas requested than exist")
)

// UnknownError says how far a write came that too few replicas have acknowledged. errors.Is finds ErrUnknown in it, and the cause.
type UnknownError struct {
	Acked, Durable int // replicas that have the write, and those that have it on disk
	W, DW          int // how many were required; both 0 if nothing is known
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

// Unwrap lets errors.Is find ErrUnknown and the cause.
func (e *UnknownError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrUnknown}
	}
	return []error{ErrUnknown, e.Err}
}

// Retried returns the error of a change that its client has sent before: if this try has done nothing, it is still unknown what the earlier
// one did. An error that says that a repeated request will not help stays unchanged: it is about the request, not about its outcome.
func Retried(retry bool, err error) error {
	if !retry || err == nil || errors.Is(err, ErrUnknown) {
		return err
	}
	for _, passing := range []error{ErrUnavailable, context.DeadlineExceeded, context.Canceled, bigset.ErrClosed, bigset.ErrDiskFull} {
		if errors.Is(err, passing) {
			return &UnknownError{Err: err}
		}
	}
	return err
}

// Opened returns the operations of a write, with the contents of its tokens.
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
