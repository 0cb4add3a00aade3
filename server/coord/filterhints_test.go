package coord_test

import (
	"errors"
	"testing"

	"bigset"
	"bigset/bloomslice"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

// TestMarkHints: marks that a replica has missed reach it from the hints, after a crash of the coordinator too, beside deltas.
func TestMarkHints(t *testing.T) {
	c := newFilterCluster(t, newSched(7), 3)
	disk := testkit.NewDisk()
	co := c.coordinator(coord.Options{Hints: c.newHints(disk), HintInterval: -1})
	f := filterOf(2, 1)
	c.s.run(t, minute, func() {
		c.links[2].down = true
		if _, err := co.MarkFilter(ctx, keysOf(f, "a", "b", "c", "d", "e", "f")); err != nil {
			t.Fatal(err)
		}
	})
	if n := c.saw(coord.EventNotSent); n != 2 {
		t.Fatalf("%d events of marks that were not sent", n)
	}
	h := c.newHints(disk.CrashClone(0, 1))
	if err := h.Add("node2", sender, hinted(1, "x")); err != nil {
		t.Fatal(err)
	}
	co = c.coordinator(coord.Options{Hints: h, HintInterval: -1})
	c.s.run(t, minute, func() {
		if n, err := co.Replay(ctx, "node2"); n != 0 || !errors.Is(err, peer.ErrUnavailable) {
			t.Errorf("it is still down: %d, %v", n, err)
		}
		c.links[2].down = false
		if n, err := co.Replay(ctx, "node2"); n != 2 || err != nil {
			t.Errorf("%d replayed, %v", n, err)
		}
	})
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		if !c.links[2].has(t, f, key) {
			t.Errorf("%q has not arrived", key)
		}
	}
	if n, _ := h.Pending("node2"); n != 1 { // the delta, for which there is no place
		t.Errorf("%d hints are left", n)
	}
}

// TestMarkUntold: marks that no coordinator knows of, or only from a replica that was Joining by then, are unknown to the caller and
// become no hint. Anti-entropy brings them.
func TestMarkUntold(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(*sliceLink){
		"reset":   func(l *sliceLink) { l.fault = reset },
		"mute":    func(l *sliceLink) { l.fault = mute },
		"joining": func(l *sliceLink) { l.after = func() { l.SetState(peer.Joining) } },
	} {
		c := newFilterCluster(t, newSched(16), 3)
		h := c.newHints(testkit.NewDisk())
		co := c.coordinator(coord.Options{Hints: h, HintInterval: -1})
		f := filterOf(1, 1)
		spoil(c.links[0])
		c.links[1].down, c.links[2].down = true, true
		c.s.run(t, minute, func() {
			if added, err := co.MarkFilter(ctx, keysOf(f, "x")); !errors.Is(err, coord.ErrUnknown) {
				t.Errorf("%s: %v, %v", what, added, err)
			}
		})
		c.links[0].SetState(peer.Normal)
		if nodes, n := h.Nodes(), c.holds(f, "x"); len(nodes) != 0 || n != 1 || !c.links[0].has(t, f, "x") {
			t.Errorf("%s: hints for %v; %d replicas have the key", what, nodes, n)
		}
		for _, l := range c.links[1:] {
			if _, err := coord.ExchangeSlices(ctx, c.links[0].Replica, l.Replica, 0, keyscheme.SlotMax); err != nil || !l.has(t, f, "x") {
				t.Errorf("%s: %s does not have the key after an exchange: %v", what, l.node, err)
			}
		}
	}
}

// TestMarkHintOfDropped: marks of a filter that was dropped in between are refused, and their hint goes.
func TestMarkHintOfDropped(t *testing.T) {
	c := newFilterCluster(t, newSched(8), 3)
	h := c.newHints(testkit.NewDisk())
	co := c.coordinator(coord.Options{Hints: h, HintInterval: -1})
	f := filterOf(1, 1)
	c.s.run(t, minute, func() {
		c.links[2].down = true
		if _, err := co.MarkFilter(ctx, keysOf(f, "x")); err != nil {
			t.Fatal(err)
		}
		c.links[2].down = false
		if err := co.DropFilter(ctx, coord.FilterDrop{Filter: f, Quorum: coord.Quorum{W: 3}}); err != nil {
			t.Fatal(err)
		}
		if n, err := co.Replay(ctx, "node2"); n != 0 || err != nil {
			t.Errorf("%d replayed, %v", n, err)
		}
	})
	if n, _ := h.Pending("node2"); n != 0 || c.saw(coord.EventRefused) != 1 {
		t.Errorf("%d hints are left; %v", n, c.events)
	}
}

// hashIn returns a hash that belongs to a slice.
func hashIn(slice, slices uint32) (h bloomslice.Hash) {
	for h.Slice(slices) != slice {
		h[0]++
	}
	return h
}

// TestReplaySlices: a slice that a replica can't take holds up no other of its filter; with several such slices it is left alone.
func TestReplaySlices(t *testing.T) {
	h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{})
	f := filterOf(8, 1)
	for i, slice := range []uint32{1, 0, 1, 0, 2, 3, 2, 0, 4, 0} {
		shape, err := f.Options.Shape(0)
		if err != nil {
			t.Fatal(err)
		}
		m := peer.Marks{SliceSpec: bigset.SliceSpec{Name: f.Name, Slice: slice, Generation: 1, Options: f.Options},
			Layers: []bloomslice.Layer{{ID: bloomslice.LayerID{Owner: bloomslice.Seat(1).Owner()}, Shape: shape, Count: uint64(i + 1)}},
			Marks:  []bigset.Mark{{Hash: hashIn(slice, f.Options.Slices)}}}
		if err := h.Add("node0", sender, m); err != nil {
			t.Fatal(err)
		}
	}
	s := newSched(1)
	c := newFilterCluster(t, s, 2)
	c.links[1].down = true
	broken, asked := uint32(1), []uint32{}
	to := coord.Targets{Slice: func(_ []byte, slice uint32) peer.SliceReplica {
		asked = append(asked, slice)
		if slice >= broken {
			return c.links[1]
		}
		return c.links[0]
	}}
	s.run(t, minute, func() {
		sent, err := h.Replay(ctx, "node0", to)
		if n, _ := h.Pending("node0"); sent != 3 || n != 7 || c.links[0].calls != 3 || c.links[1].calls != 4 || len(asked) != 9 || !errors.Is(err, peer.ErrUnavailable) {
			t.Errorf("%d sent, %d pending, %d and %d calls, asked of %v, %v", sent, n, c.links[0].calls, c.links[1].calls, asked, err)
		}
		broken = 3
		sent, err = h.Replay(ctx, "node0", to)
		if n, _ := h.Pending("node0"); sent != 5 || n != 2 || err == nil {
			t.Errorf("%d sent, %d pending, %v", sent, n, err)
		}
	})
}
