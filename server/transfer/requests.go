package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/clock"
	"bigset/handoff"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// RequestReceiver is a Receiver that keeps what its sender keeps of clients' requests; a *local.Replica is one. The sender is a
// peer.RequestLister then, or nothing is kept.
type RequestReceiver interface {
	// KeepRequests takes what the sender keeps of requests to one set, but for those of whose events the receiver has not all: see
	// engine.Store.KeepRequests.
	KeepRequests(ctx context.Context, all []bigset.KeptRequest, d bigset.Durability) (taken int, m peer.Member, err error)
}

const (
	// requestsMax and requestsBytesMax are how many records of requests, and bytes of them, go into the receiver at a time.
	requestsMax      = 1024
	requestsBytesMax = 1 << 20
)

// requests brings what the sender keeps of requests. It comes last: a receiver that has such a record answers for its events, so these must be
// here before. There is no note of it: what a copy brings again is here already.
func (c *Copy) requests(ctx context.Context) error {
	from, lists := c.from.(peer.RequestLister)
	to, keeps := c.m.to.(RequestReceiver)
	if !lists || !keeps {
		return nil
	}
	var batch []bigset.KeptRequest
	size := 0
	put := func() error {
		if err := c.m.pace.take(ctx, size); err != nil {
			return err
		}
		n, _, err := to.KeepRequests(ctx, batch, bigset.NoSync)
		c.report.Requests += uint64(n)
		c.report.Bytes += uint64(size)
		batch, size = nil, 0
		return err
	}
	slots := c.progress.Slots()
	for r, err := range from.Requests(ctx, slots.First, slots.Last) {
		if errors.Is(err, peer.ErrFrameKind) { // the sender's program is older than the question
			return nil
		}
		if errors.Is(err, bigset.ErrCorrupt) { // what the sender can't read it could not answer by either, and the sets are all here
			break
		}
		if err != nil {
			return fmt.Errorf("transfer: list requests of %s: %w", c.node, err)
		}
		if at := keyscheme.SetSlot(r.Set); at < slots.First || at > slots.Last {
			return fmt.Errorf("%w: a request to set %.64q of slot %08x", handoff.ErrOrder, r.Set, at)
		}
		if len(batch) > 0 && (len(batch) == requestsMax || size >= requestsBytesMax || !bytes.Equal(batch[0].Set, r.Set)) {
			if err := put(); err != nil {
				return err
			}
		}
		batch, size = append(batch, r), size+requestBytes(&r)
	}
	if err := c.is(c.from.Member()); err != nil {
		return err
	}
	if len(batch) == 0 {
		return nil
	}
	return put()
}

// requestBytes returns about how many bytes a record of a request takes as it is sent.
func requestBytes(r *bigset.KeptRequest) int {
	n := len(r.Set) + len(r.ID) + clock.ActorBytesMax/8
	for i := range r.Events {
		n += 10 + 6*int(r.Events[i].Context.Len())
	}
	return n
}
