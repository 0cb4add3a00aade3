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

// Share is what two replicas should have in common: all sets in a range of slots, both ends included, and, if both are SliceReplicas, all
// slices of bloom filters there.
type Share struct {
	A, B        peer.Replica
	First, Last keyscheme.Slot
}

// exchanging exchanges the shares in turn until the coordinator is closed, in Exchanges lanes of one exchange at a time. The wait of a lane
// begins when an exchange has ended, whatever its outcome.
func (c *Coordinator) exchanging(wait time.Duration) {
	c.run.After(c.opt.Jitter(wait), func() {
		if c.life.Err() != nil {
			return
		}
		shares, begin := c.opt.Shares(), c.run.Now()
		if s, ok := c.rounds.begin(shares, begin); ok {
			err := c.exchangeShare(s)
			c.rounds.end(s, err, c.run.Now(), c.opt.ExchangeInterval)
		}
		c.exchanging(c.opt.pace(len(shares), c.run.Now().Sub(begin)))
	})
}

// pace returns how long a lane waits after an exchange that took some time, so that a round over that many shares takes at most RoundTime
// if nothing differs. A lane exchanges for at most a quarter of its time, unless ExchangeInterval allows more.
func (o *Options) pace(shares int, took time.Duration) time.Duration {
	each := o.RoundTime / time.Duration(max(1, shares))
	if each >= o.ExchangeInterval {
		return time.Duration(o.Exchanges) * o.ExchangeInterval
	}
	each *= time.Duration(o.Exchanges)
	return min(max(each-took, 3*took), max(o.ExchangeInterval, each))
}

// exchangeShare exchanges a share, reports the outcome, and heals the damage that it met.
func (c *Coordinator) exchangeShare(s Share) error {
	if !c.enter() {
		return ErrClosed
	}
	defer c.leave()
	ctx, cancel := Deadline(c.life, c.run, c.opt.ExchangeTimeout)
	defer cancel()
	x := &exchange{a: s.A, b: s.B, lost: func(set []byte, at peer.Replica, dots *clock.Clock) {
		c.damaged(bytes.Clone(set), at, dots)
	}}
	e := Event{Kind: EventExchanged, Node: s.A.Member().Node, Peer: s.B.Member().Node}
	var err error
	e.Exchanged, err = x.run(ctx, s.First, s.Last)
	reported, errSlices := c.exchangeSlices(s) // whatever has ended the exchange of sets: it may be damage in one of them, or their number
	e.Exchanged.add(reported)
	if err = errors.Join(err, errSlices); err != nil {
		e.Kind, e.Err = EventExchangeFailed, err
	}
	c.opt.Events(e)
	return err
}

// exchangeSlices exchanges the slices of a share, in a time of their own, or returns why it can't. If neither replica has slices, and there
// is no place for filters, there is nothing to do.
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
	ctx, cancel := Deadline(c.life, c.run, c.opt.ExchangeTimeout)
	defer cancel()
	return ExchangeSlices(ctx, a, b, s.First, s.Last)
}

var errNoSlices = errors.New("coord: slices were not exchanged: a replica takes none")

// spread returns a random time within a quarter of d around d.
func spread(d time.Duration) time.Duration { return d*3/4 + rand.N(d/2+1) }
