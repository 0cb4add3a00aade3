package engine

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/comparator"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// TestGroupInKeyOrder: the keys of the adds of a group are written in their order, whatever requests it has.
func TestGroupInKeyOrder(t *testing.T) {
	t.Parallel()
	list := func(elements string) (list [][]byte) {
		for _, e := range elements {
			list = append(list, fmt.Appendf(nil, "element %c", e))
		}
		return list
	}
	unsynced := bigset.WriteOptions{Durability: bigset.NoSync}
	request := func(elements string, p bigset.Policy) bigset.WriteRequest {
		return bigset.WriteRequest{Ops: opsOf(keyscheme.OpAdd, list(elements)), WriteOptions: bigset.WriteOptions{Policy: p, Durability: bigset.NoSync}}
	}
	for name, write := range map[string]func(ctx context.Context, s *Store, set []byte) (n int, err error){
		"a request that looks up": func(ctx context.Context, s *Store, set []byte) (int, error) {
			_, err := s.Add(ctx, set, list("tbxam"), unsynced)
			return 5, err
		},
		"an element that comes twice": func(ctx context.Context, s *Store, set []byte) (int, error) {
			_, err := s.Add(ctx, set, list("tbxatm"), unsynced)
			return 6, err
		},
		"a request that looks nothing up": func(ctx context.Context, s *Store, set []byte) (int, error) {
			_, err := s.Add(ctx, set, list("tbxam"), bigset.WriteOptions{Policy: bigset.PolicyEmpty, Durability: bigset.NoSync})
			return 5, err
		},
		"several requests": func(ctx context.Context, s *Store, set []byte) (int, error) {
			for _, o := range s.WriteAll(ctx, set, []bigset.WriteRequest{request("tbxam", 0), request("s", bigset.PolicyEmpty), request("bnz", 0)}) {
				if o.Err != nil {
					return 0, o.Err
				}
			}
			return 9, nil
		},
		"a delta": func(ctx context.Context, s *Store, set []byte) (int, error) {
			d := bigset.Delta{Set: set, Actor: "elsewhere", First: 1}
			for _, e := range list("tbxam") {
				d.Items = append(d.Items, bigset.Item{Kind: keyscheme.OpAdd, Element: e})
			}
			return 5, s.Replica().ApplyDelta(ctx, d, bigset.ApplyOptions{Durability: bigset.NoSync})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Open("db", &Options{FS: testkit.NewDisk()})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			set := []byte("set")
			if _, err := s.Add(t.Context(), set, list("e"), unsynced); err != nil { // in an empty set nothing is looked up
				t.Fatal(err)
			}
			s.Replica().KeepRecent()
			want, err := write(t.Context(), s, set)
			if err != nil {
				t.Fatal(err)
			}
			keys := slices.Collect(s.recent.of(keyscheme.NewPrefix(set)))
			if len(keys) != want || !slices.IsSortedFunc(keys, comparator.Compare) {
				t.Errorf("%q were written, want %d in their order", keys, want)
			}
		})
	}
}

// TestTwinsDeletedByPoint: on a store that deletes killed keys, adds of one element in a batch leave one key.
func TestTwinsDeletedByPoint(t *testing.T) {
	t.Parallel()
	s, err := Open("db", &Options{FS: testkit.NewDisk(), Record: compaction.Set, Strategy: compaction.PointDeletes()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	element, set := []byte("element"), []byte("set")
	r, err := s.Add(t.Context(), set, [][]byte{element, []byte("a"), element, element, []byte("b"), element}, bigset.WriteOptions{Durability: bigset.NoSync})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := s.StoredKeys(set)
	if err != nil || len(stored) != 3 || !bytes.Equal([]byte(stored[r.Dots[5]]), element) {
		t.Errorf("keys %v, %v; want 3, with %v", stored, err, r.Dots[5])
	}
	var none clock.Dot
	if slices.Contains(r.Dots, none) {
		t.Errorf("an add is no event: %v", r.Dots)
	}
}
