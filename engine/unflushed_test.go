package engine_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
)

// TestLookUpsBesideFlushes has writers of sets, each with elements of its own, that look up what they have done, while memtables are flushed all the time: elements are
// looked up in tables alone where no memtable has them, and what was added is found at any moment.
func TestLookUpsBesideFlushes(t *testing.T) {
	t.Parallel()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), MemTableBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx := t.Context()
	var wg sync.WaitGroup
	for writer := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(writer)))
			set := fmt.Appendf(nil, "s%d", writer%2)
			present := map[string]bool{}
			name := func() string { return fmt.Sprint(writer, "-", r.IntN(2000)) }
			for range 600 {
				ops := map[string]bool{}
				for range 1 + r.IntN(8) {
					ops[name()] = r.IntN(4) > 0
				}
				var adds, removes [][]byte
				for e, add := range ops {
					if add {
						adds = append(adds, []byte(e))
					} else {
						removes = append(removes, []byte(e))
					}
				}
				for e, add := range ops {
					present[e] = add
				}
				o := bigset.WriteOptions{Durability: bigset.NoSync}
				if len(adds) > 0 {
					if _, err := store.Add(ctx, set, adds, o); err != nil {
						t.Error(err)
						return
					}
				}
				if len(removes) > 0 {
					if _, err := store.Remove(ctx, set, removes, o); err != nil {
						t.Error(err)
						return
					}
				}
				for range 10 {
					e := name()
					c, err := store.Look(ctx, set, []byte(e))
					if err != nil || c.Present() != present[e] {
						t.Errorf("%s in %s: %v, %v; want %v", e, set, c.Present(), err, present[e])
						return
					}
				}
			}
		})
	}
	wg.Wait()
	stats, err := store.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if skipped := store.SkippedMemTables(); stats.Flushes < 5 || skipped == 0 {
		t.Errorf("%d flushes, %d look-ups in tables alone", stats.Flushes, skipped)
	}
}
