package coord_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

var ctx = context.Background()

const minute = time.Minute

func lost() string { return "lost" }
func mute() string { return "mute" }

func TestWriteReachesAll(t *testing.T) {
	c := newCluster(t, newSched(1), 3)
	co := c.coordinator(coord.Options{})
	changed := false
	c.links[2].fault = func() string { // it gets the delta when the caller has gone on
		c.s.Yield(func() bool { return changed })
		return ""
	}
	c.s.run(t, minute, func() {
		ops := add("x", "y")
		r, err := co.Write(ctx, coord.Write{Set: set, Ops: ops})
		if err != nil || r.Acked < 2 || r.Durable != r.Acked || len(r.Dots) != 2 || r.By.Node != "node0" || c.holds(r.Delta) < 2 {
			t.Errorf("%+v, %v", r, err)
		}
		copy(ops[0].Element, "?") // the caller's own again
		changed = true
	})
	for _, l := range c.links {
		if !l.has("x") || !l.has("y") || l.has("?") {
			t.Errorf("%v has %v", l.Member(), l.elements())
		}
	}
	if len(c.minted) != 1 || len(c.events) > 0 {
		t.Errorf("minted %v, events %v", c.minted, c.events)
	}
}

func TestWriteQuorums(t *testing.T) {
	for _, tt := range []struct {
		name    string
		q       coord.Quorum
		break1  func(*link) // what happens to the second and third replica
		break2  func(*link)
		acked   int // at least
		unknown bool
	}{
		{"all up", coord.Quorum{}, nil, nil, 2, false},
		{"one down", coord.Quorum{}, func(l *link) { l.down = true }, nil, 2, false},
		{"one mute", coord.Quorum{}, nil, func(l *link) { l.fault = mute }, 2, false},
		{"two down", coord.Quorum{}, func(l *link) { l.down = true }, func(l *link) { l.down = true }, 1, true},
		{"two silent", coord.Quorum{}, func(l *link) { l.fault = lost }, func(l *link) { l.fault = mute }, 1, true},
		{"two down, w 1", coord.Quorum{W: 1, DW: 1}, func(l *link) { l.down = true }, func(l *link) { l.down = true }, 1, false},
		{"two down, w 1, dw 2", coord.Quorum{W: 1}, func(l *link) { l.down = true }, func(l *link) { l.down = true }, 1, true},
		{"one down, w 3", coord.Quorum{W: 3}, func(l *link) { l.down = true }, nil, 2, true},
		{"one down, dw 3", coord.Quorum{DW: 3}, func(l *link) { l.down = true }, nil, 2, true},
		{"no durable answer wanted", coord.Quorum{DW: coord.None}, nil, nil, 2, false},
		{"n 1", coord.Quorum{N: 1}, func(l *link) { l.down = true }, func(l *link) { l.down = true }, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, newSched(2), 3)
			co := c.coordinator(coord.Options{})
			for i, f := range []func(*link){tt.break1, tt.break2} {
				if f != nil {
					f(c.links[i+1])
				}
			}
			c.s.run(t, minute, func() {
				r, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x"), Quorum: tt.q})
				var u *coord.UnknownError
				if errors.As(err, &u) != tt.unknown || (err != nil) != tt.unknown || errors.Is(err, coord.ErrUnknown) != tt.unknown {
					t.Fatalf("%+v, %v", r, err)
				}
				if r.Acked < tt.acked || c.holds(r.Delta) < r.Acked || tt.unknown && (u.Acked != r.Acked || u.Acked != tt.acked) {
					t.Errorf("%+v, %v, %d have it", r, err, c.holds(r.Delta))
				}
				if want := r.Acked; tt.q.DW == coord.None && r.Durable != 0 || tt.q.DW != coord.None && r.Durable != want {
					t.Errorf("%d durable of %d", r.Durable, r.Acked)
				}
			})
			if tt.q.N == 1 && (c.links[1].calls > 0 || c.links[2].calls > 0) {
				t.Error("more than n replicas were asked")
			}
		})
	}
}

// TestDurable looks at what survives a power cut at the moment of the answer.
func TestDurable(t *testing.T) {
	for _, dw := range []int{2, coord.None} {
		c := newCluster(t, newSched(3), 3)
		co := c.coordinator(coord.Options{})
		for _, l := range c.links {
			if err := l.store.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		c.s.run(t, minute, func() {
			if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x"), Quorum: coord.Quorum{DW: dw, W: 3}}); err != nil {
				t.Fatal(err)
			}
			for _, l := range c.links {
				if l.durable() != (dw == 2) {
					t.Errorf("dw %d: %v durable: %v", dw, l.Member(), l.durable())
				}
			}
		})
	}
}

