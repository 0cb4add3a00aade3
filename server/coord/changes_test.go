package coord_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/server/coord"
	"bigset/server/peer"
)

// hanging is a replica that answers nothing to Locate, although it is up.
type hanging struct{ *link }

func (h hanging) Locate(ctx context.Context, _ []byte, _ *clock.Clock) iter.Seq2[bigset.Facts, error] {
	return func(yield func(bigset.Facts, error) bool) {
		h.c.s.Yield(func() bool { return ctx.Err() != nil })
		yield(bigset.Facts{}, ctx.Err())
	}
}

// heeding is a replica that ends an answer to Locate when its context ends.
type heeding struct{ *link }

func (h heeding) Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	return func(yield func(bigset.Facts, error) bool) {
		for f, err := range h.link.Locate(ctx, set, dots) {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// slow is a replica that searches for a minute before it answers to Locate.
type slow struct{ heeding }

func (w slow) Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	return func(yield func(bigset.Facts, error) bool) {
		end := w.c.s.Now().Add(minute)
		for w.c.s.Now().Before(end) && ctx.Err() == nil {
			w.c.s.Sleep(second)
		}
		if ctx.Err() != nil {
			yield(bigset.Facts{}, ctx.Err())
			return
		}
		w.heeding.Locate(ctx, set, dots)(yield)
	}
}

// TestLocateHung: a replica that hangs delays an answer by ChunkTimeout, and another one gives it, also one that searches for longer. If that one doesn't know a dot, the
// error says that the first one did not answer. How long the caller takes for a part does not count.
func TestLocateHung(t *testing.T) {
	for _, searches := range []bool{false, true} {
		testLocateHung(t, searches)
	}
}

func testLocateHung(t *testing.T, searches bool) {
	s := newSched(1)
	c := newCluster(t, s, 3)
	other := peer.Replica(heeding{c.links[1]})
	least, most := 5*second+minute, 10*second+2*minute
	if searches {
		other = slow{heeding{c.links[1]}}
		least, most = most, 10*minute
	}
	co := c.coordinator(coord.Options{HintInterval: -1, ExchangeInterval: -1, ChunkTimeout: 5 * second, Place: coord.List(func([]byte) []peer.Replica {
		return []peer.Replica{hanging{c.links[0]}, other}
	})})
	store := c.links[1].store
	_, err := store.Add(ctx, set, [][]byte{[]byte("x"), []byte("y")}, bigset.WriteOptions{})
	if err == nil {
		_, err = store.Remove(ctx, set, [][]byte{[]byte("y")}, bigset.WriteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	known := c.links[1].state().Seen
	s.run(t, time.Hour, func() {
		began := s.Now()
		keys, dead := 0, &clock.Clock{}
		err := co.Locate(ctx, set, known, func(f bigset.Facts) error {
			keys += len(f.Keys)
			dead.Union(f.Dead)
			s.Sleep(minute)
			return ctx.Err()
		})
		if took := s.Now().Sub(began); err != nil || keys != 1 || dead.Len() != 2 || took < least || took > most {
			t.Errorf("searches %v: %d keys, dead %v, %v, after %v", searches, keys, dead, err, took)
		}
		unknown := clock.Of(clock.Dot{Actor: "nobody", Counter: 1})
		var quorum *coord.QuorumError
		if err := co.Locate(ctx, set, unknown, func(bigset.Facts) error { return nil }); !errors.As(err, &quorum) || !errors.Is(err, context.DeadlineExceeded) || quorum.Answered != 1 {
			t.Errorf("an unknown dot: %v", err)
		}
	})
	if running, timers := s.Left(); running+timers > 0 {
		t.Errorf("%d tasks and %d timers are left", running, timers)
	}
}
