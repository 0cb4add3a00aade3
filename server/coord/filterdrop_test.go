package coord_test

import (
	"errors"
	"strings"
	"testing"

	"bigset"
	"bigset/internal/testkit"
	"bigset/server/coord"
	"bigset/server/peer"
)

func TestDropQuorums(t *testing.T) {
	for _, tt := range []struct {
		name    string
		slices  uint32
		w       int
		down    []int
		unknown string
	}{
		{"all up", 8, 2, nil, ""},
		{"one down", 1, 2, []int{1}, ""},
		{"two down", 1, 2, []int{0, 2}, "drop of 1 of 1 slices"},
		{"one down of four", 8, 2, []int{3}, ""},
		{"one down of four, w 3", 8, 3, []int{3}, "drop of 6 of 8 slices"}, // but not of those whose preflist is 0 1 2
		{"two down of four", 8, 2, []int{0, 1}, "drop of 4 of 8 slices"},
		{"two down of four, w 1", 8, 1, []int{0, 1}, ""},
	} {
		c := newFilterCluster(t, newSched(1), 4)
		co := c.coordinator(coord.Options{})
		f := filterOf(tt.slices, 1)
		c.s.run(t, minute, func() {
			for _, i := range tt.down {
				c.links[i].down = true
			}
			err := co.DropFilter(ctx, coord.FilterDrop{Filter: f, Quorum: coord.Quorum{W: tt.w}})
			var u *coord.UnknownError
			if (err != nil) != (tt.unknown != "") || err != nil && (!strings.Contains(err.Error(), tt.unknown) || !errors.As(err, &u) || u.Acked >= u.W) {
				t.Errorf("%s: %v", tt.name, err)
			}
		})
		for i, l := range c.links {
			if l.calls > 1 || tt.slices == 8 && l.calls == 0 {
				t.Errorf("%s: node %d was asked %d times", tt.name, i, l.calls)
			}
		}
	}
}

// TestDropLateMarks: marks that are still under way when a filter is dropped are refused, and a filter that is made again has nothing of it.
func TestDropLateMarks(t *testing.T) {
	c := newFilterCluster(t, newSched(2), 3)
	co := c.coordinator(coord.Options{Hints: c.newHints(testkit.NewDisk())})
	f, remade, dropped := filterOf(2, 1), filterOf(2, 2), false
	c.links[2].apply = func() { c.s.Yield(func() bool { return dropped }) }
	c.s.run(t, minute, func() {
		if _, err := co.MarkFilter(ctx, keysOf(f, "x", "y", "z")); err != nil {
			t.Fatal(err)
		}
		if err := co.DropFilter(ctx, coord.FilterDrop{Filter: f}); err != nil {
			t.Fatal(err)
		}
		dropped = true
		_, checked := co.CheckFilter(ctx, keysOf(f, "x", "y", "z"))
		_, marked := co.MarkFilter(ctx, keysOf(f, "x", "y", "z"))
		for _, err := range []error{checked, marked} {
			if !errors.Is(err, bigset.ErrNoFilter) || errors.Is(err, coord.ErrUnknown) || errors.Is(err, coord.ErrNoQuorum) {
				t.Errorf("dropped: %v", err)
			}
		}
		if added, err := co.MarkFilter(ctx, keysOf(remade, "x")); err != nil || !added[0] {
			t.Errorf("made again: %v, %v", added, err)
		}
		if present, err := co.CheckFilter(ctx, keysOf(remade, "x", "y", "z")); err != nil || !present[0] || present[1] || present[2] {
			t.Errorf("made again: %v, %v", present, err)
		}
		_, err := co.CheckFilter(ctx, keysOf(f, "x"))
		if !errors.Is(err, bigset.ErrNoFilter) {
			t.Errorf("the old one: %v", err)
		}
		if err := co.DropFilter(ctx, coord.FilterDrop{Filter: f}); err != nil { // again, and late: not of the new one
			t.Error(err)
		}
		if present, err := co.CheckFilter(ctx, keysOf(remade, "x")); err != nil || !present[0] {
			t.Errorf("made again: %v, %v", present, err)
		}
	})
	if n := c.saw(coord.EventRefused); n == 0 || c.saw(coord.EventHintReplayed) > 0 || c.saw(coord.EventNotSent) > 0 {
		t.Errorf("%v", c.events)
	}
}

// TestDropMissed: a replica that has missed a drop takes marks, which the others refuse; it gets no hint of the drop.
func TestDropMissed(t *testing.T) {
	c := newFilterCluster(t, newSched(3), 3)
	h := c.newHints(testkit.NewDisk())
	co := c.coordinator(coord.Options{Hints: h, HintInterval: -1})
	f := filterOf(1, 1)
	c.s.run(t, minute, func() {
		if _, err := co.MarkFilter(ctx, keysOf(f, "x")); err != nil {
			t.Fatal(err)
		}
		c.links[0].down = true
		if err := co.DropFilter(ctx, coord.FilterDrop{Filter: f}); err != nil {
			t.Fatal(err)
		}
		c.links[0].down = false
		_, err := co.MarkFilter(ctx, keysOf(f, "y"))
		if !errors.Is(err, bigset.ErrNoFilter) || errors.Is(err, coord.ErrUnknown) || len(c.links[0].minted) != 2 {
			t.Errorf("%v", err)
		}
		for _, q := range []coord.Quorum{{}, {R: 3}} {
			r := keysOf(f, "x")
			r.Quorum = q
			if present, err := co.CheckFilter(ctx, r); !errors.Is(err, bigset.ErrNoFilter) {
				t.Errorf("%v, %v", present, err)
			}
		}
		c.links[1].SetState(peer.Joining) // it answers no check, and the other one still says that the filter is gone
		if present, err := co.CheckFilter(ctx, keysOf(f, "x")); !errors.Is(err, bigset.ErrNoFilter) {
			t.Errorf("%v, %v", present, err)
		}
	})
	if nodes := h.Nodes(); len(nodes) > 0 || c.saw(coord.EventNotSent) != 1 {
		t.Errorf("hints for %v; %v", nodes, c.events)
	}
}

// TestDropSlow: a replica that hangs holds up no drop, and has it when it comes back, after others have made the filter again.
func TestDropSlow(t *testing.T) {
	c := newFilterCluster(t, newSched(4), 3)
	co := c.coordinator(coord.Options{})
	f, remade := filterOf(1, 1), filterOf(1, 2)
	c.s.run(t, 2*minute, func() {
		if _, err := co.MarkFilter(ctx, keysOf(f, "x")); err != nil {
			t.Fatal(err)
		}
		begin := c.s.Now()
		c.links[0].fault = func() string { return "late" }
		if err := co.DropFilter(ctx, coord.FilterDrop{Filter: f}); err != nil || c.s.Now() != begin {
			t.Errorf("%v after %v", err, c.s.Now().Sub(begin))
		}
		c.links[0].fault = func() string { return "" }
		if added, err := co.MarkFilter(ctx, keysOf(remade, "y")); err != nil || !added[0] {
			t.Errorf("%v, %v", added, err)
		}
	})
	if n := c.holds(remade, "y"); n != 3 || c.holds(remade, "x") != 0 {
		t.Errorf("%d have it, %d have what was dropped", n, c.holds(remade, "x"))
	}
}
