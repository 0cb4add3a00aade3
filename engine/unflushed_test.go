package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
)

// TestLookUpsBesideFlushes has writers of sets, each with elements of its own, that look up what they have done, while memtables are flushed all the time: elements are
// looked up in tables alone where no memtable has them, and what was added is found at any moment.
func TestLookUpsBesideFlushes(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	store, err := engine.Open("db", &engine.Options{FS: disk, MemTableBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	disk.SetHook("slow", func(op errorfs.Op) error {
		if makesTable(op) { // a flush takes as long as some batches
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	rounds := tier.Pick(90, 150, 600)
	ctx := t.Context()
	var wg sync.WaitGroup
	for writer := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(writer)))
			set := fmt.Appendf(nil, "s%d", writer%2)
			present := map[string]bool{}
			name := func() string { return fmt.Sprint(writer, "-", r.IntN(2000)) }
			for round := range rounds {
				ops := map[string]bool{}
				many := 1 + r.IntN(8)
				if round%50 == 20 { // more than half of a memtable: Pebble flushes it on its own
					many = 200 + r.IntN(200)
				}
				for range many {
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
				asked := slices.Collect(maps.Keys(ops))
				for range 10 {
					asked = append(asked, name())
				}
				for _, e := range asked {
					c, err := store.Look(ctx, set, []byte(e))
					if err != nil || c.Present != present[e] {
						t.Errorf("%s in %s: %v, %v; want %v", e, set, c.Present, err, present[e])
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
	if skipped := store.SkippedMemTables(); stats.Flushes < 3 || skipped == 0 {
		t.Errorf("%d flushes, %d look-ups in tables alone", stats.Flushes, skipped)
	}
}

// TestLookUpsAcrossSwaps looks up elements of two sets in turns, with one iterator over tables for both, while one set is changed, flushed and rewritten.
func TestLookUpsAcrossSwaps(t *testing.T) {
	t.Parallel()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), Strategy: eager(compaction.Default()), SpanBytes: 1 << 10, BackgroundInterval: -1})
	must(t, err, "open")
	defer store.Close()
	a, b := []byte("a"), []byte("b")
	present := map[string]bool{}
	look := func(when string) {
		t.Helper()
		for e, want := range present {
			for _, set := range [][]byte{b, a} {
				if c, err := store.Look(bg, set, []byte(e)); err != nil || c.Present != (want || set[0] == 'b') {
					t.Fatalf("%s: %s in %s: %v, %v", when, e, set, c.Present, err)
				}
			}
		}
	}
	add := func(e string) {
		t.Helper()
		for _, set := range [][]byte{a, b} {
			_, err := store.Add(bg, set, [][]byte{[]byte(e)}, bigset.WriteOptions{})
			must(t, err, "add")
		}
		present[e] = true
	}
	for _, e := range elementNames(0, 20) {
		add(e)
	}
	for round := range 6 {
		must(t, store.FlushTables(), "flush")
		look("after a flush")
		gone := elementNames(round, round+1)[0]
		_, err := store.Remove(bg, a, [][]byte{[]byte(gone)}, bigset.WriteOptions{})
		must(t, err, "remove")
		present[gone] = false
		add(fmt.Sprint("new-", round))
		look("before a swap")
		if pass, err := store.RewriteSpan(bg, a, nil, 1); err != nil || !pass.Swapped {
			t.Fatalf("%+v, %v", pass, err)
		}
		look("after a swap")
	}
	if store.SkippedMemTables() == 0 {
		t.Error("no look-up was in tables alone")
	}
}

// TestLargeBatchBesideFlush: a batch of more than half a memtable is flushed on its own, and its elements are found after the flush before it and before its own.
func TestLargeBatchBesideFlush(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	store, err := engine.Open("db", &engine.Options{FS: disk, MemTableBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	began, goOn := make(chan struct{}, 100), make(chan struct{})
	disk.SetHook("hold", func(op errorfs.Op) error {
		if makesTable(op) {
			began <- struct{}{}
			<-goOn
		}
		return nil
	})
	defer close(goOn)
	set := []byte("s")
	add := func(name string) (elements [][]byte) {
		for i := range 400 {
			elements = append(elements, fmt.Append(nil, name, i))
		}
		if _, err := store.Add(t.Context(), set, elements, bigset.WriteOptions{Durability: bigset.NoSync}); err != nil {
			t.Fatal(err)
		}
		return elements
	}
	flushes := func() uint64 {
		stats, err := store.Stats()
		if err != nil {
			t.Fatal(err)
		}
		return stats.Flushes
	}
	add("first")
	<-began
	before := flushes()
	second := add("second")
	goOn <- struct{}{}
	<-began // the flush of the second: that of the first has ended
	if n := flushes() - before; n != 1 {
		t.Fatalf("%d flushes, want 1", n)
	}
	for _, e := range second {
		if c, err := store.Look(t.Context(), set, e); err != nil || !c.Present {
			t.Fatalf("%s: present %v, %v", e, c.Present, err)
		}
	}
}

// makesTable reports whether an operation makes a table: there is one a flush here, and compactions.
func makesTable(op errorfs.Op) bool {
	return op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst")
}
