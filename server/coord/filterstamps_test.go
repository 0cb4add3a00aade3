package coord_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/internal/testkit/tier"
	"bigset/server/coord"
	"bigset/server/peer"
)

// stampCluster is a cluster whose first replica is in the process of the coordinator, with a filter of 64 slices that has the first 300 of
// 600 keys at all three.
type stampCluster struct {
	*filterCluster
	t    testing.TB
	co   *coord.Coordinator
	f    coord.Filter
	keys []string
}

func newStampCluster(t testing.TB) *stampCluster {
	c := &stampCluster{filterCluster: newFilterCluster(t, newSched(5), 3), t: t, f: filterOf(64, 1)}
	c.co = c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder), HedgeTime: time.Second})
	c.f.Options.Capacity = 1 << 20
	for i := range 600 {
		c.keys = append(c.keys, fmt.Sprint("key ", i))
	}
	c.links[0].near = true
	c.s.run(t, minute, func() {
		if _, err := c.co.MarkFilter(ctx, keysOf(c.f, c.keys[:300]...)); err != nil {
			t.Fatal(err)
		}
	})
	return c
}

// stampWant is what a check must have asked the two other replicas for.
type stampWant struct{ stamps, asked, digests [2]int }

// check checks all keys, of which some exist, and compares what the other replicas were asked for, and the number of frames about keys or
// stamps that each got. No check takes longer than two replicas need of which one is asked after the HedgeTime.
func (c *stampCluster) check(what string, exist int, want stampWant, frames [2]int) {
	c.t.Helper()
	for _, l := range c.links {
		l.frames, l.stamps, l.asked, l.digests = 0, 0, 0, 0
	}
	c.s.run(c.t, minute, func() {
		began := c.s.Now()
		present, err := c.co.CheckFilter(ctx, keysOf(c.f, c.keys...))
		if err != nil {
			c.t.Fatalf("%s: %v", what, err)
		}
		if took := c.s.Now().Sub(began); took >= 2*time.Second {
			c.t.Errorf("%s: it took %v", what, took)
		}
		for i, has := range present {
			if has != (i < exist) {
				c.t.Errorf("%s: %s: %v", what, c.keys[i], has)
			}
		}
	})
	b, d := c.links[1], c.links[2]
	if got := (stampWant{[2]int{b.stamps, d.stamps}, [2]int{b.asked, d.asked}, [2]int{b.digests, d.digests}}); got != want {
		c.t.Errorf("%s: the others were asked for %+v, want %+v", what, got, want)
	}
	if got := [2]int{b.frames, d.frames}; got != frames {
		c.t.Errorf("%s: the others were given %v frames, want %v", what, got, frames)
	}
}

// wait lets time pass.
func (c *stampCluster) wait(d time.Duration) {
	c.t.Helper()
	c.s.run(c.t, 2*d+time.Minute, func() { c.s.Sleep(d) })
}

