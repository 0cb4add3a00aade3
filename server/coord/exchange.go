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

// Exchanged is what two replicas have told each other.
type Exchanged struct {
	Sets   int    // that either of them has
	Differ int    // of which their digests differed
	Keys   uint64 // that were new to one of them
	Dead   uint64 // dots that were not dead at one of them
	Lost   uint64 // dots that one lacks and the other has seen, but shows neither live nor dead: damage there
	Left   int    // times that a set was left to the next exchange: it was written without a break, or its replica came back in another incarnation

	Slices        int    // of bloom filters, that either of them has, or knows to be dropped
	SlicesDiffer  int    // of which their digests differed; the note of a drop alone, of what the other does not have, is no difference
	SlicesDropped int    // of those, that one has, and the other knew to be dropped
	Pages         uint64 // of slices, that one did not have as the other has them
}

// add adds what was told of slices to what was told of sets.
func (e *Exchanged) add(s Exchanged) {
	e.Slices += s.Slices
	e.SlicesDiffer += s.SlicesDiffer
	e.SlicesDropped += s.SlicesDropped
	e.Pages += s.Pages
}

// The shape of a comparison: into how many parts a range is split at most, how many sets there are in a part of the last split, about, and
// in a range that is not split any more.
const (
	splitsMax  = 64
	splitSets  = 8
	listedSets = 16
)

// Exchange has two replicas tell each other what either lacks, of all sets in a range of slots, both ends included: anti-entropy. They
// compare digests of parts of the range, of smaller parts where these differ, and there at last of sets; then, of sets whose digests
// differ, Seen and Dead; then the missing keys alone go over, and then deaths. Each fact is checked by its receiver, and no clock is
// joined: so it may go on while both are written, be broken off, and be done again. What it brings is not synced of itself. Equal
// digests say nothing about damage.
//
// What fails for one set is left, and the others go on, unless a replica is not available or ctx ends: then so does the exchange. The
// error has all that failed, up to a number.
func Exchange(ctx context.Context, a, b peer.Replica, first, last keyscheme.Slot) (Exchanged, error) {
	e := &exchange{a: a, b: b, lost: func([]byte, peer.Replica, *clock.Clock) {}}
	return e.run(ctx, first, last)
}

// exchange is one Exchange.
type exchange struct {
	a, b peer.Replica
	sum  Exchanged
	errs []error // of sets that were left
	// lost is told of dots of a set that a replica has lost. The set's name is not its to keep.
	lost func(set []byte, at peer.Replica, dots *clock.Clock)
}

func (e *exchange) run(ctx context.Context, first, last keyscheme.Slot) (Exchanged, error) {
	err := e.ranges(ctx, first, last, splitsMax)
	return e.sum, errors.Join(append(e.errs, err)...)
}

// errsMax is how many errors of sets are told.
const errsMax = 8

// ranges compares a range in parts and goes on into those that differ.
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
		if len(set) == 0 { // only b has it
			set = d.b.Name
		}
		e.sum.Differ++
		if err := e.both(ctx, set); err != nil {
			err = fmt.Errorf("coord: exchange %.64q: %w", set, err)
			if ctx.Err() != nil || errors.Is(err, peer.ErrUnavailable) {
				return err
			}
			if len(e.errs) < errsMax {
				e.errs = append(e.errs, err)
			}
		}
	}
	return nil
}

// both has the two replicas tell each other what they know of a set.
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

// send tells one replica all that another knows of a set and it does not.
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
