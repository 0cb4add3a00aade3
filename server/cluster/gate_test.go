package cluster

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/server/peer"
)

func TestGate(t *testing.T) {
	t.Parallel()
	g := newGate()
	if _, err := g.enter(0); !errors.Is(err, peer.ErrUnavailable) {
		t.Errorf("a gate that is shut: %v", err)
	}
	g.turn(3)
	for _, epoch := range []uint64{0, 2, 4} {
		if _, err := g.enter(epoch); !errors.Is(err, peer.ErrNotMine) || !errors.Is(err, peer.ErrUnavailable) {
			t.Errorf("epoch %d at 3: %v", epoch, err)
		}
		if err := g.check(epoch); !errors.Is(err, peer.ErrNotMine) {
			t.Errorf("a read of epoch %d at 3: %v", epoch, err)
		}
	}
	leave, err := g.enter(3)
	if err != nil {
		t.Fatal(err)
	}
	var turned, entered atomic.Bool
	var all sync.WaitGroup
	all.Go(func() { g.turn(4); turned.Store(true) })
	for g.check(4) != nil {
		time.Sleep(time.Millisecond)
	}
	all.Go(func() {
		leave, err := g.enter(4)
		entered.Store(true)
		if err != nil {
			t.Error(err)
			return
		}
		leave()
	})
	time.Sleep(10 * time.Millisecond)
	if turned.Load() || entered.Load() {
		t.Error("a write of the next epoch is inside together with one of the former")
	}
	if _, err := g.enter(3); !errors.Is(err, peer.ErrNotMine) {
		t.Errorf("the former epoch: %v", err)
	}
	leave()
	all.Wait()
	g.turn(0)
	if err := g.check(4); !errors.Is(err, peer.ErrUnavailable) {
		t.Errorf("shut again: %v", err)
	}
}

// sureLocal knows everything at once.
type sureLocal struct{ Local }

func (sureLocal) CheckManyNow(bigset.SliceSpec, []peer.SliceKeys, []bool) bool { return true }

// TestGatedNow: checks that are answered at once pass the gate as others do.
func TestGatedNow(t *testing.T) {
	t.Parallel()
	g := newGate()
	g.turn(3)
	for epoch, want := range map[uint64]bool{2: false, 3: true, 4: false} {
		if got := (&gated{sureLocal{}, g, epoch}).CheckManyNow(bigset.SliceSpec{}, nil, nil); got != want {
			t.Errorf("epoch %d at 3: %v", epoch, got)
		}
	}
}

// However epochs turn while writes come and go, writes of two epochs are never inside together.
func TestGateRaces(t *testing.T) {
	t.Parallel()
	g := newGate()
	g.turn(1)
	var inside [400]atomic.Int64
	var all sync.WaitGroup
	var over atomic.Bool
	for range 4 {
		all.Go(func() {
			for !over.Load() {
				g.mu.Lock()
				epoch := g.epoch
				g.mu.Unlock()
				leave, err := g.enter(epoch)
				if err != nil {
					continue
				}
				inside[epoch].Add(1)
				for e := range inside {
					if uint64(e) != epoch && inside[e].Load() > 0 {
						t.Errorf("writes of epochs %d and %d are inside", e, epoch)
					}
				}
				inside[epoch].Add(-1)
				leave()
			}
		})
	}
	for e := uint64(2); e < 300; e++ {
		g.turn(e)
	}
	over.Store(true)
	all.Wait()
}
