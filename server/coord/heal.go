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
	// healsMax is how many sets of replicas may be in healing, or have failed to heal recently.
	healsMax = 64
	// healAgain is how long a set at a replica is left alone after some of it could not be healed, since every read meets that damage
	// again.
	healAgain = time.Minute
)

// Heal puts back keys that a replica has lost: dots of a set that it has seen, that are not dead there, and that have no key. It asks other
// replicas for them, one after the other, until each dot is accounted for. A dot that one of them knows to be dead becomes dead. A dot that
// none of them knows is left as it is: nothing follows from absence. The clock holds the dots that are left. An error means that a replica
// could not be asked, or could not do its part.
//
// If the replica can't read the data around such a key, Heal asks for everything that it has lost of the set, and puts it back at once.
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

// healHoles fills the stretches of a set that a replica can't read: it asks other replicas for everything that the replica has lost. A dot
// that none of them knows is left, and so is the stretch that it may be in.
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

// replicaError is an error with the replica at which it occurred.
type replicaError struct {
	at  peer.Replica
	err error
}

func (e *replicaError) Error() string { return fmt.Sprintf("%s: %v", e.at.Member().Node, e.err) }
func (e *replicaError) Unwrap() error { return e.err }

// unreadableAt reports whether an error occurred because a replica could not read its data.
func unreadableAt(err error, at peer.Replica) bool {
	var e *replicaError
	return errors.As(err, &e) && e.at == at && errors.Is(e.err, bigset.ErrCorrupt)
}

// healFrom takes what one replica knows, and removes those dots from left.
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

// damaged reports dots that a replica has lost, and heals them in the background, if there is room.
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

// mayHeal reports whether a set of a replica may be healed now, and records that it is. At most one healing of it is in progress.
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

// healed allows a set of a replica to be healed again when damage is met again.
func (c *Coordinator) healed(node string, set []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.heals, healKey(node, set))
}

func healKey(node string, set []byte) string { return fmt.Sprintf("%q %q", node, set) }

// firstDots returns at most n of the dots of a clock.
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
