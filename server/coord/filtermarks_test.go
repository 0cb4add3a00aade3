package coord_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/internal/testkit"
	"bigset/server/coord"
	"bigset/server/peer"
)

func reset() string { return "reset" }

func TestMarkQuorums(t *testing.T) {
	down := func(l *sliceLink) { l.down = true }
	for _, tt := range []struct {
		name    string
		q       coord.Quorum
		break1  func(*sliceLink) // what happens to the second and third replica
		break2  func(*sliceLink)
		held    int // at least
		unknown bool
	}{
		{"all up", coord.Quorum{}, nil, nil, 2, false},
		{"one down", coord.Quorum{}, down, nil, 2, false},
		{"one mute", coord.Quorum{}, nil, func(l *sliceLink) { l.fault = mute }, 2, false},
		{"one joining", coord.Quorum{W: 3}, nil, func(l *sliceLink) { l.SetState(peer.Joining) }, 3, false},
		{"two down", coord.Quorum{}, down, down, 1, true},
		{"two silent", coord.Quorum{}, func(l *sliceLink) { l.fault = lost }, func(l *sliceLink) { l.fault = mute }, 1, true},
		{"two down, w 1", coord.Quorum{W: 1}, down, down, 1, false},
		{"one down, w 3", coord.Quorum{W: 3}, down, nil, 2, true},
		{"all up, w 3", coord.Quorum{W: 3}, nil, nil, 3, false},
		{"dw is not looked at", coord.Quorum{W: 1, DW: 3}, down, down, 1, false},
		{"n 1", coord.Quorum{N: 1}, down, down, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newFilterCluster(t, newSched(2), 3)
			co := c.coordinator(coord.Options{})
			for i, spoil := range []func(*sliceLink){tt.break1, tt.break2} {
				if spoil != nil {
					spoil(c.links[i+1])
				}
			}
			f := filterOf(1, 1)
			r := keysOf(f, "x", "y")
			r.Quorum = tt.q
			c.s.run(t, minute, func() {
				added, err := co.MarkFilter(ctx, r)
				var u *coord.UnknownError
				if errors.Is(err, coord.ErrUnknown) != tt.unknown || errors.As(err, &u) != tt.unknown || (err != nil) != tt.unknown {
					t.Fatalf("%v, %v", added, err)
				}
				if tt.unknown && (u.Acked != tt.held || u.W != max(2, tt.q.W) || u.DW != 0) || !tt.unknown && !slices.Equal(added, []bool{true, true}) {
					t.Errorf("%v, %+v", added, err)
				}
				for _, l := range c.links {
					l.SetState(peer.Normal)
				}
				if n := c.holds(f, "x"); n < tt.held {
					t.Errorf("%d replicas have it", n)
				}
			})
			if tt.q.N == 1 && c.links[1].calls+c.links[2].calls > 0 {
				t.Error("more than n replicas were asked")
			}
		})
	}
}

// TestMarkAgain: a key that is marked already is not new, and takes W replicas like one that is not.
func TestMarkAgain(t *testing.T) {
	c := newFilterCluster(t, newSched(3), 3)
	co := c.coordinator(coord.Options{})
	f := filterOf(1, 1)
	once := keysOf(f, "x")
	once.Quorum.W = 1
	c.s.run(t, minute, func() {
		c.links[1].down, c.links[2].down = true, true
		if added, err := co.MarkFilter(ctx, once); err != nil || !added[0] || c.holds(f, "x") != 1 {
			t.Fatalf("%v, %v, %d have it", added, err, c.holds(f, "x"))
		}
		c.s.Sleep(second) // what was sent to the others is lost
		if added, err := co.MarkFilter(ctx, keysOf(f, "x")); !errors.Is(err, coord.ErrUnknown) {
			t.Errorf("one replica has it: %v, %v", added, err)
		}
		c.links[2].down = false
		if added, err := co.MarkFilter(ctx, keysOf(f, "x", "y", "y")); err != nil || !slices.Equal(added, []bool{false, true, false}) || c.holds(f, "x") != 2 {
			t.Errorf("%v, %v, %d have it", added, err, c.holds(f, "x"))
		}
		c.links[0].down, c.links[1].down = true, false // the other one has it, and decides
		if added, err := co.MarkFilter(ctx, keysOf(f, "x")); err != nil || added[0] || c.holds(f, "x") != 3 {
			t.Errorf("%v, %v, %d have it", added, err, c.holds(f, "x"))
		}
	})
}

