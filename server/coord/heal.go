package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/server/peer"
)

const (
	// healsMax is how many sets of replicas are being healed, or could not be not long ago.
	healsMax = 64
	// healAgain is how long a set of a replica is left alone after some of it could not be healed: every read meets that again.
	healAgain = time.Minute
)

// Heal has a replica put back keys that it has lost: dots of a set that it has seen, that are not dead there, and that have no key.
// Other replicas are asked for them, one after the other, until each dot was told of. A dot that one of them knows to be dead
// becomes dead. What none of them tells of is left as it is: nothing follows from absence. The clock is what is left; an error
// means that somebody could not be asked, or not do it.
//
// Where the replica can't read what is around such a key, all that it has lost of the set is asked for, and put back at once.
func Heal(ctx context.Context, set []byte, lost *clock.Clock, to peer.Replica, from ...peer.Replica) (healed int, left *clock.Clock, err error) {
	left = lost.Clone()
	for _, source := range from {
		if source == to || left.Empty() {
			continue
		}
		n, failed := healFrom(ctx, set, left, to, source)
		healed += n
		err = errors.Join(err, failed)
	}
	if err == nil || left.Empty() || !unreadableAt(err, to) {
		return healed, left, err
	}
	n, still, err := healHoles(ctx, set, to, from...)
	if err == nil {
		left.Intersect(still)
	}
	return healed + n, left, err
}

// healHoles has a replica fill the stretches of a set that it can't read: other replicas are asked for all that it has lost. What none
// of them tells of is left, and then so is the stretch it may be in.
func healHoles(ctx context.Context, set []byte, to peer.Replica, from ...peer.Replica) (healed int, left *clock.Clock, err error) {
	left, m, err := to.Lost(ctx, set)
	if err != nil {
		return 0, left, fmt.Errorf("%s: %w", m.Node, err)
	}
	all, reported := bigset.Facts{Set: set, Dead: &clock.Clock{}}, left.Clone()
	keys, size := 0, 0
	for _, source := range from {
		if source == to || left.Empty() {
			continue
		}
		for f, failed := range source.Locate(ctx, set, left.Clone()) {
			if failed != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", source.Member().Node, failed))
				break
			}
			left.Subtract(f.Dead)
			all.Dead.Union(f.Dead)
			for i := range f.Keys {
				left.Subtract(clock.Of(f.Keys[i].Dots...))
				keys, size = keys+len(f.Keys[i].Dots), size+len(f.Keys[i].Name)*len(f.Keys[i].Dots)
			}
			all.Keys = append(all.Keys, f.Keys...)
			if keys > bigset.BatchOpsMax || size > bigset.BatchBytesMax {
				return 0, reported, &bigset.LimitError{What: "lost keys around damage", Got: keys, Max: bigset.BatchOpsMax}
			}
		}
	}
	r, _, failed := to.Heal(ctx, all, nil)
	if failed != nil {
		return r.Healed, reported, errors.Join(err, &replicaError{to, failed})
	}
	if r.Left > 0 {
		return r.Healed, reported, err
	}
	return r.Healed, left, err
}

// replicaError says at which replica something failed.
type replicaError struct {
	at  peer.Replica
	err error
}

func (e *replicaError) Error() string { return fmt.Sprintf("%s: %v", e.at.Member().Node, e.err) }
func (e *replicaError) Unwrap() error { return e.err }

// unreadableAt reports whether something failed for a replica could not read what it has.
func unreadableAt(err error, at peer.Replica) bool {
	var e *replicaError
	return errors.As(err, &e) && e.at == at && errors.Is(e.err, bigset.ErrCorrupt)
}

// healFrom takes what one replica tells, and takes those dots off what is left.
func healFrom(ctx context.Context, set []byte, left *clock.Clock, to, from peer.Replica) (healed int, err error) {
	for f, err := range from.Locate(ctx, set, left.Clone()) {
		if err != nil {
			return healed, fmt.Errorf("%s: %w", from.Member().Node, err)
		}
		r, _, err := to.Heal(ctx, f, nil)
		healed += r.Healed
		if err != nil {
			return healed, &replicaError{to, err}
		}
		if r.Left > 0 {
			continue
		}
		left.Subtract(f.Dead)
		for i := range f.Keys {
			left.Subtract(clock.Of(f.Keys[i].Dots...))
		}
	}
	return healed, nil
}

// damaged tells of dots that a replica has lost, and has it healed in the background, if there is room.
func (c *Coordinator) damaged(set []byte, at peer.Replica, lost *clock.Clock) {
	e := Event{Kind: EventDamage, Node: at.Member().Node, Set: set, Count: int(lost.Len())}
	c.opt.Events(e)
	if lost = firstDots(lost, c.opt.RepairsMax); !c.mayHeal(e.Node, set) {
		return
	}
	size := int64(lost.HeapBytes())
	if err := c.take(e.Node, size); err != nil {
		c.healed(e.Node, set)
		e.Kind, e.Err = EventHealLeft, err
		c.opt.Events(e)
		return
	}
	c.run.Go(func() {
		defer c.give(e.Node, size)
		ctx, cancel := Deadline(c.life, c.run, c.opt.SendTimeout)
		defer cancel()
		healed, left, err := Heal(ctx, set, lost, at, c.opt.Place(set).all()...)
		if healed > 0 {
			c.opt.Events(Event{Kind: EventHealed, Node: e.Node, Set: set, Count: healed})
		}
		if !left.Empty() || err != nil {
			c.opt.Events(Event{Kind: EventHealLeft, Node: e.Node, Set: set, Count: int(left.Len()), Err: err})
			return
		}
		c.healed(e.Node, set)
	})
}

// mayHeal reports whether a set of a replica may be healed now, and notes that it is. Only one of them is under way.
func (c *Coordinator) mayHeal(node string, set []byte) bool {
	now, key := c.run.Now(), healKey(node, set)
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, at := range c.heals {
		if now.Sub(at) >= healAgain {
			delete(c.heals, k)
		}
	}
	if _, known := c.heals[key]; known || len(c.heals) == healsMax {
		return false
	}
	if c.heals == nil {
		c.heals = map[string]time.Time{}
	}
	c.heals[key] = now
	return true
}

// healed has a set of a replica healed again when damage is met again.
func (c *Coordinator) healed(node string, set []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.heals, healKey(node, set))
}

func healKey(node string, set []byte) string { return fmt.Sprintf("%q %q", node, set) }

// firstDots returns some of the dots of a clock, at most so many.
func firstDots(all *clock.Clock, n int) *clock.Clock {
	if all.Len() <= uint64(n) {
		return all
	}
	some := &clock.Clock{}
	for run := range all.Runs() {
		room := uint64(n) - some.Len()
		if room == 0 {
			break
		}
		some.AddRange(run.Actor, run.First, min(run.Last, run.First+room-1))
	}
	return some
}
