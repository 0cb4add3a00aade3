package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/engine/pebbletool"
	"bigset/keyscheme"
)

func openBench(b *testing.B, o *engine.Options) *engine.Store {
	b.Helper()
	s, err := engine.Open(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// openRaw opens Pebble as the engine does.
func openRaw(b *testing.B) *pebble.DB {
	b.Helper()
	po := pebbletool.BaselineOptions(64<<20, engine.LSM{})
	po.Logger = quiet{}
	po.Cache = pebbletool.BaselineCache(64<<20, 64<<20)
	db, err := pebble.Open(b.TempDir(), po)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
		po.Cache.Unref()
	})
	return db
}

// rawClock returns a clock value as one actor's is.
func rawClock() []byte {
	return keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: clock.Of(clock.Dot{Actor: "0123456789ab", Counter: 1})})
}

// quiet drops what Pebble logs.
type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func benchElement(dst []byte, i int) []byte {
	return fmt.Appendf(dst[:0], "element-%016x", uint64(i)*0x9E3779B97F4A7C15)
}

var noSync = bigset.WriteOptions{Policy: bigset.PolicyEmpty, Durability: bigset.NoSync}

func load(b *testing.B, s *engine.Store, name []byte, n int) {
	b.Helper()
	for i := 0; i < n; i += 1000 {
		ops := make([][]byte, 0, 1000)
		for j := i; j < min(n, i+1000); j++ {
			ops = append(ops, benchElement(nil, j))
		}
		if _, err := s.Add(context.Background(), name, ops, noSync); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAdd is one new element an operation, empty context, unsynced.
func BenchmarkAdd(b *testing.B) {
	s := openBench(b, nil)
	ctx, name := context.Background(), []byte("friends")
	var buf []byte
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		buf = benchElement(buf, i)
		if _, err := s.Add(ctx, name, [][]byte{buf}, noSync); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAddObserved is the same under policy coordinator.
func BenchmarkAddObserved(b *testing.B) {
	s := openBench(b, nil)
	ctx, name := context.Background(), []byte("friends")
	load(b, s, name, 100_000)
	var buf []byte
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		buf = benchElement(buf, 50_000+i)
		if _, err := s.Add(ctx, name, [][]byte{buf}, bigset.WriteOptions{Durability: bigset.NoSync}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAddRaw is what BenchmarkAdd writes, written by hand.
func BenchmarkAddRaw(b *testing.B) {
	db := openRaw(b)
	p := keyscheme.NewPrefix([]byte("friends"))
	clockKey, value := p.AppendClock(nil), rawClock()
	var buf, key []byte
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		buf = benchElement(buf, i)
		key = p.AppendElement(key[:0], buf, clock.Dot{Actor: "0123456789ab", Counter: uint64(i + 1)}, keyscheme.OpAdd)
		batch := db.NewBatch()
		_ = batch.Merge(key, keyscheme.ResolvedValue, nil)
		_ = batch.Set(clockKey, value, nil)
		if err := batch.Commit(pebble.NoSync); err != nil {
			b.Fatal(err)
		}
		_ = batch.Close()
	}
}

// BenchmarkRemove removes with a narrow context.
func BenchmarkRemove(b *testing.B) {
	s := openBench(b, nil)
	ctx, name := context.Background(), []byte("friends")
	load(b, s, name, b.N)
	actor := s.Replica().Actor()
	var buf []byte
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		victim := int(uint64(i) * 7919 % uint64(b.N))
		buf = benchElement(buf, victim)
		ops := []bigset.Op{{Kind: keyscheme.OpRemove, Element: buf, Context: bigset.Saw(clock.Dot{Actor: actor, Counter: uint64(victim + 1)})}}
		if _, err := s.Write(ctx, name, ops, noSync); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAddConcurrent is 64 writers of one set, each operation synced.
func BenchmarkAddConcurrent(b *testing.B) {
	s := openBench(b, nil)
	ctx, name := context.Background(), []byte("friends")
	var n atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			e := benchElement(nil, int(n.Add(1)))
			if _, err := s.Add(ctx, name, [][]byte{e}, bigset.WriteOptions{Policy: bigset.PolicyEmpty}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkAddConcurrentRaw is the same by hand.
func BenchmarkAddConcurrentRaw(b *testing.B) {
	db := openRaw(b)
	p := keyscheme.NewPrefix([]byte("friends"))
	clockKey, value := p.AppendClock(nil), rawClock()
	var n atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := int(n.Add(1))
			key := p.AppendElement(nil, benchElement(nil, i), clock.Dot{Actor: "0123456789ab", Counter: uint64(i)}, keyscheme.OpAdd)
			batch := db.NewBatch()
			_ = batch.Merge(key, keyscheme.ResolvedValue, nil)
			_ = batch.Set(clockKey, value, nil)
			if err := batch.Commit(pebble.Sync); err != nil {
				b.Error(err)
				return
			}
			_ = batch.Close()
		}
	})
}

func BenchmarkContains(b *testing.B) {
	s := openBench(b, nil)
	ctx, name := context.Background(), []byte("friends")
	load(b, s, name, 300_000)
	if err := s.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	var buf []byte
	for _, miss := range []bool{false, true} {
		b.Run(fmt.Sprintf("miss=%v", miss), func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				at := i * 7919 % 300_000
				if miss {
					at += 1_000_000
				}
				buf = benchElement(buf, at)
				if c, err := s.Look(ctx, name, buf); err != nil || c.Present == miss {
					b.Fatal(c, err)
				}
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	s := openBench(b, nil)
	ctx, name := context.Background(), []byte("friends")
	load(b, s, name, 300_000)
	if err := s.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		n := 0
		for chunk, err := range s.Read(ctx, name, bigset.ReadOptions{}) {
			if err != nil {
				b.Fatal(err)
			}
			n += len(chunk.Elements)
		}
		if n != 300_000 {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/300_000, "ns/element")
}

// BenchmarkQueueHead reads the first element of a queue of which 100,000 elements were eaten, behind each add.
func BenchmarkQueueHead(b *testing.B) {
	s := openBench(b, nil)
	ctx, name := context.Background(), []byte("friends")
	names := func(from, n int) (list [][]byte) {
		for i := range n {
			list = append(list, fmt.Appendf(nil, "element-%016d", from+i))
		}
		return list
	}
	next := 0
	for ; next < 100_000; next += 1000 {
		if _, err := s.Add(ctx, name, names(next, 1000), noSync); err != nil {
			b.Fatal(err)
		}
		if next == 0 {
			continue
		}
		if _, err := s.Remove(ctx, name, names(next-1000, 1000), bigset.WriteOptions{Durability: bigset.NoSync}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		b.StopTimer()
		if _, err := s.Add(ctx, name, names(next, 1), noSync); err != nil {
			b.Fatal(err)
		}
		next++
		b.StartTimer()
		n := 0
		for chunk, err := range s.Read(ctx, name, bigset.ReadOptions{Limit: 1, BatchSize: 1}) {
			if err != nil {
				b.Fatal(err)
			}
			n += len(chunk.Elements)
		}
		if n != 1 {
			b.Fatal(n)
		}
	}
}

// BenchmarkReadFirst reads the first thousand elements of a large set, and all of a small one.
func BenchmarkReadFirst(b *testing.B) {
	s := openBench(b, nil)
	ctx := context.Background()
	load(b, s, []byte("large"), 300_000)
	load(b, s, []byte("small"), 3)
	if err := s.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	for name, want := range map[string]int{"large": 1000, "small": 3} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for chunk, err := range s.Read(ctx, []byte(name), bigset.ReadOptions{Limit: 1000}) {
					if err != nil {
						b.Fatal(err)
					}
					n += len(chunk.Elements)
				}
				if n != want {
					b.Fatal(n)
				}
			}
		})
	}
}
