package coord_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bigset/bloomslice"
	"bigset/internal/testkit"
	"bigset/server/coord"
	"bigset/server/peer"
)

// sameOrder places all slices at all replicas, the first one first.
func (c *filterCluster) sameOrder([]byte, uint32) (all []peer.SliceReplica) {
	for _, l := range c.links {
		all = append(all, l)
	}
	return all
}

// TestFramesOfABatch: keys of many slices that the same nodes hold take one frame a node.
func TestFramesOfABatch(t *testing.T) {
	for name, place := range map[string]func(c *filterCluster) func([]byte, uint32) []peer.SliceReplica{
		"one order": func(c *filterCluster) func([]byte, uint32) []peer.SliceReplica { return c.sameOrder },
		"the others in any order": func(c *filterCluster) func([]byte, uint32) []peer.SliceReplica {
			return func(_ []byte, slice uint32) []peer.SliceReplica {
				return []peer.SliceReplica{c.links[0], c.links[1+slice%2], c.links[2-slice%2]}
			}
		},
	} {
		c := newFilterCluster(t, newSched(3), 3)
		co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(place(c))})
		f := filterOf(256, 1)
		f.Options.Capacity = 1 << 20
		var keys []string
		for i := range 1000 {
			keys = append(keys, fmt.Sprint("key ", i))
		}
		c.s.run(t, minute, func() {
			if added, err := co.MarkFilter(ctx, keysOf(f, keys...)); err != nil || slices.Contains(added, false) {
				t.Fatalf("%s: %v", name, err)
			}
		})
		for i, l := range c.links {
			if l.frames != 1 || l.calls != 1 {
				t.Errorf("%s: node %d was given %d frames of %d calls to mark 1,000 keys", name, i, l.frames, l.calls)
			}
		}
		c.s.run(t, minute, func() {
			if present, err := co.CheckFilter(ctx, keysOf(f, keys...)); err != nil || slices.Contains(present, false) {
				t.Fatalf("%s: %v", name, err)
			}
		})
		for i, l := range c.links {
			if l.frames > 2 || l.calls > 2 {
				t.Errorf("%s: node %d was given %d frames of %d calls to mark and check 1,000 keys", name, i, l.frames, l.calls)
			}
		}
	}
}

// TestGroupsUnderFaults: whatever replicas fail, or some slices at them, a key whose mark was acknowledged is found by every check that answers, one that no replica may have is at none,
// and a key that is missed becomes a hint.
func TestGroupsUnderFaults(t *testing.T) {
	partly, unknowns, hinted := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		tb := &cleaning{TB: t}
		defer tb.clean()
		c := newFilterCluster(tb, newSched(rapid.Uint64().Draw(rt, "seed")), 3)
		h := openHints(tb, newFolder(tb, testkit.NewDisk()), coord.HintOptions{})
		defer h.Close()
		co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder), Hints: h, HintInterval: -1, Timeout: 2 * time.Second, SendTimeout: time.Second})
		f := filterOf(32, 1)
		acked, never := map[string]bool{}, map[string]bool{}
		for round := range 3 {
			for _, l := range c.links {
				l.down = rapid.IntRange(0, 5).Draw(rt, "down") == 0
				l.joins = rapid.IntRange(0, 7).Draw(rt, "joins") == 0
				fault := rapid.SampledFrom([]string{"", "", "", "lost", "mute", "reset"}).Draw(rt, "fault")
				l.fault = func() string { return fault }
				bad := rapid.SampledFrom([]uint32{0, 0, 0xffffffff, 0x5, 0x00f0f0f0}).Draw(rt, "bad slices")
				l.spoil = func(slice uint32) bool { return bad>>slice&1 == 1 }
			}
			var keys []string
			for i := range rapid.IntRange(2, 60).Draw(rt, "keys") {
				keys = append(keys, fmt.Sprintf("key %d of %d", i, round))
			}
			c.s.run(tb, 10*minute, func() {
				_, err := co.MarkFilter(ctx, keysOf(f, keys...))
				var fe *coord.FilterError
				if err != nil && !errors.As(err, &fe) {
					rt.Fatalf("%v", err)
				}
				for i, key := range keys {
					if fe == nil || !slices.Contains(fe.Keys, i) {
						acked[key] = true
					} else if fe.Unknown == 0 {
						never[key] = true
					}
				}
				if fe != nil && len(fe.Keys) < len(keys) {
					partly++
				}
				if fe != nil && fe.Unknown > 0 {
					unknowns++
				}
				var all []string
				for key := range acked {
					all = append(all, key)
				}
				slices.Sort(all)
				present, err := co.CheckFilter(ctx, keysOf(f, all...))
				fe = nil
				if err != nil && !errors.As(err, &fe) {
					rt.Fatalf("%v", err)
				}
				for i, key := range all {
					if !present[i] && (fe == nil || !slices.Contains(fe.Keys, i)) {
						rt.Fatalf("%s was acknowledged, and is denied", key)
					}
				}
			})
			for i := range c.links {
				if n, _ := h.Pending(fmt.Sprint("node", i)); n > 0 {
					hinted++
				}
			}
		}
		for key := range never {
			sum := bloomslice.Sum([]byte(key))
			for i, l := range c.links {
				l.down = false
				if l.has(tb, f, key) && !acked[key] {
					rt.Fatalf("node %d has %s of slice %d, which nobody may have", i, key, sum.Slice(32))
				}
			}
		}
	})
	if partly == 0 || unknowns == 0 || hinted == 0 {
		t.Errorf("%d requests failed in part, %d were unknown, %d had hints: the test does not see what it is for", partly, unknowns, hinted)
	}
}

