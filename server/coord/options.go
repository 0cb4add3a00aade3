package coord

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"bigset/server/peer"
)

// None is a value of Quorum.DW: no durable answer is required.
const None = -1

// Quorum says how many replicas take part in an operation. Zero fields mean the default.
type Quorum struct {
	N int // replicas that hold the set, or the slice of a filter; the default is 3
	R int // how many must answer a read; the default is 2, at most N
	W int // how many must have a write; the default is 2, at most N
	// DW is how many must have a write on disk; the default is 2, at most N. Unless DW is None, replicas answer when the write is on disk,
	// so that the larger one of W and DW counts. DW applies to sets only: a filter defines how durable its marks are.
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

// Options configure a coordinator. Nil and zero fields mean the default, if there is one.
type Options struct {
	// Place returns the placement of a set. It has no default. It must not block.
	Place func(set []byte) Placement[peer.Replica]
	// PlaceSlice returns the placement of a slice of a filter. By default it is nil, and there are no filters. It must not block.
	PlaceSlice func(filter []byte, slice uint32) Placement[peer.SliceReplica]
	// PlaceSlices returns a function that returns the placements of the slices of one filter at one moment, for a request on many of them.
	// The default is PlaceSlice.
	PlaceSlices func(filter []byte) func(slice uint32) Placement[peer.SliceReplica]
	// Quorum is the quorum of requests that do not set their own; the default is N 3, R 2, W 2, DW 2.
	Quorum Quorum
	// Timeout is how long an operation may take until its answer; the default is 10 s.
	Timeout time.Duration
	// SendTimeout is how long a replica may take to answer a delta or marks, also in the background; the default is 30 s.
	SendTimeout time.Duration
	// GatherTime is how long a delta may wait for others before it goes to a replica that the quorum of its write does not need: with W and DW of 2
	// and N of 3, to the last replica in the order of reads. Such deltas share a frame, a batch and a sync there. If another replica fails, its answer
	// comes that much later. The default is 0: each delta leaves at once.
	GatherTime time.Duration
	// ChunkTimeout is how long a replica may take for the next chunk of a read before another replaces it; the default is 5 s.
	ChunkTimeout time.Duration
	// HedgeTime is how long a replica may take for an answer, or for the first chunk of a read, if another one could replace it. So a
	// replica that has stopped, or is slow, costs no more than that. It doubles with each replacement in a read, so that load does not
	// cause more load. The default is 0: ChunkTimeout applies to the first chunk too.
	HedgeTime time.Duration
	// SendsMax and SendBytesMax bound the deltas, marks and repairs in progress to one node; above these bounds, deltas and marks become
	// hints at once. A node that hangs takes no room from others. The defaults are 4,096 and 64 MiB.
	SendsMax     int
	SendBytesMax int64
	// ReadsMax bounds the concurrent reads, lookups and checks of filters. A streaming read, with up to 4 chunks per replica in memory,
	// counts until its consumer has finished. A further read waits, for Timeout at most, and then fails with ErrBusy. The default is 1,024.
	ReadsMax int
	// CountMean is the approximate number of elements of a set that are counted as one part, and so the number that are read if replicas
	// differ in one of them. The default is 512.
	CountMean int
	// DigestAfter is a number of elements. After the replicas have agreed on that many, a read without a limit asks all of them but the
	// first for digests of their elements instead of the elements: see Coordinator.Read. The default is 16,384; a negative value means
	// never.
	DigestAfter int
	// RepairsMax is the maximum number of elements for which one read may send repairs; the default is 10,000.
	RepairsMax int
	// Hints keep what replicas have missed. By default there are none, and it is left to anti-entropy. The coordinator does not close them.
	Hints *Hints
	// HintInterval is how often all hints are tried; the default is 10 s, and a negative value means never.
	HintInterval time.Duration
	// HintWindow is the maximum number of hints in progress to one node; the default is 256. The window is 1 at the start of each replay,
	// doubles while all hints arrive, and is 1 again when one does not.
	HintWindow int
	// Shares returns the current shares: what pairs of replicas should have in common. They are exchanged in turn, even without any
	// request. By default there are none. Shares must not block. It is enough if one coordinator returns a share.
	Shares func() []Share
	// ExchangeInterval is the time from the end of one exchange to the next, if there are few shares; the default is 1 minute, and a
	// negative value means never. After a node did not answer, its shares wait for the same time.
	ExchangeInterval time.Duration
	// RoundTime is the maximum duration of a round over all shares if nothing differs: with more than RoundTime / ExchangeInterval shares,
	// exchanges follow each other sooner. The default is 5 minutes. A round takes longer if exchanges would take more than a quarter of the
	// time.
	RoundTime time.Duration
	// Exchanges is the number of concurrent exchanges; the default is 1.
	Exchanges int
	// ExchangeTimeout is how long the exchange of a share's sets may take, and then again the exchange of its slices; what has been
	// exchanged by then stays. The default is 10 minutes.
	ExchangeTimeout time.Duration
	// Jitter returns how long to wait instead of ExchangeInterval, so that coordinators that start together do not exchange together. The
	// default is a random time up to a quarter more or less; with a Runner other than Goroutines, exactly the interval.
	Jitter func(time.Duration) time.Duration
	// Rand returns random numbers, from which those of retries are made; the default is math/rand/v2.Uint64. It may be called concurrently.
	Rand func() uint64
	// Runner provides concurrency and time; the default is Goroutines.
	Runner Runner
	// Events is called with what happens in the background; by default, nothing is. It must not block or call the coordinator.
	Events func(Event)
}

func (o Options) withDefaults() (Options, error) {
	if o.Place == nil {
		return o, errors.New("coord: Options.Place is missing")
	}
	if o.Events == nil {
		o.Events = func(Event) {}
	}
	if o.Rand == nil {
		o.Rand = rand.Uint64
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

// EventKind is the kind of an event.
type EventKind string

// The events of a coordinator and its hints.
const (
	EventNotSent        EventKind = "not-sent"        // a delta or marks did not reach a replica, and a hint was kept unless another event says why not; or a drop of a filter did not
	EventRefused        EventKind = "refused"         // a replica refuses a delta or marks, and always will: it was dropped
	EventHintOverflow   EventKind = "hint-overflow"   // there was no room for a hint: it was dropped
	EventHintExpired    EventKind = "hint-expired"    // hints were too old: they were dropped
	EventHintFailed     EventKind = "hint-failed"     // a hint could not be written or read back
	EventHintReplayed   EventKind = "hint-replayed"   // hints have reached their replica
	EventRepaired       EventKind = "repaired"        // what a read found missing was sent; Count is the number of new keys and deaths
	EventRepairLeft     EventKind = "repair-left"     // what a read found missing was not sent, at least not all of it
	EventDamage         EventKind = "damage"          // a replica has seen dots that are not dead and have no key
	EventHealed         EventKind = "healed"          // keys that a replica had lost were fetched from another and put back
	EventHealLeft       EventKind = "heal-left"       // keys that a replica has lost could not be put back, at least not all of them
	EventHedged         EventKind = "hedged"          // a replica took longer than HedgeTime: Count others were asked as well, or instead of Node
	EventExchanged      EventKind = "exchanged"       // a share was exchanged; Exchanged counts what was new
	EventExchangeFailed EventKind = "exchange-failed" // a share was not exchanged, at least not all of it; it gets another turn
	EventFilterAlike    EventKind = "filter-alike"    // a replica has the same bits of a filter as the one here: checks ask it for its stamp until one of them changes
	EventFilterDiffers  EventKind = "filter-differs"  // a replica was compared and has other bits of a filter, or it could not be compared: checks ask it for keys
)

// Event is something that happened in the background. Fields that do not apply are zero. What was dropped is left to anti-entropy.
type Event struct {
	Kind      EventKind
	Node      string // the replica's
	Peer      string // the other replica's, for an exchange
	Set       []byte // its name, or a filter's
	Count     int    // of hints, or of what was repaired, left or damaged
	Bytes     int64  // of hints
	Err       error
	Exchanged Exchanged // the result of an exchange, even of one that failed
}