// TestMarkOldNews: a key is new only if it is new to all replicas that count.
func TestMarkOldNews(t *testing.T) {
	c := newFilterCluster(t, newSched(3), 3)
	co := c.coordinator(coord.Options{})
	f := filterOf(1, 1)
	once := keysOf(f, "x")
	once.Quorum.W = 1
	c.s.run(t, minute, func() {
		c.links[0].down, c.links[2].down = true, true
		if _, err := co.MarkFilter(ctx, once); err != nil {
			t.Fatal(err)
		}
		c.s.Sleep(second) // what was sent to the others is lost
		c.links[0].down, c.links[2].down = false, false
		all := keysOf(f, "x", "y")
		all.Quorum.W = 3
		if added, err := co.MarkFilter(ctx, all); err != nil || !slices.Equal(added, []bool{false, true}) {
			t.Errorf("the second replica had it: %v, %v", added, err)
		}
	})
}

// TestMarkBytes: what goes on when the answer is given refers to nothing of the caller's.
func TestMarkBytes(t *testing.T) {
	c := newFilterCluster(t, newSched(3), 3)
	co := c.coordinator(coord.Options{})
	f, changed := filterOf(1, 1), false
	r := keysOf(f, "x")
	r.Name = []byte("filter")
	c.links[2].apply = func() { c.s.Yield(func() bool { return changed }) }
	c.s.run(t, minute, func() {
		if _, err := co.MarkFilter(ctx, r); err != nil {
			t.Fatal(err)
		}
		copy(r.Keys[0], "?")
		copy(r.Name, "?")
		changed = true
	})
	if c.holds(f, "x") != 3 || c.holds(f, "?") != 0 {
		t.Errorf("%d have it, %d have what it became", c.holds(f, "x"), c.holds(f, "?"))
	}
}

// TestMarkDurable looks at what survives a power cut at the moment of the answer: what the filter promises, whatever DW says.
func TestMarkDurable(t *testing.T) {
	for _, d := range []bigset.FilterDurability{bigset.FilterSync, bigset.FilterInterval} {
		c := newFilterCluster(t, newSched(3), 3)
		co := c.coordinator(coord.Options{})
		f := filterOf(1, 1)
		f.Options.Durability = d
		c.s.run(t, minute, func() {
			r := keysOf(f, "x")
			r.Quorum = coord.Quorum{W: 3, DW: coord.None}
			if _, err := co.MarkFilter(ctx, r); err != nil {
				t.Fatal(err)
			}
			for _, l := range c.links {
				if has := l.afterCut(t).has(t, f, "x"); has != (d == bigset.FilterSync) {
					t.Errorf("durability %v: %s has it after a power cut: %v", d, l.node, has)
				}
			}
			if err := co.DropFilter(ctx, coord.FilterDrop{Filter: f, Quorum: r.Quorum}); err != nil {
				t.Fatal(err)
			}
			for _, l := range c.links {
				_, _, err := l.afterCut(t).Replica.Check(ctx, bigset.SliceSpec{Name: f.Name, Generation: 1, Options: f.Options}, nil)
				if !errors.Is(err, bigset.ErrNoFilter) {
					t.Errorf("dropped, and after a power cut: %v", err)
				}
			}
		})
	}
}

