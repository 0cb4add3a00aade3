package coord

import (
	"context"
	"errors"

	"bigset"
	"bigset/server/peer"
)

// bundles are the deltas of a group of writers that share a sync, by the replicas that they go to: each replica receives one frame. One goroutine uses it.
type bundles struct {
	c    *Coordinator
	list []*bundle
}

// bundle is what goes to one replica.
type bundle struct {
	to         peer.Replica
	from       peer.Member
	durability bigset.Durability
	deltas     []bigset.Delta
	sends      []bundled
	bytes      int64
	items      int
}

// bundled is one delta of a bundle.
type bundled struct {
	o      *setOperation
	size   int64
	needed bool // its quorum may need the answer of this replica
}

// answered reports the outcome of a delta.
func (b *bundle) answered(i int, err error) { b.sends[i].o.ack(b.to.Member().Node, err) }

// alone returns the delivery of a delta by itself.
func (b *bundle) alone(i int) (d delivery, answered func(error)) {
	return deltaTo(b.to, b.deltas[i], b.durability), func(err error) { b.answered(i, err) }
}

// bundle puts a delta into the bundle of its replica, which leaves when the group is complete. It reports false where the delta is to be sent by itself.
func (c *Coordinator) bundle(g *bigset.Group, one bundled, from peer.Member, to peer.Replica, d bigset.Delta) bool {
	if _, ok := to.(peer.ManyDeltas); g == nil || !ok {
		return false
	}
	if g.Value == nil {
		all := &bundles{c: c}
		g.Value, g.Done = all, all.send
	}
	all, ok := g.Value.(*bundles)
	if !ok || all.c != c {
		return false
	}
	all.of(to, from, one.o.durability(), &d).add(d, one)
	return true
}

// add adds a delta.
func (b *bundle) add(d bigset.Delta, one bundled) {
	b.deltas, b.sends, b.bytes, b.items = append(b.deltas, d), append(b.sends, one), b.bytes+one.size, b.items+len(d.Items)
}

// fits reports whether there is room for another delta.
func (b *bundle) fits(d *bigset.Delta) bool {
	return len(b.deltas) < peer.DeltasMax && b.items+len(d.Items) <= peer.DeltaItemsMax
}

// of returns the bundle with room for another delta.
func (all *bundles) of(to peer.Replica, from peer.Member, durability bigset.Durability, d *bigset.Delta) *bundle {
	for _, b := range all.list {
		if b.to == to && b.from == from && b.durability == durability && b.fits(d) {
			return b
		}
	}
	b := &bundle{to: to, from: from, durability: durability}
	all.list = append(all.list, b)
	return b
}

func (all *bundles) send() {
	for _, b := range all.list {
		if len(b.sends) == 1 && all.c.gather(b.sends[0], b.from, b.to, b.deltas[0]) {
			continue
		}
		if len(b.sends) > 1 && all.c.takeMany(b.to.Member().Node, len(b.sends), b.bytes) == nil {
			all.c.sendBundle(b)
			continue
		}
		all.c.sendEach(b)
	}
}

// sendEach sends deltas one by one. Those for which there is no room become hints, which share a sync. The goroutine of the first of these writes stores them, after its sync.
func (c *Coordinator) sendEach(b *bundle) {
	var lost []lostMessage
	var at []int
	for i := range b.sends {
		d, answered := b.alone(i)
		if err := c.take(d.node, d.size); err != nil {
			lost, at = append(lost, lostMessage{d.what, err}), append(at, i)
			continue
		}
		c.sendTaken(b.from, d, answered)
	}
	if len(lost) == 0 {
		return
	}
	b.sends[at[0]].o.late.add(func() {
		c.missedAll(b.from, b.to.Member().Node, b.deltas[0].Set, lost)
		for k, i := range at {
			b.answered(i, lost[k].cause)
		}
	})
}

// sendBundle sends deltas for which there is room.
func (c *Coordinator) sendBundle(b *bundle) {
	if c.sendBundleNow(b) {
		return
	}
	c.run.Go(func() {
		ctx, cancel := Deadline(c.life, c.run, c.opt.SendTimeout)
		defer cancel()
		each, _, err := b.to.(peer.ManyDeltas).ApplyMany(ctx, b.deltas, b.durability)
		c.bundleEnded(b, each, err)
	})
}

// sendBundleNow is sendBundle without a goroutine that waits for the answer. It reports false where that can't be had.
func (c *Coordinator) sendBundleNow(b *bundle) bool {
	to, ok := b.to.(peer.DeltasSender)
	if _, real := c.run.(Goroutines); !real || !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(c.life, c.opt.SendTimeout)
	sent := to.SendDeltas(ctx, b.deltas, b.durability, func(each []error, err error) {
		cancel()
		if each == nil && err == nil {
			c.gaveBundle(b, make([]error, len(b.deltas)))
			return
		}
		go c.bundleEnded(b, each, err) // a hint waits for the disk
	})
	if !sent {
		cancel()
	}
	return sent
}

// bundleEnded handles the outcome of a call. If the call did nothing, because of one of its deltas or because the replica takes no bundles, each delta is
// sent by itself, independent of the others.
func (c *Coordinator) bundleEnded(b *bundle, each []error, err error) {
	if errors.Is(err, peer.ErrOneByOne) || peer.Refused(err) {
		for i := range b.sends {
			d, answered := b.alone(i)
			c.sendTaken(b.from, d, answered)
		}
		return
	}
	c.gaveBundle(b, peer.Every(len(b.deltas), each, err))
}

// gaveBundle reports how each delta went: first those that the replica has acknowledged, then, after keeping hints of them, the others.
func (c *Coordinator) gaveBundle(b *bundle, each []error) {
	node := b.to.Member().Node
	defer c.giveMany(node, len(b.deltas), b.bytes)
	var lost []lostMessage
	for i, err := range each {
		if err == nil {
			b.answered(i, nil)
			continue
		}
		lost = append(lost, lostMessage{peer.Delta(b.deltas[i]), err})
	}
	if len(lost) == 0 {
		return
	}
	c.missedAll(b.from, node, b.deltas[0].Set, lost)
	for i, err := range each {
		if err != nil {
			b.answered(i, err)
		}
	}
}