// TestSliceOfAGroupUnknown: what nobody knows of a slice among many stays unknown, also when nothing happens to it by itself.
func TestSliceOfAGroupUnknown(t *testing.T) {
	c := newFilterCluster(t, newSched(4), 2)
	co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(func([]byte, uint32) []peer.SliceReplica { return []peer.SliceReplica{c.links[0]} }), Quorum: coord.Quorum{N: 1, R: 1, W: 1}})
	f := filterOf(32, 1)
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprint("key ", i))
	}
	bad := bloomslice.Sum([]byte(keys[7]))
	c.links[0].spoil = func(slice uint32) bool {
		c.links[0].down = true // for what comes after this frame
		return slice == bad.Slice(32)
	}
	c.s.run(t, minute, func() {
		_, err := co.MarkFilter(ctx, keysOf(f, keys...))
		var fe *coord.FilterError
		if !errors.As(err, &fe) || !errors.Is(err, coord.ErrUnknown) || fe.Slices != 1 || fe.Unknown != len(fe.Keys) || !slices.Contains(fe.Keys, 7) {
			t.Errorf("%+v, %v", fe, err)
		}
	})
}

// TestGroupsMissed: what a replica has missed of many slices becomes a hint for each of them, and a joining one answers nothing about them.
func TestGroupsMissed(t *testing.T) {
	c := newFilterCluster(t, newSched(5), 3)
	h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{})
	defer h.Close()
	co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder), Hints: h, HintInterval: -1})
	f := filterOf(32, 1)
	var keys []string
	of := map[uint32]bool{}
	for i := range 100 {
		keys = append(keys, fmt.Sprint("key ", i))
		sum := bloomslice.Sum([]byte(keys[i]))
		of[sum.Slice(32)] = true
	}
	c.links[2].down = true
	c.s.run(t, minute, func() {
		if _, err := co.MarkFilter(ctx, keysOf(f, keys...)); err != nil {
			t.Error(err)
		}
	})
	if n, _ := h.Pending("node2"); n != len(of) {
		t.Errorf("%d hints for %d slices", n, len(of))
	}
	for _, l := range c.links {
		l.down, l.joins = false, true
	}
	c.s.run(t, minute, func() {
		var fe *coord.FilterError
		if _, err := co.CheckFilter(ctx, keysOf(f, keys...)); !errors.Is(err, peer.ErrJoining) || !errors.As(err, &fe) || len(fe.Keys) != 100 {
			t.Errorf("replicas that are joining answer: %v", err)
		}
		if _, err := co.MarkFilter(ctx, keysOf(f, keys...)); err == nil {
			t.Error("replicas that are joining decide")
		}
	})
}
