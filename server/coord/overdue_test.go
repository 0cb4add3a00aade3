package coord_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

// overdue is a replica that a write reaches when its coordinator has given up.
type overdue struct {
	*link
	waits  bool // the next write waits in the network
	arrive func()
}

func (o *overdue) Write(ctx context.Context, set []byte, ops []bigset.Op, w bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	if !o.waits {
		return o.link.Write(ctx, set, ops, w)
	}
	o.waits = false
	w.Applied = nil
	o.arrive = func() { _, _, _ = o.Replica.Write(context.WithoutCancel(ctx), set, ops, w) }
	return bigset.Result{}, o.Member(), o.silence(ctx)
}

// TestRetryBeforeFirst: a request waits in the network, is sent again, to the same coordinator or another one, and is done elsewhere. Then the first try
// arrives, before what the second one has become. It must not be done a second time: the client has the context of one add only, and when it removes
// that, the element must be gone.
func TestRetryBeforeFirst(t *testing.T) {
	for name, again := range map[string]int{"same": 0, "other": 1} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, newSched(1), 3)
			late := &overdue{link: c.links[0], waits: true}
			at := c.links[1] // which does the second try
			cos := []*coord.Coordinator{
				c.coordinator(coord.Options{Place: coord.List(func([]byte) []peer.Replica {
					if late.waits {
						return []peer.Replica{late, c.links[1], c.links[2]}
					}
					return []peer.Replica{c.links[1], late, c.links[2]}
				})}),
				c.coordinator(coord.Options{Place: coord.List(func([]byte) []peer.Replica { return []peer.Replica{at, c.links[2], late} })}),
			}
			w := coord.Write{Set: set, Ops: add("x"), Request: []byte("r")}
			c.s.run(t, time.Hour, func() {
				if r, err := cos[0].Write(ctx, w); !errors.Is(err, coord.ErrUnknown) {
					t.Fatalf("%+v, %v", r, err)
				}
				w.Retry = true
				at.after = func() { // it has answered the question, or has done the request
					if len(c.minted) == 1 && late.arrive != nil {
						late.arrive()
						late.arrive = nil
					}
				}
				r, err := cos[again].Write(ctx, w)
				if err != nil {
					t.Fatal(err)
				}
				if late.arrive != nil {
					t.Fatal("the first try has not arrived")
				}
				gone := bigset.Op{Kind: keyscheme.OpRemove, Element: []byte("x"), Context: bigset.Saw(r.Dots[0])}
				if _, err := cos[1].Write(ctx, coord.Write{Set: set, Ops: []bigset.Op{gone}}); err != nil {
					t.Fatal(err)
				}
			})
			for _, l := range c.links {
				if l.has("x") {
					t.Errorf("%v has x again", l.Member())
				}
			}
		})
	}
}

// TestResendWithoutRetry: a client that sends a request again without Retry meets a replica that another try was told by that it has not happened. The
// coordinator goes on as if it had said Retry: it finds what that try has done, or does the request if none has, or the outcome is unknown.
func TestResendWithoutRetry(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(*cluster) // the resend
		by     string
		want   error
	}{
		"done elsewhere": {func(c *cluster) { c.links[1].done(t, "r") }, "node1", nil},
		"done by none":   {func(*cluster) {}, "node0", nil},
		"nobody knows":   {func(c *cluster) { c.links[1].done(t, "r"); c.links[1].down = true }, "", coord.ErrUnknown},
		"silent":         {func(c *cluster) { c.links[2].fault = lost }, "", coord.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, newSched(1), 3)
			co := c.coordinator(coord.Options{})
			for _, l := range c.links {
				l.asked(t, "r", other)
			}
			tt.before(c)
			made := len(c.minted)
			c.s.run(t, time.Hour, func() {
				r, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x"), Request: []byte("r")})
				if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || r.By.Node != tt.by {
					t.Errorf("%+v, %v", r, err)
				}
			})
			events := map[clock.Dot]bool{}
			for _, d := range c.minted {
				events[clock.Dot{Actor: d.Actor, Counter: d.First}] = true
			}
			want := 1
			if tt.want != nil {
				want = made
			}
			if len(events) != want {
				t.Errorf("minted %v, expected %d events", c.minted, want)
			}
		})
	}
}

