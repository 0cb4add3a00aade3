package engine_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
)

// underWriters has eight goroutines write sets, and another one swap spans of the first set and all small sets beside them,
// until stop is called.
func underWriters(t *testing.T, p *pair, r *rand.Rand, h *testkit.History, sets []string) (stop func()) {
	var stopped atomic.Bool
	var wg sync.WaitGroup
	for id := range 8 {
		w := &writer{r: rand.New(rand.NewPCG(r.Uint64(), 1)), s: p.store, h: h, sets: sets, id: id, wide: p.opt.KeepContexts}
		wg.Go(func() {
			for round := 0; !stopped.Load(); round++ {
				tier.Breathe(round)
				if err := w.write(); err != nil {
					t.Errorf("write: %v", err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for from := []byte(nil); !stopped.Load(); {
			pass, err := p.store.RewriteSpan(bg, []byte(sets[0]), from, 0)
			if err != nil {
				t.Errorf("rewrite: %v", err)
				return
			}
			if from = pass.Next; from != nil {
				continue
			}
			for first := true; first || from != nil; first = false {
				if pass, _, err = p.store.RewriteSets(bg, from, 0); err != nil {
					t.Errorf("sweep: %v", err)
					return
				}
				from = pass.Next
			}
		}
	})
	return func() {
		stopped.Store(true)
		wg.Wait()
	}
}
