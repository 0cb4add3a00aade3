package coord

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"bigset/clock"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// Share is what two replicas should have the same of: all sets in a range of slots, both ends included, and all slices of bloom filters
// where both are SliceReplicas.
type Share struct {
	A, B        peer.Replica
	First, Last keyscheme.Slot
}

// exchanging has the shares exchanged in turn, one after each interval, until the coordinator is closed. The next interval begins when
// an exchange is over, however it went: so there is one at a time.
func (c *Coordinator) exchanging(turn int) {
	c.run.After(c.opt.Jitter(c.opt.ExchangeInterval), func() {
		if c.life.Err() != nil {
			return
		}
		if shares := c.opt.Shares(); len(shares) > 0 {
			c.exchangeShare(shares[turn%len(shares)])
		}
		c.exchanging(turn + 1)
	})
}

// exchangeShare exchanges a share, tells how that went, and has the damage healed that it met.
func (c *Coordinator) exchangeShare(s Share) {
	if !c.enter() {
		return
	}
	defer c.leave()
	ctx, cancel := deadline(c.life, c.run, c.opt.ExchangeTimeout)
	defer cancel()
	x := &exchange{a: s.A, b: s.B, lost: func(set []byte, at peer.Replica, dots *clock.Clock) {
		c.damaged(bytes.Clone(set), at, dots)
	}}
	e := Event{Kind: EventExchanged, Node: s.A.Member().Node, Peer: s.B.Member().Node}
	var err error
	e.Exchanged, err = x.run(ctx, s.First, s.Last)
	told, errSlices := c.exchangeSlices(s) // whatever has ended the exchange of sets: it may be damage of one of them, or the number of them
	e.Exchanged.add(told)
	if err = errors.Join(err, errSlices); err != nil {
		e.Kind, e.Err = EventExchangeFailed, err
	}
	c.opt.Events(e)
}

// exchangeSlices exchanges the slices of a share, in a time of their own, or says why they are not. Where neither replica has any, and
// there is no place for filters, there is nothing to do.
func (c *Coordinator) exchangeSlices(s Share) (Exchanged, error) {
	a, okA := s.A.(peer.SliceReplica)
	b, okB := s.B.(peer.SliceReplica)
	switch {
	case !okA && !okB && c.opt.PlaceSlice == nil:
		return Exchanged{}, nil
	case c.life.Err() != nil:
		return Exchanged{}, fmt.Errorf("%w: slices were not exchanged", ErrClosed)
	case !okA:
		return Exchanged{}, fmt.Errorf("%w: %v", errNoSlices, s.A.Member())
	case !okB:
		return Exchanged{}, fmt.Errorf("%w: %v", errNoSlices, s.B.Member())
	}
	ctx, cancel := deadline(c.life, c.run, c.opt.ExchangeTimeout)
	defer cancel()
	return ExchangeSlices(ctx, a, b, s.First, s.Last)
}

var errNoSlices = errors.New("coord: slices were not exchanged: a replica takes none")

// spread returns a time around d, up to a quarter of it off.
func spread(d time.Duration) time.Duration { return d*3/4 + rand.N(d/2+1) }
