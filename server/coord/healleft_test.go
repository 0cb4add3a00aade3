package coord_test

import (
	"context"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/server/coord"
	"bigset/server/peer"
)

// TestHealNobodyHas: a dot that its only replica has lost, and that no other has seen, is reported as left, and is no remove.
func TestHealNobodyHas(t *testing.T) {
	s := newSched(1)
	c := newCluster(t, s, 3)
	a, err := c.links[0].store.Add(ctx, set, [][]byte{[]byte("a")}, bigset.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range c.links[1:] {
		if err := l.store.Replica().ApplyDelta(ctx, a.Delta, bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := c.links[0].store.Add(ctx, set, [][]byte{[]byte("b")}, bigset.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.links[0].loses("b")
	c.coordinator(coord.Options{Shares: func() []coord.Share { return c.chain()[:1] }})
	s.run(t, 90*time.Second, func() {})
	if c.saw(coord.EventDamage) != 1 || c.saw(coord.EventHealLeft) != 1 || c.saw(coord.EventHealed) > 0 {
		t.Errorf("%+v", c.events)
	}
	for i, l := range c.links {
		if st := l.state(); l.has("b") || !st.Dead.Empty() || st.Seen.Contains(b.Dots[0]) != (i == 0) {
			t.Errorf("%v: %v, Seen %v Dead %v", l.Member(), l.elements(), st.Seen, st.Dead)
		}
	}
}

// unhealable is a replica that can put nothing back: what is around it can't be read.
type unhealable struct{ *link }

func (u unhealable) Heal(_ context.Context, f bigset.Facts, _ []fold.Element) (bigset.HealResult, peer.Member, error) {
	return bigset.HealResult{Left: len(f.Keys)}, u.Member(), nil
}

// TestHealLeaves: what a replica could not put back is not healed.
func TestHealLeaves(t *testing.T) {
	s := newSched(1)
	c := newCluster(t, s, 3)
	co := c.coordinator(coord.Options{})
	s.run(t, minute, func() {
		if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add("a", "b"), Quorum: coord.Quorum{W: 3}}); err != nil {
			t.Fatal(err)
		}
	})
	lost := clock.Of(dotOf(c.links[0], "b"))
	c.links[1].loses("b")
	s.run(t, minute, func() {
		healed, left, err := coord.Heal(ctx, set, lost, unhealable{c.links[1]}, c.links[0], c.links[2])
		if healed != 0 || !left.Equal(lost) || err != nil {
			t.Errorf("%d healed, %v left, %v", healed, left, err)
		}
	})
}
