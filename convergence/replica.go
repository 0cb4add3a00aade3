package convergence

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// What a replica may answer besides success. Every other error of an operation means "unknown": it was done, wholly, or not at all. What the
// replica shows when its disk works again counts as done.
var (
	// ErrRefused says that an operation was not done, and never will be.
	ErrRefused = errors.New("convergence: refused")
	// ErrNotReady says that a replica does not answer now, because it may lack what it had acknowledged: it is being filled
	// again after it lost its disk. An operation that is answered so was not done.
	ErrNotReady = errors.New("convergence: not ready")
)

// A System makes replicas of one kind of data.
type System struct {
	// Name goes into scripts: one word, without #. A script is replayed with the system of its name only.
	Name string
	// Open makes a replica: a new one, or one that comes back, over what env.Disk holds.
	Open func(env Env) (Replica, error)
	// Spec says what a replica has to show. Nil is AddWins{}.
	Spec Spec
	// Share makes a value that the replicas of one schedule share, as a network, a block service or a namespace: Env.Shared. Nil:
	// they share nothing.
	Share func() any
	// Merge begins a streaming read of several replicas at once. Nil: the system has none.
	Merge func(from []Replica, r *rand.Rand) (Reader, error)
	// BestEffort says that a message may have no effect, or be lost for good: anti-entropy brings everything (Repairer). The kit
	// then asks nothing of a delivery, and exchanges by anti-entropy. It is for sets that only gossip, and for deltas that are
	// dropped when they come with gaps.
	BestEffort bool
	// Buffers says that a delivered message may have no effect until those have come that its author knew of: the replica puts messages into
	// causal order itself. The kit asks for its effect when they have.
	Buffers bool
	// CausalNet says that the replicas rely on a net that delivers each message once, after those that its author had. The kit's
	// net does so then; what a crash took is delivered again.
	CausalNet bool
	// Parallel says that Do may be called by two goroutines at once. Some schedules do that then. They are marked, and run more
	// often when they fail: a schedule says nothing of who comes first.
	Parallel bool
	// Alone says that two schedules must not run at once, as replicas of both use the same variables, files or ports. Share is the better
	// way: it gives each schedule its own.
	Alone bool
	// Retries says that a replica knows an operation by its Op.ID from when it has done it, or was given its message, for as
	// long as it has the operation. Asked again it does nothing, and answers as before: with the same tags, and messages that
	// tell of the first try. The kit then has clients ask again, at any replica, whatever was answered, and takes all tries for
	// one operation. A replica that was told of it in another way, or not at all, may do it once more.
	Retries bool
	// Pace is how far the clocks of replicas go on from one step to the next; 0 is a microsecond, so that a schedule is over before
	// anything expires. Give an hour to a set that forgets tombstones after a day, if it promises something for messages that come later.
	Pace time.Duration
	// Within runs each schedule in surroundings of its own. It calls the schedule once, with a function that waits until the goroutines
	// of its replicas have come to rest; the kit calls that after each step. Package convergence/bubble sets it.
	Within func(schedule func(wait func()))

	wait     func() // what Within gave for this schedule
	refusing bool   // a remove of what is not shown is not asked for
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
	Replicas int // how many there are
	Start    int // how often it was opened before: no two of its lives have the same
	// Shared is what System.Share returned at the beginning of this schedule.
	Shared any
	// Disk is what Durable.Crash or Durable.Stop of its last life returned, or an earlier Backuper.Backup; nil at the first
	// start, and when the disk was lost (Start is then above 0). A backup may be opened more than once.
	Disk any
	// Moved says that Disk is a backup: newer writes are lost, acknowledged ones too.
	Moved bool
	// Base is where a replica that numbers its operations may begin to count, as if it had done so many before: 0, or a number a
	// little below 2^8, 2^16 or 2^32. It is the same for all replicas of a schedule.
	Base uint64
	// Now is the replica's clock, in nanoseconds. It stands still within a step and goes on between two by System.Pace, a microsecond. A
	// schedule lets clocks jump, by up to 20 steps forward or back.
	Now func() int64
	// Rand is seeded again for each step, so that removing other steps from a script does not change what a step draws. All replicas of a
	// schedule share it: only one goroutine at a time may call it.
	Rand *rand.Rand
	// Sometimes counts that an interesting state was reached. The counts are in Report.Sometimes. Any goroutine may call it.
	Sometimes func(state string)
}

