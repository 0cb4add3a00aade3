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
	// ErrOptions is returned for options that can't be.
	ErrOptions = errors.New("transfer: bad options")
	// ErrReceiver says that the receiver is in another incarnation than when the copy was started: it may have dropped the range.
	// Start again.
	ErrReceiver = errors.New("transfer: the receiver has changed")
	// ErrNoSlices says that the sender has slices of bloom filters in the range, and that the receiver is no SliceReceiver. All sets of
	// the range have come.
	ErrNoSlices = errors.New("transfer: the receiver takes no slices of bloom filters")
)

// Sender is the replica elsewhere from which a range is copied. Its methods are those of peer.Replica. One that has slices of bloom
// filters is a SliceSender, too.
type Sender interface {
	Member() peer.Member
	State(ctx context.Context, set []byte) (bigset.State, peer.Member, error)
	Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error]
	Export(ctx context.Context, set, after []byte, bytesMax int) (*bigset.Portion, peer.Member, error)
	Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SetDigest, error]
}

var _ Sender = peer.Replica(nil)

// Receiver is the replica here, into which a range is copied; a *local.Replica is one. State, ApplyFacts and Member are those of
// peer.Replica. One that takes slices of bloom filters is a SliceReceiver, too.
type Receiver interface {
	Member() peer.Member
	State(ctx context.Context, set []byte) (bigset.State, peer.Member, error)
	ApplyFacts(ctx context.Context, f bigset.Facts, d bigset.Durability) (bigset.FactsResult, peer.Member, error)
	// Ingest takes a chunk of a copy by the rules of ApplyFacts, and is durable when it returns.
	Ingest(ctx context.Context, portion *bigset.Portion) (bigset.FactsResult, peer.Member, error)
	// SetNote and Note keep progress: see engine.Store.SetNote.
	SetNote(ctx context.Context, name string, first, last keyscheme.Slot, value []byte, d bigset.Durability) error
	Note(ctx context.Context, name string) ([]byte, error)
}

// Options say how ranges are copied. The zero value is right.
type Options struct {
	// ChunkBytes is about how many bytes of keys, as they are on disk, go at a time. 0 is 8 MiB, the most bigset.BatchBytesMax / 2.
	ChunkBytes int
	// BytesPerSecond bounds what all copies of the mover take together, in bytes as they are sent; one chunk at once is taken all
	// the same. 0 is no bound.
	BytesPerSecond int64
	// Ahead has the next chunk read by its sender while one is written here, also that of the next set. It costs a chunk of memory and a goroutine.
	Ahead bool
	// Epoch is that of the map since which the receiver joins the range. The note of a copy names it: what was copied under another one
	// is no part of this copy, for the sender may have taken writes since that the receiver was not sent. 0 where no map routes.
	Epoch uint64
	// Report, if it is set, is told after each step, by the goroutine of the copy.
	Report func(Report)
	// Now and Wait are the time. Nil is that of the machine.
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
	Set      []byte        // at hand
	Sets     uint64        // that are done
	Owed     int           // sets whose chunks have come, and that are not complete
	Elements uint64        // keys that came
	Keys     uint64        // of them, those that were new here
	Dead     uint64        // dots that were not dead here
	Filter   []byte        // of which a slice is at hand, behind the sets
	Slices   uint64        // of bloom filters, that are done
	Pages    uint64        // of them, that were not the same here
	Dropped  uint64        // slices that the sender knows to be dropped
	Requests uint64        // of clients, of which the sender knows what they became, and that are known here now
	Bytes    uint64        // of keys and clocks, of sums and pages, as they are sent
	Restarts int           // because the sender came back in another incarnation
	Elapsed  time.Duration // since the start
}

// MBPerSecond is the rate so far, in millions of bytes as they are sent.
func (r Report) MBPerSecond() float64 { return perSecond(float64(r.Bytes)/1e6, r.Elapsed) }

// ElementsPerSecond is the rate so far.
func (r Report) ElementsPerSecond() float64 { return perSecond(float64(r.Elements), r.Elapsed) }

func perSecond(n float64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return n / d.Seconds()
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

// Copy copies a range from a sender, first the sets, then the slices of bloom filters, to the end, or goes on where an earlier copy from
// the same sender in the same incarnation was broken off. When it returns nil, all that the sender had seen of each set, when the set was
// begun, and all that it had of each slice, when that was begun, is in the receiver, and durable; what it had dropped is dropped there. An
// error that wraps handoff.ErrIncomplete names the sets and slices of which that is not so; everything else has come. Others are those of
// the sender and of the receiver; what has come stays.
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
