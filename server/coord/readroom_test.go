package coord_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"bigset"
	"bigset/server/coord"
	"bigset/server/peer"
)

// TestReadsMax: reads above the bound wait their turn, and when their time is up they are busy and have asked nobody. Writes do not wait.
func TestReadsMax(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(context.Context, *coord.Coordinator) error{
		"read": func(ctx context.Context, co *coord.Coordinator) error {
			_, err := co.Count(ctx, coord.Read{Set: set, Quorum: coord.Quorum{N: 2}})
			return err
		},
		"lookup": func(ctx context.Context, co *coord.Coordinator) error {
			_, err := co.Lookup(ctx, coord.Lookup{Set: set, Elements: [][]byte{[]byte("x")}, Quorum: coord.Quorum{N: 2}})
			return err
		},
	} {
		c := newCluster(t, newSched(1), 2)
		co := c.coordinator(coord.Options{ReadsMax: 2, Timeout: 10 * second})
		c.s.run(t, 10*minute, func() {
			if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x"), Quorum: coord.Quorum{N: 2}}); err != nil {
				t.Fatal(err)
			}
			// Two consumers hold their reads for 5 s.
			begun, held := 0, 0
			for range 2 {
				c.s.Go(func() {
					for range co.Read(ctx, coord.Read{Set: set, Quorum: coord.Quorum{N: 2}}) {
						begun++
						c.s.Sleep(5 * second)
						break
					}
					held++
				})
			}
			c.s.Yield(func() bool { return begun == 2 })
			calls := c.links[0].calls + c.links[1].calls
			at := c.s.Now()
			for range 2 { // as many as there is room for
				short, cancel := context.WithCancel(ctx)
				c.s.After(second, cancel)
				at := c.s.Now()
				if err := read(short, co); !errors.Is(err, coord.ErrBusy) || errors.Is(err, coord.ErrUnknown) || c.s.Now().Sub(at) != second {
					t.Errorf("%s above the bound: %v after %v", name, err, c.s.Now().Sub(at))
				}
			}
			if now := c.links[0].calls + c.links[1].calls; now != calls {
				t.Errorf("%s above the bound: %d replicas were asked", name, now-calls)
			}
			if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add("y"), Quorum: coord.Quorum{N: 2}}); err != nil || held > 0 {
				t.Errorf("%s: a write beside reads: %v", name, err)
			}
			if err := read(ctx, co); err != nil || c.s.Now().Sub(at) < 4*second || held == 0 {
				t.Errorf("%s when there is room: %v after %v", name, err, c.s.Now().Sub(at))
			}
			c.s.Yield(func() bool { return held == 2 })
			for range 10 { // nothing of the room is lost, also not by the one that has given up
				if err := read(ctx, co); err != nil {
					t.Errorf("%s after all: %v", name, err)
				}
			}
		})
	}
}

// TestReadsMaxFilters: checks of filters are reads, too, and the room goes on from one to the next.
func TestReadsMaxFilters(t *testing.T) {
	t.Parallel()
	c := newFilterCluster(t, newSched(2), 3)
	co := c.coordinator(coord.Options{PlaceSlice: coord.ListSlices(c.sameOrder), ReadsMax: 1, Timeout: 10 * second})
	f := filterOf(4, 1)
	for _, l := range c.links {
		l.fault = func() string { c.s.Sleep(3 * second); return "" }
	}
	ok, busy := 0, 0
	at := c.s.Now()
	c.s.run(t, 10*minute, func() {
		for range 5 { // each takes 3 s, and waits for 10 s
			c.s.Go(func() {
				_, err := co.CheckFilter(ctx, keysOf(f, "x", "y", "z"))
				switch {
				case err == nil:
					ok++
				case errors.Is(err, coord.ErrBusy) && !errors.Is(err, bigset.ErrNoFilter) && !errors.Is(err, peer.ErrUnavailable):
					busy++
				default:
					t.Errorf("%v", err)
				}
			})
		}
		c.s.Yield(func() bool { return ok+busy == 5 })
		if took := c.s.Now().Sub(at); ok != 4 || busy != 1 || took < 12*second {
			t.Errorf("%d checks answered, %d were busy, in %v", ok, busy, took)
		}
	})
}

// tardy is a runner whose signals call late after a wait in vain, before the caller that waited knows.
type tardy struct {
	coord.Goroutines
	late func()
}

func (r *tardy) NewSignal() coord.Signal { return tardySignal{r.Goroutines.NewSignal(), r} }

type tardySignal struct {
	coord.Signal
	r *tardy
}

func (s tardySignal) Wait(ctx context.Context) error {
	err := s.Signal.Wait(ctx)
	if late := s.r.late; err != nil && late != nil {
		s.r.late = nil
		late()
	}
	return err
}

// TestReadsMaxLate: room that is given to a read which has just given up goes to the next.
func TestReadsMaxLate(t *testing.T) {
	t.Parallel()
	c := newCluster(t, newSched(1), 1)
	if _, err := c.links[0].store.Add(ctx, set, [][]byte{[]byte("x")}, bigset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	run := &tardy{}
	co, err := coord.New(coord.Options{Runner: run, ReadsMax: 1, Timeout: second, Quorum: coord.Quorum{N: 1},
		Place: coord.List(func([]byte) []peer.Replica { return []peer.Replica{c.links[0].Replica} })})
	if err != nil {
		t.Fatal(err)
	}
	next, stop := iter.Pull2(co.Read(ctx, coord.Read{Set: set}))
	if _, err, _ := next(); err != nil {
		t.Fatal(err)
	}
	run.late = stop
	ended, cancel := context.WithCancel(ctx)
	cancel()
	l := coord.Lookup{Set: set, Elements: [][]byte{[]byte("x")}}
	if _, err := co.Lookup(ended, l); !errors.Is(err, coord.ErrBusy) {
		t.Errorf("a lookup above the bound: %v", err)
	}
	if _, err := co.Lookup(ctx, l); err != nil {
		t.Errorf("a lookup when there is room: %v", err)
	}
}
