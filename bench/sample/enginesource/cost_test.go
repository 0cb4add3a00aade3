package enginesource_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/bench/sample"
	"bigset/bench/sample/enginesource"
	"bigset/bench/screen"
	"bigset/compaction"
)

// inserts has clients insert for a while, each into sets of its own, and returns operations a second.
func inserts(b *testing.B, clients int, run time.Duration, sampled bool) float64 {
	b.Helper()
	ctx, dir := context.Background(), b.TempDir()
	store := open(b, dir, compaction.Default())
	defer func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	}()
	l := sample.NewLatencies("")
	var sampler *sample.Sampler
	if sampled {
		src := enginesource.New()
		if err := src.Engine(ctx, store); err != nil {
			b.Fatal(err)
		}
		view := &sample.View{Screen: screen.Screen{Out: io.Discard, Size: func() (int, int) { return 100, 40 }}, Style: screen.Style{Colour: true}}
		sampler = sample.Start(sample.Options{Name: "bigset", Watch: view.Tell, Ratios: sample.Amplification(""),
			Sources: []sample.Source{l, src, sample.NewProcess(), sample.NewMachine(), sample.NewDisk(dir)}})
	}
	var wg sync.WaitGroup
	var stop atomic.Bool
	began := time.Now()
	for id, r := range l.Begin(clients) {
		set := fmt.Appendf(nil, "set-%d", id)
		wg.Go(func() {
			for i := uint64(0); !stop.Load(); i++ {
				element := binary.BigEndian.AppendUint64(nil, (i*64+uint64(id))*0x9e3779b97f4a7c15)
				at := time.Now()
				if _, err := store.Add(ctx, set, [][]byte{element}, bigset.WriteOptions{Durability: bigset.NoSync}); err != nil {
					b.Error(err)
					return
				}
				r.Record(time.Since(at), 1, len(element))
			}
		})
	}
	time.Sleep(run)
	stop.Store(true)
	wg.Wait()
	took := time.Since(began)
	if sampled {
		if s := sampler.Stop(); s.Len() < int(run.Seconds()) || len(s.Skipped) > 0 {
			b.Errorf("%d points, skipped %v", s.Len(), s.Skipped)
		}
	}
	ops, _ := l.Ops()
	return float64(ops) / took.Seconds()
}

// BenchmarkCost is what a sampler and a view cost of the throughput of clients that insert: pairs of runs without them and with them, in turns,
// the one that comes first changing. With -benchtime 12x it runs 12 pairs, of 6 s each run. It reports the median ratio and the quartiles.
func BenchmarkCost(b *testing.B) {
	for _, clients := range []int{1, 50} {
		b.Run(fmt.Sprint("clients=", clients), func(b *testing.B) {
			var ratios []float64
			for i := 0; b.Loop(); i++ {
				var speed [2]float64
				for k := range 2 {
					on := (i+k)%2 == 1
					n := 0
					if on {
						n = 1
					}
					speed[n] = inserts(b, clients, 6*time.Second, on)
				}
				ratios = append(ratios, speed[1]/speed[0])
				b.Logf("pair %d: %.0f op/s without, %.0f with: %.4f", i, speed[0], speed[1], speed[1]/speed[0])
			}
			slices.Sort(ratios)
			at := func(q float64) float64 { return ratios[int(math.Round(q*float64(len(ratios)-1)))] }
			b.ReportMetric(at(0.5), "ratio")
			b.ReportMetric(at(0.25), "q1")
			b.ReportMetric(at(0.75), "q3")
		})
	}
}

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
