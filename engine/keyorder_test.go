package engine_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// TestBatchInKeyOrder: a batch whose keys are written in their order answers each operation as one after the other would, also where an element comes twice.
func TestBatchInKeyOrder(t *testing.T) {
	t.Parallel()
	for _, record := range []compaction.Record{compaction.Merge, compaction.Set} {
		t.Run(string(record), func(t *testing.T) {
			t.Parallel()
			store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), Record: record})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			r := rand.New(rand.NewPCG(3, 4))
			model := map[string]bool{}
			for round := range 200 {
				batchInKeyOrder(t, store, model, r, round%2 == 0)
			}
			n, err := store.Count(t.Context(), []byte("set"), engine.CountOptions{ReadOptions: bigset.ReadOptions{From: []byte("0")}})
			if err != nil || n.Elements != uint64(len(model)) {
				t.Errorf("%d elements, %v; want %d", n.Elements, err, len(model))
			}
		})
	}
}

// TestTwinsAtOnce: of some writers that add the same elements at the same time, with one sync, one has added each.
func TestTwinsAtOnce(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	store, err := engine.Open("db", &engine.Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	disk.SetHook("slow", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
			time.Sleep(time.Millisecond) // others queue up
		}
		return nil
	})
	const writers, rounds, elements = 8, 20, 6
	var added [rounds][elements]atomic.Int64
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for round := range rounds {
				var list [][]byte
				for i := range elements {
					list = append(list, fmt.Appendf(nil, "%d-%d", round, i))
				}
				result, err := store.Add(t.Context(), []byte("set"), list, bigset.WriteOptions{Policy: bigset.PolicyCoordinator, Durability: bigset.Sync})
				if err != nil {
					t.Error(err)
					return
				}
				for i := range elements {
					if result.Changed(i) {
						added[round][i].Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	for round := range added {
		for i := range added[round] {
			if n := added[round][i].Load(); n != 1 {
				t.Errorf("%d writers have added element %d-%d", n, round, i)
			}
		}
	}
}

// batchInKeyOrder does a batch, whose elements may come twice, on a set and on its model.
func batchInKeyOrder(t *testing.T, store *engine.Store, model map[string]bool, r *rand.Rand, twice bool) {
	t.Helper()
	var ops []bigset.Op
	var want []bool
	used := map[string]bool{}
	for range 4 + r.IntN(12) {
		e := fmt.Sprint(r.IntN(60))
		if used[e] && !twice {
			continue
		}
		used[e] = true
		kind := keyscheme.OpAdd
		if r.IntN(3) == 0 {
			kind = keyscheme.OpRemove
		}
		ops, want = append(ops, bigset.Op{Kind: kind, Element: []byte(e)}), append(want, model[e] == (kind == keyscheme.OpRemove))
		if kind == keyscheme.OpAdd {
			model[e] = true
		} else {
			delete(model, e)
		}
	}
	result, err := store.Write(t.Context(), []byte("set"), ops, bigset.WriteOptions{Policy: bigset.PolicyCoordinator, Durability: bigset.NoSync})
	if err != nil {
		t.Fatal(err)
	}
	var elements [][]byte
	for i := range ops {
		if got := result.Changed(i); got != want[i] {
			t.Errorf("operation %d of %v: changed is %v, want %v", i, ops, got, want[i])
		}
		elements = append(elements, ops[i].Element)
	}
	found, err := store.Subset(t.Context(), []byte("set"), elements)
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		if has := model[string(elements[i])]; found[i].Present != has || len(found[i].Context.Dots) > 1 {
			t.Errorf("%s: %v, want %v", elements[i], found[i], has)
		}
	}
}
