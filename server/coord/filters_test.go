package coord_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/coord"
	"bigset/server/peer"
)

func TestCheckQuorums(t *testing.T) {
	for _, tt := range []struct {
		name  string
		q     coord.Quorum
		spoil func(*filterCluster)
		want  error
	}{
		{"all up", coord.Quorum{}, func(*filterCluster) {}, nil},
		{"who has it is down", coord.Quorum{}, func(c *filterCluster) { c.links[1].down = true }, nil},
		{"one hangs", coord.Quorum{}, func(c *filterCluster) { c.links[0].fault = lost }, nil},
		{"one is joining", coord.Quorum{}, func(c *filterCluster) { c.links[0].SetState(peer.Joining) }, nil},
		{"two are joining", coord.Quorum{}, func(c *filterCluster) {
			c.links[0].SetState(peer.Joining)
			c.links[1].SetState(peer.Joining)
		}, peer.ErrJoining},
		{"two are down", coord.Quorum{}, func(c *filterCluster) { c.links[0].down, c.links[1].down = true, true }, coord.ErrNoQuorum},
		{"two are down, r 1", coord.Quorum{R: 1}, func(c *filterCluster) { c.links[1].down, c.links[2].down = true, true }, nil},
		{"one is down, r 3", coord.Quorum{R: 3}, func(c *filterCluster) { c.links[1].down = true }, coord.ErrNoQuorum},
	} {
		for seed := range uint64(8) { // the result must not depend on which replica answers first
			c := newFilterCluster(t, newSched(seed), 3)
			co := c.coordinator(coord.Options{})
			f := filterOf(1, 1)
			c.s.run(t, 2*minute, func() {
				c.links[2].down = true
				if _, err := co.MarkFilter(ctx, keysOf(f, "x", "y")); err != nil {
					t.Fatal(err)
				}
				c.links[2].down = false
				tt.spoil(c)
				r := keysOf(f, "x", "no", "y")
				r.Quorum = tt.q
				present, err := co.CheckFilter(ctx, r)
				if !errors.Is(err, tt.want) || errors.Is(err, coord.ErrUnknown) || err == nil && !slices.Equal(present, []bool{true, false, true}) {
					t.Errorf("%s, seed %d: %v, %v", tt.name, seed, present, err)
				}
			})
		}
	}
}

// TestCheckNothing: nobody has marked anything.
func TestCheckNothing(t *testing.T) {
	c := newFilterCluster(t, newSched(1), 3)
	co := c.coordinator(coord.Options{})
	c.s.run(t, minute, func() {
		if present, err := co.CheckFilter(ctx, keysOf(filterOf(4, 1), "x", "y")); err != nil || slices.Contains(present, true) {
			t.Errorf("%v, %v", present, err)
		}
		for _, ask := range []func() ([]bool, error){
			func() ([]bool, error) { return co.CheckFilter(ctx, keysOf(filterOf(4, 1))) },
			func() ([]bool, error) { return co.MarkFilter(ctx, keysOf(filterOf(4, 1))) },
		} {
			if answers, err := ask(); err != nil || len(answers) != 0 {
				t.Errorf("no keys: %v, %v", answers, err)
			}
		}
	})
}

// TestFilterOrder: answers come in the order of the keys, whatever their slices, however many there are of them.
func TestFilterOrder(t *testing.T) {
	for slicesOf, keys := range map[uint32]int{1: 2*bigset.MarksMax + 100, 8: 2000, 128: 2000} {
		c := newFilterCluster(t, newSched(uint64(slicesOf)), 3)
		co := c.coordinator(coord.Options{})
		f := filterOf(slicesOf, 1)
		f.Options.Capacity = 1 << 20
		var odd, all []string
		for i := range keys {
			if all = append(all, fmt.Sprint("key ", i)); i%2 == 1 {
				odd = append(odd, all[i])
			}
		}
		c.s.run(t, minute, func() {
			if added, err := co.MarkFilter(ctx, keysOf(f, odd...)); err != nil || slices.Contains(added, false) || len(added) != len(odd) {
				t.Fatalf("%d slices: %d answers, %v", slicesOf, len(added), err)
			}
			isOdd := func(what string, answers []bool, err error, want func(i int) bool) {
				if err != nil || len(answers) != len(all) {
					t.Errorf("%d slices: %s: %d answers, %v", slicesOf, what, len(answers), err)
				}
				for i, a := range answers {
					if a != want(i) {
						t.Fatalf("%d slices: %s: %v of key %d", slicesOf, what, a, i)
					}
				}
			}
			present, err := co.CheckFilter(ctx, keysOf(f, all...))
			isOdd("check", present, err, func(i int) bool { return i%2 == 1 })
			added, err := co.MarkFilter(ctx, keysOf(f, all...))
			isOdd("mark", added, err, func(i int) bool { return i%2 == 0 })
			all = append(slices.Clone(all[:50]), all[:50]...)
			for i := range all {
				all[i] += " again"
			}
			added, err = co.MarkFilter(ctx, keysOf(f, all...))
			isOdd("mark twice", added, err, func(i int) bool { return i < 50 })
		})
		for _, l := range c.links {
			for _, m := range l.marks {
				if len(m.Marks) > bigset.MarksMax {
					t.Errorf("%d marks at once", len(m.Marks))
				}
			}
		}
	}
}

