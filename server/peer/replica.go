package peer

import (
	"context"
	"errors"
	"iter"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
)

// Replica is one copy of a range of sets: here (package local), or behind a wire. Its methods may be called by any number of
// goroutines. Arguments and results are values: neither side changes what it has given or taken. Two that are equal by == are the
// same replica.
//
// Answers come with the member that gave them, in its incarnation and state of that moment. What a member in one incarnation
// has said binds no other.
//
// Errors of Write, Apply and ApplyFacts say what has happened. Nothing, when they wrap ErrUnavailable (another replica may be
// asked) or bigset.ErrBehind, or when they are Refused (so would others). With any other nobody knows, and so with a context
// that ends while the call is under way.
type Replica interface {
	// Member says who this is, as last known. It does no I/O.
	Member() Member

	// Write does a client's operations, as engine.Store.Write does: all in one atomic batch, each event with a dot of this
	// replica. The result's delta is for the other replicas. One that is Joining answers ErrJoining, unless it knows the request:
	// it may not know what a remove without a context removes.
	//
	//	A: Write(add x) = Delta{A: 7: add x, kills B3};  A again, with the same request id = the same delta
	Write(ctx context.Context, set []byte, ops []bigset.Op, o bigset.WriteOptions) (bigset.Result, Member, error)

	// Knows reports whether this replica has a client's request, by its id: whether Write would answer what it did the first time.
	// Replicas forget requests after some minutes.
	Knows(ctx context.Context, set, request []byte) (bool, Member, error)

	// Apply applies what another replica did, whole or not at all, in whatever order, however often and however late it comes. A nil
	// error acknowledges it: the delta, or what was found to be here of it already, is as durable as asked for.
	//
	//	Apply(Delta{A7: add x, kills B3}), Sync: nil    x is here by A7, on disk, or its death is; B3 is dead, on disk
	//	the same again:                          nil    the same
	Apply(ctx context.Context, d bigset.Delta, durability bigset.Durability) (Member, error)

	// ApplyFacts takes keys and deaths that another replica has. They are checked against the state of this one at that moment: a key
	// whose dot is seen is left alone, else key and dot enter together; deaths are united with those that are here. It joins no
	// clock: what the facts leave out is neither missing nor dead.
	//
	//	here Seen {A1 A2} Dead {A2};  ApplyFacts(x{A2 A3}, Dead {A1})  =>  Seen {A1 A2 A3} Dead {A1 A2}, x by A3
	ApplyFacts(ctx context.Context, f bigset.Facts, durability bigset.Durability) (bigset.FactsResult, Member, error)

	// Heal puts keys back that this replica has lost: whose dots it has seen, that are not dead here, and that are not stored. It is
	// given what another replica has told of them. Wrong are keys that are here, and which the facts name under another element: they
	// are taken away. All other keys are left alone; deaths are united with those that are here. What it has done is on disk. Joining
	// replicas do it, too.
	//
	//	here Seen {A1 A2}, A2 dead, no key;  Heal(x{A1 A2 A3})  =>  x by A1
	//	here y{A1};                          Heal(x{A1}, y{A1})  =>  x by A1, no y
	Heal(ctx context.Context, f bigset.Facts, wrong []fold.Element) (bigset.HealResult, Member, error)

	// Lost returns the dots of a set that this replica has seen, that are not dead, and that have no key that it can read. It reads
	// the whole set. Joining replicas answer, too. bigset.ErrNotFound is a set of which this replica has never heard.
	//
	//	here Seen {A1 A2 A3}, Dead {A2}, x{A1};  Lost = {A3}
	Lost(ctx context.Context, set []byte) (*clock.Clock, Member, error)

	// ElementDigests hashes the live keys of some dots of a set by parts of an element range: a bounded number of them, and where it
	// stops it goes on behind the last part. Two replicas that have the same of those dots answer the same, part by part, wherever
	// both end one. Joining replicas answer, too. bigset.ErrNotFound is a set of which this replica has never heard.
	//
	//	here x{A1} y{B1}, both asked about, Mean 1  =>  {x: 1 element, 5f1d...} {y: 1 element, 90c2...}, done
	ElementDigests(ctx context.Context, set []byte, r bigset.ElementRange) (bigset.ElementDigests, Member, error)

	// State returns what this replica has seen of a set and what of it is dead, of one moment and with no write under way, or
	// bigset.ErrNotFound. It is a question and a check, never a claim about another's copy. Joining replicas answer, too.
	State(ctx context.Context, set []byte) (bigset.State, Member, error)

	// Locate tells, of dots of a set, what this replica knows: keys of those that are live, the deaths of those that are dead.
	// Of a dot that it does not tell it says nothing. Facts come in bounded portions. Joining replicas answer, too.
	//
	//	here x{A1}, Dead {A2};  Locate({A1 A2 A3})  =>  Facts{x{A1}}, Facts{Dead {A2}};  nothing about A3
	Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error]

	// Read streams elements, as engine.Store.Read does: chunks in order, each with the clock of its own moment, no newer than its
	// keys; each says up to where it is complete, the last one for ever. All of a stream is from one incarnation of a Normal member;
	// if that ends, so does the stream, with an error. The consumer sets the pace: nothing is sent that was not asked for, and it
	// may stop at any chunk.
	Read(ctx context.Context, set []byte, o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error]

	// Lookup says by which dots elements are present, each at a moment of its own. An element of an unknown set is absent. One that
	// is Joining answers ErrJoining.
	Lookup(ctx context.Context, set []byte, elements [][]byte) ([]bigset.Context, Member, error)

	// CountParts counts the elements of a range that are present, as engine.Store.CountParts does: in parts, a bounded number of them in a
	// short while, and where it stops it goes on behind the last part. Two replicas that show the same elements by the same dots answer the
	// same, part by part, wherever both end one. All of an answer is of one moment, its clock too, if it was asked for. One that is Joining
	// answers ErrJoining; bigset.ErrNotFound is a set of which this replica has never heard.
	//
	//	here x{A1} y{B1 C1} z{A2}, Mean 1, From y  =>  {y: 1 element, 5f1d...} {z: 1 element, 90c2...}, done
	CountParts(ctx context.Context, set []byte, r bigset.CountRange) (bigset.PartCounts, Member, error)

	// DotStatus says of each of some dots of an element whether it is live, dead, or not seen here; or lost, which is damage: seen, not
	// dead, and without a key. It names all dots by which the element is present, of the same moment. One that is Joining answers
	// ErrJoining.
	//
	//	here x{B4}, Seen {A1 A2 B4}, Dead {A1 A2};  DotStatus(x, A2 A3)  =>  Live {B4}, Statuses dead, not seen
	DotStatus(ctx context.Context, set, element []byte, dots []clock.Dot) (bigset.DotStatuses, Member, error)

	// Export returns a chunk of a copy of a set: the keys of whole elements, live at one moment, from behind an element on, nil is the
	// start, until they are about bytesMax bytes, 0 is 8 MiB. It holds nothing open. The first chunk comes with Seen, the last one
	// with Seen and Dead, others with neither: the answer to Export is what a copy takes, State is what it asks. bigset.ErrNotFound
	// is a set of which this replica has never heard. One that is Joining answers ErrJoining.
	//
	//	here x{A1} y{A2} z{A3};  Export(nil, 1) = x{A1}, bound x, Seen {A1-3};  Export(x, 8 MiB) = y{A2} z{A3}, done, Seen, Dead
	Export(ctx context.Context, set, after []byte, bytesMax int) (*bigset.Portion, Member, error)

	// Digests lists a hash of Seen and Dead of every set in a range of slots, both ends included, in the order of the store. Equal
	// digests mean equal Seen and Dead; they say nothing about damage. Joining replicas answer, too.
	Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SetDigest, error]

	// RangeDigests splits a range of slots, both ends included, into parts, as keyscheme.SplitSlots does, and returns a hash of the
	// digests of each part, and how many there are. Equal ones mean equal digests. Joining replicas answer, too.
	//
	//	RangeDigests(0, 9, 2)  =>  {0 to 4: 7 sets, 3e82...}, {5 to 9: none, 0}
	RangeDigests(ctx context.Context, first, last keyscheme.Slot, parts int) ([]bigset.RangeDigest, Member, error)
}

// DeltaSender is a Replica that can be sent a delta without a goroutine that waits for its answer.
type DeltaSender interface {
	// SendDelta does what Apply does, and returns before. It reports false where it has done nothing because it would have to wait: then Apply is the way. Else done
	// is called once with Apply's error, by a goroutine that must not wait: perhaps the caller's own, before SendDelta returns.
	SendDelta(ctx context.Context, d bigset.Delta, durability bigset.Durability, done func(error)) bool
}

// refusals are the errors of operations that no replica would do.
var refusals = []error{
	bigset.ErrLimit, bigset.ErrContext, bigset.ErrContextRequired, bigset.ErrRequest, bigset.ErrDelta, bigset.ErrFacts, ErrFrame, ErrUnresolvedContexts,
	bigset.ErrNoFilter, bloomslice.ErrOptions,
}

// Refused reports whether an error says that an operation can't be done, and so was not.
func Refused(err error) bool {
	for _, r := range refusals {
		if errors.Is(err, r) {
			return true
		}
	}
	return false
}
