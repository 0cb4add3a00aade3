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

// RequestReceiver is a Receiver that keeps its sender's records of clients' requests; a *local.Replica is one. If the sender is not a
// peer.RequestLister, no records are kept.
type RequestReceiver interface {
	// KeepRequests takes the sender's records of requests to one set, except those with events that the receiver has not all seen: see
	// engine.Replica.KeepRequests.
	KeepRequests(ctx context.Context, all []bigset.KeptRequest, d bigset.Durability) (taken int, m peer.Member, err error)
}

const (
	// requestsMax and requestsBytesMax are how many records of requests, and bytes of them, are passed to the receiver at a time.
	requestsMax      = 1024
	requestsBytesMax = 1 << 20
)

// requests copies the sender's records of requests. It runs last: a receiver with such a record answers for its events, so it must have the
// events before. It has no note: records that are copied again are already here.
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
		if errors.Is(err, peer.ErrFrameKind) { // the sender runs an older program, which does not know the question
			return nil
		}
		if errors.Is(err, bigset.ErrCorrupt) { // the sender can't use a record that it can't read, and all sets are here
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

// requestBytes returns about how many bytes a record of a request takes as sent.
func requestBytes(r *bigset.KeptRequest) int {
	n := len(r.Set) + len(r.ID) + clock.ActorBytesMax/8
	for i := range r.Events {
		n += 10 + 6*int(r.Events[i].Context.Len())
	}
	return n
}
