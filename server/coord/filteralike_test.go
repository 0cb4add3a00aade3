package coord_test

import (
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

// single is a replica that does one slice at a time.
type single struct{ peer.SliceReplica }

// alikeTrouble is what fails in a cluster, the same in each call.
type alikeTrouble struct {
	down, joining [3]bool
	near          bool // the first replica is in the coordinator's process
	fault         [3]string
	sick          [3]uint32 // slices, as bits
	sickHow       [3]error
	newer         uint32 // slices that have a later generation at all replicas
	dropped       int    // the replica that knows the filter to be dropped, or none
}

// spoil brings the trouble to a cluster.
func (a *alikeTrouble) spoil(c *filterCluster, f coord.Filter) {
	for i, l := range c.links {
		for s := range f.Options.Slices {
			if a.newer>>s&1 == 1 {
				spec := bigset.SliceSpec{Name: f.Name, Slice: s, Generation: f.Generation + 1, Options: f.Options}
				if _, _, _, err := l.Replica.Mark(ctx, spec, []bloomslice.Hash{hashIn(s, f.Options.Slices)}); err != nil {
					c.t.Fatal(err)
				}
			}
		}
		if a.dropped == i {
			if _, err := l.Replica.DropGeneration(ctx, f.Name, f.Options.Slices, f.Generation); err != nil {
				c.t.Fatal(err)
			}
		}
		l.near = a.near && i == 0
		if l.down = a.down[i]; a.joining[i] {
			l.SetState(peer.Joining)
		}
		l.fault = func() string { return a.fault[i] }
		l.sick = func(slice uint32) error {
			if a.sick[i]>>slice&1 == 1 {
				return a.sickHow[i]
			}
			return nil
		}
	}
}

// alikeOutcome is what a request has come to.
type alikeOutcome struct {
	answers []bool // false where there is none
	lost    []int
	unknown int
	slices  int
	// Whether the error says so. What else it names depends on who has answered by the deadline.
	isUnknown, gone bool
}

func alikeOutcomeOf(t testing.TB, answers []bool, err error) string {
	o := alikeOutcome{answers: slices.Clone(answers)}
	var fe *coord.FilterError
	if err != nil && !errors.As(err, &fe) {
		t.Fatalf("%v", err)
	}
	if fe != nil {
		o.lost, o.unknown, o.slices = fe.Keys, fe.Unknown, fe.Slices
		for _, i := range fe.Keys {
			o.answers[i] = false
		}
	}
	o.isUnknown, o.gone = errors.Is(err, coord.ErrUnknown), errors.Is(err, bigset.ErrNoFilter)
	return fmt.Sprintf("%+v", o)
}

// alikeSaw is what requests met.
type alikeSaw struct {
	frames  bool // of many slices
	unknown bool // nobody knows whether all marks were made
	gone    bool // a check of a filter that was dropped
	partly  bool // a check that had answers for some of the keys
}

// compare marks and checks n keys, together and slice by slice, and reports a difference.
func (a *alikeTrouble) compare(t *testing.T, rt rapid.TB, q coord.Quorum, seed uint64, n int) (saw alikeSaw) {
	tb := &cleaning{TB: t}
	defer tb.clean()
	var said [2]string
	for way := range said {
		c := newFilterCluster(tb, newSched(seed), 3)
		h := openHints(tb, newFolder(tb, testkit.NewDisk()), coord.HintOptions{})
		place := func(_ []byte, slice uint32) (all []peer.SliceReplica) {
			for _, rep := range c.sameOrder(nil, slice) {
				if way == 1 {
					rep = single{rep}
				}
				all = append(all, rep)
			}
			return all
		}
		co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(place), Hints: h, HintInterval: -1, Timeout: 2 * time.Second, SendTimeout: time.Second})
		f := filterOf(32, 1)
		var keys []string
		for i := range n {
			keys = append(keys, fmt.Sprint("key ", i))
		}
		c.s.run(tb, 10*minute, func() {
			all := keysOf(f, keys[:n/2]...)
			all.Quorum = coord.Quorum{W: 3}
			if _, err := co.MarkFilter(ctx, all); err != nil {
				rt.Fatalf("%v", err)
			}
		})
		a.spoil(c, f)
		c.s.run(tb, 10*minute, func() {
			r := keysOf(f, keys...)
			r.Quorum = q
			answers, err := co.MarkFilter(ctx, r)
			said[way] = "marked " + alikeOutcomeOf(tb, answers, err)
			if way == 0 && errors.Is(err, coord.ErrUnknown) {
				saw.unknown = true
			}
		})
		c.s.run(tb, 10*minute, func() {
			r := keysOf(f, keys...)
			r.Quorum = q
			answers, err := co.CheckFilter(ctx, r)
			said[way] += "\nchecked " + alikeOutcomeOf(tb, answers, err)
			var fe *coord.FilterError
			if way == 0 && errors.Is(err, bigset.ErrNoFilter) {
				saw.gone = true
			}
			if way == 0 && errors.As(err, &fe) && len(fe.Keys) < n {
				saw.partly = true
			}
		})
		for i, l := range c.links {
			count, _ := h.Pending(l.node)
			said[way] += fmt.Sprintf("\n%s: %d hints", l.node, count)
			if saw.frames = saw.frames || l.frames > 0; way == 1 && l.frames > 0 {
				rt.Fatal("a replica that does one slice at a time was asked for many")
			}
			l.down, l.fault, l.sick = false, func() string { return "" }, nil
			l.SetState(peer.Normal)
			if a.dropped == i || a.newer != 0 {
				continue
			}
			for _, key := range keys {
				said[way] += fmt.Sprint(" ", l.has(tb, f, key))
			}
		}
		if err := h.Close(); err != nil {
			rt.Fatal(err)
		}
	}
	if said[0] != said[1] {
		rt.Errorf("together:\n%s\nslice by slice:\n%s", said[0], said[1])
	}
	return saw
}

