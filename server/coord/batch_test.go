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

// TestBatchIsWhole looks at all replicas after each step that one of them does: it has all of a batch or nothing, also of one that is
// lost, doubled, or comes again as a hint.
func TestBatchIsWhole(t *testing.T) {
	batch := []string{"a", "b", "c", "d"}
	for seed := range uint64(10) {
		s := newSched(seed)
		c := newCluster(t, s, 3)
		co := c.coordinator(coord.Options{Hints: openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{Now: s.Now})})
		applied := 0
		for _, l := range c.links {
			l.after = func() {
				applied++
				if n := len(l.elements()); n != 0 && n != len(batch) {
					t.Errorf("seed %d: %v has %d of %d elements", seed, l.Member(), n, len(batch))
				}
			}
		}
		for _, l := range c.links[1:] {
			l.fault = func() string {
				faults := []string{"", "twice", "lost", "mute"}
				if l.calls > 1 { // a hint waits for its answer
					faults = faults[:2]
				}
				return faults[s.rng.IntN(len(faults))]
			}
		}
		s.run(t, time.Hour, func() {
			if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add(batch...)}); err != nil && !errors.Is(err, coord.ErrUnknown) {
				t.Error(err)
			}
			if err := co.Close(ctx); err != nil { // what is under way becomes hints
				t.Error(err)
			}
			for _, l := range c.links[1:] {
				if _, err := co.Replay(ctx, l.Member().Node); err != nil {
					t.Error(err)
				}
			}
		})
		for _, l := range c.links {
			if len(l.elements()) != len(batch) || applied < 3 {
				t.Errorf("seed %d: %v has %v", seed, l.Member(), l.elements())
			}
		}
	}
}

// deaf is a replica that does what it is asked although nobody waits for it any more.
type deaf struct{ *link }

func (d deaf) Write(ctx context.Context, set []byte, ops []bigset.Op, o bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	return d.link.Write(context.WithoutCancel(ctx), set, ops, o)
}

// TestNothingBeginsLate: what was answered as not having happened does not begin afterwards.
func TestNothingBeginsLate(t *testing.T) {
	never := 0
	for seed := range uint64(20) {
		s := newSched(seed)
		c := newCluster(t, s, 3)
		co := c.coordinator(coord.Options{Place: coord.List(func([]byte) (all []peer.Replica) {
			for _, l := range c.links {
				all = append(all, deaf{l})
			}
			return all
		})})
		asked := false
		for _, l := range c.links {
			l.fault = func() string { // the first question is whether it knows the request
				if asked = true; l.calls == 1 {
					return "lost"
				}
				return ""
			}
		}
		s.run(t, time.Hour, func() {
			ctx, cancel := context.WithCancel(ctx)
			s.Go(func() {
				s.Yield(func() bool { return asked })
				cancel()
			})
			_, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x"), Request: []byte("r"), Retry: true})
			if errors.Is(err, coord.ErrNoQuorum) {
				never++
			} else if err != nil && !errors.Is(err, coord.ErrUnknown) {
				t.Error(err)
			}
			alone := func() bool { running, _ := s.Left(); return running == 1 }
			if s.Yield(alone); errors.Is(err, coord.ErrNoQuorum) && len(c.minted) > 0 {
				t.Errorf("seed %d: %v, and it has happened: %+v", seed, err, c.minted)
			}
		})
	}
	if never == 0 {
		t.Error("no write was given up before it began")
	}
}

// TestRetryOfKnown: a request that a replica has done has happened, also when that replica is away by the time it is asked to answer
// it again: nobody else does it, and the answer is not that nothing has happened.
func TestRetryOfKnown(t *testing.T) {
	s := newSched(1)
	c := newCluster(t, s, 3)
	co := c.coordinator(coord.Options{})
	w := coord.Write{Set: set, Ops: add("x"), Request: []byte("r")}
	c.links[1].fault, c.links[2].fault = lost, lost
	s.run(t, minute, func() {
		if r, err := co.Write(ctx, w); !errors.Is(err, coord.ErrUnknown) || r.Acked != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		c.links[0].after = func() { c.links[0].down = true } // it has said that it knows the request
		for _, l := range c.links[1:] {
			l.fault = func() string { return "" }
		}
		w.Retry = true
		if r, err := co.Write(ctx, w); !errors.Is(err, coord.ErrUnknown) || r.Acked > 0 {
			t.Errorf("again: %+v, %v", r, err)
		}
	})
	if len(c.minted) != 1 {
		t.Errorf("minted %+v", c.minted)
	}
}