func TestAnotherCoordinates(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil   func(*link)
		by      string // "" is nobody, for it is unknown
		minted  int
		noUntil error
	}{
		"unavailable":       {func(l *link) { l.down = true }, "node1", 1, nil},
		"closed":            {func(l *link) { _ = l.store.Close() }, "node1", 1, nil},
		"joining":           {func(l *link) { l.SetState(peer.Joining) }, "node1", 1, nil},
		"answer lost":       {func(l *link) { l.fault = mute }, "", 1, coord.ErrUnknown},
		"connection lost":   {func(l *link) { l.fault = func() string { return "reset" } }, "", 1, coord.ErrUnknown},
		"lost, nobody told": {func(l *link) { l.fault = lost }, "", 0, coord.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, newSched(4), 3)
			co := c.coordinator(coord.Options{})
			tt.spoil(c.links[0])
			c.s.run(t, minute, func() {
				r, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x")})
				if r.By.Node != tt.by || !errors.Is(err, tt.noUntil) {
					t.Errorf("%+v, %v", r, err)
				}
			})
			if len(c.minted) != tt.minted {
				t.Errorf("minted %v", c.minted)
			}
			if name == "joining" && !c.links[0].has("x") {
				t.Error("a replica that is joining did not get the delta")
			}
		})
	}
}

// TestLateAnswer has the coordinating replica answer when nobody waits any more: the others get the delta all the same.
func TestLateAnswer(t *testing.T) {
	c := newCluster(t, newSched(5), 3)
	co := c.coordinator(coord.Options{Timeout: time.Second})
	late := false
	c.s.After(5*time.Second, func() { late = true })
	c.links[0].after = func() { c.s.Yield(func() bool { return late }) }
	c.s.run(t, minute, func() {
		r, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x")})
		if !errors.Is(err, coord.ErrUnknown) || r.Acked != 0 || late {
			t.Errorf("%+v, %v, late %v", r, err, late)
		}
	})
	if len(c.minted) != 1 || c.holds(c.minted[0]) != 3 {
		t.Errorf("minted %v, held by %d", c.minted, c.holds(c.minted[0]))
	}
}

func TestNothingHappened(t *testing.T) {
	big := make([]byte, bigset.ElementBytesMax+1)
	for _, tt := range []struct {
		name  string
		w     coord.Write
		spoil func(*cluster)
		want  error
	}{
		{"no replica", coord.Write{Ops: add("x")}, func(c *cluster) { c.links[0].down, c.links[1].down, c.links[2].down = true, true, true }, coord.ErrNoQuorum},
		{"too few replicas", coord.Write{Ops: add("x")}, func(c *cluster) { c.links = c.links[:1] }, coord.ErrNoQuorum},
		{"all joining", coord.Write{Ops: add("x")}, func(c *cluster) {
			for _, l := range c.links {
				l.SetState(peer.Joining)
			}
		}, peer.ErrJoining},
		{"too large", coord.Write{Ops: []bigset.Op{{Kind: keyscheme.OpAdd, Element: big}}}, nil, bigset.ErrLimit},
		{"context required", coord.Write{Ops: add("x"), Policy: bigset.PolicyRequired}, nil, bigset.ErrContextRequired},
		{"w over n", coord.Write{Ops: add("x"), Quorum: coord.Quorum{W: 4}}, nil, coord.ErrRequest},
		{"negative", coord.Write{Ops: add("x"), Quorum: coord.Quorum{R: -1}}, nil, coord.ErrRequest},
		{"request id", coord.Write{Ops: add("x"), Request: big}, nil, coord.ErrRequest},
		{"over a frame", coord.Write{Ops: manyDots()}, nil, coord.ErrRequest},
		{"context of the future", coord.Write{Ops: []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x"), Context: bigset.SawAll(clock.Of(clock.Dot{Actor: "z", Counter: 1}))}}}, nil, bigset.ErrBehind},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, newSched(6), 3)
			co := c.coordinator(coord.Options{})
			if tt.spoil != nil {
				tt.spoil(c)
			}
			tt.w.Set = set
			c.s.run(t, minute, func() {
				r, err := co.Write(ctx, tt.w)
				if !errors.Is(err, tt.want) || errors.Is(err, coord.ErrUnknown) || r.Acked > 0 {
					t.Errorf("%+v, %v, want %v", r, err, tt.want)
				}
			})
			if len(c.minted) > 0 {
				t.Errorf("minted %v", c.minted)
			}
		})
	}
}

