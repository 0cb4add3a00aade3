package coord_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bigset"
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

// TestOthersAreAskedLess: of keys that the replica in the coordinator's process has found no other is asked, and each slice is asked for all the same, for another may know that
// the filter was dropped.
func TestOthersAreAskedLess(t *testing.T) {
	c := newFilterCluster(t, newSched(4), 3)
	co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder), HedgeTime: time.Second})
	f := filterOf(64, 1)
	f.Options.Capacity = 1 << 20
	var keys, marked []string
	for i := range 600 {
		keys = append(keys, fmt.Sprint("key ", i))
		if i%3 > 0 {
			marked = append(marked, keys[i])
		}
	}
	c.s.run(t, minute, func() {
		if _, err := co.MarkFilter(ctx, keysOf(f, marked...)); err != nil {
			t.Fatal(err)
		}
	})
	c.links[0].near = true
	half := newSliceReplica(t, "node0", testkit.NewDisk())
	for i := 1; i < 600; i += 3 {
		h := bloomslice.Sum([]byte(keys[i]))
		spec := bigset.SliceSpec{Name: f.Name, Slice: h.Slice(64), Generation: f.Generation, Options: f.Options}
		if _, _, _, err := half.Mark(ctx, spec, []bloomslice.Hash{h}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		what  string
		first func()
		want  [3]int
	}{
		{"the first has them", func() {}, [3]int{0, 200, 0}},
		{"the first has half of them", func() { c.links[0].Replica = half }, [3]int{0, 400, 0}},
		{"the first is not sure", func() { c.links[0].spoil = func(slice uint32) bool { return slice == 7 } }, [3]int{600, 600, 0}},
	} {
		step.first()
		c.links[0].asked, c.links[1].asked, c.links[2].asked = 0, 0, 0
		c.s.run(t, minute, func() {
			present, err := co.CheckFilter(ctx, keysOf(f, keys...))
			if err != nil {
				t.Fatal(err)
			}
			for j, has := range present {
				if has != (j%3 > 0) {
					t.Errorf("%s: %s: %v", step.what, keys[j], has)
				}
			}
		})
		if got := [3]int{c.links[0].asked, c.links[1].asked, c.links[2].asked}; got != step.want {
			t.Errorf("%s: replicas were asked for %v keys, want %v", step.what, got, step.want)
		}
	}
	c.links[0].Replica, c.links[0].spoil = c.links[2].Replica, nil // which has them
	if _, err := c.links[1].Replica.DropGeneration(ctx, f.Name, f.Options.Slices, f.Generation); err != nil {
		t.Fatal(err)
	}
	c.s.run(t, minute, func() {
		if _, err := co.CheckFilter(ctx, keysOf(f, marked...)); !errors.Is(err, bigset.ErrNoFilter) {
			t.Errorf("another knows that the filter was dropped: %v", err)
		}
	})
}

// TestGroupsUnderFaults: whatever replicas fail, or some slices at them, a key whose mark was acknowledged is found by every check that answers, one that no replica may have is at none,
// and a key that is missed becomes a hint.
func TestGroupsUnderFaults(t *testing.T) {
	partly, unknowns, hinted := 0, 0, 0
	some := func(rt *rapid.T) {
		tb := &cleaning{TB: t}
		defer tb.clean()
		c := newFilterCluster(tb, newSched(rapid.Uint64().Draw(rt, "seed")), 3)
		h := openHints(tb, newFolder(tb, testkit.NewDisk()), coord.HintOptions{})
		defer h.Close()
		co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder), Hints: h, HintInterval: -1, Timeout: 2 * time.Second, SendTimeout: time.Second})
		f := filterOf(32, 1)
		acked, never := map[string]bool{}, map[string]bool{}
		for round := range 3 {
			for i, l := range c.links {
				l.near = i == 0 && rapid.Bool().Draw(rt, "near")
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
	}
	for range 10 { // few cases may show nothing
		if rapid.Check(t, some); t.Failed() || partly > 0 && unknowns > 0 && hinted > 0 {
			break
		}
	}
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

// TestSliceUnknownBeforeAnother: where nobody knows what one replica did of a batch, and the next one can't do a slice of it, the slice is unknown.
func TestSliceUnknownBeforeAnother(t *testing.T) {
	c := newFilterCluster(t, newSched(6), 3)
	co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder), Quorum: coord.Quorum{W: 1}})
	f := filterOf(32, 1)
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprint("key ", i))
	}
	away := bloomslice.Sum([]byte(keys[7]))
	first := c.links[0]
	first.fault = func() string { return "reset" }
	first.after = func() { first.down = true }
	c.links[1].sick = func(slice uint32) error {
		if slice == away.Slice(32) {
			return peer.ErrUnavailable
		}
		return nil
	}
	c.links[2].down = true
	c.s.run(t, minute, func() {
		_, err := co.MarkFilter(ctx, keysOf(f, keys...))
		var fe *coord.FilterError
		if !errors.As(err, &fe) || !errors.Is(err, coord.ErrUnknown) || fe.Slices != 1 || fe.Unknown != len(fe.Keys) || !slices.Contains(fe.Keys, 7) {
			t.Errorf("%+v, %v", fe, err)
		}
	})
	if !first.has(t, f, keys[7]) {
		t.Error("the first replica has not marked the key: the test does not see what it is for")
	}
}

