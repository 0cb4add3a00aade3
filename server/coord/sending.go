package coord

import (
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/clock"
	"bigset/server/peer"
)

// sending sends one replica what another has of a set and it has not: keys first, then deaths. In the reverse order, a dot would be dead at
// the receiver before the dot that replaces it has arrived. A read that asks this receiver, and a replica that has seen neither of the two
// events, would miss an element that was present all along. Each fact is checked by its receiver. What was sent is not synced of itself.
type sending struct {
	set      []byte
	from, to peer.Replica
	has      bigset.State // of the sender, the newest that was requested
	by       peer.Member  // the sender's incarnation that has reported it
	lacks    bigset.State // of the receiver, at the beginning

	sent *clock.Clock // what the receiver has received since: the dots of keys and of deaths
	keys uint64       // that were new to the receiver
	dead uint64       // dots that were not dead there
	left bool         // deaths were left out, because the set was written continuously
}

// sendRoundsMax is how often a replica is asked again for keys while some of those that were requested die.
const sendRoundsMax = 8

// run sends the keys of some dots, and then the deaths in the sender's state. While requested dots turn out to be dead, the dots that
// replaced them may be in none of the sender's states seen so far. Then run requests the next state, and the keys of everything that is
// live in it and not seen by the receiver, before it sends any death.
func (t *sending) run(ctx context.Context, dots *clock.Clock) error {
	for round := 1; ; round++ {
		died, err := t.sendKeys(ctx, dots)
		if err != nil {
			return err
		}
		if died.Empty() {
			return t.sendDeaths(ctx)
		}
		if round == sendRoundsMax {
			t.left = true
			return nil
		}
		if t.has, t.by, err = stateOf(ctx, t.set, t.from); err != nil {
			return err
		}
		dots = t.missing()
	}
}

// missing returns the dots that are live at the sender, that the receiver had not seen, and that were not sent. Dots that remain when all
// has been sent are those whose keys the sender has lost.
func (t *sending) missing() *clock.Clock {
	dots := t.has.Seen.Clone()
	dots.Subtract(t.lacks.Seen)
	dots.Subtract(t.sent)
	dots.Subtract(t.has.Dead)
	return dots
}

// sendKeys sends the keys of dots, and returns which of the other dots are dead.
func (t *sending) sendKeys(ctx context.Context, dots *clock.Clock) (died *clock.Clock, err error) {
	died = &clock.Clock{}
	if dots.Empty() {
		return died, nil
	}
	for f, err := range t.from.Locate(ctx, t.set, dots) {
		if err != nil {
			return died, err
		}
		died.Union(f.Dead)
		if f.Dead = nil; f.Empty() {
			continue
		}
		r, _, err := t.to.ApplyFacts(ctx, f, bigset.NoSync)
		if err != nil {
			return died, err
		}
		t.keys += r.Keys
		for i := range f.Keys {
			for _, d := range f.Keys[i].Dots {
				t.sent.Add(d)
			}
		}
	}
	died.Subtract(t.sent)
	return died, nil
}

// sendDeaths sends what is dead in the sender's state and was not dead at the receiver.
func (t *sending) sendDeaths(ctx context.Context) error {
	dead := t.has.Dead.Clone()
	if dead.Subtract(t.lacks.Dead); dead.Empty() {
		return nil
	}
	r, _, err := t.to.ApplyFacts(ctx, bigset.Facts{Set: t.set, Dead: dead}, bigset.NoSync)
	if err == nil {
		t.dead += r.Dead
		t.sent.Union(dead)
	}
	return err
}

// damaged reports whether dots that are missing after a run are damage at the sender. They are not if the sender has come back in another
// incarnation since it was asked for its state: it may have forgotten what it had seen.
func (t *sending) damaged(ctx context.Context) (bool, error) {
	_, by, err := stateOf(ctx, t.set, t.from)
	return err == nil && by.Is(t.by), err
}

// stateOf returns what a replica knows of a set, or an empty state if it has never heard of it, and the incarnation that has answered.
func stateOf(ctx context.Context, set []byte, rep peer.Replica) (bigset.State, peer.Member, error) {
	s, m, err := rep.State(ctx, set)
	if errors.Is(err, bigset.ErrNotFound) {
		return unknownSet(), m, nil
	}
	if err != nil {
		return s, m, fmt.Errorf("%s: %w", m.Node, err)
	}
	return s, m, nil
}

func unknownSet() bigset.State { return bigset.State{Seen: &clock.Clock{}, Dead: &clock.Clock{}} }
