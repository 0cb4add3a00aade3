package coord_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bigset/internal/testkit"
	"bigset/server/coord"
	"bigset/server/peer"
)

// TestGather: deltas to a replica that no quorum needs leave together after GatherTime. What a quorum needs leaves at once. Nothing is lost: a delta that finds no room is a hint, and so is one that does not arrive.
func TestGather(t *testing.T) {
	const writes = 5
	for name, tt := range map[string]struct {
		q     coord.Quorum
		acked int // of each write, when it is answered
		sets  int // that are written in turn; the default is 1
		ops   int // of each write; the default is 1
		room  int // for deltas under way
		away  bool
		moves bool // the range is moving to other replicas
		down  int  // a node; the default is none
		waits bool // the answer needs the last replica
		early int  // calls to the last replica when the writes are answered
		calls int  // at the end
		hints int  // for the last replica
	}{
		"gathered":            {acked: 2, calls: 1},
		"by set":              {acked: 2, sets: 2, calls: 2},
		"none of them here":   {acked: 2, away: true, calls: 1},
		"all needed":          {q: coord.Quorum{W: 3}, acked: 3, early: writes, calls: writes},
		"all needed on disk":  {q: coord.Quorum{DW: 3}, acked: 3, early: writes, calls: writes},
		"no other needed":     {q: coord.Quorum{W: 1, DW: coord.None}, acked: 1, calls: 1},
		"large":               {acked: 2, ops: 12, calls: writes},
		"the last is down":    {acked: 2, down: 2, calls: 1, hints: writes},
		"the other is down":   {acked: 2, down: 1, waits: true, early: writes, calls: writes},
		"room for two":        {acked: 2, room: 2, calls: 1, hints: writes - 2},
		"the range is moving": {moves: true, early: writes, calls: writes},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSched(1)
			c := newCluster(t, s, 3)
			h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{Now: s.Now})
			o := coord.Options{Hints: h, HintInterval: -1, GatherTime: second, Timeout: minute, SendsMax: tt.room}
			switch {
			case tt.moves:
				o.Place = func([]byte) coord.Placement[peer.Replica] {
					all := c.place(nil)
					return coord.Placement[peer.Replica]{Read: all[:1], Write: [][]peer.Replica{all[:1], all}}
				}
			case !tt.away:
				o.Place = c.placeAtHand(0, func() error { return nil })
			}
			co, last := c.coordinator(o), c.links[2]
			c.links[tt.down].down = tt.down > 0
			s.run(t, time.Hour, func() {
				for i := range writes {
					began, ops := s.Now(), add(fmt.Sprint("x", i))
					for k := 1; k < tt.ops; k++ {
						ops = append(ops, add(fmt.Sprint(strings.Repeat("x", 50_000), i, k))...)
					}
					r, err := co.Write(ctx, coord.Write{Set: fmt.Append(nil, i%max(1, tt.sets)), Ops: ops, Quorum: tt.q})
					if err != nil || r.Acked != tt.acked && !tt.moves {
						t.Errorf("write %d: %v, %d acknowledged", i, err, r.Acked)
					}
					if took := s.Now().Sub(began); (took >= second) != tt.waits {
						t.Errorf("write %d was answered after %v", i, took)
					}
				}
				if last.calls != tt.early {
					t.Errorf("%d calls when the writes were answered, want %d", last.calls, tt.early)
				}
				s.Sleep(2 * second)
				if last.calls != tt.calls {
					t.Errorf("%d calls at the end, want %d", last.calls, tt.calls)
				}
			})
			if n, _ := h.Pending(last.Member().Node); n != tt.hints {
				t.Errorf("%d hints for the last replica, want %d", n, tt.hints)
			}
		})
	}
}

// TestGatherClose: what was gathered becomes hints when the coordinator is closed, which does not wait for GatherTime, or has arrived.
func TestGatherClose(t *testing.T) {
	s := newSched(1)
	c := newCluster(t, s, 3)
	h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{Now: s.Now})
	co := c.coordinator(coord.Options{Hints: h, HintInterval: -1, GatherTime: minute, Place: c.placeAtHand(0, func() error { return nil })})
	c.links[2].down = true
	s.run(t, time.Hour, func() {
		for i := range 3 {
			if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add(fmt.Sprint(i))}); err != nil {
				t.Error(err)
			}
		}
		began := s.Now()
		if err := co.Close(ctx); err != nil || s.Now().Sub(began) >= minute {
			t.Errorf("%v after %v", err, s.Now().Sub(began))
		}
	})
	if n, _ := h.Pending("node2"); n != 3 {
		t.Errorf("%d hints, want 3", n)
	}
}
