package engine_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
)

// TestEviction uses hundreds of sets through a cache that holds a few, and a few through one that holds none.
func TestEviction(t *testing.T) {
	t.Parallel()
	t.Run("many", func(t *testing.T) { eviction(t, fewer(600), 4<<10) })
	t.Run("few", func(t *testing.T) { eviction(t, 3, 1) })
}

func eviction(t *testing.T, n int, cacheBytes int64) {
	p := newPair("store")
	busy(p)
	p.opt.SetCacheBytes = cacheBytes
	p.open(t)
	r := tier.Random(t)
	h := &testkit.History{}
	sets := make([]string, n)
	for i := range sets {
		sets[i] = fmt.Sprintf("set-%04d", i)
	}
	var wg sync.WaitGroup
	var stop atomic.Bool
	var trims sync.WaitGroup
	trims.Go(func() {
		for !stop.Load() {
			if err := p.store.TrimSets(); err != nil {
				t.Errorf("trim: %v", err)
				return
			}
		}
	})
	for id := range 4 {
		w := &writer{r: rand.New(rand.NewPCG(r.Uint64(), 4)), s: p.store, h: h, sets: sets, id: id}
		wg.Go(func() {
			for range fewer(2000) {
				if err := w.write(); err != nil {
					t.Errorf("write: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	stop.Store(true)
	trims.Wait()
	must(t, h.CheckUnique(), "dots")
	for deadline := time.Now().Add(time.Minute); ; { // the publisher holds sets for a moment
		must(t, p.store.PublisherRound(), "publish")
		must(t, p.store.TrimSets(), "trim")
		st, err := p.store.Stats()
		must(t, err, "stats")
		if st.SetsInMemory <= uint64(max(3, len(sets)/4)) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d sets in memory", st.SetsInMemory, len(sets))
		}
	}
	left := map[string]*testkit.Set{}
	for _, set := range sets {
		left[set] = p.state(t, set)
	}
	if err := h.Survived(h.Now(), h.Now(), left); err != nil {
		t.Error(err)
	}
	n = 0
	for info, err := range p.store.Sets(bg, bigset.SetsOptions{Empty: true}) {
		must(t, err, "sets")
		if want := left[string(info.Name)]; uint64(len(want.Keys)) != info.Live || uint64(len(want.Seen)) != info.Seen {
			t.Errorf("%+v, want %d live of %d", info, len(want.Keys), len(want.Seen))
		}
		n++
	}
	for _, m := range left {
		if m.Known() {
			n--
		}
	}
	if n != 0 {
		t.Errorf("the list of sets is off by %d", n)
	}
	p.verify(t)
	must(t, p.store.Close(), "close")
}

// TestCacheBound uses many sets while the other background work does not come to its turn.
func TestCacheBound(t *testing.T) {
	const cacheBytes = 64 << 10
	p := newPair("store")
	p.opt.SetCacheBytes, p.opt.BackgroundInterval = cacheBytes, time.Hour
	p.open(t)
	for i := range 1000 {
		_, err := p.store.Add(bg, fmt.Appendf(nil, "set-%d", i), [][]byte{{'x'}}, bigset.WriteOptions{Durability: bigset.NoSync})
		must(t, err, "add")
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		st, err := p.store.Stats()
		must(t, err, "stats")
		if st.BytesSets <= cacheBytes && st.SetsInMemory < 1000 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d sets in memory, of about %d bytes", st.SetsInMemory, st.BytesSets)
		}
	}
	p.verify(t)
	must(t, p.store.Close(), "close")
}