// TestFramesOfANodeThatFails: a node that can't do any slice of a batch costs one frame, and a filter that was dropped costs one a node: nothing
// is asked slice by slice.
func TestFramesOfANodeThatFails(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(*filterCluster, coord.Filter)
		most  int // calls to all nodes together: those of a mark and of a check
		want  error
	}{
		"joining": {func(c *filterCluster, _ coord.Filter) { c.links[0].SetState(peer.Joining) }, 4 + 3, nil},
		"disk full": {func(c *filterCluster, _ coord.Filter) {
			c.links[0].sick = func(uint32) error { return peer.ErrUnavailable }
		}, 4 + 3, nil},
		"down":    {func(c *filterCluster, _ coord.Filter) { c.links[0].down = true }, 4 + 3, nil},
		"no disk": {func(c *filterCluster, _ coord.Filter) { c.links[2].sick = func(uint32) error { return errSpoilt } }, 3 + 3, nil},
		"dropped": {func(c *filterCluster, f coord.Filter) {
			for _, l := range c.links {
				if _, err := l.Replica.DropGeneration(ctx, f.Name, f.Options.Slices, f.Generation); err != nil {
					t.Fatal(err)
				}
			}
		}, 1 + 3, bigset.ErrNoFilter},
	} {
		c := newFilterCluster(t, newSched(9), 3)
		co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder)})
		f := filterOf(256, 1)
		f.Options.Capacity = 1 << 20
		var keys []string
		for i := range 500 {
			keys = append(keys, fmt.Sprint("key ", i))
		}
		tt.spoil(c, f)
		c.s.run(t, minute, func() {
			if _, err := co.MarkFilter(ctx, keysOf(f, keys...)); !errors.Is(err, tt.want) {
				t.Errorf("%s: mark: %v", name, err)
			}
			if _, err := co.CheckFilter(ctx, keysOf(f, keys...)); !errors.Is(err, tt.want) {
				t.Errorf("%s: check: %v", name, err)
			}
		})
		calls := 0
		for _, l := range c.links {
			calls += l.calls
		}
		if calls > tt.most {
			t.Errorf("%s: %d calls, at most %d", name, calls, tt.most)
		}
	}
}

// epochLink is a replica under one epoch.
type epochLink struct {
	*sliceLink
	asked map[uint32]bool // slices of marks
}

func (l *epochLink) MarkMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceKeys) ([]peer.SliceMarked, peer.Member, error) {
	for i := range groups {
		l.asked[groups[i].Slice] = true
	}
	return l.sliceLink.MarkMany(ctx, spec, groups)
}

// TestGroupsOfAnEpoch: slices that were placed under two epochs are never asked for together, though the nodes are the same.
func TestGroupsOfAnEpoch(t *testing.T) {
	c := newFilterCluster(t, newSched(10), 3)
	var epochs [2][]peer.SliceReplica
	for e := range epochs {
		for _, l := range c.links {
			epochs[e] = append(epochs[e], &epochLink{l, map[uint32]bool{}})
		}
	}
	co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(func(_ []byte, slice uint32) []peer.SliceReplica { return slices.Clone(epochs[slice%2]) })})
	f := filterOf(32, 1)
	var keys []string
	for i := range 200 {
		keys = append(keys, fmt.Sprint("key ", i))
	}
	c.s.run(t, minute, func() {
		if _, err := co.MarkFilter(ctx, keysOf(f, keys...)); err != nil {
			t.Error(err)
		}
	})
	for e := range epochs {
		asked := epochs[e][0].(*epochLink).asked
		for slice := range asked {
			if int(slice%2) != e {
				t.Errorf("slice %d was asked for under epoch %d", slice, e)
			}
		}
		if len(asked) == 0 {
			t.Errorf("nothing was asked for under epoch %d", e)
		}
	}
}

// TestHintsOfABatch: the hints of many slices share a sync, and all are kept after a crash.
func TestHintsOfABatch(t *testing.T) {
	c := newFilterCluster(t, newSched(12), 3)
	disk, syncs := testkit.NewDisk(), 0
	h := openHints(t, syncing{newFolder(t, disk), func(string) { syncs++ }}, coord.HintOptions{})
	co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder), Hints: h, HintInterval: -1})
	f := filterOf(256, 1)
	f.Options.Capacity = 1 << 20
	var keys []string
	of := map[uint32]bool{}
	for i := range 500 {
		keys = append(keys, fmt.Sprint("key ", i))
		sum := bloomslice.Sum([]byte(keys[i]))
		of[sum.Slice(256)] = true
	}
	c.links[2].down = true
	c.s.run(t, minute, func() {
		if _, err := co.MarkFilter(ctx, keysOf(f, keys...)); err != nil {
			t.Error(err)
		}
	})
	if syncs > 2 { // one of the new file
		t.Errorf("%d syncs for %d hints", syncs, len(of))
	}
	left := openHints(t, newFolder(t, disk.CrashClone(0, 1)), coord.HintOptions{})
	if n, _ := left.Pending("node2"); n != len(of) {
		t.Errorf("%d hints for %d slices after a crash", n, len(of))
	}
}