// A Replica is one copy of the data. One goroutine calls it, but for System.Parallel. Values that it is given belong to the kit, values that it
// returns to it from then on.
//
// What else a replica can do it says by implementing Batcher, Durable, Backuper, DiskFaulter, Repairer, Copier, Leaver,
// Resender, Sender, Maintainer, Damager, Quieter, Verifier, Fingerprinter or Dumper. A schedule uses what is there.
type Replica interface {
	// Do runs a client's operation here.
	Do(op Op) (Effect, error)
	// Receive takes a message of another replica, or an own one: at any time, any number of times, in any order. Durable says
	// that what the message tells survives a crash from now on; otherwise the next successful Sync acknowledges it.
	Receive(msg []byte) (durable bool, err error)
	// Read returns what a client would be shown here now.
	Read() (View, error)
	// Close ends the replica. It is not called after Durable.Crash or Durable.Stop. It must succeed, unless the disk fails.
	Close() error
}

// Op is a client's operation.
type Op struct {
	Kind string // "add", "remove" or "clear"; others by the system's Spec, as "inc" of a Counter
	Elem string // empty for "clear"
	Arg  []byte // by the Spec: of Counter, Register and LWWMap; nil with those of sets
	// Context is what a view gave for this element (for "clear" its Whole), of any replica and any age. Nil: the client names
	// none, and the operation has seen what its replica shows at that moment, earlier operations of its batch included.
	Context []byte
	// ID is the client's name for the operation, the same each time that it asks for it. See System.Retries.
	ID string
}

// Effect is what an operation did.
type Effect struct {
	// Durable says that it survives a crash from now on; otherwise the next successful Sync acknowledges it.
	Durable bool
	// Tag names an add for ever, as Item.Tags will: a dot, a UUID, a time. Empty: unknown. A batch has one for each operation,
	// in Tags.
	Tag  string
	Tags []string
	// Out are messages for every other replica.
	Out [][]byte
}

// Item is an element that is present.
type Item struct {
	Elem string
	// Tags names the adds by which it is present. With tags the kit knows exactly what an operation had seen, without it
	// works with what must and what may have been seen.
	Tags []string
	// Values are what it holds, in ascending order, for types that are no sets: the number of a Counter, the values of a Register or
	// an LWWMap.
	Values []string
	// Context is what a client passes to a later operation on this element; nil if the system has no contexts.
	Context []byte
}

// View is what a read shows.
type View struct {
	Items []Item // in ascending order of Elem, none twice
	// Ranges has contexts for the elements that a client was shown as absent, in ascending order of After; nil if the system
	// has none. Each serves the elements after its After, up to the next.
	Ranges []Range
	// Whole is the context for "clear"; nil if the system has none.
	Whole []byte
}

// ViewOf returns the view of elements, which it puts in order.
func ViewOf(elems []string) (v View) {
	for _, e := range slices.Sorted(slices.Values(elems)) {
		v.Items = append(v.Items, Item{Elem: e})
	}
	return v
}

// ViewOfTags returns the view of the elements that have tags, with these.
func ViewOfTags(tags map[string][]string) (v View) {
	for _, e := range slices.Sorted(maps.Keys(tags)) {
		if len(tags[e]) > 0 {
			v.Items = append(v.Items, Item{Elem: e, Tags: tags[e]})
		}
	}
	return v
}

// Range is the context for the elements after a bound. It must cover no add that the read did not show.
type Range struct {
	After   string
	Context []byte
}

// A Batcher does several operations at once: all of them or none survive a crash, later ones see earlier ones. The kit sees a part of a batch
// that survived where the system names its adds (Effect.Tags), or has neither copies nor anti-entropy, which may bring a part.
type Batcher interface {
	DoBatch(ops []Op) (Effect, error)
}

// A Durable replica survives restarts.
type Durable interface {
	// Sync makes durable, and so acknowledges, all that was done and received here.
	Sync() error
	// Crash ends the replica as a power cut does, and returns its disk: all that is durable, and of what was written since
	// about the first keep quarters (0 to 4).
	Crash(keep int) (disk any, err error)
	// Stop ends the replica cleanly, makes everything durable and returns its disk.
	Stop() (disk any, err error)
}

