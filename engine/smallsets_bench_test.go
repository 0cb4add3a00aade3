package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
	"bigset/engine"
	"bigset/keyscheme"
)

// smallSetsCount is how many sets the benchmarks of small sets go round.
const smallSetsCount = 100_000

// BenchmarkAddSmallSets adds to one set after the other, which are no longer in memory.
func BenchmarkAddSmallSets(b *testing.B) {
	s := openBench(b, &engine.Options{SetCacheBytes: 4 << 20})
	ctx := context.Background()
	var name, element []byte
	add := func(i int) {
		name, element = fmt.Appendf(name[:0], "s%d", i%smallSetsCount), benchElement(element, i)
		if _, err := s.Add(ctx, name, [][]byte{element}, noSync); err != nil {
			b.Fatal(err)
		}
	}
	for i := range smallSetsCount {
		add(i)
	}
	if err := s.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		add(smallSetsCount + i)
	}
}

// BenchmarkAddSmallSetsRaw is the same by hand, with the clock key read before each write.
func BenchmarkAddSmallSetsRaw(b *testing.B) {
	db := openRaw(b)
	var name, element, key []byte
	value := rawClock()
	add := func(i int) {
		name, element = fmt.Appendf(name[:0], "s%d", i%smallSetsCount), benchElement(element, i)
		p := keyscheme.NewPrefix(name)
		key = p.AppendClock(key[:0])
		at := len(key)
		if _, closer, err := db.Get(key); err == nil {
			_ = closer.Close()
		} else if i >= smallSetsCount {
			b.Fatal(err)
		}
		key = p.AppendElement(key, element, clock.Dot{Actor: "0123456789ab", Counter: uint64(i/smallSetsCount + 1)}, keyscheme.OpAdd)
		batch := db.NewBatch()
		_ = batch.Merge(key[at:], keyscheme.ResolvedValue, nil)
		_ = batch.Set(key[:at], value, nil)
		if err := batch.Commit(pebble.NoSync); err != nil {
			b.Fatal(err)
		}
		_ = batch.Close()
	}
	for i := range smallSetsCount {
		add(i)
	}
	if err := db.Flush(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		add(smallSetsCount + i)
	}
}
