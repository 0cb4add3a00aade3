package coord

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"bigset/server/peer"
)

// None, as the DW of a Quorum, asks for no durable answer.
const None = -1

// Quorum says how many replicas take part in an operation. Zero is the default.
type Quorum struct {
	N int // replicas that hold the set, or the slice of a filter; default 3
	R int // that must answer a read; default 2, at most N
	W int // that must have a write; default 2, at most N
	// DW is how many must have a write on disk; default 2, at most N, or None. Where it is not None replicas answer when it is on
	// disk, so that the larger one of W and DW decides. It is for sets alone: how durable a mark is says its filter.
	DW int
}

// The defaults of a Quorum.
const (
	defaultN = 3
	defaultR = 2
	defaultW = 2
)

// withDefaults fills in q from d, and checks it.
func (q Quorum) withDefaults(d Quorum) (Quorum, error) {
	if q.N == 0 {
		q.N = d.N
	}
	for _, f := range []struct {
		field  *int
		usual  int
		what   string
		lowest int
	}{{&q.R, d.R, "R", 1}, {&q.W, d.W, "W", 1}, {&q.DW, d.DW, "DW", None}} {
		if *f.field == 0 {
			*f.field = min(f.usual, q.N)
		}
		if *f.field < f.lowest || *f.field > q.N {
			return q, fmt.Errorf("%w: %s is %d, and N is %d", ErrRequest, f.what, *f.field, q.N)
		}
	}
	return q, nil
}

// Options configure a coordinator. Nil and zero fields mean the default, where there is one.
type Options struct {
	// Place returns who holds a set. It has no default. It must not block.
	Place func(set []byte) Placement[peer.Replica]
	// PlaceSlice returns who holds a slice of a filter. Default nil: there are no filters. It must not block.
	PlaceSlice func(filter []byte, slice uint32) Placement[peer.SliceReplica]
	// PlaceSlices returns a function that says who holds the slices of one filter at one moment, for a request on many of them. Default: PlaceSlice.
	PlaceSlices func(filter []byte) func(slice uint32) Placement[peer.SliceReplica]
	// Quorum is what requests have that do not say otherwise; default N 3, R 2, W 2, DW 2.
	Quorum Quorum
	// Timeout is how long an operation may take until its answer; default 10 s.
	Timeout time.Duration
	// SendTimeout is how long a replica may take to answer a delta or marks, also in the background; default 30 s.
	SendTimeout time.Duration
	// ChunkTimeout is how long a replica may take for the next chunk of a read, before another takes its place; default 5 s.
	ChunkTimeout time.Duration
	// HedgeTime is how long a replica may take for an answer, or the first chunk of a read, where another one could take its place: one that has stopped, or
	// is slow, then costs no more than that. It doubles with each replacement in a read, so that load does not make more load. Default 0:
	// ChunkTimeout counts for the first chunk too.
	HedgeTime time.Duration
	// SendsMax and SendBytesMax bound what is under way to one node, deltas, marks and repairs; beyond, deltas and marks become hints at
	// once. A node that hangs takes no room from others. Default 4,096 and 64 MiB.
	SendsMax     int
	SendBytesMax int64
	// ReadsMax bounds the reads, lookups and checks of filters that are under way at once: a streaming read, with up to 4 chunks of each of its replicas in
	// memory, is one for as long as its consumer takes. One more waits, for Timeout at most, and is then ErrBusy. Default 1,024.
	ReadsMax int
	// CountMean is about how many elements of a set are counted as one part: so many are read where replicas differ in one of them. Default 512.
	CountMean int
	// DigestAfter is after how many elements on which its replicas agree a read without a limit asks all of them but the first for digests of their elements in
	// place of the elements: see Coordinator.Read. Default 16,384, negative is never.
	DigestAfter int
	// RepairsMax is of how many elements one read may have repairs sent; default 10,000.
	RepairsMax int
	// Hints keep what replicas have missed; default nil: it is left to anti-entropy. The coordinator does not close them.
	Hints *Hints
	// HintInterval is how often all hints are tried; default 10 s, negative is never.
	HintInterval time.Duration
	// HintWindow is how many hints of one node are under way at once; default 256. It is 1 at the start of each replay, doubles while all
	// arrive, and is 1 again when one does not.
	HintWindow int
	// Shares returns what replicas should have the same of, at this moment: it is exchanged in turn, also when
	// nobody asks for it. Default nil: nothing is. It must not block. It is enough that one coordinator names a share.
	Shares func() []Share
	// ExchangeInterval is how long it is from the end of one exchange to the next, where there are few shares; default 1 minute, negative
	// is never. After a node did not answer, its shares wait as long.
	ExchangeInterval time.Duration
	// RoundTime is how long a round over all shares takes at most, where nothing differs: with more than RoundTime / ExchangeInterval
	// shares exchanges follow each other sooner. Default 5 minutes. A round takes longer where exchanges would take more than a quarter
	// of the time.
	RoundTime time.Duration
	// Exchanges is how many exchanges are under way at once; default 1.
	Exchanges int
	// ExchangeTimeout is how long the exchange of a share's sets may take, and then that of its slices; what came by then stays. Default
	// 10 minutes.
	ExchangeTimeout time.Duration
	// Jitter returns how long to wait in place of ExchangeInterval, so that coordinators that start together do not exchange
	// together. Default: up to a quarter more or less, by chance; with a Runner of one's own, exactly the interval.
	Jitter func(time.Duration) time.Duration
	// Runner is where its concurrency and its time come from; default Goroutines.
	Runner Runner
	// Events is told what goes on in the background; default nobody. It must not block or call the coordinator.
	Events func(Event)
}

