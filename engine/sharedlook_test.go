package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// TestManyLookUps: batches so large that a second goroutine helps to look up their elements answer each operation as one after the other would, wherever the elements are.
func TestManyLookUps(t *testing.T) {
	t.Parallel()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	r := rand.New(rand.NewPCG(5, 6))
	model := map[string]bool{}
	for round := range 12 {
		manyLookUps(t, store, model, r, 129+r.IntN(200), round%3 == 0)
		if round%4 == 0 {
			if err := store.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	n, err := store.Count(t.Context(), []byte("set"), engine.CountOptions{})
	if err != nil || n.Elements != uint64(len(model)) {
		t.Errorf("%d elements, %v; want %d", n.Elements, err, len(model))
	}
}

// TestHelperIsAwaited: a look-up ends when a helper that has begun has ended, and reports its error.
func TestHelperIsAwaited(t *testing.T) {
	t.Parallel()
	want := errors.New("of the helper")
	if err := engine.LookWithHelper(want); err != want {
		t.Errorf("the look-up returned %v, the helper %v", err, want)
	}
}

// manyLookUps does a batch of n operations on a set and on its model. If twice is set, elements may come twice.
func manyLookUps(t *testing.T, store *engine.Store, model map[string]bool, r *rand.Rand, n int, twice bool) {
	t.Helper()
	var ops []bigset.Op
	var want []bool
	used := map[string]bool{}
	for len(ops) < n {
		e := fmt.Sprintf("element-%d", r.IntN(1000))
		if used[e] && !twice {
			continue
		}
		used[e] = true
		kind := keyscheme.OpAdd
		if r.IntN(4) == 0 {
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
	for i := range ops {
		if got := result.Changed(i); got != want[i] {
			t.Fatalf("operation %d, %v: changed is %v, want %v", i, ops[i], got, want[i])
		}
	}
}

// TestKeyOrder: elements are ordered as their keys are, whatever they have in common.
func TestKeyOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		list := make([][]byte, r.IntN(40))
		head := []byte("element-0000"[:r.IntN(13)])
		for i := range list {
			list[i] = append([]byte(nil), head...)
			for range r.IntN(12) {
				list[i] = append(list[i], byte(r.IntN(3))*0x7f)
			}
		}
		order := engine.KeyOrder(list)
		if len(order) != len(list) {
			t.Fatalf("%d places of %d", len(order), len(list))
		}
		seen := map[int]bool{}
		for n, i := range order {
			if seen[i] {
				t.Fatalf("place %d comes twice", i)
			}
			seen[i] = true
			if n > 0 && string(list[order[n-1]]) > string(list[i]) {
				t.Fatalf("%q is before %q", list[order[n-1]], list[i])
			}
		}
	}
}
