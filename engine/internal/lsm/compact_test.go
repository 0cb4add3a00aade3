package lsm

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"bigset/keyscheme"
)

// TestCompactGivenUp: the caller of Compact gives up after Pebble has picked the compaction, and before it has begun. The
// compaction is done when it may begin, or ends with the store. Pebble would end the process if the compaction were withdrawn.
func TestCompactGivenUp(t *testing.T) {
	t.Parallel()
	for _, begins := range []bool{true, false} {
		for tries := 1; !compactGivenUp(t, begins); tries++ { // one that had begun before it could be paused
			if tries == 5 {
				t.Fatal("a compaction that is paused ends all the same")
			}
		}
	}
}

// compactGivenUp reports whether a compaction could be paused before it had begun.
func compactGivenUp(t *testing.T, begins bool) bool {
	r := newRig("store")
	r.opt.Tune = nil // tables of full size: nothing is compacted by itself
	r.open(t)
	for i := range 2 {
		r.add(t, "s", i*30, i*30+30, true)
		r.flush(t)
	}
	var begin atomic.Bool
	c := r.db.scheduler
	c.mu.Lock()
	c.paused = func() bool { return !begin.Load() }
	c.mu.Unlock()
	must(t, r.db.Enter(), "enter")
	ctx, cancel := context.WithCancel(bg)
	time.AfterFunc(50*time.Millisecond, cancel)
	err := r.db.Compact(ctx, keyscheme.SlotRange(0, keyscheme.SlotMax))
	if err == nil {
		r.db.Leave()
		r.close(t)
		return false
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("compact: %v", err)
	}
	r.db.Leave()
	if begins {
		begin.Store(true)
		for began := time.Now(); r.db.Metrics().Levels[0].TablesCount > 0; time.Sleep(time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatal("the compaction has not gone on")
			}
		}
	}
	r.close(t)
	r.open(t)
	r.check(t)
	r.close(t)
	return true
}
