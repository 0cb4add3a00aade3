package coord_test

import (
	"fmt"
	"testing"
	"time"

	"bigset/keyscheme"
	"bigset/server/coord"
)

// cutIn returns the shares of node0 with each other node, cut into parts.
func (c *cluster) cutIn(parts int) (all []coord.Share) {
	for _, l := range c.links[1:] {
		first := keyscheme.Slot(0)
		for _, last := range keyscheme.SplitSlots(0, keyscheme.SlotMax, parts) {
			all = append(all, coord.Share{A: c.links[0], B: l, First: first, Last: last})
			first = last + 1
		}
	}
	return all
}

// TestRoundInTime: a round over many shares that are equal ends within its time, each share has one turn in it, and no more exchanges are
// under way at once than allowed.
func TestRoundInTime(t *testing.T) {
	for _, lanes := range []int{1, 4} {
		s := newSched(uint64(lanes))
		c := newCluster(t, s, 3)
		shares := c.cutIn(500)
		co := c.coordinator(coord.Options{Shares: func() []coord.Share { return shares }, RoundTime: 3 * time.Minute, Exchanges: lanes})
		s.run(t, 61*time.Second, func() {}) // the first wait is an interval
		if n := len(c.exchanges()); n < 1 || n > 20 || len(co.Compared()) > 0 {
			t.Fatalf("%d exchanges at once, compared %v", n, co.Compared())
		}
		s.run(t, 90*time.Second, func() {})
		if n := len(c.exchanges()); n < 450 || n > 550 || co.Compared()["node1"].IsZero() != (n < 500) || !co.Compared()["node2"].IsZero() {
			t.Errorf("%d exchanges in half a round, compared %v", n, co.Compared())
		}
		s.run(t, 95*time.Second, func() {})
		all := co.Compared()
		if n := len(c.exchanges()); n < 1000 || n > 1100 || len(all) != 2 || s.Now().Sub(all["node2"]) > 105*time.Second || s.Now().Sub(all["node2"]) < 85*time.Second {
			t.Errorf("%d exchanges in a round, compared %v, now %v", n, all, s.Now())
		}
		for _, e := range c.exchanges() {
			if e.Kind != coord.EventExchanged {
				t.Fatalf("%+v", e)
			}
		}
	}
}

// TestRoundAway: a node that is away is asked once in an interval, and the others have their round in time.
func TestRoundAway(t *testing.T) {
	s := newSched(1)
	c := newCluster(t, s, 3)
	shares := c.cutIn(100)
	co := c.coordinator(coord.Options{Shares: func() []coord.Share { return shares }, RoundTime: 2 * time.Minute, Exchanges: 2})
	c.links[1].down = true
	s.run(t, 4*time.Minute, func() {})
	failed := 0
	for _, e := range c.exchanges() {
		if e.Kind == coord.EventExchangeFailed {
			failed++
			if e.Peer != "node1" {
				t.Errorf("%+v", e)
			}
		}
	}
	if all := co.Compared(); failed < 2 || failed > 8 || len(all) != 1 || all["node2"].IsZero() {
		t.Errorf("%d failed, compared %v", failed, all)
	}
	c.links[1].down = false
	if s.run(t, 4*time.Minute, func() {}); len(co.Compared()) != 2 {
		t.Errorf("compared %v after it came back", co.Compared())
	}
}

// TestRoundPace: lanes have as many exchanges under way as allowed, also where each takes long, and none twice at once.
func TestRoundPace(t *testing.T) {
	s := newSched(1)
	c := newCluster(t, s, 3)
	under, most := map[string]int{}, 0
	for i := range c.links[1:] {
		l := c.links[i+1]
		l.after = func() {
			under[fmt.Sprint(i)]++
			total := 0
			for _, n := range under {
				total += n
			}
			most = max(most, total)
			s.Sleep(5 * time.Second)
			under[fmt.Sprint(i)]--
		}
	}
	shares := c.cutIn(100)
	c.coordinator(coord.Options{Shares: func() []coord.Share { return shares }, RoundTime: time.Minute, Exchanges: 3})
	s.run(t, 10*time.Minute, func() {})
	if n := len(c.exchanges()); most != 3 || n < 60 || n > 120 { // each lane: at least 5 s of exchange, and three times that of rest
		t.Errorf("%d exchanges, %d at once", n, most)
	}
}
