package coord

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"bigset/clock"
	"bigset/engine"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// Exchanged is what two replicas have told each other.
type Exchanged struct {
	Sets   int    // that either of them has
	Differ int    // of which their digests differed
	Keys   uint64 // that were new to one of them
	Dead   uint64 // dots that were not dead at one of them
}

// Exchange has two replicas tell each other what either lacks, of all sets in a range of slots, both ends included: anti-entropy. They
// compare digests, then, of sets whose digests differ, Seen and Dead; then deaths and the missing keys alone go over. Each fact is
// judged by its receiver, and no clock is joined: so it may go on while both are written, be broken off, and be done again. What it
// brings is not synced of itself. Equal digests say nothing about damage.
func Exchange(ctx context.Context, a, b peer.Replica, first, last keyscheme.Slot) (sum Exchanged, err error) {
	for set, err := range differing(ctx, a, b, first, last, &sum) {
		if err != nil {
			return sum, err
		}
		sum.Differ++
		if err := errors.Join(sum.tell(ctx, set, a, b), sum.tell(ctx, set, b, a)); err != nil {
			return sum, fmt.Errorf("coord: exchange %.64q: %w", set, err)
		}
	}
	return sum, nil
}

// differing lists the sets whose digests differ, or that only one of two replicas has.
func differing(ctx context.Context, a, b peer.Replica, first, last keyscheme.Slot, sum *Exchanged) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		nextA, stopA := iter.Pull2(a.Digests(ctx, first, last))
		defer stopA()
		nextB, stopB := iter.Pull2(b.Digests(ctx, first, last))
		defer stopB()
		da, errA, okA := nextA()
		db, errB, okB := nextB()
		for okA || okB {
			if err := errors.Join(errA, errB); err != nil {
				yield(nil, err)
				return
			}
			order := 0
			switch {
			case !okA:
				order = 1
			case !okB:
				order = -1
			default:
				order = cmp.Or(cmp.Compare(da.Slot, db.Slot), cmp.Compare(len(da.Name), len(db.Name)), bytes.Compare(da.Name, db.Name))
			}
			set, same := da.Name, order == 0 && da.Sum == db.Sum
			if order > 0 {
				set = db.Name
			}
			if sum.Sets++; !same && !yield(set, nil) {
				return
			}
			if order <= 0 {
				da, errA, okA = nextA()
			}
			if order >= 0 {
				db, errB, okB = nextB()
			}
		}
		if err := errors.Join(errA, errB); err != nil {
			yield(nil, err)
		}
	}
}

// tell tells one replica what another knows of a set and it does not: deaths first, for a dead dot needs no key.
func (sum *Exchanged) tell(ctx context.Context, set []byte, from, to peer.Replica) error {
	has, err := stateOf(ctx, set, from)
	if err != nil {
		return err
	}
	lacks, err := stateOf(ctx, set, to)
	if err != nil {
		return err
	}
	dead := has.Dead.Clone()
	if dead.Subtract(lacks.Dead); !dead.Empty() {
		r, _, err := to.ApplyFacts(ctx, engine.Facts{Set: set, Dead: dead}, engine.NoSync)
		if err != nil {
			return err
		}
		sum.Dead += r.Dead
	}
	missing := has.Seen.Clone()
	missing.Subtract(lacks.Seen)
	if missing.Subtract(has.Dead); missing.Empty() {
		return nil
	}
	for f, err := range from.Locate(ctx, set, missing) {
		if err != nil {
			return err
		}
		r, _, err := to.ApplyFacts(ctx, f, engine.NoSync)
		if err != nil {
			return err
		}
		sum.Keys += r.Keys
		sum.Dead += r.Dead
	}
	return nil
}

// stateOf returns what a replica knows of a set; of one of which it has never heard, nothing.
func stateOf(ctx context.Context, set []byte, rep peer.Replica) (engine.State, error) {
	s, m, err := rep.State(ctx, set)
	if errors.Is(err, engine.ErrNotFound) {
		return engine.State{Seen: &clock.Clock{}, Dead: &clock.Clock{}}, nil
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", m.Node, err)
	}
	return s, nil
}