// TestAnotherDecides: the next replica is asked where the one before can't, or nobody knows whether it did.
func TestAnotherDecides(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(*sliceLink)
		held  int // at the end
		acked bool
		late  bool
	}{
		"unavailable":       {func(l *sliceLink) { l.down = true }, 2, true, false},
		"joining":           {func(l *sliceLink) { l.SetState(peer.Joining) }, 3, true, false},
		"answer lost":       {func(l *sliceLink) { l.fault = mute }, 3, true, true},
		"connection lost":   {func(l *sliceLink) { l.fault = reset }, 3, true, false},
		"lost, nobody told": {func(l *sliceLink) { l.fault = lost }, 2, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFilterCluster(t, newSched(4), 3)
			co := c.coordinator(coord.Options{SendTimeout: second})
			f := filterOf(1, 1)
			tt.spoil(c.links[0])
			begin := c.s.Now()
			c.s.run(t, minute, func() {
				added, err := co.MarkFilter(ctx, keysOf(f, "x"))
				if (err == nil) != tt.acked || len(c.links[1].marks) != 1 {
					t.Errorf("%v, %v", added, err)
				}
				if took := c.s.Now().Sub(begin); tt.late != (took > 0) || took > 5*second {
					t.Errorf("it took %v", took)
				}
			})
			c.links[0].SetState(peer.Normal)
			if n := c.holds(f, "x"); n != tt.held {
				t.Errorf("%d have it", n)
			}
			if m := c.links[1].marks[0]; len(m.Layers) != 1 || m.Layers[0].ID.Owner != bloomslice.Seat(1).Owner() {
				t.Errorf("%+v", m)
			}
		})
	}
}

// TestMarkLateAnswer has the replica that decides answer when nobody waits any more: the others get the marks all the same.
func TestMarkLateAnswer(t *testing.T) {
	c := newFilterCluster(t, newSched(5), 3)
	disk := testkit.NewDisk()
	h := c.newHints(disk)
	co := c.coordinator(coord.Options{Timeout: second, Hints: h})
	f := filterOf(1, 1)
	c.links[0].after = func() { c.s.Sleep(5 * second) }
	c.links[2].down = true
	c.s.run(t, 8*second, func() {
		added, err := co.MarkFilter(ctx, keysOf(f, "x"))
		var fe *coord.FilterError
		if !errors.Is(err, coord.ErrUnknown) || !errors.As(err, &fe) || fe.Unknown != 1 || fe.Of != 1 || len(c.links[0].minted) != 1 || len(c.links[0].marks) != 0 {
			t.Errorf("%v, %v", added, err)
		}
	})
	if n, _ := h.Pending("node2"); c.holds(f, "x") != 2 || n != 1 || len(c.links[1].marks) != 0 {
		t.Errorf("%d have it, %d hints", c.holds(f, "x"), n)
	}
}

// TestHangingReplica: a replica that never answers costs nobody an answer.
func TestHangingReplica(t *testing.T) {
	for hanging := range 3 {
		c := newFilterCluster(t, newSched(6), 3)
		co := c.coordinator(coord.Options{})
		f := filterOf(4, 1) // so that it is the first for some slice
		c.links[hanging].fault = lost
		c.s.run(t, 5*minute, func() {
			r := keysOf(f, "a", "b", "c", "d", "e", "f", "g", "h")
			begin := c.s.Now()
			added, err := co.MarkFilter(ctx, r)
			if err != nil || slices.Contains(added, false) || c.s.Now().Sub(begin) > 3*second {
				t.Errorf("%v, %v after %v", added, err, c.s.Now().Sub(begin))
			}
			begin = c.s.Now()
			present, err := co.CheckFilter(ctx, r)
			if err != nil || slices.Contains(present, false) || c.s.Now() != begin {
				t.Errorf("%v, %v after %v", present, err, c.s.Now().Sub(begin))
			}
		})
	}
}

