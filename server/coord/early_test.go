package coord_test

import (
	"context"
	"sync"
	"testing"

	"bigset"
	"bigset/server/coord"
	"bigset/server/peer"
)

// early is a runner whose Go returns when what it has started waits for the first time, or has ended.
type early struct {
	coord.Goroutines
	mu   sync.Mutex
	runs func() // signals to Go that what it has started has come so far
}

func (e *early) Go(f func()) {
	waits := make(chan struct{})
	e.mu.Lock()
	e.runs = sync.OnceFunc(func() { close(waits) })
	e.mu.Unlock()
	go func() {
		defer e.came()
		f()
	}()
	<-waits
}

func (e *early) came() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs()
}

func (e *early) NewSignal() coord.Signal { return earlySignal{e.Goroutines.NewSignal(), e} }

type earlySignal struct {
	coord.Signal
	e *early
}

func (s earlySignal) Wait(ctx context.Context) error {
	s.e.came()
	return s.Signal.Wait(ctx)
}

// TestReadEarlyChunk: a replica's first chunk may come before the next replica is asked.
func TestReadEarlyChunk(t *testing.T) {
	c := newCluster(t, newSched(1), 2)
	added, err := c.links[0].store.Add(ctx, set, [][]byte{[]byte("x")}, bigset.WriteOptions{})
	if err == nil {
		err = c.links[1].store.Replica().ApplyDelta(ctx, added.Delta, bigset.ApplyOptions{Durability: bigset.NoSync})
	}
	if err != nil {
		t.Fatal(err)
	}
	co, err := coord.New(coord.Options{Runner: &early{}, Place: coord.List(func([]byte) []peer.Replica {
		return []peer.Replica{c.links[0].Replica, c.links[1].Replica}
	})})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := gather(co, coord.Read{Set: set, Quorum: coord.Quorum{N: 2}}); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}
