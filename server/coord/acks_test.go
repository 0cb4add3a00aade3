package coord_test

import (
	"testing"
	"time"

	"bigset"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

// TestLaterAcks: a change that a quorum has answered goes on counting the other replicas until each of them has it or has failed. It does not count what comes by a hint.
func TestLaterAcks(t *testing.T) {
	for name, tt := range map[string]struct {
		q     coord.Quorum
		lost  bool // what goes to the last replica
		away  bool // no replica is the coordinator's own
		moves bool // the range is moving to other replicas
		last  int  // replicas that have it in the end; 0 if nothing is left to count when it is answered
	}{
		"the last is slow":           {last: 3},
		"none of them here":          {away: true, last: 3},
		"the last is lost":           {lost: true, last: 2},
		"one is enough":              {q: coord.Quorum{W: 1, DW: coord.None}, last: 3},
		"all are needed":             {q: coord.Quorum{W: 3}},
		"the range is moving":        {moves: true, last: 3},
		"lost while it is moving":    {moves: true, lost: true, last: 2},
		"lost and none of them here": {away: true, lost: true, last: 2},
	} {
		for _, how := range []string{"write", "writes", "drop"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				s := newSched(1)
				c := newCluster(t, s, 3)
				h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{Now: s.Now})
				o := coord.Options{Hints: h, HintInterval: -1, GatherTime: second / 100, SendTimeout: 2 * second}
				switch {
				case tt.moves:
					o.Place = func([]byte) coord.Placement[peer.Replica] {
						all := c.place(nil)
						return coord.Placement[peer.Replica]{Read: all[:1], Write: [][]peer.Replica{all[:1], all}}
					}
				case !tt.away:
					o.Place = c.placeAtHand(0, func() error { return nil })
				}
				co, slow := c.coordinator(o), c.links[2]
				slow.after = func() { s.Sleep(second) }
				if tt.lost {
					slow.fault = func() string { return "lost" }
				}
				s.run(t, time.Hour, func() {
					if how == "drop" {
						if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x"), Quorum: tt.q}); err != nil {
							t.Error(err)
						}
					}
					r, err := changeOf(s, co, how, add("x"), tt.q, true)
					if err != nil || r.Acked < max(1, tt.q.W) || (r.Later == nil) != (tt.last == 0) {
						t.Errorf("%+v, %v", r, err)
					}
					if r.Later == nil {
						return
					}
					half, end := coord.Deadline(ctx, s, second/2)
					defer end()
					began := s.Now()
					if got, took := r.Later.Wait(half, 3), s.Now().Sub(began); got == 3 || took < second/2 {
						t.Errorf("%d have it after %v", got, took)
					}
					if got := r.Later.Wait(ctx, 1); got < 1 {
						t.Errorf("%d have it", got)
					}
					other := 0
					s.Go(func() { other = r.Later.Wait(ctx, 3) })
					if got, took := r.Later.Wait(ctx, 3), s.Now().Sub(began); got != tt.last || took > 3*second {
						t.Errorf("%d have it after %v, want %d", got, took, tt.last)
					}
					slow.fault, slow.after = func() string { return "" }, nil
					if _, err := co.Replay(ctx, "node2"); err != nil {
						t.Error(err)
					}
					s.Sleep(minute)
					if got := r.Later.Wait(ctx, 9); got != tt.last || other != tt.last {
						t.Errorf("%d and %d have it in the end, want %d", got, other, tt.last)
					}
					if n := c.holds(r.Delta); n != 3 {
						t.Errorf("%d replicas have it", n)
					}
				})
			})
		}
	}
}

// changeOf does a write or a drop.
func changeOf(s *sched, co *coord.Coordinator, how string, ops []bigset.Op, q coord.Quorum, later bool) (r coord.Result, err error) {
	switch w := (coord.Write{Set: set, Ops: ops, Quorum: q, Later: later}); how {
	case "write":
		return co.Write(ctx, w)
	case "drop":
		return co.Drop(ctx, coord.Drop{Set: set, Quorum: q, Later: later})
	default:
		done := s.NewSignal()
		co.WriteMany([]coord.WriteCall{{Context: ctx, Write: w, Done: func(result coord.Result, failed error) {
			r, err = result, failed
			done.Set()
		}}})
		_ = done.Wait(ctx)
		return r, err
	}
}

// TestNoLaterAcks: nobody counts for a change that was no event, or whose caller does not ask.
func TestNoLaterAcks(t *testing.T) {
	s := newSched(1)
	c := newCluster(t, s, 3)
	co := c.coordinator(coord.Options{HintInterval: -1})
	c.links[2].after = func() { s.Sleep(second) }
	s.run(t, time.Hour, func() {
		for _, how := range []string{"write", "writes", "drop"} {
			if r, err := changeOf(s, co, how, add("x"), coord.Quorum{}, false); err != nil || r.Acked != 2 || r.Later != nil {
				t.Errorf("%s: %+v, %v", how, r, err)
			}
		}
		for _, how := range []string{"write", "writes"} {
			never := []bigset.Op{{Kind: keyscheme.OpRemove, Element: []byte("never")}}
			if r, err := changeOf(s, co, how, never, coord.Quorum{}, true); err != nil || r.Acked != 0 || r.Later != nil {
				t.Errorf("%s: %+v, %v", how, r, err)
			}
		}
	})
}
