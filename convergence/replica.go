package convergence

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// What a replica may answer other than success. Every other error of an operation means "unknown": it was done wholly or not at
// all. What the replica shows when its disk works again counts as done.
var (
	// ErrRefused says that an operation was not done, and never will be.
	ErrRefused = errors.New("convergence: refused")
	// ErrNotReady says that a replica does not answer now, because it may be missing what it had acknowledged: it is being filled
	// again after it lost its disk. An operation that gets this answer was not done.
	ErrNotReady = errors.New("convergence: not ready")
)

// A System makes replicas of one kind of data.
type System struct {
	// Name is the system's name in scripts: one word, without #. A script is replayed only with the system of its name.
	Name string
	// Open makes a replica: a new one, or one that comes back with the data in env.Disk.
	Open func(env Env) (Replica, error)
	// Spec says what a replica has to show. Nil is AddWins{}.
	Spec Spec
	// Share makes a value that the replicas of one schedule share, such as a network, a block service or a namespace: Env.Shared.
	// If it is nil, they share nothing.
	Share func() any
	// Merge begins a streaming read of several replicas at once. It is nil if the system has no such reads.
	Merge func(from []Replica, r *rand.Rand) (Reader, error)
	// BestEffort says that a message may have no effect, or be lost for good, because anti-entropy brings everything (Repairer).
	// The kit then requires nothing of a delivery, and exchanges by anti-entropy. It is for sets that only gossip, and for deltas
	// that are dropped when they arrive with gaps.
	BestEffort bool
	// Buffers says that a delivered message may have no effect until the messages that its author knew of have come: the replica
	// puts messages into causal order itself. The kit requires the effect once they have.
	Buffers bool
	// CausalNet says that the replicas rely on a net that delivers each message once, after those that its author had or had sent.
	// The kit's net then does so. After a crash it delivers again what the replica had not acknowledged as durable, even if that has survived:
	// the kit can't know. A message of a Sender or a Resender comes after all that its author
	// has ever had, in any life; one that a Resender returns again is another message, even with the same bytes.
	CausalNet bool
	// Parallel says that Do may be called by two goroutines concurrently. Some schedules then do that. They are marked, and run
	// more often when they fail, because a schedule does not determine which goroutine comes first.
	Parallel bool
	// Alone says that two schedules must not run concurrently, because their replicas use the same variables, files or ports. Share
	// is the better way: it gives each schedule its own.
	Alone bool
	// Retries says that a replica recognizes an operation by its Op.ID once it has done the operation or received its message, for
	// as long as it has the operation. Asked again, it does nothing, and answers as before: with the same tags, and with the
	// messages of the first try. The kit then lets clients ask again, at any replica, whatever was answered, and counts all tries
	// as one operation. A replica that received it in another way, or not at all, may do it once more.
	Retries bool
	// Restored says that a replica may come back with an older Backuper.Backup although it is no Copier: what it has lost, it receives
	// again by anti-entropy or messages, and it does not reuse the numbers of its lost operations. Replicas that are Copiers are always
	// restored.
	Restored bool
	// Pace is how far the clocks of replicas advance from one step to the next; 0 is a microsecond, so that a schedule ends before
	// anything expires. Set it to an hour for a set that forgets tombstones after a day, if the set promises something for messages
	// that come later, and to a millisecond for a set that orders operations by a clock of milliseconds.
	Pace time.Duration
	// Within runs each schedule in an environment of its own. It calls schedule once, with a function that waits until the
	// goroutines of its replicas are blocked; the kit calls that function after each step. Package convergence/bubble sets it.
	Within func(schedule func(wait func()))
	// WithinPass returns another Within, in which the given time passes at each step, on the clock of Within. A failure then says whether
	// the replicas only need that time. Package convergence/bubble sets it.
	WithinPass func(pass time.Duration) (within func(schedule func(wait func())))

	wait     func() // what Within passed for this schedule
	refusing bool   // a remove of what is not shown is not issued
}

func (s *System) spec() Spec {
	if s.Spec == nil {
		return AddWins{}
	}
	return s.Spec
}

// Env is what a replica gets from the kit. A replica that takes time and randomness from nowhere else replays exactly.
type Env struct {
	ID       int // the replica's number, from 0
	Replicas int // the number of replicas
	Start    int // how often it was opened before: each of its lives has another number
	// Shared is what System.Share returned at the beginning of this schedule.
	Shared any
	// Disk is what Durable.Crash or Durable.Stop of its last life returned, or an earlier Backuper.Backup. It is nil at the first
	// start, and when the disk was lost (Start is then above 0). A backup may be opened more than once.
	Disk any
	// Moved says that Disk is a backup: newer writes are lost, including acknowledged ones.
	Moved bool
	// Base is the number from which a replica that numbers its operations may start to count, as if it had done that many before:
	// 0, or a number a little below 2^8, 2^16, 2^32 or 2^53. It is the same for all replicas of a schedule.
	Base uint64
	// Now is the replica's clock, in nanoseconds since 1970. It stands still within a step, and advances by System.Pace, or a microsecond,
	// from step to step. It begins a million steps after a moment in 2023: with a pace of an hour, in 2137. A schedule makes clocks jump,
	// by up to 20 steps forward or back.
	Now func() int64
	// Rand is seeded again for each step, so that removing other steps from a script does not change what a step draws. All
	// replicas of a schedule share it: only one goroutine at a time may call it.
	Rand *rand.Rand
	// Sometimes counts that an interesting state was reached. The counts are in Report.Sometimes. It may be called by any
	// goroutine.
	Sometimes func(state string)
}

