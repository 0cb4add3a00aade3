package transfer

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"bigset"
	"bigset/handoff"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// SliceSender is a replica from which slices of bloom filters are copied. Its methods are those of peer.SliceReplica.
type SliceSender interface {
	Member() peer.Member
	SliceDigests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SliceDigest, error]
	PageSums(ctx context.Context, spec bigset.SliceSpec, after *bigset.PagePlace, most int) (bigset.PageSums, peer.Member, error)
	Pages(ctx context.Context, spec bigset.SliceSpec, places []bigset.PagePlace) (bigset.SlicePages, peer.Member, error)
}

// SliceReceiver is a replica into which slices of bloom filters are copied. Its methods are those of peer.SliceReplica.
type SliceReceiver interface {
	DropGeneration(ctx context.Context, name []byte, slices uint32, generation uint64) (peer.Member, error)
	PageSums(ctx context.Context, spec bigset.SliceSpec, after *bigset.PagePlace, most int) (bigset.PageSums, peer.Member, error)
	MergePages(ctx context.Context, p bigset.SlicePages) (peer.Member, error)
	FlushSlice(ctx context.Context, spec bigset.SliceSpec) (peer.Member, error)
}

var (
	_ SliceSender   = peer.SliceReplica(nil)
	_ SliceReceiver = peer.SliceReplica(nil)
)

// PullReport says what a pull of a slice took.
type PullReport struct {
	Compared uint64 // pages whose sums were compared: those that the sender has
	Pages    uint64 // of them, those that came, because they were not here, or had other bits
	Bytes    uint64 // of sums and pages, about, as the sender sends them
	Restarts int    // because the sender came back in another incarnation
}

// PullSlice brings into a replica all that another one has of a slice: of pages whose sums differ the bits, and the layers with their
// counts. Nothing is taken away, so it may go on while both are marked, be broken off, and be done again: then only what still differs
// is sent. When it returns nil, all that the sender had when it was called is in the receiver, durable when FlushSlice was done behind it.
//
// Its error is bigset.ErrNoFilter where the generation of spec is over at the sender or the receiver: dropped, or replaced by a later one.
// Pages that can't be read, at either, are left: the error, which is then bigset.ErrCorrupt, names them, and all others have come.
// Others are those of the sender and of the receiver; what has come stays.
func PullSlice(ctx context.Context, from SliceSender, to SliceReceiver, spec bigset.SliceSpec) (PullReport, error) {
	p := newPull(from, to, spec)
	sender := source(from.Member())
	p.is = func(m peer.Member) error { return answers(m, sender, from.Member()) }
	for {
		done, err := p.step(ctx)
		if errors.Is(err, errRestart) {
			sender = source(from.Member())
			p.restart()
			continue
		}
		if done || err != nil {
			return p.report, err
		}
	}
}

// answers returns what is wrong with who has answered, where a member in one incarnation was asked, and now is another.
func answers(m peer.Member, asked handoff.Source, now peer.Member) error {
	switch {
	case source(m) == asked:
		return nil
	case m.Node == asked.Node && source(now) != asked:
		return errRestart
	}
	return fmt.Errorf("%w: %v answers a copy from %q", peer.ErrSender, m, asked.Node)
}