// TestFilterPartly: slices that can't answer cost only their own keys their answers, and the error names these.
func TestFilterPartly(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil   func(*sliceLink)
		want    error
		unknown bool
	}{
		"nobody there": {func(l *sliceLink) { l.down = true }, coord.ErrNoQuorum, false},
		"silent":       {func(l *sliceLink) { l.fault = lost }, coord.ErrUnknown, true},
	} {
		c := newFilterCluster(t, newSched(11), 4)
		place := func(filter []byte, slice uint32) []peer.SliceReplica { // the last quarter of the slices has one replica left
			if slice >= 24 {
				return c.place(nil, 3)[:1]
			}
			return c.place(nil, 0)
		}
		co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(place), Quorum: coord.Quorum{W: 1, R: 1}})
		f := filterOf(32, 1)
		var keys []string
		var lost []int
		for i := range 200 {
			keys = append(keys, fmt.Sprint("key ", i))
			if h := bloomslice.Sum([]byte(keys[i])); h.Slice(32) >= 24 {
				lost = append(lost, i)
			}
		}
		tt.spoil(c.links[3])
		c.s.run(t, 2*minute, func() {
			for what, ask := range map[string]func() ([]bool, error){
				"mark":  func() ([]bool, error) { return co.MarkFilter(ctx, keysOf(f, keys...)) },
				"check": func() ([]bool, error) { return co.CheckFilter(ctx, keysOf(f, keys...)) },
			} {
				if what == "check" {
					if _, err := co.MarkFilter(ctx, keysOf(f, keys...)); err == nil {
						t.Error("marked all")
					}
				}
				answers, err := ask()
				var fe *coord.FilterError
				if !errors.As(err, &fe) {
					t.Fatalf("%s, %s: %v", name, what, err)
				}
				unknown := tt.unknown && what == "mark" // a check changes nothing
				if !slices.Equal(fe.Keys, lost) || fe.Of != 200 || fe.Slices != 8 || (fe.Unknown == len(lost)) != unknown || errors.Is(err, coord.ErrUnknown) != unknown {
					t.Errorf("%s, %s: %+v", name, what, fe)
				}
				if what == "mark" && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), fmt.Sprintf("no answer about %d of 200 keys", len(lost))) {
					t.Errorf("%s, %s: %v", name, what, err)
				}
				for i, a := range answers {
					if what == "check" && a == slices.Contains(lost, i) {
						t.Errorf("%s, %s: %v of key %d", name, what, a, i)
					}
				}
			}
		})
	}
}

// TestUnknownIsTold: one slice among many whose marks may be there is enough for ErrUnknown.
func TestUnknownIsTold(t *testing.T) {
	c := newFilterCluster(t, newSched(12), 2)
	f := filterOf(64, 1)
	var keys []string
	for i := range 400 {
		keys = append(keys, fmt.Sprint("key ", i))
	}
	last := bloomslice.Sum([]byte(keys[399]))
	co := c.coordinator(coord.Options{Quorum: coord.Quorum{W: 1, R: 1}, PlaceSlice: coord.ListSlices(func(_ []byte, slice uint32) []peer.SliceReplica {
		if slice == last.Slice(64) {
			return c.place(nil, 1)[:1]
		}
		return c.place(nil, 0)[:1]
	})})
	c.links[0].down, c.links[1].fault = true, mute
	c.s.run(t, minute, func() {
		_, err := co.MarkFilter(ctx, keysOf(f, keys...))
		var fe *coord.FilterError
		if !errors.Is(err, coord.ErrUnknown) || !errors.As(err, &fe) || fe.Unknown == 0 || fe.Unknown == 400 || len(fe.Keys) != 400 {
			t.Errorf("%v", err)
		}
	})
}

