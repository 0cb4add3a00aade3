package remote

import (
	"context"
	"fmt"
	"iter"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// Requests implements peer.RequestLister.
func (r *Replica) Requests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.KeptRequest, error] {
	return items[peer.Requests](ctx, r, VerbRequests, peer.AskRequests{First: first, Last: last}, func(before, k *bigset.KeptRequest) error {
		if at := keyscheme.SetSlot(k.Set); at < first || at > last || before != nil && at < keyscheme.SetSlot(before.Set) {
			return fmt.Errorf("a request of slot %08x, of another range or in no order", at)
		}
		return nil
	})
}

const (
	// requestsBytes is the approximate size of the kept requests in one part.
	requestsBytes = 1 << 20
	// requestBytesMax is the size from which a kept request is not sent: a part must fit in a frame.
	requestBytesMax = 48 << 20
)

// requests sends the records of requests, many in a part.
func (v *visit) requests(m peer.AskRequests) ([]byte, error) {
	var batch peer.Requests
	size := 0
	return stream(v, Copy, m.First, m.Last, v.rep.Requests(v.ctx, m.First, m.Last), func(r bigset.KeptRequest, after bool) func(peer.Member) error {
		if !after {
			n := requestBytes(&r)
			if n > requestBytesMax {
				return nil
			}
			batch, size = append(batch, r), size+n
		}
		if len(batch) == 0 || !after && len(batch) < peer.RequestsMax && size < requestsBytes {
			return nil
		}
		return func(by peer.Member) error {
			err := v.part(by, batch)
			batch, size = batch[:0], 0
			return err
		}
	})
}

// requestBytes returns the maximum size of a kept request in a frame.
func requestBytes(r *bigset.KeptRequest) int {
	const numberBytes, eventBytes = 10, 1 + 8 + 3
	n := len(r.Set) + len(r.ID) + clock.ActorBytesMax + 6*numberBytes + eventBytes*len(r.Events)
	for i := range r.Events {
		c := r.Events[i].Context
		for _, a := range c.Actors() {
			n += len(a) + 2
		}
		n += (3 + numberBytes) * int(c.Len())
	}
	return n
}
