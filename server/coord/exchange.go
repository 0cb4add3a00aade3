package coord

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// Exchanged counts what two replicas have exchanged.
type Exchanged struct {
	Sets   int    // that at least one of them has
	Differ int    // whose digests differed
	Keys   uint64 // that were new to one of them
	Dead   uint64 // dots that were not dead at one of them
	Lost   uint64 // dots that one has not and the other has seen, but shows neither live nor dead: damage there
	Left   int    // how often a set was left to the next exchange, because it was written continuously or its replica came back in another incarnation

	Slices        int    // of bloom filters, that at least one of them has or knows to be dropped
	SlicesDiffer  int    // whose digests differed; a mere note of a drop, for a slice that the other does not have, does not count
	SlicesDropped int    // how many of these one had and the other knew to be dropped
	Pages         uint64 // of slices, that one did not have as the other has them
}

// add adds the counts of slices to the counts of sets.
func (e *Exchanged) add(s Exchanged) {
	e.Slices += s.Slices
	e.SlicesDiffer += s.SlicesDiffer
	e.SlicesDropped += s.SlicesDropped
	e.Pages += s.Pages
}

// The shape of a comparison: the maximum number of parts of a split, the approximate number of sets in a part of the last split, and the
// number of sets in a range that is not split further.
const (
	splitsMax  = 64
	splitSets  = 8
	listedSets = 16
)

// Exchange brings two replicas what they have missed of each other, for all sets in a range of slots, both ends included: anti-entropy.
// They compare digests of parts of the range, then of smaller parts where these differ, and finally of sets. For sets whose digests differ,
// they compare Seen and Dead. Then only the missing keys are sent, and after them the deaths. Each fact is checked by its receiver, and no
// clock is joined: so an exchange may run while both replicas are written, may be interrupted, and may be repeated. It does not sync what
// it sends. Equal digests say nothing about damage.
//
// If a set fails, the exchange continues with the others, unless a replica is unavailable or does not answer in time, or ctx ends: these end the
// exchange. The error contains the failures, up to a maximum number.
func Exchange(ctx context.Context, a, b peer.Replica, first, last keyscheme.Slot) (Exchanged, error) {
	e := &exchange{a: a, b: b, lost: func([]byte, peer.Replica, *clock.Clock) {}}
	return e.run(ctx, first, last)
}

// exchange is one Exchange.
type exchange struct {
	a, b peer.Replica
	sum  Exchanged
	errs []error // of sets that were left
	// lost is called with dots of a set that a replica has lost. It must not keep the set's name.
	lost func(set []byte, at peer.Replica, dots *clock.Clock)
}

func (e *exchange) run(ctx context.Context, first, last keyscheme.Slot) (Exchanged, error) {
	err := e.ranges(ctx, first, last, splitsMax)
	return e.sum, errors.Join(append(e.errs, err)...)
}

// errsMax is the maximum number of sets' errors that are reported.
const errsMax = 8

// ranges compares a range in parts, and descends into those that differ.
func (e *exchange) ranges(ctx context.Context, first, last keyscheme.Slot, parts int) error {
	as, err := rangesOf(ctx, e.a, first, last, parts)
	if err != nil {
		return err
	}
	bs, err := rangesOf(ctx, e.b, first, last, parts)
	if err != nil {
		return err
	}
	for i, a := range as {
		b, most := bs[i], max(a.Sets, bs[i].Sets)
		switch {
		case a == b:
			e.sum.Sets += int(a.Sets)
			continue
		case most <= listedSets || a.Sets == 0 || b.Sets == 0 || a.First == a.Last:
			err = e.sets(ctx, a.First, a.Last)
		default:
			err = e.ranges(ctx, a.First, a.Last, int(min(splitsMax, most/splitSets)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func rangesOf(ctx context.Context, rep peer.Replica, first, last keyscheme.Slot, parts int) ([]bigset.RangeDigest, error) {
	all, m, err := rep.RangeDigests(ctx, first, last, parts)
	if err == nil {
		err = peer.CheckSplit(all, first, last, parts)
	}
	if err != nil {
		return nil, fmt.Errorf("coord: exchange with %s: %w", m.Node, err)
	}
	return all, nil
}

// sets compares a range set by set, and exchanges those that differ.
func (e *exchange) sets(ctx context.Context, first, last keyscheme.Slot) error {
	for d, err := range pairs(e.a.Digests(ctx, first, last), e.b.Digests(ctx, first, last), peer.CompareDigests) {
		if err := cmp.Or(err, d.damage); err != nil {
			return err
		}
		e.sum.Sets++
		if d.a.Sum == d.b.Sum {
			continue
		}
		set := d.a.Name
		if len(set) == 0 { // only b has the set
			set = d.b.Name
		}
		e.sum.Differ++
		if err := e.both(ctx, set); err != nil {
			err = fmt.Errorf("coord: exchange %.64q: %w", set, err)
			if ctx.Err() != nil || errors.Is(err, peer.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			if len(e.errs) < errsMax {
				e.errs = append(e.errs, err)
			}
		}
	}
	return nil
}

// both exchanges what the two replicas know of a set.
func (e *exchange) both(ctx context.Context, set []byte) error {
	sa, ma, err := stateOf(ctx, set, e.a)
	if err != nil {
		return err
	}
	sb, mb, err := stateOf(ctx, set, e.b)
	if err != nil {
		return err
	}
	return errors.Join(
		e.send(ctx, &sending{set: set, from: e.a, to: e.b, has: sa, by: ma, lacks: sb}),
		e.send(ctx, &sending{set: set, from: e.b, to: e.a, has: sb, by: mb, lacks: sa}))
}

// send sends one replica all that another knows of a set and it does not.
func (e *exchange) send(ctx context.Context, t *sending) error {
	t.sent = &clock.Clock{}
	err := t.run(ctx, t.missing())
	e.sum.Keys += t.keys
	e.sum.Dead += t.dead
	if t.left {
		e.sum.Left++
		return err
	}
	lost := t.missing()
	if err != nil || lost.Empty() {
		return err
	}
	damaged, err := t.damaged(ctx)
	switch {
	case err != nil:
	case damaged:
		e.sum.Lost += lost.Len()
		e.lost(t.set, t.from, lost)
	default:
		e.sum.Left++
	}
	return err
}
