package enginesource_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/bench/sample/enginesource"
	"bigset/compaction"
)

// BenchmarkTick is what a read of a store costs while 50 clients write it.
func BenchmarkTick(b *testing.B) {
	ctx, dir := context.Background(), b.TempDir()
	store := open(b, dir, compaction.Default())
	src := enginesource.New()
	if err := src.Engine(ctx, store); err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	var stop atomic.Bool
	for id := range 50 {
		wg.Go(func() {
			set := fmt.Appendf(nil, "set-%d", id)
			for i := uint64(0); !stop.Load(); i++ {
				element := binary.BigEndian.AppendUint64(nil, (i*64+uint64(id))*0x9e3779b97f4a7c15)
				if _, err := store.Add(ctx, set, [][]byte{element}, bigset.WriteOptions{Durability: bigset.NoSync}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	time.Sleep(2 * time.Second)
	values := make([]float64, len(src.Columns()))
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		src.Read(values)
		took = append(took, time.Since(began))
	}
	stop.Store(true)
	wg.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-median")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
	src.Detach()
	if err := store.Close(); err != nil {
		b.Error(err)
	}
}