// other is the number of a try that no coordinator of these tests makes.
const other = 2

// asked asks the replica for a request, as another coordinator.
func (l *link) asked(t *testing.T, id string, try uint64) {
	t.Helper()
	if known, _, err := l.Replica.Knows(ctx, set, []byte(id), try); known || err != nil {
		t.Fatalf("known %v, %v", known, err)
	}
}

// done lets the replica do a request, as another coordinator.
func (l *link) done(t *testing.T, id string) {
	t.Helper()
	r, _, err := l.Replica.Write(ctx, set, add("x"), bigset.WriteOptions{Request: []byte(id), Try: other})
	if err != nil {
		t.Fatal(err)
	}
	l.c.minted = append(l.c.minted, r.Delta)
}

// TestRetryOvertaken: a retry that others overtake again and again, after its questions, does nothing, at no replica, and does not say that nothing has
// happened. If they end before it does, it is done.
func TestRetryOvertaken(t *testing.T) {
	for _, behind := range []bool{false, true} {
		overtakeAgain(t, behind, true)
		overtakeAgain(t, behind, false)
	}
	c := newCluster(t, newSched(1), 3)
	co := c.coordinator(coord.Options{})
	c.links[1].asked(t, "r", math.MaxUint64) // no number is larger
	c.s.run(t, time.Hour, func() {
		r, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x"), Request: []byte("r"), Retry: true})
		if !errors.Is(err, coord.ErrUnknown) || !errors.Is(err, peer.ErrOvertaken) {
			t.Errorf("each question is refused: %+v, %v", r, err)
		}
	})
}

