package transfer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/handoff"
	"bigset/keyscheme"
	"bigset/server/peer"
)

var (
	// ErrOptions is returned for invalid options.
	ErrOptions = errors.New("transfer: bad options")
	// ErrReceiver: the incarnation of the receiver has changed since the start of the copy, and it may have dropped the range. Start again.
	ErrReceiver = errors.New("transfer: the receiver has changed")
	// ErrNoSlices: the sender has slices of bloom filters in the range, but the receiver is not a SliceReceiver. All sets of the range have
	// been copied.
	ErrNoSlices = errors.New("transfer: the receiver takes no slices of bloom filters")
)

// Sender is the replica elsewhere from which a range is copied. Its methods are those of peer.Replica. A sender with slices of bloom
// filters is also a SliceSender.
type Sender interface {
	Member() peer.Member
	State(ctx context.Context, set []byte) (bigset.State, peer.Member, error)
	Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error]
	Export(ctx context.Context, set, after []byte, bytesMax int) (*bigset.Portion, peer.Member, error)
	Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SetDigest, error]
}

var _ Sender = peer.Replica(nil)

// Receiver is the local replica, into which a range is copied; a *local.Replica is one. State, ApplyFacts and Member are those of
// peer.Replica. A receiver that takes slices of bloom filters is also a SliceReceiver.
type Receiver interface {
	Member() peer.Member
	State(ctx context.Context, set []byte) (bigset.State, peer.Member, error)
	ApplyFacts(ctx context.Context, f bigset.Facts, d bigset.Durability) (bigset.FactsResult, peer.Member, error)
	// Ingest applies a chunk of a copy by the rules of ApplyFacts. The chunk is durable when Ingest returns. It may call pace before each
	// part of the chunk that it writes, with how much of the chunk is then written, up to 1.
	Ingest(ctx context.Context, portion *bigset.Portion, pace func(ctx context.Context, part float64) error) (bigset.FactsResult, peer.Member, error)
	// SetNote and Note store progress: see engine.Replica.SetNote.
	SetNote(ctx context.Context, name string, first, last keyscheme.Slot, value []byte, d bigset.Durability) error
	Note(ctx context.Context, name string) ([]byte, error)
}

// Options say how ranges are copied. The zero value is valid.
type Options struct {
	// ChunkBytes is about how many bytes of keys, in their size on disk, one chunk contains. 0 means 8 MiB; the maximum is
	// bigset.BatchBytesMax / 2.
	ChunkBytes int
	// BytesPerSecond bounds the rate of all copies of the mover together, in bytes as they are sent. A receiver that ingests a chunk writes it
	// part by part at that rate; a chunk of few keys is always taken at once. 0 means no bound.
	BytesPerSecond int64
	// Ahead makes the sender read the next chunk while one is written here, including the first chunk of the next set. It costs the memory
	// of a chunk and a goroutine.
	Ahead bool
	// Epoch is the epoch of the map under which the receiver joins the range. The note of a copy names it: a part copied under another
	// epoch does not belong to this copy, because the sender may since have taken writes that were not sent to the receiver. 0 means that
	// no map routes.
	Epoch uint64
	// Report, if set, is called after each step by the goroutine of the copy.
	Report func(Report)
	// Now and Wait are the clock. Nil means the machine's.
	Now  func() time.Time
	Wait func(context.Context, time.Duration) error
}

const chunkBytesDefault = 8 << 20

func (o Options) withDefaults() Options {
	if o.ChunkBytes == 0 {
		o.ChunkBytes = chunkBytesDefault
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Wait == nil {
		o.Wait = wait
	}
	return o
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Report says how far a copy has come since it was started or resumed.
type Report struct {
	From     peer.Member
	Slots    handoff.Range  // that are copied
	Slot     keyscheme.Slot // of the current set or slice: first all sets are copied in the order of slots, then all slices
	Set      []byte         // current
	Sets     uint64         // done
	Owed     int            // sets whose chunks have arrived but that are not complete
	Elements uint64         // keys that arrived
	Keys     uint64         // keys among them that were new here
	Dead     uint64         // dots that were not dead here before
	Filter   []byte         // whose slice is current, after the sets
	Slices   uint64         // slices of bloom filters that are done
	Pages    uint64         // pages of slices that differed here
	Dropped  uint64         // slices that the sender reports as dropped
	Requests uint64         // requests of clients whose outcome the sender knows and now is known here
	Bytes    uint64         // of keys, clocks, sums and pages, as sent
	Restarts int            // because the sender came back in another incarnation
	Elapsed  time.Duration  // since the start
}

// Mover copies ranges into a receiver.
type Mover struct {
	to   Receiver
	opt  Options
	pace pace
}

// New returns a mover into a receiver.
func New(to Receiver, o Options) (*Mover, error) {
	if o.ChunkBytes < 0 || o.ChunkBytes > bigset.BatchBytesMax/2 || o.BytesPerSecond < 0 {
		return nil, fmt.Errorf("%w: chunks of %d bytes, %d bytes a second", ErrOptions, o.ChunkBytes, o.BytesPerSecond)
	}
	o = o.withDefaults()
	return &Mover{to: to, opt: o, pace: pace{rate: o.BytesPerSecond, now: o.Now, wait: o.Wait}}, nil
}

// Copy copies a range from a sender to the end: first the sets, then the slices of bloom filters. It continues an earlier copy from the
// same sender in the same incarnation. When it returns nil, the receiver durably has all that the sender had seen of each set when the set
// was begun, and all that it had of each slice when the slice was begun; what the sender had dropped is dropped there. An error that wraps
// handoff.ErrIncomplete names the sets and slices that are not complete; everything else has been copied. Other errors are those of the
// sender and of the receiver; what has arrived stays.
func (m *Mover) Copy(ctx context.Context, from Sender, slots handoff.Range) (Report, error) {
	c, err := m.Start(ctx, from, slots)
	if err != nil {
		return Report{}, err
	}
	defer c.Stop()
	for done := false; !done && err == nil; {
		done, err = c.Step(ctx)
	}
	return c.Report(), err
}
