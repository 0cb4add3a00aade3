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

// Replica is one copy of a range of sets: local (package local), or remote (package remote). The methods may be called by any number of
// goroutines. Arguments and results are values: neither side changes what it has given or taken. Two Replicas that are equal by == are the
// same replica.
//
// Answers come with the member that gave them, in its incarnation and state at that moment. The word of a member in one incarnation does
// not bind another.
//
// Errors of Write, Apply and ApplyFacts say what has happened. Nothing has if they wrap ErrUnavailable (another replica may be asked) or
// bigset.ErrBehind, or if they are Refused (other replicas would refuse, too). After any other error the outcome is unknown, and so it is
// after a context that ends during the call.
type Replica interface {
	// Member returns the member, as last known. It does no I/O.
	Member() Member

	// Write does a client's operations, as engine.Store.Write does: all in one atomic batch, each event with a dot of this replica. The
	// result's delta is for the other replicas. A Joining replica returns ErrJoining, unless it knows the request: it may not know what a
	// remove without a context removes.
	//
	// A try of a request that another one has overtaken is refused with ErrOvertaken: see Knows.
	//
	//	A: Write(add x) = Delta{A: 7: add x, kills B3};  A again, with the same request id = the same delta
	Write(ctx context.Context, set []byte, ops []bigset.Op, o bigset.WriteOptions) (bigset.Result, Member, error)

	// Knows reports whether this replica has a client's request, by its id: whether Write would repeat its first answer. Replicas forget
	// requests after some minutes. try, if it is not 0, is the WriteOptions.Try of the caller, who may do the request if no replica knows it:
	// Knows waits for the writes of the request that are under way here, and from then on Write refuses all other tries with ErrOvertaken,
	// as long as this replica does not know the request and until a try with a larger number asks. Knows itself refuses a try whose number
	// is not larger, unless this replica knows the request. A write without a number is not refused.
	//
	//	Knows(q, 2) = false;  Write(q, Try 1): ErrOvertaken;  Knows(q, 3) = false;  Write(q, Try 2), Knows(q, 2): ErrOvertaken;  Write(q, Try 3): A7
	Knows(ctx context.Context, set, request []byte, try uint64) (bool, Member, error)

	// Apply applies what another replica did, as a whole or not at all, in any order, however often and however late it comes. A nil error
	// acknowledges it: the delta, or the part of it that was here already, is as durable as requested.
	//
	//	Apply(Delta{A7: add x, kills B3}), Sync: nil    x is here by A7, on disk, or its death is; B3 is dead, on disk
	//	the same again:                          nil    the same
	Apply(ctx context.Context, d bigset.Delta, durability bigset.Durability) (Member, error)

	// ApplyFacts applies keys and deaths that another replica has. It checks them against the state of this replica at that moment: a key
	// whose dot is seen is left alone; otherwise key and dot enter together. Deaths are added to those here. It joins no clock: what the
	// facts leave out is neither missing nor dead.
	//
	//	here Seen {A1 A2} Dead {A2};  ApplyFacts(x{A2 A3}, Dead {A1})  =>  Seen {A1 A2 A3} Dead {A1 A2}, x by A3
	ApplyFacts(ctx context.Context, f bigset.Facts, durability bigset.Durability) (bigset.FactsResult, Member, error)

	// Heal puts back keys that this replica has lost: their dots are seen and not dead here, and the keys are not stored. The facts are
	// another replica's knowledge about them. wrong are keys that are here and that the facts name under another element: Heal removes
	// them. All other keys are left alone; deaths are added to those here. The result is on disk. Joining replicas heal, too.
	//
	//	here Seen {A1 A2}, A2 dead, no key;  Heal(x{A1 A2 A3})  =>  x by A1
	//	here y{A1};                          Heal(x{A1}, y{A1})  =>  x by A1, no y
	Heal(ctx context.Context, f bigset.Facts, wrong []fold.Element) (bigset.HealResult, Member, error)

	// Lost returns the dots of a set that this replica has seen, that are not dead, and that have no readable key. It reads the whole set.
	// Joining replicas answer, too. The error is bigset.ErrNotFound for a set that this replica does not know.
	//
	//	here Seen {A1 A2 A3}, Dead {A2}, x{A1};  Lost = {A3}
	Lost(ctx context.Context, set []byte) (*clock.Clock, Member, error)

	// ElementDigests hashes the live keys of some dots of a set by parts of an element range: a bounded number of parts, after the last of
	// which the next call continues. Two replicas that have the same keys of those dots answer the same, part by part, wherever both end a
	// part. Joining replicas answer, too. The error is bigset.ErrNotFound for a set that this replica does not know.
	//
	//	here x{A1} y{B1}, both asked about, Mean 1  =>  {x: 1 element, 5f1d...} {y: 1 element, 90c2...}, done
	ElementDigests(ctx context.Context, set []byte, r bigset.ElementRange) (bigset.ElementDigests, Member, error)

	// State returns what this replica has seen of a set and which of that is dead, as of one moment without a write in progress, or
	// bigset.ErrNotFound. Use it to ask and to check, never as a claim about another replica's copy. Joining replicas answer, too.
	State(ctx context.Context, set []byte) (bigset.State, Member, error)

	// Locate returns what this replica knows about dots of a set: the keys of those that are live, the deaths of those that are dead. About
	// a dot that it leaves out, it says nothing. Facts come in bounded portions. Joining replicas answer, too.
	//
	//	here x{A1}, Dead {A2};  Locate({A1 A2 A3})  =>  Facts{x{A1}}, Facts{Dead {A2}};  nothing about A3
	Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error]

	// Read streams elements, as engine.Store.Read does: chunks in order, each with the clock of its own moment, no newer than its keys.
	// Each chunk says up to where it is complete; the last one is complete to the end. A stream is from one incarnation of a Normal member;
	// if that ends, the stream ends with an error. The consumer sets the pace: nothing is sent that was not asked for, and it may stop at
	// any chunk.
	Read(ctx context.Context, set []byte, o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error]

	// Lookup returns by which dots elements are present, each at a moment of its own. An element of an unknown set is absent. A Joining
	// replica returns ErrJoining.
	Lookup(ctx context.Context, set []byte, elements [][]byte) ([]bigset.Context, Member, error)

	// CountParts counts the elements of a range that are present, as engine.Replica.CountParts does: in a bounded number of parts and a short
	// time; the next call continues after the last part. Two replicas that show the same elements by the same dots answer the same, part by
	// part, wherever both end a part. An answer is of one moment, including its clock if that was requested. A Joining replica returns
	// ErrJoining. The error is bigset.ErrNotFound for a set that this replica does not know.
	//
	//	here x{A1} y{B1 C1} z{A2}, Mean 1, From y  =>  {y: 1 element, 5f1d...} {z: 1 element, 90c2...}, done
	CountParts(ctx context.Context, set []byte, r bigset.CountRange) (bigset.PartCounts, Member, error)

	// DotStatus reports for each of some dots of an element whether it is live, dead, or not seen here; or lost, which is damage: seen, not
	// dead, and without a key. It also returns all dots by which the element is present, at the same moment. A Joining replica returns
	// ErrJoining.
	//
	//	here x{B4}, Seen {A1 A2 B4}, Dead {A1 A2};  DotStatus(x, A2 A3)  =>  Live {B4}, Statuses dead, not seen
	DotStatus(ctx context.Context, set, element []byte, dots []clock.Dot) (bigset.DotStatuses, Member, error)

	// Export returns a chunk of a copy of a set: the keys of whole elements, live at one moment, from after an element on (nil means the
	// start), until they take about bytesMax bytes (0 means 8 MiB). It holds nothing open. The first chunk comes with Seen, the last one
	// with Seen and Dead, the others with neither: a copy takes what Export returns, and only asks State. The error is bigset.ErrNotFound
	// for a set that this replica does not know. A Joining replica returns ErrJoining.
	//
	//	here x{A1} y{A2} z{A3};  Export(nil, 1) = x{A1}, bound x, Seen {A1-3};  Export(x, 8 MiB) = y{A2} z{A3}, done, Seen, Dead
	Export(ctx context.Context, set, after []byte, bytesMax int) (*bigset.Portion, Member, error)

	// Digests lists a hash of Seen and Dead for every set in a range of slots, both ends included, in the order of the store. Equal digests
	// mean equal Seen and Dead; they say nothing about damage. Joining replicas answer, too.
	Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SetDigest, error]

	// RangeDigests splits a range of slots, both ends included, into parts, as keyscheme.SplitSlots does, and returns a hash of the digests
	// of each part, and their number. Equal hashes mean equal digests. Joining replicas answer, too.
	//
	//	RangeDigests(0, 9, 2)  =>  {0 to 4: 7 sets, 3e82...}, {5 to 9: none, 0}
	RangeDigests(ctx context.Context, first, last keyscheme.Slot, parts int) ([]bigset.RangeDigest, Member, error)
}

// DeltaSender is a Replica that can send a delta without a goroutine waiting for the answer.
type DeltaSender interface {
	// SendDelta does what Apply does, and returns before the answer. It returns false if it has done nothing because it would have to wait:
	// then the caller uses Apply. Otherwise done is called once with Apply's error, by a goroutine that must not wait, perhaps the caller's
	// own before SendDelta returns.
	SendDelta(ctx context.Context, d bigset.Delta, durability bigset.Durability, done func(error)) bool
}

// refusals are the errors for operations that no replica would do.
var refusals = []error{
	bigset.ErrLimit, bigset.ErrContext, bigset.ErrContextRequired, bigset.ErrRequest, bigset.ErrDelta, bigset.ErrFacts, ErrFrame, ErrUnresolvedContexts,
	bigset.ErrNoFilter, bloomslice.ErrOptions,
}

// Refused reports whether an error says that an operation is impossible, and so was not done.
func Refused(err error) bool {
	for _, r := range refusals {
		if errors.Is(err, r) {
			return true
		}
	}
	return false
}