// markAt marks keys at one replica, as another coordinator might that does not reach the others.
func (c *stampCluster) markAt(i int, keys []string) {
	c.t.Helper()
	for _, key := range keys {
		h := bloomslice.Sum([]byte(key))
		spec := bigset.SliceSpec{Name: c.f.Name, Slice: h.Slice(c.f.Options.Slices), Generation: c.f.Generation, Options: c.f.Options}
		if _, _, _, err := c.links[i].Replica.Mark(ctx, spec, []bloomslice.Hash{h}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// alike makes the coordinator know that the second replica has the bits of the first.
func (c *stampCluster) alike(exist int) {
	c.t.Helper()
	absent := len(c.keys) - exist
	c.check("the first check", exist, stampWant{asked: [2]int{absent, 0}}, [2]int{1, 0})
	c.wait(200 * time.Millisecond)
	c.check("when the filter was quiet for some time", exist, stampWant{asked: [2]int{absent, 0}, digests: [2]int{1, 0}}, [2]int{1, 0})
	c.check("after the comparison", exist, stampWant{stamps: [2]int{1, 0}}, [2]int{1, 0})
}

// TestStampInsteadOfKeys: a replica with the same bits is asked for its stamp and no keys, one frame for a batch. When it has changed, it is
// asked for the keys in a second frame.
func TestStampInsteadOfKeys(t *testing.T) {
	c := newStampCluster(t)
	c.alike(300)
	c.markAt(1, c.keys[300:310])
	c.markAt(2, c.keys[300:310])
	c.check("the second has changed", 310, stampWant{stamps: [2]int{1, 0}, asked: [2]int{300, 0}}, [2]int{2, 0})
	c.check("and that is known", 310, stampWant{asked: [2]int{300, 0}}, [2]int{1, 0})
	c.wait(5 * time.Second)
	c.check("it is compared again", 310, stampWant{asked: [2]int{300, 0}, digests: [2]int{1, 0}}, [2]int{1, 0})
	c.check("and differs", 310, stampWant{asked: [2]int{300, 0}}, [2]int{1, 0})
	if alike, differs := c.saw(coord.EventFilterAlike), c.saw(coord.EventFilterDiffers); alike != 1 || differs != 1 {
		t.Errorf("events: alike %d times, differs %d times", alike, differs)
	}
	c = newStampCluster(t)
	c.alike(300)
	c.markAt(0, c.keys[300:310])
	c.check("the first has changed", 310, stampWant{asked: [2]int{290, 0}}, [2]int{1, 0})
}

// TestStampAndHungNode: a replica that hangs never holds up a check that two others can answer, whichever of them has changed. One that was
// slow once is asked for its stamp again.
func TestStampAndHungNode(t *testing.T) {
	lost, sound := func() string { return "lost" }, func() string { return "" }
	c := newStampCluster(t)
	c.alike(300)
	c.links[2].fault = lost
	c.check("the third hangs", 300, stampWant{stamps: [2]int{1, 0}}, [2]int{1, 0})
	c.markAt(1, c.keys[300:310])
	c.check("and the second has changed", 310, stampWant{stamps: [2]int{1, 0}, asked: [2]int{300, 0}}, [2]int{2, 0})
	c = newStampCluster(t)
	c.alike(300)
	c.links[1].fault = lost
	c.check("the second hangs", 300, stampWant{asked: [2]int{0, 300}, digests: [2]int{0, 1}}, [2]int{0, 1})
	c.links[1].fault = sound
	c.check("and no longer", 300, stampWant{stamps: [2]int{1, 0}}, [2]int{1, 0})
}

// TestStampOfRemovedSlice: a slice that is removed here while keys are looked for is not taken for one that never had them.
func TestStampOfRemovedSlice(t *testing.T) {
	c := newStampCluster(t)
	c.alike(300)
	sliceOf := func(key string) uint32 {
		h := bloomslice.Sum([]byte(key))
		return h.Slice(c.f.Options.Slices)
	}
	spec := bigset.SliceSpec{Name: c.f.Name, Slice: sliceOf(c.keys[0]), Generation: c.f.Generation, Options: c.f.Options}
	asked := 300
	for _, key := range c.keys[:300] {
		if sliceOf(key) == spec.Slice {
			asked++
		}
	}
	near := c.links[0]
	near.looking = func() {
		near.looking = nil
		if err := near.store.Replica().DropRange(ctx, spec.Slot(), spec.Slot()); err != nil {
			t.Fatal(err)
		}
	}
	c.check("a slice is removed", 300, stampWant{asked: [2]int{asked, 0}}, [2]int{1, 0})
}

// TestStampOfLaterComparison: a check does not rely on a comparison that ended after the keys were looked for, since the filter may have got
// them in between.
func TestStampOfLaterComparison(t *testing.T) {
	c := newStampCluster(t)
	c.alike(300)
	h := bloomslice.Sum([]byte("key 300"))
	spec := bigset.SliceSpec{Name: c.f.Name, Slice: h.Slice(c.f.Options.Slices), Generation: c.f.Generation, Options: c.f.Options}
	near, far, keys := c.links[0], c.links[1], keysOf(c.f, c.keys...)
	check := func() bool {
		present, err := c.co.CheckFilter(ctx, keys)
		if err != nil {
			t.Fatal(err)
		}
		return present[300]
	}
	c.s.run(t, minute, func() {
		m, _, _, err := far.Replica.Mark(ctx, spec, []bloomslice.Hash{h})
		if err == nil {
			_, _, err = c.links[2].Replica.ApplyMarks(ctx, m)
		}
		if err != nil {
			t.Fatal(err)
		}
		near.looked = func() {
			near.looked = nil
			if _, _, err := near.Replica.ApplyMarks(ctx, m); err != nil {
				t.Fatal(err)
			}
			check()
			c.s.Sleep(5 * time.Second)
			check()
			c.s.Sleep(time.Second)
			if far.digests != 2 {
				t.Errorf("compared %d times, not twice", far.digests)
			}
		}
		far.digests = 1 // so far
		if !check() {
			t.Error("a key that two replicas had before the check is denied")
		}
		if far.stamps = 0; !check() || far.stamps != 1 {
			t.Errorf("the next check: %d stamps, or the key is denied", far.stamps)
		}
	})
}

// TestStampsFewAtOnce: two filters are compared at a time, and the others later.
func TestStampsFewAtOnce(t *testing.T) {
	c := newStampCluster(t)
	var all []coord.Filter
	for i := range 5 {
		f := filterOf(8, uint64(i)+2)
		f.Name = fmt.Appendf(nil, "filter %d", i)
		all = append(all, f)
	}
	checks := func(times int) {
		for range times {
			for _, f := range all {
				if _, err := c.co.CheckFilter(ctx, keysOf(f, c.keys[:20]...)); err != nil {
					t.Fatal(err)
				}
			}
			c.s.Sleep(time.Millisecond)
		}
	}
	far := c.links[1]
	c.s.run(t, minute, func() {
		for _, f := range all {
			if _, err := c.co.MarkFilter(ctx, keysOf(f, c.keys[:10]...)); err != nil {
				t.Fatal(err)
			}
		}
		checks(1)
		c.s.Sleep(200 * time.Millisecond)
		far.hold = c.s.NewSignal()
		checks(3)
		if far.digests != 2 {
			t.Errorf("%d comparisons at once", far.digests)
		}
		far.hold.Set()
		checks(5)
		if far.digests != len(all) {
			t.Errorf("%d comparisons of %d filters", far.digests, len(all))
		}
	})
}

// TestStampOfAnother: a replica that is joining, runs an older program or has no stamps answers no check by its stamp, and one that knows that
// the filter was dropped decides.
func TestStampOfAnother(t *testing.T) {
	c := newStampCluster(t)
	c.links[1].older = true
	c.check("an older program", 300, stampWant{asked: [2]int{300, 0}}, [2]int{1, 0})
	c.wait(200 * time.Millisecond)
	c.check("which is asked", 300, stampWant{asked: [2]int{300, 0}, digests: [2]int{1, 0}}, [2]int{1, 0})
	c.check("and does not know stamps", 300, stampWant{asked: [2]int{300, 0}}, [2]int{1, 0})
	c = newStampCluster(t)
	c.alike(300)
	c.links[1].joins = true
	c.check("it is joining", 300, stampWant{stamps: [2]int{1, 0}, asked: [2]int{300, 300}, digests: [2]int{0, 1}}, [2]int{2, 1})
	c.links[1].joins = false
	c.wait(time.Minute)
	c.check("it is normal again", 300, stampWant{asked: [2]int{300, 0}, digests: [2]int{1, 0}}, [2]int{1, 0})
	if _, err := c.links[1].Replica.DropGeneration(ctx, c.f.Name, c.f.Options.Slices, c.f.Generation); err != nil {
		t.Fatal(err)
	}
	c.s.run(t, minute, func() {
		if _, err := c.co.CheckFilter(ctx, keysOf(c.f, c.keys...)); !errors.Is(err, bigset.ErrNoFilter) {
			t.Errorf("another knows that the filter was dropped: %v", err)
		}
	})
}

// TestStampsSeldomCompared: comparisons that serve few checks follow each other more and more seldom.
func TestStampsSeldomCompared(t *testing.T) {
	c := newStampCluster(t)
	n := 0
	for i := range 120 {
		c.markAt(1, []string{fmt.Sprint("other ", i)})
		c.wait(time.Second)
		c.links[1].digests = 0
		c.s.run(t, minute, func() {
			if _, err := c.co.CheckFilter(ctx, keysOf(c.f, c.keys...)); err != nil {
				t.Fatal(err)
			}
		})
		n += c.links[1].digests
	}
	if n < 3 || n > 9 {
		t.Errorf("%d comparisons in two minutes in which the filter kept changing", n)
	}
}

// TestStampsAfterMarks: after a filter was marked for long, so that comparisons have become seldom, it is compared when it has rested for a
// second and many checks have asked for keys, and only then.
func TestStampsAfterMarks(t *testing.T) {
	c := newStampCluster(t)
	keys, far, marked := keysOf(c.f, c.keys[:20]...), c.links[1], 0
	mark := func() {
		marked++
		if _, err := c.co.MarkFilter(ctx, keysOf(c.f, fmt.Sprint("other ", marked))); err != nil {
			t.Fatal(err)
		}
	}
	keys.Keys = append(keys.Keys, []byte("absent"))
	checks := func(most int) (n int) { // until the comparison
		before := far.digests
		for ; n < most && far.digests == before; n++ {
			if _, err := c.co.CheckFilter(ctx, keys); err != nil {
				t.Fatal(err)
			}
			c.s.Sleep(time.Millisecond)
		}
		return n
	}
	c.s.run(t, 20*minute, func() {
		for far.digests < 6 {
			mark()
			c.s.Sleep(500 * time.Millisecond)
			checks(1)
			c.s.Sleep(500 * time.Millisecond)
			checks(1)
		}
		mark()
		if n := checks(900); n < 900 {
			t.Errorf("compared after %d checks in less than a second", n)
		}
		mark()
		checks(1)
		c.s.Sleep(time.Second)
		if n := checks(600); n < 200 || n > 300 {
			t.Errorf("compared after %d checks, when the filter had rested", n)
		}
		c.s.Sleep(time.Millisecond)
		if far.stamps = 0; checks(1) != 1 || far.stamps != 1 {
			t.Errorf("%d stamps after the comparison", far.stamps)
		}
	})
}

// TestStampsUnderFaults: whatever replicas miss and whenever, with two coordinators that have a replica each in their process, no check
// denies a key whose mark was acknowledged before it began.
func TestStampsUnderFaults(t *testing.T) {
	stamps, changes := 0, 0
	schedule := func(seed uint64) {
		tb := &cleaning{TB: t}
		defer tb.clean()
		c := newFilterCluster(tb, newSched(seed), 3)
		rng := c.s.rng
		var cos []*coord.Coordinator
		for i := range 2 {
			order := slices.Concat(c.links[i:], c.links[:i])
			cos = append(cos, c.coordinator(coord.Options{Timeout: 2 * time.Second, SendTimeout: time.Second, HedgeTime: 100 * time.Millisecond,
				PlaceSlice: coord.ListSlices(func([]byte, uint32) (all []peer.SliceReplica) {
					for _, l := range order {
						all = append(all, l)
					}
					return all
				})}))
			c.links[i].near = true
		}
		f := filterOf(8, 1)
		acked := map[string]bool{}
		for round := range 2 + rng.IntN(5) {
			for _, l := range c.links {
				fault := []string{"", "", "", "", "lost", "reset", "late"}[rng.IntN(7)]
				l.fault = func() string { return fault }
				l.SetState([]peer.MemberState{peer.Normal, peer.Normal, peer.Normal, peer.Normal, peer.Joining}[rng.IntN(5)])
			}
			var keys []string
			for i := range rng.IntN(13) {
				keys = append(keys, fmt.Sprintf("key %d of %d", i, round))
			}
			by, checks, early := rng.IntN(2), 1+rng.IntN(4), time.Duration(rng.IntN(300))*time.Millisecond
			pause := []time.Duration{0, 150 * time.Millisecond, 3 * time.Second}[rng.IntN(3)]
			var before []string
			for key := range acked {
				before = append(before, key)
			}
			slices.Sort(before)
			c.s.run(tb, 20*minute, func() {
				for _, co := range cos { // also while keys are marked and replicas fail
					c.s.Go(func() {
						for range 2 {
							c.s.Sleep(early)
							present, err := co.CheckFilter(ctx, keysOf(f, append(slices.Clone(before), "absent 1", "absent 2")...))
							for i, key := range before {
								if err == nil && !present[i] {
									t.Errorf("seed %d: %s was acknowledged, and is denied while others are marked", seed, key)
								}
							}
						}
					})
				}
				if len(keys) > 0 {
					_, err := cos[by].MarkFilter(ctx, keysOf(f, keys...))
					var fe *coord.FilterError
					if err != nil && !errors.As(err, &fe) {
						t.Fatalf("seed %d: %v", seed, err)
					}
					for i, key := range keys {
						if fe == nil || !slices.Contains(fe.Keys, i) {
							acked[key] = true
						}
					}
				}
				for _, l := range c.links {
					l.fault = func() string { return "" }
					l.SetState(peer.Normal)
				}
				var all []string
				for key := range acked {
					all = append(all, key)
				}
				slices.Sort(all)
				asked := append(slices.Clone(all), "absent 1", "absent 2", "absent 3", "absent 4")
				for range checks {
					c.s.Sleep(pause)
					for _, co := range cos {
						present, err := co.CheckFilter(ctx, keysOf(f, asked...))
						var fe *coord.FilterError
						if err != nil && !errors.As(err, &fe) {
							t.Fatalf("seed %d: %v", seed, err)
						}
						for i, key := range all {
							if !present[i] && (fe == nil || !slices.Contains(fe.Keys, i)) {
								t.Fatalf("seed %d: %s was acknowledged, and is denied", seed, key)
							}
						}
					}
				}
			})
		}
		for _, l := range c.links {
			stamps += l.stamps
		}
		changes += len(acked)
	}
	for seed := range uint64(2) {
		schedule(seed)
	}
	if stamps == 0 {
		t.Error("seeds 0 and 1 meet no stamp: choose others")
	}
	for range tier.Times(16) {
		schedule(tier.Random(t).Uint64())
	}
	if tier.Full() && (stamps < 10 || changes < 20) {
		t.Errorf("%d stamps, %d keys: the test does not see what it is for", stamps, changes)
	}
}