// TestSliceUnknownAndDropped: that a filter was dropped decides, also where nobody knows what another replica did of a slice before.
func TestSliceUnknownAndDropped(t *testing.T) {
	c := newFilterCluster(t, newSched(13), 2)
	co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder), Quorum: coord.Quorum{N: 2, W: 2}})
	f := filterOf(32, 1)
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprint("key ", i))
	}
	sum := bloomslice.Sum([]byte(keys[7]))
	c.links[0].sick = func(slice uint32) error {
		if slice == sum.Slice(32) {
			return errSpoilt
		}
		return nil
	}
	if _, err := c.links[1].Replica.DropGeneration(ctx, f.Name, 32, 1); err != nil {
		t.Fatal(err)
	}
	c.s.run(t, minute, func() {
		_, err := co.MarkFilter(ctx, keysOf(f, keys...))
		var fe *coord.FilterError
		if !errors.As(err, &fe) || !errors.Is(err, bigset.ErrNoFilter) || errors.Is(err, coord.ErrUnknown) || fe.Unknown != 0 || len(fe.Keys) != 100 {
			t.Errorf("%+v, %v", fe, err)
		}
	})
}

// TestHintAfterSends: a hint for a replica that takes no more is kept after the marks are on their way to the others.
func TestHintAfterSends(t *testing.T) {
	for what, keys := range map[string][]string{"many slices": {"a", "b", "c", "d", "e", "f"}, "one slice": {"a"}} {
		c := newFilterCluster(t, newSched(13), 3)
		calls := -1
		h := openHints(t, syncing{newFolder(t, testkit.NewDisk()), func(string) {
			for range 100 {
				c.s.Yield(nil)
			}
			if calls < 0 {
				calls = c.links[2].calls
			}
		}}, coord.HintOptions{})
		co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder), Hints: h, HintInterval: -1, SendsMax: 1, SendTimeout: time.Hour})
		c.links[1].fault = lost
		c.s.run(t, 3*minute, func() {
			for range 2 {
				if _, err := co.MarkFilter(ctx, keysOf(filterOf(32, 1), keys...)); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			c.s.Sleep(second)
			if err := co.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		if calls != 2 {
			t.Errorf("%s: node2 was called %d times when the hint for node1 was kept", what, calls)
		}
	}
}

// TestAnswerTooShort: a replica that answers about fewer slices than it was given marks of gets them again, by hints.
func TestAnswerTooShort(t *testing.T) {
	c := newFilterCluster(t, newSched(14), 3)
	h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{})
	co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder), Hints: h, HintInterval: -1})
	c.links[1].fewer = true
	keys, of := []string{"a", "b", "c", "d", "e", "f"}, map[uint32]bool{}
	for _, key := range keys {
		sum := bloomslice.Sum([]byte(key))
		of[sum.Slice(32)] = true
	}
	c.s.run(t, minute, func() {
		if _, err := co.MarkFilter(ctx, keysOf(filterOf(32, 1), keys...)); err != nil {
			t.Error(err)
		}
	})
	if n, _ := h.Pending("node1"); n != len(of) {
		t.Errorf("%d hints for %d slices", n, len(of))
	}
}

// TestGroupHungOnce: a replica that has refused many slices only when its time was up is not waited for again.
func TestGroupHungOnce(t *testing.T) {
	c := newFilterCluster(t, newSched(15), 3)
	co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder), Timeout: 8 * second})
	f := filterOf(4, 1)
	f.Options.Capacity, f.Options.Durability = 1<<20, bigset.FilterInterval
	var keys []string
	in := map[uint32]int{}
	for i := 0; in[0] <= 5000; i++ { // enough for the slice to be done by itself, after the others
		key := fmt.Sprint("key ", i)
		sum := bloomslice.Sum([]byte(key))
		s := sum.Slice(4)
		if in[s]++; s == 0 || in[s] < 10 {
			keys = append(keys, key)
		}
	}
	c.links[0].sick = func(uint32) error { return peer.ErrUnavailable }
	c.links[0].after = func() { c.s.Sleep(3 * second) }
	c.s.run(t, 5*minute, func() {
		begin := c.s.Now()
		_, err := co.MarkFilter(ctx, keysOf(f, keys...))
		if took := c.s.Now().Sub(begin); err != nil || took != 3*second {
			t.Errorf("%v after %v", err, took)
		}
	})
}
