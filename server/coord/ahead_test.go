package coord_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"bigset"
	"bigset/internal/testkit"
	"bigset/server/coord"
	"bigset/server/peer"
)

// TestSentBesideTheSync: what the coordinator's own replica has applied goes to the others while its disk is at work on it. That replica counts when the
// disk is done, and not before; if the disk fails, the others may be enough, and it is never said that nothing has happened.
func TestSentBesideTheSync(t *testing.T) {
	const slow = 10 * time.Second // what the coordinator's own disk takes
	for name, tt := range map[string]struct {
		q       coord.Quorum
		down    int   // of the others
		fails   error // of the disk
		atOnce  bool
		acked   int
		unknown bool
	}{
		"the others are enough":              {atOnce: true, acked: 2},
		"all have to":                        {q: coord.Quorum{W: 3}, acked: 3},
		"one is down":                        {down: 1, acked: 2},
		"the disk fails":                     {fails: bigset.ErrFailed, atOnce: true, acked: 2},
		"the disk fails, all have to":        {q: coord.Quorum{W: 3}, fails: bigset.ErrFailed, acked: 2, unknown: true},
		"the disk fails, and one is down":    {down: 1, fails: bigset.ErrFailed, acked: 1, unknown: true},
		"the disk fails, and both are down":  {down: 2, fails: bigset.ErrFailed, acked: 0, unknown: true},
		"the store closes, and one is down":  {down: 1, fails: peer.ErrUnavailable, acked: 1, unknown: true},
		"the store closes, both are down":    {down: 2, fails: peer.ErrUnavailable, acked: 0, unknown: true},
		"it seems refused, both are down":    {down: 2, fails: bigset.ErrRequest, acked: 0, unknown: true},
		"it seems behind, and one is down":   {down: 1, fails: bigset.ErrBehind, acked: 1, unknown: true},
		"w 1, dw 1: one of the others does":  {q: coord.Quorum{W: 1, DW: 1}, atOnce: true, acked: 1},
		"w 1, dw 1: its own, both are down":  {q: coord.Quorum{W: 1, DW: 1}, down: 2, acked: 1},
		"w 3, dw 1: applied is not yet here": {q: coord.Quorum{W: 3, DW: 1}, acked: 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSched(1)
			c := newCluster(t, s, 3)
			h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{Now: s.Now})
			co := c.coordinator(coord.Options{Hints: h, HintInterval: -1, Timeout: minute,
				Place: c.placeAtHand(0, func() error { s.Sleep(slow); return tt.fails })})
			for _, l := range c.links[1 : 1+tt.down] {
				l.down = true
			}
			s.run(t, time.Hour, func() {
				began := s.Now()
				r, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x"), Quorum: tt.q})
				if errors.Is(err, coord.ErrUnknown) != tt.unknown || (err != nil) != tt.unknown {
					t.Errorf("%v", err)
				}
				if r.Acked != tt.acked || r.Durable != tt.acked || r.By.Node != "node0" || len(r.Dots) != 1 {
					t.Errorf("%+v, want %d acknowledged", r, tt.acked)
				}
				if took := s.Now().Sub(began); (took < slow) != tt.atOnce {
					t.Errorf("answered after %v", took)
				}
			})
			for i, l := range c.links {
				missed := i > 0 && l.down || i == 0 && tt.fails != nil && !peer.Refused(tt.fails)
				if n, _ := h.Pending(l.Member().Node); (n == 1) != missed {
					t.Errorf("%d hints for %v", n, l.Member())
				}
			}
			if len(c.minted) != 1 {
				t.Errorf("minted %v", c.minted)
			}
		})
	}
}

// slowFar is a replica elsewhere whose disk takes its time after a write was applied. It is cut off when its context ends.
type slowFar struct {
	*link
	takes time.Duration
	cut   error // why it was
}

func (f *slowFar) Write(ctx context.Context, set []byte, ops []bigset.Op, o bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	r, m, err := f.Replica.Write(ctx, set, ops, o)
	for end := f.c.s.Now().Add(f.takes); err == nil && f.c.s.Now().Before(end); f.c.s.Sleep(second) {
		err = context.Cause(ctx)
	}
	f.cut = err
	return r, m, err
}

// TestSlowMakerIsNotCutOff: a replica elsewhere whose disk is slower than those of the others is not cut off when these are enough, nor when the caller has
// gone, and costs no hint. It has the time of an operation, and no more, and Close does not wait for it.
func TestSlowMakerIsNotCutOff(t *testing.T) {
	for _, tt := range []struct {
		takes  time.Duration
		closes bool
		hints  int
	}{{10 * second, false, 0}, {2 * minute, false, 1}, {10 * second, true, 1}} {
		takes, hints := tt.takes, tt.hints
		s := newSched(1)
		c := newCluster(t, s, 3)
		h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{Now: s.Now})
		maker := &slowFar{link: c.links[0], takes: takes}
		co := c.coordinator(coord.Options{Hints: h, HintInterval: -1, Timeout: minute, Place: coord.List(func([]byte) []peer.Replica {
			return []peer.Replica{maker, c.links[1], c.links[2]}
		})})
		s.run(t, time.Hour, func() {
			began := s.Now()
			asking, gone := context.WithCancel(ctx)
			r, err := co.Write(asking, coord.Write{Set: set, Ops: add("x")})
			gone()
			if tt.closes {
				err = errors.Join(err, co.Close(ctx))
			}
			if took := s.Now().Sub(began); err != nil || r.Acked != 2 || took >= 5*second {
				t.Errorf("%+v, %v, after %v", r, err, took)
			}
		})
		if n, _ := h.Pending("node0"); n != hints || c.saw(coord.EventNotSent) != hints || (maker.cut != nil) != (hints > 0) {
			t.Errorf("a disk that takes %v: %d hints, want %d; %v", takes, n, hints, maker.cut)
		}
		if running, timers := s.Left(); running+timers > 0 {
			t.Errorf("a disk that takes %v: %d tasks and %d timers are left", takes, running, timers)
		}
	}
}