// A Replica is one copy of the data. One goroutine calls it, unless System.Parallel is set. Values that are passed to it belong to
// the kit; values that it returns belong to the kit from then on.
//
// A replica declares what else it can do by implementing Batcher, Durable, Backuper, DiskFaulter, Repairer, Copier, Leaver,
// Resender, Sender, Maintainer, Damager, Quieter, Verifier, Fingerprinter or Dumper. A schedule uses what is implemented.
type Replica interface {
	// Do runs a client's operation here.
	Do(op Op) (Effect, error)
	// Receive takes a message of another replica, or one of its own: at any time, any number of times, in any order. Durable says
	// that the content of the message survives a crash from now on; otherwise the next successful Sync acknowledges it.
	Receive(msg []byte) (durable bool, err error)
	// Read returns what a client would be shown here now.
	Read() (View, error)
	// Close ends the replica. It is not called after Durable.Crash or Durable.Stop. It must succeed, unless the disk fails.
	Close() error
}

// Op is a client's operation.
type Op struct {
	Kind string // "add", "remove" or "clear"; others depend on the system's Spec, such as "inc" of a Counter
	Elem string // empty for "clear"
	Arg  []byte // depends on the Spec: for Counter, Register, LWWMap and ORMap; nil for sets
	// Context is what a view gave for this element (for "clear" its Whole), at any replica and at any time. If it is nil, the
	// client gives no context, and the operation has seen what its replica shows at that moment, including earlier operations of
	// its batch.
	Context []byte
	// ID is the client's name for the operation, the same each time that the client asks for it. See System.Retries.
	ID string
}

// Effect is what an operation did.
type Effect struct {
	// Durable says that it survives a crash from now on; otherwise the next successful Sync acknowledges it.
	Durable bool
	// Tag names an add forever, as Item.Tags will: a dot, a UUID, a time and the number of its replica. If it is empty, the name is
	// unknown. A batch has one tag for each operation, in Tags.
	Tag  string
	Tags []string
	// Out are messages for every other replica.
	Out [][]byte
}

// Item is an element that is present.
type Item struct {
	Elem string
	// Tags names the adds by which it is present. With tags the kit knows exactly what an operation had seen; without them it works
	// with what must and what may have been seen.
	Tags []string
	// Values are what it holds, in ascending order, for types that are not sets: the number of a Counter, the values of a Register
	// or a map.
	Values []string
	// Context is what a client passes to a later operation on this element; nil if the system has no contexts.
	Context []byte
}

// View is what a read shows.
type View struct {
	Items []Item // in ascending order of Elem, none twice
	// Ranges has contexts for the elements that a client was shown as absent, in ascending order of After; nil if the system has
	// none. Each covers the elements after its After, up to the next.
	Ranges []Range
	// Whole is the context for "clear"; nil if the system has none.
	Whole []byte
}

// ViewOf returns the view of elements, which it sorts.
func ViewOf(elems []string) (v View) {
	for _, e := range slices.Sorted(slices.Values(elems)) {
		v.Items = append(v.Items, Item{Elem: e})
	}
	return v
}

// ViewOfTags returns the view of the elements that have at least one tag, with a copy of these tags.
func ViewOfTags(tags map[string][]string) (v View) {
	for _, e := range slices.Sorted(maps.Keys(tags)) {
		if len(tags[e]) > 0 {
			v.Items = append(v.Items, Item{Elem: e, Tags: slices.Clone(tags[e])})
		}
	}
	return v
}

// Range is the context for the elements after a bound. It must not cover an add that the read did not show.
type Range struct {
	After   string
	Context []byte
}

// A Batcher does several operations at once: all of them or none survive a crash, and later ones see earlier ones. The kit detects
// a part of a batch that survived if the system names its adds (Effect.Tags), or if it has neither copies nor anti-entropy, which
// may bring a part.
type Batcher interface {
	DoBatch(ops []Op) (Effect, error)
}

// A Durable replica survives restarts.
type Durable interface {
	// Sync makes durable, and thereby acknowledges, everything that was done and received here.
	Sync() error
	// Crash ends the replica as a power cut does, and returns its disk: everything that is durable, and about the first keep
	// quarters (0 to 4) of what was written since.
	Crash(keep int) (disk any, err error)
	// Stop ends the replica cleanly, makes everything durable and returns its disk.
	Stop() (disk any, err error)
}

