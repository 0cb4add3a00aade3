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
		answered := 0
		for _, l := range c.links {
			l.after = func() { answered++ } // the first question is whether it knows the request
		}
		s.run(t, time.Hour, func() {
			ctx, cancel := context.WithCancel(ctx)
			s.Go(func() {
				s.Yield(func() bool { return answered >= 2 })
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

// rejoined is a replica that is joining: it does not know what it had before.
type rejoined struct {
	*link
	forgets bool
}

func (f *rejoined) Knows(ctx context.Context, set, request []byte, try uint64) (bool, peer.Member, error) {
	known, by, err := f.link.Knows(ctx, set, request, try)
	if f.forgets {
		known, by.State = false, peer.Joining
	}
	return known, by, err
}

// TestRetryOfAcknowledged: a request that W replicas have acknowledged is not done again while so few answer that none of them may be among these, however
// long those are silent. When one of them answers it is the same event.
func TestRetryOfAcknowledged(t *testing.T) {
	for name, away := range map[string]func(first, last *rejoined){
		"silent":             func(first, last *rejoined) { first.fault, last.fault = lost, lost },
		"down":               func(first, last *rejoined) { first.down, last.down = true, true },
		"silent and joining": func(first, last *rejoined) { first.fault, last.forgets = lost, true },
		"joining":            func(first, last *rejoined) { first.forgets, last.forgets = true, true },
	} {
		s := newSched(1)
		c := newCluster(t, s, 3)
		one, last := &rejoined{link: c.links[0]}, &rejoined{link: c.links[2]}
		co := c.coordinator(coord.Options{Place: coord.List(func([]byte) []peer.Replica { return []peer.Replica{one, c.links[1], last} })})
		w := coord.Write{Set: set, Ops: add("x"), Request: []byte("r")}
		s.run(t, time.Hour, func() {
			c.links[1].down = true
			first, err := co.Write(ctx, w)
			if err != nil || first.Acked != 2 {
				t.Fatalf("%+v, %v", first, err)
			}
			c.links[1].down = false
			away(one, last)
			w.Retry = true
			if r, err := co.Write(ctx, w); !errors.Is(err, coord.ErrNoQuorum) || errors.Is(err, coord.ErrUnknown) || len(c.minted) != 1 {
				t.Errorf("%s: again: %+v, %v, minted %+v", name, r, err, c.minted)
			}
			last.down, last.fault, last.forgets = false, func() string { return "" }, false
			if r, err := co.Write(ctx, w); err != nil || r.Dots[0] != first.Dots[0] {
				t.Errorf("%s: when one of them is back: %+v, the first time %+v, %v", name, r, first, err)
			}
		})
	}
}

// TestRetryOfMaybe: a request that fewer than W replicas have, which are all silent, is not done a second time by the others: it would be two events, and a remove that has
// seen the second would leave the first. When one of them answers, it is the same event.
func TestRetryOfMaybe(t *testing.T) {
	for name, away := range map[string]func(first *link){
		"silent": func(first *link) { first.fault = lost },
		"down":   func(first *link) { first.down = true },
	} {
		c := newCluster(t, newSched(1), 3)
		co := c.coordinator(coord.Options{})
		w := coord.Write{Set: set, Ops: add("x"), Request: []byte("r")}
		c.s.run(t, time.Hour, func() {
			c.links[1].fault, c.links[2].fault = lost, lost
			first, err := co.Write(ctx, w)
			if !errors.Is(err, coord.ErrUnknown) || first.Acked != 1 {
				t.Fatalf("%s: %+v, %v", name, first, err)
			}
			for _, l := range c.links[1:] {
				l.fault = func() string { return "" }
			}
			away(c.links[0])
			w.Retry = true
			if r, err := co.Write(ctx, w); !errors.Is(err, coord.ErrNoQuorum) || errors.Is(err, coord.ErrUnknown) || len(c.minted) != 1 {
				t.Errorf("%s: again: %+v, %v, minted %+v", name, r, err, c.minted)
			}
			c.links[0].down, c.links[0].fault = false, func() string { return "" }
			if r, err := co.Write(ctx, w); err != nil || r.Dots[0] != first.Dots[0] {
				t.Errorf("%s: when it is back: %+v, the first time %+v, %v", name, r, first, err)
			}
		})
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