func (o Options) withDefaults() (Options, error) {
	if o.Place == nil {
		return o, errors.New("coord: Options.Place is missing")
	}
	if o.Events == nil {
		o.Events = func(Event) {}
	}
	if o.Jitter == nil {
		o.Jitter = func(d time.Duration) time.Duration { return d }
		if o.Runner == nil {
			o.Jitter = spread
		}
	}
	if o.Runner == nil {
		o.Runner = Goroutines{}
	}
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.SendTimeout = cmp.Or(o.SendTimeout, 30*time.Second)
	o.HintInterval = cmp.Or(o.HintInterval, 10*time.Second)
	o.HintWindow = cmp.Or(o.HintWindow, 256)
	o.ExchangeInterval = cmp.Or(o.ExchangeInterval, time.Minute)
	o.RoundTime = cmp.Or(o.RoundTime, 5*time.Minute)
	o.Exchanges = max(1, o.Exchanges)
	o.ExchangeTimeout = cmp.Or(o.ExchangeTimeout, 10*time.Minute)
	o.ChunkTimeout = cmp.Or(o.ChunkTimeout, 5*time.Second)
	o.ReadsMax = cmp.Or(o.ReadsMax, 1024)
	o.CountMean = cmp.Or(o.CountMean, 512)
	o.DigestAfter = max(0, cmp.Or(o.DigestAfter, 16_384))
	o.RepairsMax = cmp.Or(o.RepairsMax, 10_000)
	o.SendsMax = cmp.Or(o.SendsMax, 4096)
	o.SendBytesMax = cmp.Or(o.SendBytesMax, 64<<20)
	var err error
	o.Quorum, err = o.Quorum.withDefaults(Quorum{N: defaultN, R: defaultR, W: defaultW, DW: defaultW})
	return o, err
}

// EventKind says what happened.
type EventKind string

// What a coordinator and its hints tell about.
const (
	EventNotSent        EventKind = "not-sent"        // a delta or marks did not reach a replica: a hint was kept, unless another event says why not. Or a drop of a filter
	EventRefused        EventKind = "refused"         // a replica refuses a delta or marks, and always will: it was dropped
	EventHintOverflow   EventKind = "hint-overflow"   // there is no room for a hint: it was dropped
	EventHintExpired    EventKind = "hint-expired"    // hints were too old: they were dropped
	EventHintFailed     EventKind = "hint-failed"     // a hint could not be written, or not be read back
	EventHintReplayed   EventKind = "hint-replayed"   // hints have reached their replica
	EventRepaired       EventKind = "repaired"        // what a read found missing was sent: so many keys and deaths were new
	EventRepairLeft     EventKind = "repair-left"     // what a read found missing was not sent, or not all of it
	EventDamage         EventKind = "damage"          // a replica has seen dots that are not dead and have no key
	EventHealed         EventKind = "healed"          // keys that a replica had lost were fetched from another and put back
	EventHealLeft       EventKind = "heal-left"       // keys that a replica has lost could not be put back, or not all of them
	EventExchanged      EventKind = "exchanged"       // a share was exchanged: so much was new
	EventExchangeFailed EventKind = "exchange-failed" // a share was not exchanged, or not all of it: it has its turn again
)

// Event is one thing that went on in the background. Fields that do not apply are zero. What was dropped is left to anti-entropy.
type Event struct {
	Kind      EventKind
	Node      string // the replica's
	Peer      string // the other replica's, of an exchange
	Set       []byte // its name, or a filter's
	Count     int    // of hints, or of what was repaired, left or damaged
	Bytes     int64  // of hints
	Err       error
	Exchanged Exchanged // what an exchange has brought, also one that failed
}
