package model

import (
	"bigset/convergence"
)

// progress of a copy from one source, durable with what it has brought. It is never changed in place.
type progress struct {
	source  uint8 // the source's actor: its incarnation
	after   string
	begun   bool
	clock   dots // the source's, of the first chunk
	dead    dots // the source's, of any chunk
	arrived dots // the dots whose keys came, with Track
}

// copying is one replica's copy of another.
type copying struct {
	from, to *replica
	resumed  bool
}

// CopyFrom implements convergence.Copier.
func (r *replica) CopyFrom(src convergence.Replica) (c convergence.Copy, resumed bool, err error) {
	from := src.(*replica)
	if from.joining {
		return nil, false, convergence.ErrNotReady
	}
	old := r.copies[from.env.ID]
	if old != nil && r.env.Rand.IntN(4) == 0 {
		r.restart(from)
	}
	p := r.copies[from.env.ID]
	resumed = p != nil && p.begun
	return &copying{from, r, resumed}, resumed, nil
}

// restart forgets a copy's progress, but not what has come.
func (r *replica) restart(from *replica) {
	old := r.copies[from.env.ID]
	r.copies[from.env.ID] = nil
	if r.bug == "copy-tracker-kept" && old != nil {
		r.copies[from.env.ID] = &progress{source: old.source, arrived: old.arrived}
	}
}

// Step implements convergence.Copy: a short read of the source, while both are written.
func (c *copying) Step() (done bool, err error) {
	id := c.from.env.ID
	if c.from.joining {
		return false, convergence.ErrNotReady
	}
	if p := c.to.copies[id]; p != nil && p.begun && p.source != c.from.actor && c.to.bug != "copy-resume-other-incarnation" {
		c.to.restart(c.from)
	}
	p := progress{}
	if old := c.to.copies[id]; old != nil {
		p = *old
	}
	if !p.begun {
		p.begun, p.source, p.clock, c.resumed = true, c.from.actor, c.from.seen, false
		if c.to.bug == "copy-first-tombstone" {
			p.dead = c.from.dead
		}
		if c.to.bug == "copy-clock-first" {
			c.to.seen.union(&c.from.seen)
		}
	}
	if c.resumed && c.to.bug == "copy-resume-new-clock" {
		p.clock = c.from.seen
	}
	c.resumed = false
	end := c.chunk(&p)
	if c.to.bug != "copy-first-tombstone" {
		p.dead.union(&c.from.dead)
	}
	c.to.copies[id] = &p
	if end {
		done = c.close(&p)
	}
	c.to.commit()
	return done, nil
}

// chunk takes the keys of the next elements. It reports whether they were the last.
func (c *copying) chunk(p *progress) (end bool) {
	left := 1 + c.to.env.Rand.IntN(2)
	last := ""
	for _, k := range c.from.keys {
		if k.elem <= p.after || c.from.dead.has(k.dot) && c.to.bug != "copy-unfiltered" {
			continue
		}
		if k.elem != last {
			if left--; left < 0 {
				p.after = last
				return false
			}
			last = k.elem
		}
		c.to.put(k, &c.to.seen)
		p.arrived.add(k.dot)
	}
	p.after = last
	return true
}

// close ends a copy. What its source has removed becomes dead here. With Facts nothing is claimed: the source's first clock only
// checks that everything has come.
func (c *copying) close(p *progress) (done bool) {
	id := c.from.env.ID
	switch c.to.o.Copy {
	case Facts:
		c.to.takeUnresolved(c.from.unresolved)
		c.to.kill(&p.dead)
		c.to.settle()
		if !p.clock.within(&c.to.seen) {
			c.to.copies[id] = nil
			return false
		}
	case Claim:
		if c.to.bug == "copy-last-clock" {
			p.clock = c.from.seen
		}
		c.to.seen.union(&p.clock)
		c.to.kill(&p.dead)
	case Track:
		p.clock.minus(&p.arrived)
		c.to.kill(&p.clock)
	}
	c.to.copies[id] = nil
	c.to.filled |= 1 << id
	if c.to.filled == 1<<c.to.env.Replicas-1 {
		c.to.joining = false
	}
	return true
}

// Cut implements convergence.Copy. The progress stays, for a later copy to continue.
func (c *copying) Cut() error {
	if c.to.bug == "copy-cut-is-complete" {
		if old := c.to.copies[c.from.env.ID]; old != nil {
			p := *old
			c.close(&p)
			c.to.commit()
		}
	}
	return nil
}