// TestManySlicesAsOneByOne: whatever fails, keys of many slices get the answers and errors that they get slice by slice, and replicas and hints
// have the same at the end.
func TestManySlicesAsOneByOne(t *testing.T) {
	some := [3]uint32{0x00ff00ff, 0x00ff00ff, 0x00ff00ff}
	for what, tt := range map[string]struct {
		trouble alikeTrouble
		q       coord.Quorum
		want    alikeSaw
	}{
		"two are silent":     {alikeTrouble{dropped: -1, fault: [3]string{"", "lost", "lost"}}, coord.Quorum{R: 1, W: 3}, alikeSaw{frames: true, unknown: true}},
		"the filter is gone": {alikeTrouble{dropped: 1}, coord.Quorum{R: 3, W: 3}, alikeSaw{frames: true, gone: true}},
		"some slices have no replica": {alikeTrouble{dropped: -1, sick: some, sickHow: [3]error{errSpoilt, errSpoilt, errSpoilt}}, coord.Quorum{R: 2, W: 2},
			alikeSaw{frames: true, unknown: true, partly: true}},
	} {
		if got := tt.trouble.compare(t, t, tt.q, 1, 60); got != tt.want {
			t.Fatalf("%s: the requests met %+v, want %+v", what, got, tt.want)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		trouble := alikeTrouble{dropped: rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 2}).Draw(rt, "dropped"),
			near: rapid.Bool().Draw(rt, "near"), newer: rapid.SampledFrom([]uint32{0, 0, 0, 0xffff, 0xffffffff}).Draw(rt, "newer slices")}
		for i := range trouble.down {
			trouble.down[i] = rapid.IntRange(0, 5).Draw(rt, "down") == 0
			trouble.joining[i] = rapid.IntRange(0, 7).Draw(rt, "joining") == 0
			trouble.fault[i] = rapid.SampledFrom([]string{"", "", "", "", "lost", "mute", "reset"}).Draw(rt, "fault")
			trouble.sick[i] = rapid.SampledFrom([]uint32{0, 0, 0, 0xffffffff, 0x00ff00ff, 0x5}).Draw(rt, "sick slices")
			trouble.sickHow[i] = rapid.SampledFrom([]error{errSpoilt, peer.ErrUnavailable, bigset.ErrDiskFull}).Draw(rt, "how sick")
		}
		q := coord.Quorum{R: rapid.IntRange(1, 3).Draw(rt, "r"), W: rapid.IntRange(1, 3).Draw(rt, "w")}
		if trouble.dropped >= 0 { // else it depends on which answers first
			q = coord.Quorum{R: 3, W: 3}
		}
		seed, n := rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(2, 60).Draw(rt, "keys")
		trouble.compare(t, rt, q, seed, n)
	})
}
