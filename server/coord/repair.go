package coord

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/readcore"
	"bigset/server/peer"
)

// repair is what one replica has missed of a set, as found by a read. It is sent in the background, and checked against the replica's own
// state when it is applied. What can't be sent is found again by the next read or by anti-entropy.
type repair struct {
	set     []byte
	to      peer.Replica
	missing []fold.Element // keys with their dots that it has not seen
	dead    *clock.Clock   // dots that are dead elsewhere; nil means none
	suspect []suspicion
	lost    *clock.Clock // dots whose keys it has lost: see Heal; nil means none
}

// suspicion are dots that a witness has seen and does not show. They are dead if the witness says so.
type suspicion struct {
	witness peer.Replica
	dots    *clock.Clock
}

// suspects adds dots to those of a witness.
func (r *repair) suspects(witness peer.Replica, dots []clock.Dot) {
	i := slices.IndexFunc(r.suspect, func(s suspicion) bool { return s.witness == witness })
	if i < 0 {
		i = len(r.suspect)
		r.suspect = append(r.suspect, suspicion{witness, &clock.Clock{}})
	}
	for _, d := range dots {
		r.suspect[i].dots.Add(d)
	}
}

// repair sends what the read found missing, as far as one read may.
func (g *gathering) repair(lacking []readcore.Lack) {
	for _, l := range lacking {
		r := &repair{set: g.req.Set, to: g.streams[l.Stream].rep}
		for _, s := range l.Suspects {
			r.suspects(g.streams[s.Witness].rep, s.Element.Dots)
		}
		n := len(l.Missing) + len(l.Suspects)
		if g.repaired += n; g.repaired > g.c.opt.RepairsMax {
			g.c.opt.Events(Event{Kind: EventRepairLeft, Node: r.to.Member().Node, Set: r.set, Count: n})
			continue
		}
		r.missing = l.Missing
		g.c.mend(r)
	}
}

// mends are the repairs found by a lookup, one for each replica.
type mends struct {
	c   *Coordinator
	set []byte
	all []*repair
}

// of returns the repair of a replica.
func (m *mends) of(to peer.Replica) *repair {
	for _, r := range m.all {
		if r.to == to {
			return r
		}
	}
	r := &repair{set: m.set, to: to, dead: &clock.Clock{}, lost: &clock.Clock{}}
	m.all = append(m.all, r)
	return r
}

// add adds what was found for one element.
func (m *mends) add(element []byte, asked []peer.Replica, repairs []readcore.Repair) {
	for _, r := range repairs {
		to := asked[r.Replica]
		repair := m.of(to)
		repair.lost.Union(clock.Of(r.Lost...))
		if len(r.Missing) > 0 {
			repair.missing = append(repair.missing, fold.Element{Name: bytes.Clone(element), Dots: r.Missing})
		}
		repair.dead.Union(clock.Of(r.Dead...))
	}
}

// send sends the repairs, as far as one request may.
func (m *mends) send() {
	for _, r := range m.all {
		if !r.lost.Empty() {
			m.c.damaged(m.set, r.to, r.lost)
		}
		if n := len(r.missing); n > m.c.opt.RepairsMax {
			m.c.opt.Events(Event{Kind: EventRepairLeft, Node: r.to.Member().Node, Set: m.set, Count: n})
		} else if n > 0 || !r.dead.Empty() {
			m.c.mend(r)
		}
	}
}

// mend sends a repair in the background, if there is room.
func (c *Coordinator) mend(r *repair) {
	size := int64(r.dead.HeapBytes())
	for i := range r.missing {
		size += int64(len(r.missing[i].Name) + dotBytes*len(r.missing[i].Dots))
	}
	e := Event{Kind: EventRepaired, Node: r.to.Member().Node, Set: r.set}
	if err := c.take(e.Node, size); err != nil {
		e.Kind, e.Err = EventRepairLeft, err
		c.opt.Events(e)
		return
	}
	c.run.Go(func() {
		defer c.give(e.Node, size)
		ctx, cancel := Deadline(c.life, c.run, c.opt.SendTimeout)
		defer cancel()
		f := bigset.Facts{Set: r.set, Keys: r.missing, Dead: r.dead}
		for _, s := range r.suspect {
			dead, err := c.deaths(ctx, r.set, s.witness, s.dots)
			if err != nil {
				e.Err = err
			}
			if f.Dead == nil {
				f.Dead = &clock.Clock{}
			}
			f.Dead.Union(dead)
		}
		if !f.Empty() {
			done, _, err := r.to.ApplyFacts(ctx, f, bigset.NoSync)
			if e.Count = int(done.Keys + done.Dead); err != nil {
				e.Err = err
			}
		}
		if e.Err != nil {
			e.Kind = EventRepairLeft
		}
		c.opt.Events(e)
	})
}

// deaths asks a witness which dots are dead, of those that it has seen and does not show. If it says nothing about a dot, it has lost the
// dot's key: that is damage, and proves nothing about the dot.
func (c *Coordinator) deaths(ctx context.Context, set []byte, witness peer.Replica, dots *clock.Clock) (*clock.Clock, error) {
	dead := &clock.Clock{}
	for f, err := range witness.Locate(ctx, set, dots) {
		if err != nil {
			return dead, fmt.Errorf("%s: %w", witness.Member().Node, err)
		}
		dead.Union(f.Dead)
		for i := range f.Keys { // the witness does show these
			dots = dots.Clone()
			dots.Subtract(clock.Of(f.Keys[i].Dots...))
		}
	}
	lost := dots.Clone()
	if lost.Subtract(dead); !lost.Empty() {
		c.damaged(set, witness, lost)
	}
	return dead, nil
}