// A Backuper returns a copy of its disk as it is now, without disturbing the replica. It is synced before.
type Backuper interface {
	Backup() (disk any, err error)
}

// A DiskFaulter has a disk that can fail. While it does ("io-error" or "disk-full"), operations may return errors; the kit
// takes it back with "", also before Durable.Stop. A crash takes it back too.
type DiskFaulter interface {
	DiskFault(kind string) error
}

// A Repairer does anti-entropy. Both halves travel by the lossy net: the question goes to any other replica at any later
// time, each message of its answer comes back to Receive, or does not. Questions and answers between all replicas, none
// lost, make them equal after a few rounds.
type Repairer interface {
	Ask() ([]byte, error)
	Answer(ask []byte) ([][]byte, error)
}

// A Resender keeps the messages of its operations until they have left. It is asked after each restart for those of which it does
// not know whether they have; they may be known to others.
type Resender interface {
	Unsent() ([][]byte, error)
}

// A Copier fills itself from another replica of its kind, step by step, while both are written.
type Copier interface {
	// CopyFrom begins a copy, or resumes one that was cut by a crash or otherwise. When it is done, the replica has all that
	// src had when the copy began, and still had each time that it was resumed.
	CopyFrom(src Replica) (c Copy, resumed bool, err error)
}

// Copy is a copy on its way. It ends when Step says done, when Cut is called, or without a word when its target crashes.
type Copy interface {
	Step() (done bool, err error)
	// Cut says that the connection to the source broke.
	Cut() error
}

// A Leaver gives its data up, as a replica does that is no longer an owner. It is not ready until it was filled again: it has
// been told nothing, and must answer ErrNotReady until one copy of every other replica is done.
type Leaver interface {
	Leave() error
}

// A Maintainer has background work, and does one unit of it when told: n chooses which. It returns its name, as "flush",
// "compaction" or "rewrite", or "" when there was nothing to do.
type Maintainer interface {
	Maintain(n int) (what string, err error)
}

// A Damager loses what its disk holds of an element without noticing. It reports whether there was something. Anti-entropy
// must bring it back: the kit damages only what another replica has.
type Damager interface {
	Damage(elem string) (bool, error)
}

// A Quieter works on in goroutines of its own after Do, Receive, Answer and Open have returned. After each step the kit waits until
// every replica is quiet: has taken all that it was given, and waits for more. What an operation has to tell it returns all the same, in
// Effect.Out; other messages by Sender. Where no real input or output is involved, package convergence/bubble waits without it.
type Quieter interface {
	Quiet() bool
}

// A Sender sends messages to all other replicas that are not of an operation, as one that passes on what it was told, or asks for what it
// lacks. The kit takes what it has sent after each of its calls. Such a message may tell anything that the replica knew, and nothing is asked of
// its delivery, only of what is shown when everything was delivered.
type Sender interface {
	// Sent returns what was sent since it was last called.
	Sent() [][]byte
}

// A Verifier checks its own invariants. It is asked after every step that touched the replica.
type Verifier interface {
	Verify() error
}

// A Fingerprinter names its whole logical state: after everything is exchanged, all replicas must give the same.
type Fingerprinter interface {
	Fingerprint() string
}

// A Dumper prints its state for the printed script of a failure.
type Dumper interface {
	Dump() string
}

// A Reader is a streaming read of several replicas that is under way. The kit decides which replica's chunk comes next, what
// happens between chunks, and who fails.
type Reader interface {
	// Chunk takes the next chunk of stream i, which may be its last; after that it does nothing.
	Chunk(i int) error
	// Replace tells that the replica of stream i failed, and who takes its place.
	Replace(i int, by Replica) error
	// View is what the reader was shown so far. Ranges and Whole are wanted when it is done.
	View() View
	// Done says that all streams have ended and everything is shown.
	Done() bool
	// Repairs returns read repair since the last call.
	Repairs() []Repair
	// Close ends the read.
	Close() error
}

// Repair is a message to one replica.
type Repair struct {
	To  int // Env.ID
	Msg []byte
}
