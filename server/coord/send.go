package coord

import (
	"context"
	"errors"

	"bigset"
	"bigset/server/peer"
)

// delivery is something to give to a replica, now or, as a hint, later.
type delivery struct {
	node string       // the replica's
	name []byte       // of the set or the filter
	what peer.Message // the message of the hint; nil means no hint: it is left to anti-entropy
	size int64        // approximate size in bytes
	give func(context.Context) error
	// send does what give does without waiting: see peer.DeltaSender. It may be nil.
	send func(ctx context.Context, done func(error)) bool
}

// deltaTo returns the delivery of a delta to a replica of its set.
func deltaTo(rep peer.Replica, d bigset.Delta, durability bigset.Durability) delivery {
	to := delivery{node: rep.Member().Node, name: d.Set, what: peer.Delta(d), size: sizeOf(&d), give: func(ctx context.Context) error {
		_, err := rep.Apply(ctx, d, durability)
		return err
	}}
	if rep, ok := rep.(peer.DeltaSender); ok {
		to.send = func(ctx context.Context, done func(error)) bool { return rep.SendDelta(ctx, d, durability, done) }
	}
	return to
}

// marksTo returns the delivery of marks to a replica of their slice. It reports which keys were new there before give returns.
func marksTo(rep peer.SliceReplica, m bigset.Marks, report func(added []bool)) delivery {
	size := int64(len(m.Name) + layerBytes*len(m.Layers) + markBytes*len(m.Marks))
	return delivery{node: rep.Member().Node, name: m.Name, what: peer.Marks(m), size: size, give: func(ctx context.Context) error {
		added, _, err := rep.ApplyMarks(ctx, m)
		if err == nil {
			report(added)
		}
		return err
	}}
}

// send gives a delivery to a replica in the background, and reports the outcome. If it did not reach the replica, or the outcome is
// unknown, a hint is kept. If too much is in progress to the replica, send returns a function that keeps the hint. The caller calls it
// after sending to the others, because it waits for the disk.
func (c *Coordinator) send(from peer.Member, d delivery, answered func(error)) (late func()) {
	if err := c.take(d.node, d.size); err != nil {
		return func() {
			c.missed(from, &d, err)
			answered(err)
		}
	}
	c.sendTaken(from, d, answered)
	return nil
}

// sendTaken is send of a delivery for which room was taken.
func (c *Coordinator) sendTaken(from peer.Member, d delivery, answered func(error)) {
	if c.sendNow(from, d, answered) {
		return
	}
	c.run.Go(func() {
		defer c.give(d.node, d.size)
		ctx, cancel := Deadline(c.life, c.run, c.opt.SendTimeout)
		defer cancel()
		c.gave(from, &d, d.give(ctx), answered)
	})
}

// gave reports the outcome, after keeping a hint of what a replica has not acknowledged.
func (c *Coordinator) gave(from peer.Member, d *delivery, err error, answered func(error)) {
	if err != nil {
		c.missed(from, d, err)
	}
	answered(err)
}

// sendNow is sendTaken without a goroutine that waits for the answer, so that what one group of writers sends is on its way before another
// goroutine gets the processor. It reports false if that is not possible.
func (c *Coordinator) sendNow(from peer.Member, d delivery, answered func(error)) bool {
	if _, real := c.run.(Goroutines); !real || d.send == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(c.life, c.opt.SendTimeout)
	ended := func(err error) {
		defer c.give(d.node, d.size)
		defer cancel()
		c.gave(from, &d, err, answered)
	}
	sent := d.send(ctx, func(err error) {
		if err == nil {
			ended(nil)
			return
		}
		go ended(err) // a hint waits for the disk
	})
	if !sent {
		cancel()
	}
	return sent
}

// lateSends are the functions that send has returned for some replicas.
type lateSends []func()

func (l *lateSends) add(late func()) {
	if late != nil {
		*l = append(*l, late)
	}
}

func (l lateSends) do() {
	for _, late := range l {
		late()
	}
}

// missed handles what a replica has not acknowledged.
func (c *Coordinator) missed(from peer.Member, d *delivery, cause error) {
	c.missedAll(from, d.node, d.name, []lostMessage{{d.what, cause}})
}

// lostMessage is a message that a replica has not acknowledged, and why. If it is nil, no hint can be made of it.
type lostMessage struct {
	what  peer.Message
	cause error
}

// missedAll is missed for several messages to one node about one set or filter. Their hints share a sync.
func (c *Coordinator) missedAll(from peer.Member, node string, name []byte, all []lostMessage) {
	var hints []peer.Message
	for _, m := range all {
		e := Event{Kind: EventNotSent, Node: node, Set: name, Err: m.cause}
		if peer.Refused(m.cause) {
			e.Kind = EventRefused
		} else if m.what != nil {
			hints = append(hints, m.what)
		}
		c.opt.Events(e)
	}
	if c.opt.Hints == nil || len(hints) == 0 {
		return
	}
	for _, err := range c.opt.Hints.AddAll(node, from, hints) {
		if err == nil {
			continue
		}
		e := Event{Kind: EventHintFailed, Node: node, Set: name, Err: err}
		if errors.Is(err, ErrHintsFull) {
			e.Kind = EventHintOverflow
		}
		c.opt.Events(e)
	}
}

// dotBytes is the approximate size of a dot of a context in a frame, itemBytes that of an item without its element, markBytes that of a
// mark, and layerBytes that of a layer.
const (
	dotBytes   = 8
	itemBytes  = 8
	markBytes  = 34
	layerBytes = 48
)

// sizeOf returns the approximate size of a delta.
func sizeOf(d *bigset.Delta) int64 {
	n := len(d.Set) + d.Clear.HeapBytes() + itemBytes*len(d.Items)
	for i := range d.Items {
		n += len(d.Items[i].Element) + dotBytes*len(d.Items[i].Context)
	}
	return int64(n)
}
