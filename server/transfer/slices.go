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

// PullReport contains the figures of a pull of a slice.
type PullReport struct {
	Compared uint64 // pages whose sums were compared: those that the sender has
	Pages    uint64 // pages among them that were fetched, because they were missing or differed here
	Bytes    uint64 // of sums and pages, about, as sent
	Restarts int    // because the sender came back in another incarnation
}

// PullSlice copies everything that one replica has of a slice into another: the layers with their counts, and the bits of pages whose sums
// differ. It removes nothing, so it may run while both replicas are marked, be interrupted, and be repeated: then only pages that still
// differ are sent. When it returns nil, the receiver has all that the sender had at the call, and a later FlushSlice makes it durable.
//
// The error is bigset.ErrNoFilter if the sender or the receiver has dropped the generation of spec or has a later one. Pages that can't be
// read, on either side, are skipped: the error is then bigset.ErrCorrupt and names them, and all others have been copied. Other errors are
// those of the sender and of the receiver; what has arrived stays.
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

// answers returns an error if the member that answered is not the one asked. asked is the incarnation that was asked, and now the sender's
// current one.
func answers(m peer.Member, asked handoff.Source, now peer.Member) error {
	switch {
	case source(m) == asked:
		return nil
	case m.Node == asked.Node && source(now) != asked:
		return errRestart
	}
	return fmt.Errorf("%w: %v answers a copy from %q", peer.ErrSender, m, asked.Node)
}
