package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestBlobValue(t *testing.T) {
	var v blobValue
	dots := make([]uint64, 3)
	v.add([][]byte{[]byte("c"), []byte("a"), {}}, dots)
	v.add([][]byte{[]byte("b")}, nil)
	v.add([][]byte{[]byte("c")}, nil)
	var w blobValue
	if err := w.decode(v.append(nil)); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%d", w.last)
	for _, e := range w.entries {
		got += fmt.Sprintf(" %q:%d", e.element, e.dot)
	}
	if want := `5 "":3 "a":2 "b":4 "c":5`; got != want || !slices.Equal(dots, []uint64{1, 2, 3}) {
		t.Errorf("got %s, dots %v", got, dots)
	}
	for _, bad := range [][]byte{{1, 5, 'a'}, {1, 1, 'a'}, {1, 0x80}} {
		if err := w.decode(bad); !errors.Is(err, ErrWrong) {
			t.Errorf("decode(%x): got %v", bad, err)
		}
	}
}

func TestScatter(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 97, 1000} {
		at, seen := Scatter(n, 7), map[int]bool{}
		for i := range n {
			seen[at(i)] = true
		}
		if len(seen) != n {
			t.Errorf("%d: got %d different numbers", n, len(seen))
		}
	}
}

func TestResting(t *testing.T) {
	looks := 0
	since, err := Resting(context.Background(), time.Nanosecond, func() (int, bool, error) {
		looks++
		return max(looks, 3) / 3 * 3, looks < 5, nil // busy for four looks, then another state now and then
	})
	if err != nil || looks < 6 || since.IsZero() {
		t.Errorf("rested after %d looks: %v", looks, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Resting(ctx, time.Hour, func() (int, bool, error) { return 0, true, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