// A Backuper returns a copy of its disk as it is now, without disturbing the replica. The kit calls Sync before. If the replica is a
// Copier as well, or System.Restored is set, the kit sometimes brings it back with an older copy.
type Backuper interface {
	Backup() (disk any, err error)
}

// A DiskFaulter has a disk that can fail. While it fails ("io-error" or "disk-full"), operations may return errors. The kit ends
// the fault with "", also before Durable.Stop. A crash ends it as well.
type DiskFaulter interface {
	DiskFault(kind string) error
}

// A Repairer does anti-entropy. Both halves travel over the lossy net: the question goes to any other replica at any later time,
// and each message of its answer reaches Receive, or does not. If all replicas ask each other and nothing is lost, they are equal
// after two rounds more than there are replicas. If one question and its answer are not enough, as with Merkle trees, the replica is
// also a Sender, and sends the messages that follow: in each round as many of them, one after the other, as there are rounds.
type Repairer interface {
	Ask() ([]byte, error)
	Answer(ask []byte) ([][]byte, error)
}

// A Resender keeps the messages of its operations until they have left. After each restart the kit asks it for those that
// may not have left; other replicas may already have them.
type Resender interface {
	Unsent() ([][]byte, error)
}

// A Copier fills itself from another replica of its kind, step by step, while both are written.
type Copier interface {
	// CopyFrom begins a copy, or resumes one that was interrupted by a crash or otherwise. When the copy is done, the replica has
	// everything that src had when the copy began, and still had each time that it was resumed.
	CopyFrom(src Replica) (c Copy, resumed bool, err error)
}

// Copy is a copy in progress. It ends when Step returns done, when Cut is called, or without a call when its target crashes.
type Copy interface {
	Step() (done bool, err error)
	// Cut says that the connection to the source broke.
	Cut() error
}

// A Leaver gives up its data, as a replica does that is no longer an owner. It is not ready until it was filled again: it counts as
// having received nothing, and must answer ErrNotReady until one copy from every other replica is done.
type Leaver interface {
	Leave() error
}

// A Maintainer has background work, and does one unit of it when Maintain is called: n chooses which. It returns the name of the
// work, such as "flush", "compaction" or "rewrite", or "" if there was nothing to do.
type Maintainer interface {
	Maintain(n int) (what string, err error)
}

// A Damager loses what its disk holds of an element without noticing. It reports whether it lost something. Anti-entropy must bring
// it back: the kit damages only what another replica has.
type Damager interface {
	Damage(elem string) (bool, error)
}

// A Quieter continues to work in its own goroutines after Do, Receive, Answer and Open have returned. After each step the kit waits
// until every replica is quiet: it has taken everything that it was given, and waits for more. It must still return an operation's
// messages in Effect.Out, and other messages through Sender. If no real input or output is involved, package convergence/bubble
// waits without a Quieter.
type Quieter interface {
	Quiet() bool
}

// A Sender sends messages to all other replicas that do not belong to an operation, for example to pass on what it received, or to
// ask for what it is missing. The kit collects what it has sent after each of its calls. Such a message may carry anything that the
// replica knew. Nothing is required of its delivery, only of what is shown when everything was delivered. What waits for the
// disk is sent in Sync, and what waits for a timer in Maintain, or in Ask: before an exchange delivers messages, the kit calls Sync,
// Maintain with 0 to 3, and Ask, if they are implemented. An exchange by anti-entropy also delivers what replicas send during the
// exchange, and what they send in response.
type Sender interface {
	// Sent returns what was sent since the last call.
	Sent() [][]byte
}

// A Verifier checks its own invariants. It is called after every step that touched the replica.
type Verifier interface {
	Verify() error
}

// A Fingerprinter returns its whole logical state: after everything is exchanged, all replicas must return the same.
type Fingerprinter interface {
	Fingerprint() string
}

// A Dumper prints its state for the printed script of a failure.
type Dumper interface {
	Dump() string
}

// A Reader is a streaming read of several replicas in progress. The kit decides which replica's chunk comes next, what happens
// between chunks, and which replicas fail.
type Reader interface {
	// Chunk takes the next chunk of stream i. After the last chunk it does nothing.
	Chunk(i int) error
	// Replace says that the replica of stream i failed, and which one takes its place.
	Replace(i int, by Replica) error
	// View is what was shown to the reader so far. Ranges and Whole are needed only when it is done.
	View() View
	// Done says that all streams have ended and everything is shown.
	Done() bool
	// Repairs returns the read repairs since the last call.
	Repairs() []Repair
	// Close ends the read.
	Close() error
}

// Repair is a message to one replica.
type Repair struct {
	To  int // Env.ID
	Msg []byte
}