// TestMarkBeside has many clients mark the same keys at once, in goroutines of their own.
func TestMarkBeside(t *testing.T) {
	c := newFilterCluster(t, newSched(1), 3)
	co, err := coord.New(coord.Options{Place: coord.List(func([]byte) []peer.Replica { return nil }), PlaceSlice: coord.ListSlices(func(_ []byte, slice uint32) (all []peer.SliceReplica) {
		for i := range c.links {
			all = append(all, c.links[(i+int(slice))%len(c.links)].Replica)
		}
		return all
	})})
	if err != nil {
		t.Fatal(err)
	}
	f, keys := filterOf(8, 1), make([]string, 200)
	f.Options.Durability = bigset.FilterLog
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	var wait sync.WaitGroup
	var news [200]atomic.Int32
	for client := range 8 {
		wait.Go(func() {
			for turn := range 5 {
				from := (client + turn) * 40 % 200
				added, err := co.MarkFilter(ctx, keysOf(f, keys[from:from+40]...))
				if err != nil {
					t.Error(err)
				}
				for i, fresh := range added {
					if fresh {
						news[from+i].Add(1)
					}
				}
				if present, err := co.CheckFilter(ctx, keysOf(f, keys[from:from+40]...)); err != nil || slices.Contains(present, false) {
					t.Errorf("%v, %v", present, err)
				}
			}
		})
	}
	wait.Wait()
	if err := co.Close(ctx); err != nil {
		t.Error(err)
	}
	for i := range news {
		if n := news[i].Load(); n > 1 {
			t.Errorf("%q was new %d times", keys[i], n)
		}
	}
	if n := c.holds(f, keys[0]); n != 3 {
		t.Errorf("%d replicas have it", n)
	}
}

// TestTwoMark: if two coordinators mark one key at a time, at most one learns that it is new, and both that it is marked.
func TestTwoMark(t *testing.T) {
	told := [3]int{}
	for seed := range uint64(60) {
		c := newFilterCluster(t, newSched(seed), 3)
		f := filterOf(1, 1)
		fresh, over := 0, 0
		c.s.run(t, minute, func() {
			for turn := range 2 {
				co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(func(name []byte, slice uint32) []peer.SliceReplica {
					return c.place(name, slice+uint32(turn))
				})})
				c.s.Go(func() {
					added, err := co.MarkFilter(ctx, keysOf(f, "x"))
					if err != nil || c.holds(f, "x") < 2 {
						t.Errorf("seed %d: %v, %v", seed, added, err)
					} else if added[0] {
						fresh++
					}
					over++
				})
			}
			c.s.Yield(func() bool { return over == 2 })
		})
		if fresh > 1 {
			t.Errorf("seed %d: new twice", seed)
		}
		told[fresh]++
	}
	if told[0] == 0 || told[1] == 0 {
		t.Errorf("told %v: the schedules are all alike", told)
	}
}

// TestOtherAnswers: a replica that does not answer about what it was asked is none that has answered.
func TestOtherAnswers(t *testing.T) {
	c := newFilterCluster(t, newSched(14), 3)
	co := c.coordinator(coord.Options{})
	f := filterOf(1, 1)
	c.links[0].short = true
	c.s.run(t, minute, func() {
		if added, err := co.MarkFilter(ctx, keysOf(f, "x", "y")); err != nil || len(c.links[1].marks) != 1 || len(added) != 2 {
			t.Errorf("%v, %v", added, err)
		}
		for range 20 {
			if present, err := co.CheckFilter(ctx, keysOf(f, "x", "y")); err != nil || !slices.Equal(present, []bool{true, true}) {
				t.Errorf("%v, %v", present, err)
			}
		}
		c.links[1].short = true
		if present, err := co.CheckFilter(ctx, keysOf(f, "x", "y")); !errors.Is(err, peer.ErrFrame) {
			t.Errorf("%v, %v", present, err)
		}
	})
}