// TestFilterRefused: requests that can't be say why, and nobody is asked.
func TestFilterRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*coord.FilterKeys, *coord.Options)
		want  error
		text  string
	}{
		{"no place", func(_ *coord.FilterKeys, o *coord.Options) { o.PlaceSlice = nil }, coord.ErrRequest, "no place"},
		{"no name", func(r *coord.FilterKeys, _ *coord.Options) { r.Name = nil }, coord.ErrRequest, "no name"},
		{"long name", func(r *coord.FilterKeys, _ *coord.Options) { r.Name = bytes.Repeat([]byte("x"), 201) }, coord.ErrRequest, "201 bytes"},
		{"no generation", func(r *coord.FilterKeys, _ *coord.Options) { r.Generation = 0 }, coord.ErrRequest, "generation"},
		{"in memory", func(r *coord.FilterKeys, _ *coord.Options) { r.Options.InMemory = true }, coord.ErrRequest, "memory"},
		{"owners", func(r *coord.FilterKeys, _ *coord.Options) { r.Options.Owners = 2 }, coord.ErrRequest, "2 owners, and each of 3 replicas"},
		{"slices", func(r *coord.FilterKeys, _ *coord.Options) { r.Options.Slices = 0 }, coord.ErrRequest, "slices"},
		{"three slices", func(r *coord.FilterKeys, _ *coord.Options) { r.Options.Slices = 3 }, bloomslice.ErrOptions, "power of two"},
		{"a default", func(r *coord.FilterKeys, _ *coord.Options) { r.Options.Scale = 0 }, bloomslice.ErrOptions, "scale"},
		{"w over n", func(r *coord.FilterKeys, _ *coord.Options) { r.Quorum.W = 4 }, coord.ErrRequest, "W is 4"},
		{"no replicas", func(_ *coord.FilterKeys, o *coord.Options) {
			o.PlaceSlice = coord.ListSlices(func([]byte, uint32) []peer.SliceReplica { return nil })
		}, coord.ErrNoQuorum, "0 of 2"},
	} {
		c := newFilterCluster(t, newSched(13), 3)
		o, r := coord.Options{Place: coord.List(func([]byte) []peer.Replica { return nil }), Runner: c.s, PlaceSlice: coord.ListSlices(c.place)}, keysOf(filterOf(1, 1), "x")
		tt.spoil(&r, &o)
		co, err := coord.New(o)
		if err != nil {
			t.Fatal(err)
		}
		c.s.run(t, minute, func() {
			_, marked := co.MarkFilter(ctx, r)
			_, checked := co.CheckFilter(ctx, r)
			for what, err := range map[string]error{"mark": marked, "check": checked, "drop": co.DropFilter(ctx, coord.FilterDrop{Filter: r.Filter, Quorum: r.Quorum})} {
				if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("%s, %s: %v", tt.name, what, err)
				}
			}
		})
		if c.links[0].calls+c.links[1].calls+c.links[2].calls > 0 {
			t.Errorf("%s: somebody was asked", tt.name)
		}
	}
}

// TestFilterErrorOfEachKind: that the filter was dropped is found in the error, though many slices have failed before for another cause.
func TestFilterErrorOfEachKind(t *testing.T) {
	c := newFilterCluster(t, newSched(1), 2)
	f := filterOf(32, 1)
	co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(func(_ []byte, slice uint32) []peer.SliceReplica {
		if slice == 31 {
			return []peer.SliceReplica{c.links[0]}
		}
		return []peer.SliceReplica{c.links[1]}
	})})
	if _, err := c.links[0].Replica.DropGeneration(ctx, f.Name, 32, 1); err != nil {
		t.Fatal(err)
	}
	c.links[0].fault = func() string { c.s.Sleep(second); return "" }
	c.links[1].down = true
	var keys []string
	for i := range 1000 {
		keys = append(keys, fmt.Sprint("key ", i))
	}
	r := keysOf(f, keys...)
	r.Quorum = coord.Quorum{N: 1, R: 1, W: 1}
	c.s.run(t, minute, func() {
		_, checked := co.CheckFilter(ctx, r)
		_, marked := co.MarkFilter(ctx, r)
		for _, err := range []error{checked, marked} {
			var fe *coord.FilterError
			if !errors.Is(err, bigset.ErrNoFilter) || !errors.Is(err, coord.ErrNoQuorum) || !errors.As(err, &fe) || fe.Slices != 32 {
				t.Errorf("%v", err)
			}
			if n := strings.Count(fmt.Sprint(err), "slice "); n > 10 {
				t.Errorf("%d slices are named", n)
			}
		}
	})
}

// TestFilterErrorOfAnEpoch: that one slice was asked for under an old epoch is found in the error of many, so that the request is made again.
func TestFilterErrorOfAnEpoch(t *testing.T) {
	joining := error(&coord.QuorumError{Of: 2, Err: peer.ErrJoining})
	all := append(slices.Repeat([]error{joining}, 100), &coord.QuorumError{Of: 2, Err: &peer.EpochError{Epoch: 3}})
	if err := coord.ErrorsOf(all...); !errors.Is(err, peer.ErrNotMine) {
		t.Errorf("%v", err)
	}
}