func TestRemoveOfNothingIsNoEvent(t *testing.T) {
	c := newCluster(t, newSched(7), 3)
	co := c.coordinator(coord.Options{})
	c.s.run(t, minute, func() {
		r, err := co.Write(ctx, coord.Write{Set: set, Ops: []bigset.Op{{Kind: keyscheme.OpRemove, Element: []byte("x")}}})
		if err != nil || !r.Delta.Empty() || r.Acked != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestBehind writes with clocks of the whole set that replicas have not seen all of.
func TestBehind(t *testing.T) {
	for name, ahead := range map[string]int{"another coordinates": 1, "what is missing is fetched": 2, "what is missing is fetched from two": 3} {
		t.Run(name, func(t *testing.T) {
			alone := ahead > 1
			c := newCluster(t, newSched(8), 3)
			co := c.coordinator(coord.Options{})
			seen := &clock.Clock{}
			for i, l := range c.links[:max(2, ahead)] { // each has an add of its own, and node1 a remove too
				if _, err := l.store.Add(ctx, set, [][]byte{[]byte("x"), []byte{byte('0' + i)}}, bigset.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.links[1].store.Remove(ctx, set, [][]byte{{'1'}}, bigset.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			for i, l := range c.links {
				if i == 1 || alone {
					seen.Union(l.state().Seen)
				}
			}
			c.s.run(t, minute, func() {
				r, err := co.Write(ctx, coord.Write{Set: set, Ops: []bigset.Op{{Kind: keyscheme.OpRemove, Element: []byte("x"), Context: bigset.SawAll(seen)}}})
				want := "node1"
				if alone {
					want = "node0"
				}
				if err != nil || r.By.Node != want || len(r.Delta.Items) != 1 {
					t.Fatalf("%+v, %v", r, err)
				}
				if got := len(r.Delta.Items[0].Context); got != ahead {
					t.Errorf("%d dots killed, want %d: %+v", got, ahead, r.Delta)
				}
			})
			if l := c.links[0]; alone && (l.has("x") || !l.has("0") || l.has("1")) {
				t.Errorf("node0 has %v", l.elements())
			}
		})
	}
}

func TestDrop(t *testing.T) {
	c := newCluster(t, newSched(9), 3)
	co := c.coordinator(coord.Options{})
	for i, l := range c.links {
		if _, err := l.store.Add(ctx, set, [][]byte{{byte('0' + i)}}, bigset.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.links[2].SetState(peer.Joining) // it has a say in nothing that is read
	c.s.run(t, minute, func() {
		r, err := co.Drop(ctx, coord.Drop{Set: set})
		if err != nil || r.Acked < 2 || r.Delta.Clear.Len() != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		c.links[1].SetState(peer.Joining)
		if _, err := co.Drop(ctx, coord.Drop{Set: set}); !errors.Is(err, coord.ErrNoQuorum) || !errors.Is(err, peer.ErrJoining) {
			t.Errorf("with one replica whole: %v", err)
		}
		if _, err := co.Drop(ctx, coord.Drop{Set: []byte("other"), Quorum: coord.Quorum{R: 1}}); !errors.Is(err, bigset.ErrNotFound) {
			t.Errorf("of an unknown set: %v", err)
		}
	})
	for i, l := range c.links {
		if l.has("0") || l.has("1") || l.has("2") != (i == 2) {
			t.Errorf("%v has %v", l.Member(), l.elements())
		}
	}
	third := c.links[2].state().Seen
	c.links[0].down, c.links[1].down = true, true
	c.s.run(t, minute, func() {
		r, err := co.Drop(ctx, coord.Drop{Set: set, Seen: third})
		if !errors.Is(err, coord.ErrUnknown) || r.Acked != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestBounds has more under way than may be: it becomes hints at once.
func TestBounds(t *testing.T) {
	c := newCluster(t, newSched(10), 3)
	co := c.coordinator(coord.Options{SendsMax: 2, Timeout: time.Second, SendTimeout: time.Hour})
	c.links[1].fault, c.links[2].fault = lost, lost
	c.s.run(t, minute, func() {
		for range 3 {
			if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x"), Quorum: coord.Quorum{W: 1, DW: 1}}); err != nil {
				t.Error(err)
			}
		}
		if n := c.saw(coord.EventNotSent); n != 2 {
			t.Errorf("%d deltas not sent, want 2", n)
		}
		if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x")}); !errors.Is(err, coord.ErrBusy) {
			t.Error(err)
		}
		if err := co.Close(ctx); err != nil {
			t.Error(err)
		}
		if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x")}); !errors.Is(err, coord.ErrClosed) {
			t.Error(err)
		}
	})
	if n := c.saw(coord.EventNotSent); n != 8 {
		t.Errorf("%d deltas not sent after Close, want 8", n)
	}
}

// TestHangingTakesNoRoom has one replica hang, and more under way to it than may be: what goes to the others goes on.
func TestHangingTakesNoRoom(t *testing.T) {
	for _, o := range []coord.Options{{SendsMax: 2}, {SendBytesMax: 50}} {
		c := newCluster(t, newSched(10), 3)
		o.Timeout, o.SendTimeout = time.Second, time.Hour
		co := c.coordinator(o)
		c.links[1].fault = lost
		c.s.run(t, minute, func() {
			for i := range 10 {
				if r, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x")}); err != nil || r.Acked != 2 {
					t.Errorf("write %d: %+v, %v", i, r, err)
				}
			}
			if err := co.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTimeIsUp: an operation that takes too long says so, and is not one that its caller has given up.
func TestTimeIsUp(t *testing.T) {
	c := newCluster(t, newSched(12), 3)
	co := c.coordinator(coord.Options{Timeout: time.Second})
	c.links[0].fault = lost
	c.s.run(t, minute, func() {
		_, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x")})
		if !errors.Is(err, coord.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	late, cancel := context.WithCancelCause(ctx)
	cancel(context.DeadlineExceeded)
	if err := (coord.Goroutines{}).NewSignal().Wait(late); err != context.DeadlineExceeded {
		t.Error(err)
	}
}

// TestRetry sends a request again, elsewhere, after its element was removed: it is the same event, and stays dead.
func TestRetry(t *testing.T) {
	for _, retry := range []bool{true, false} {
		c := newCluster(t, newSched(11), 3)
		co := c.coordinator(coord.Options{})
		w := coord.Write{Set: set, Ops: add("x"), Request: []byte("r1"), Quorum: coord.Quorum{W: 2, DW: 2}}
		c.s.run(t, minute, func() {
			c.links[1].down = true
			first, err := co.Write(ctx, w)
			if err != nil {
				t.Fatal(err)
			}
			c.links[1].down = false
			removed, err := co.Write(ctx, coord.Write{Set: set, Ops: []bigset.Op{{Kind: keyscheme.OpRemove, Element: []byte("x"), Context: bigset.Saw(first.Dots[0])}}})
			if err != nil || removed.Removed != 1 {
				t.Fatal(err)
			}
			if retry {
				c.links[0].down = true // node1 is next, and has not heard of the request; node2 has
				w.Retry = true
			}
			again, err := co.Write(ctx, w)
			if err != nil || again.Dots[0] != first.Dots[0] || string(again.Delta.Request) != "r1" {
				t.Errorf("retry %v: %+v, the first time %+v, %v", retry, again, first, err)
			}
			w.Ops = add("y")
			if r, err := co.Write(ctx, w); !errors.Is(err, bigset.ErrRequest) || errors.Is(err, coord.ErrUnknown) {
				t.Errorf("another request by the same id: %+v, %v", r, err)
			}
		})
		for _, l := range c.links {
			if l.has("x") {
				t.Errorf("retry %v: %v has x again", retry, l.Member())
			}
		}
	}
}

// manyDots returns operations whose contexts fit no frame.
func manyDots() (ops []bigset.Op) {
	dots := make([]clock.Dot, bigset.ContextDotsMax)
	for i := range dots {
		dots[i] = clock.Dot{Actor: "a", Counter: uint64(i + 1)}
	}
	for range peer.FrameBytesMax / len(dots) / 8 {
		ops = append(ops, bigset.Op{Kind: keyscheme.OpAdd, Context: bigset.Saw(dots...)})
	}
	return ops
}