// TestMarksOfOthers: marks of another slice than was asked for go to nobody, nor do those of a replica that is Joining by now; and what such
// a one does not find may be there.
func TestMarksOfOthers(t *testing.T) {
	for what, spoil := range map[string]func(*sliceLink){
		"name":       func(l *sliceLink) { l.twist = func(m *bigset.Marks) { m.Name = []byte("other") } },
		"slice":      func(l *sliceLink) { l.twist = func(m *bigset.Marks) { m.Slice++ } },
		"generation": func(l *sliceLink) { l.twist = func(m *bigset.Marks) { m.Generation++ } },
		"options":    func(l *sliceLink) { l.twist = func(m *bigset.Marks) { m.Options.Owners++ } },
		"joining":    func(l *sliceLink) { l.joins = true },
	} {
		c := newFilterCluster(t, newSched(14), 3)
		co := c.coordinator(coord.Options{})
		spoil(c.links[0])
		r := keysOf(filterOf(1, 1), "x")
		r.Quorum.R = 3
		c.s.run(t, minute, func() {
			if added, err := co.MarkFilter(ctx, r); err != nil || len(c.links[1].marks) != 1 {
				t.Errorf("%s: %v, %v", what, added, err)
			}
			if present, err := co.CheckFilter(ctx, r); errors.Is(err, peer.ErrJoining) != c.links[0].joins || (err != nil) != c.links[0].joins {
				t.Errorf("%s: %v, %v", what, present, err)
			}
		})
	}
}

// TestMarkHungOnce: a request of many keys waits once for a replica that hangs.
func TestMarkHungOnce(t *testing.T) {
	c := newFilterCluster(t, newSched(6), 3)
	co := c.coordinator(coord.Options{Timeout: 8 * second})
	f := filterOf(1, 1)
	f.Options.Durability = bigset.FilterInterval
	c.links[0].fault = lost
	keys := make([]string, 2*bigset.MarksMax+1)
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	c.s.run(t, 5*minute, func() {
		begin := c.s.Now()
		_, err := co.MarkFilter(ctx, keysOf(f, keys...))
		if took := c.s.Now().Sub(begin); err != nil || took != 2*second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestMarkTimeout: what the caller's context ends is unknown, and a closed coordinator does nothing.
func TestMarkTimeout(t *testing.T) {
	c := newFilterCluster(t, newSched(9), 3)
	co := c.coordinator(coord.Options{Timeout: 4 * time.Second})
	f := filterOf(1, 1)
	for _, l := range c.links {
		l.fault = lost
	}
	c.s.run(t, 2*minute, func() {
		begin := c.s.Now()
		_, err := co.MarkFilter(ctx, keysOf(f, "x"))
		if took := c.s.Now().Sub(begin); !errors.Is(err, coord.ErrUnknown) || took > 4*second {
			t.Errorf("%v after %v", err, took)
		}
		c.links[0].fault, c.links[1].down, c.links[2].down = mute, true, true
		if _, err = co.MarkFilter(ctx, keysOf(f, "x")); !errors.Is(err, coord.ErrUnknown) {
			t.Errorf("the first may have it, the others could not be asked: %v", err)
		}
		c.links[0].down = true
		_, err = co.MarkFilter(ctx, keysOf(f, "x"))
		if !errors.Is(err, coord.ErrNoQuorum) || errors.Is(err, coord.ErrUnknown) || !errors.Is(err, peer.ErrUnavailable) {
			t.Errorf("nobody could be asked: %v", err)
		}
		if err := co.Close(ctx); err != nil {
			t.Error(err)
		}
		_, marked := co.MarkFilter(ctx, keysOf(f, "x"))
		_, checked := co.CheckFilter(ctx, keysOf(f, "x"))
		for _, err := range []error{marked, checked, co.DropFilter(ctx, coord.FilterDrop{Filter: f})} {
			if !errors.Is(err, coord.ErrClosed) {
				t.Errorf("closed: %v", err)
			}
		}
	})
}
