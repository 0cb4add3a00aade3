package coord_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"bigset"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/server/coord"
	"bigset/server/peer"
)

// watched records when a read that was asked of it has ended.
type watched struct {
	*link
	over bool
}

func (w *watched) Read(ctx context.Context, set []byte, o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) {
		w.link.Read(ctx, set, o)(yield)
		w.over = true
	}
}

// TestReadReplacedStops: a replica that was replaced because it fell silent is stopped while the read goes on.
func TestReadReplacedStops(t *testing.T) {
	for seed := range uint64(5) {
		s := newSched(seed)
		c, want := scattered(t, s, 200)
		silent := &watched{link: c.links[1]}
		silent.fault = func() string {
			if silent.chunks == 2 {
				return "lost"
			}
			return ""
		}
		co := c.coordinator(coord.Options{Place: coord.List(func([]byte) []peer.Replica { return []peer.Replica{c.links[0], silent, c.links[2]} })})
		s.run(t, minute, func() {
			contexts, elements := 0, 0
			for part, err := range co.Read(ctx, coord.Read{Set: set, Options: bigset.ReadOptions{BatchSize: 11}}) {
				if err != nil {
					t.Fatal(err)
				}
				if elements += len(part.Elements); part.Context != nil {
					contexts++
				}
				if contexts == 2 && !silent.over {
					if s.Sleep(time.Second); !silent.over {
						t.Errorf("seed %d: it is still asked", seed)
					}
				}
			}
			if contexts != 2 || elements != len(want.Elements()) {
				t.Errorf("seed %d: %d contexts, %d elements of %d", seed, contexts, elements, len(want.Elements()))
			}
		})
	}
}

// lateParts is a replica whose first two chunks come some time after they were asked for, even if nobody waits for them any more, and the others
// do not come.
type lateParts struct {
	*link
	s *sched
}

func (r *lateParts) Read(ctx context.Context, set []byte, o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) {
		late := 10 * time.Millisecond
		sent := 0
		for c, err := range r.Replica.Read(context.WithoutCancel(ctx), set, o) {
			if sent++; sent > 2 {
				late = time.Hour
			}
			if r.s.Sleep(late); !yield(c, err) {
				return
			}
		}
	}
}

// TestReadLeavesNothing: a read that its caller stops does not wait for what comes after that.
func TestReadLeavesNothing(t *testing.T) {
	s := newSched(1)
	c, _ := scattered(t, s, 200)
	var replicas []peer.Replica
	for _, l := range c.links {
		replicas = append(replicas, &lateParts{l, s})
	}
	co := c.coordinator(coord.Options{Place: coord.List(func([]byte) []peer.Replica { return replicas })})
	s.run(t, time.Second, func() {
		for part, err := range co.Read(ctx, coord.Read{Set: set, Options: bigset.ReadOptions{BatchSize: 11}}) {
			if err != nil {
				t.Error(err)
			}
			if len(part.Elements) > 0 {
				break
			}
		}
	})
	if running, timers := s.Left(); running+timers > 0 {
		t.Errorf("%d tasks and %d timers are left", running, timers)
		s.run(t, 2*time.Hour, func() {}) // the stores wait for the reads that are left
	}
}

// TestReadHedged: a replica that says nothing at all costs a read HedgeTime, and slow ones cost no read its quorum.
func TestReadHedged(t *testing.T) {
	for seed := range uint64(5) {
		s := newSched(seed)
		c, want := scattered(t, s, 200)
		mode := ""
		for i, l := range c.links {
			l.fault = func() string {
				switch {
				case mode == "silent" && i == 1:
					return "lost"
				case mode == "slow" && l.chunks == 0:
					s.Sleep(1500 * time.Millisecond)
				}
				return ""
			}
		}
		co := c.coordinator(coord.Options{HedgeTime: 100 * time.Millisecond})
		for _, m := range []struct {
			name string
			most time.Duration
		}{{"silent", 400 * time.Millisecond}, {"slow", 8 * time.Second}} {
			mode, c.events = m.name, nil
			s.run(t, minute, func() {
				began, elements := s.Now(), 0
				for part, err := range co.Read(ctx, coord.Read{Set: set}) {
					if err != nil {
						t.Errorf("seed %d: %s: %v", seed, m.name, err)
						return
					}
					elements += len(part.Elements)
				}
				if took := s.Now().Sub(began); took > m.most || elements != len(want.Elements()) {
					t.Errorf("seed %d: %s: %v for %d elements of %d", seed, m.name, took, elements, len(want.Elements()))
				}
			})
			if c.saw(coord.EventHedged) == 0 {
				t.Errorf("seed %d: %s: no event says that another replica was asked", seed, m.name)
			}
			for _, l := range c.links {
				l.chunks = 0
			}
		}
	}
}

// TestLookupRepairs looks at all replicas: what one has, all have afterwards, unless that is more than may be sent.
func TestLookupRepairs(t *testing.T) {
	for _, most := range []int{0, 10} {
		c, want := scattered(t, newSched(3), 300)
		co := c.coordinator(coord.Options{RepairsMax: most})
		var elements [][]byte
		for i := range 300 {
			elements = append(elements, fmt.Appendf(nil, "%05d", i))
		}
		c.s.run(t, minute, func() {
			if _, err := co.Lookup(ctx, coord.Lookup{Set: set, Elements: elements, Quorum: coord.Quorum{R: 3}}); err != nil {
				t.Error(err)
			}
		})
		repaired, left := c.saw(coord.EventRepaired), c.saw(coord.EventRepairLeft)
		if most > 0 && (repaired > 0 || left != 3) || most == 0 && (repaired != 3 || left > 0) {
			t.Errorf("at most %d: %d repaired, %d left", most, repaired, left)
		}
		for _, l := range c.links {
			if same := testkit.SameElements(l.elements(), want.Elements()) == nil; same != (most == 0) {
				t.Errorf("at most %d: %v has %d elements of %d", most, l.Member(), len(l.elements()), len(want.Elements()))
			}
		}
	}
}
