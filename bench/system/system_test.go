package system

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"bigset/clock"
	"bigset/compaction"
)

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

// Elements that other replicas have added are live, their dots are known, and the set's clock names each of the replicas.
func TestReceive(t *testing.T) {
	sys, err := OpenBigset(t.Context(), t.TempDir(), "default", Options{MemTableBytes: 1 << 20, Record: compaction.Merge})
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()
	s := sys.Handle("set")
	var gone [][]byte
	var dots []uint64
	for i := range 12 { // four batches of each of three replicas
		b := NewBatch(5)
		for k := range 5 {
			b.Add(Elements{}, 5*i+k, 0)
		}
		if err := s.Receive(i%3, b.List, b.Dots); err != nil {
			t.Fatal(err)
		}
		gone, dots = append(gone, b.List[1]), append(dots, b.Dots[1])
	}
	if err := CountBy(s, 60); err != nil {
		t.Error(err)
	}
	if err := s.Exchange(gone, dots, nil, nil); err != nil {
		t.Error(err)
	}
	if err := sys.Verify("set", 48); err != nil {
		t.Error(err)
	}
	seen, err := sys.Store().Seen(t.Context(), []byte("set"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if a := clock.Actor(fmt.Sprintf("replica%05d", i)); seen.Max(a) != 20 {
			t.Errorf("%s: %d events are known, want 20", a, seen.Max(a))
		}
	}
}

// Raw Pebble that reads clocks does so before each write, and writes the same.
func TestReadsClocks(t *testing.T) {
	for _, reads := range []bool{false, true} {
		sys, err := OpenRaw(t.TempDir(), Options{MemTableBytes: 1 << 20, CacheBytes: 1 << 20, Record: compaction.Merge, ReadsClocks: reads})
		if err != nil {
			t.Fatal(err)
		}
		s := sys.Handle("set")
		looks := func() int64 { m := sys.DB().Metrics(); return m.BlockCache.Hits + m.BlockCache.Misses }
		add := func(i int) error {
			b := NewBatch(1)
			b.Add(Elements{}, i, 0)
			return s.Insert(b.List, b.Dots)
		}
		err = errors.Join(add(0), sys.DB().Flush())
		before := looks()
		err = errors.Join(err, add(1))
		if read := looks() > before; err != nil || read != reads {
			t.Errorf("reads clocks %v: read %v, %v", reads, read, err)
		}
		if err := errors.Join(sys.Verify("set", 2), sys.Close()); err != nil {
			t.Error(err)
		}
	}
}