func overtakeAgain(t *testing.T, behind, always bool) {
	t.Helper()
	c := newCluster(t, newSched(1), 3)
	co := c.coordinator(coord.Options{})
	w := coord.Write{Set: set, Ops: add("x"), Request: []byte("r"), Retry: true}
	if behind { // each replica is asked twice: it has to catch up before
		for i, l := range c.links {
			if _, err := l.store.Add(ctx, set, [][]byte{{byte('0' + i)}}, bigset.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		seen := c.links[0].state().Seen
		for _, l := range c.links[1:] {
			seen.Union(l.state().Seen)
		}
		w.Ops[0].Context = bigset.SawAll(seen)
	}
	number := uint64(1 << 63)
	for _, l := range c.links {
		calls := 0
		l.after = func() { // the first time after the question, or the first write
			if calls++; calls == 1 && !behind || calls == 2 && behind || calls > 2 && always {
				number += 1 << 40
				l.asked(t, "r", number)
			}
		}
	}
	before := len(c.minted)
	c.s.run(t, time.Hour, func() {
		r, err := co.Write(ctx, w)
		if !always {
			if err != nil || len(r.Dots) != 1 {
				t.Errorf("behind %v, overtaken once: %+v, %v", behind, r, err)
			}
			return
		}
		var unknown *coord.UnknownError
		if !errors.As(err, &unknown) || !errors.Is(err, peer.ErrOvertaken) || len(r.Dots) > 0 {
			t.Errorf("behind %v: %+v, %v", behind, r, err)
		}
	})
	if always && len(c.minted) != before {
		t.Errorf("behind %v: minted %v", behind, c.minted)
	}
}

// TestRetriesAtOnce: two coordinators, which ask the replicas in different orders, send one request again at the same time. It is done once, whoever was
// first where. Who does not hear of that sends it once more, and then knows.
func TestRetriesAtOnce(t *testing.T) {
	t.Parallel()
	both, crossed := 0, 0
	for seed := range uint64(300) {
		c := newCluster(t, newSched(seed), 3)
		var cos []*coord.Coordinator
		for i := range 2 {
			order := []peer.Replica{c.links[i], c.links[1-i], c.links[2]}
			cos = append(cos, c.coordinator(coord.Options{Rand: c.s.rng.Uint64, Place: coord.List(func([]byte) []peer.Replica { return order })}))
		}
		w := coord.Write{Set: set, Ops: add("x"), Request: []byte("r"), Retry: true}
		dots := map[clock.Dot]bool{}
		c.s.run(t, time.Hour, func() {
			ended, done := 0, 0
			for _, co := range cos {
				c.s.Go(func() {
					defer func() { ended++ }()
					switch r, err := co.Write(ctx, w); {
					case err == nil:
						done++
						dots[r.Dots[0]] = true
					case !errors.Is(err, coord.ErrUnknown):
						t.Errorf("seed %d: %v", seed, err)
					case errors.Is(err, peer.ErrOvertaken):
						crossed++
					}
				})
			}
			c.s.Yield(func() bool { return ended == len(cos) })
			if done == len(cos) {
				both++
			}
			r, err := cos[seed%2].Write(ctx, w)
			if err != nil {
				t.Fatalf("seed %d: once more: %v", seed, err)
			}
			dots[r.Dots[0]] = true
		})
		for _, d := range c.minted {
			dots[clock.Dot{Actor: d.Actor, Counter: d.First}] = true
		}
		if len(dots) != 1 {
			t.Fatalf("seed %d: one request is %d events: %v", seed, len(dots), dots)
		}
	}
	t.Logf("both were told in %d of 300 schedules, %d tries were overtaken to the end", both, crossed)
	if both == 0 {
		t.Error("never did both hear what became of the request")
	}
}

// TestOvertakenInGroup: of writes that come together one was overtaken. It is found or done as by Write, and the others are done with it.
func TestOvertakenInGroup(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		c := newCluster(t, newSched(1), 3)
		co := c.coordinator(coord.Options{Place: c.placeAtHand(0, nil)})
		for _, l := range c.links {
			l.asked(t, "r1", other)
		}
		if elsewhere {
			c.links[2].done(t, "r1")
		}
		got := map[string]coord.Result{}
		c.s.run(t, time.Hour, func() {
			var calls []coord.WriteCall
			for _, id := range []string{"r0", "r1", "r2"} {
				calls = append(calls, coord.WriteCall{Context: ctx, Write: coord.Write{Set: set, Ops: add("x"), Request: []byte(id)}, Done: func(r coord.Result, err error) {
					if err != nil {
						t.Errorf("%s: %v", id, err)
					}
					got[id] = r
				}})
			}
			co.WriteMany(calls)
			c.s.Yield(func() bool { return len(got) == len(calls) })
		})
		by := "node0"
		if elsewhere {
			by = "node2"
		}
		if got["r0"].By.Node != "node0" || got["r1"].By.Node != by || got["r2"].By.Node != "node0" {
			t.Errorf("%+v", got)
		}
	}
}

// TestOvertakenInGroupThen: a write of a group is overtaken, and then its replica is no longer there, or the coordinator is closed. The write stays a retry,
// which asks all replicas, although another one has forgotten that it was asked; and its caller does not read that nothing has happened.
func TestOvertakenInGroupThen(t *testing.T) {
	for _, then := range []string{"away", "closed"} {
		c := newCluster(t, newSched(1), 3)
		for _, l := range c.links {
			l.asked(t, "r", other)
		}
		c.links[2].done(t, "r")
		var co *coord.Coordinator
		co = c.coordinator(coord.Options{Place: c.placeAtHand(0, func() error { // after the group
			if then == "closed" {
				ended, cancel := context.WithCancel(ctx)
				cancel()
				_ = co.Close(ended) // which waits for nothing
				return nil
			}
			c.links[0].down = true
			again, err := local.New(c.links[1].Member().Node, c.links[1].store, peer.Normal)
			c.links[1].Replica = again
			return err
		})})
		ended := false
		c.s.run(t, time.Hour, func() {
			co.WriteMany([]coord.WriteCall{{Context: ctx, Write: coord.Write{Set: set, Ops: add("x"), Request: []byte("r")}, Done: func(r coord.Result, err error) {
				switch ended = true; then {
				case "away":
					if err != nil || r.By.Node != "node2" {
						t.Errorf("%s: %+v, %v", then, r, err)
					}
				case "closed":
					if !errors.Is(err, coord.ErrUnknown) || !errors.Is(err, coord.ErrClosed) {
						t.Errorf("%s: %+v, %v", then, r, err)
					}
				}
			}}})
			c.s.Yield(func() bool { return ended })
		})
		for _, d := range c.minted {
			if d.Actor != c.minted[0].Actor || d.First != c.minted[0].First {
				t.Errorf("%s: one request is several events: %v", then, c.minted)
			}
		}
	}
}
