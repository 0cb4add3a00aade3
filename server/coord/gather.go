package coord

import (
	"sync"

	"bigset"
	"bigset/server/peer"
)

// gathered are the deltas that wait for others to the same replica, because no quorum needs its answer: see Options.GatherTime. Room was taken for each.
type gathered struct {
	mu   sync.Mutex
	open map[gatherKey]*bundle // with room for more; nil if there is none
	all  []*bundle             // in the order in which they leave
}

// gatherKey is what the deltas of a frame have in common.
type gatherKey struct {
	to         peer.Replica
	from       peer.Member
	set        string
	durability bigset.Durability
}

// gatherBytesMax is the approximate size of gathered deltas in one frame.
const gatherBytesMax = 1 << 20

// gather keeps a delta for a while, so that others to the same replica leave with it. It reports false where the delta is to be sent at once.
func (c *Coordinator) gather(one bundled, from peer.Member, to peer.Replica, d bigset.Delta) bool {
	_, many := to.(peer.ManyDeltas)
	if c.opt.GatherTime <= 0 || one.needed || !many || c.take(to.Member().Node, one.size) != nil {
		return false
	}
	k := gatherKey{to, from, string(d.Set), one.o.durability()}
	g := &c.gathered
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = map[gatherKey]*bundle{}
		c.run.After(c.opt.GatherTime, c.sendGathered)
	}
	b := g.open[k]
	if b == nil || !b.fits(&d) || b.bytes+one.size > gatherBytesMax {
		b = &bundle{to: to, from: from, durability: k.durability}
		g.open[k], g.all = b, append(g.all, b)
	}
	b.add(d, one)
	return true
}

// sendGathered sends all that was gathered.
func (c *Coordinator) sendGathered() {
	c.gathered.mu.Lock()
	all := c.gathered.all
	c.gathered.open, c.gathered.all = nil, nil
	c.gathered.mu.Unlock()
	for _, b := range all {
		c.sendTakenBundle(b)
	}
}

// sendTakenBundle sends deltas for which room was taken.
func (c *Coordinator) sendTakenBundle(b *bundle) {
	if len(b.sends) > 1 {
		c.sendBundle(b)
		return
	}
	d, answered := b.alone(0)
	c.sendTaken(b.from, d, answered)
}
