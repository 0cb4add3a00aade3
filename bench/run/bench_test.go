package run

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"bigset/bench/result"
	"bigset/bench/spec"
	"bigset/bench/system"
	"bigset/compaction"
)

const overheadElements = 1_000_000

// BenchmarkOverhead inserts elements by the runner, and by a plain loop that measures each call as package bench does, in turns; an iteration is
// one of each. It reports the median time of a plain insert, and of the runner's beside it.
//
//	go test ./bench/run -run '^$' -bench Overhead -benchtime 5x
func BenchmarkOverhead(b *testing.B) {
	var plain, ratios []float64
	for i := range b.N {
		var ours, theirs float64
		for turn := range 2 {
			if (i+turn)%2 == 0 {
				theirs = plainInsert(b, filepath.Join(b.TempDir(), strconv.Itoa(i)))
			} else {
				ours = runnerInsert(b)
			}
		}
		plain, ratios = append(plain, theirs), append(ratios, ours/theirs)
	}
	b.ReportMetric(result.Median(plain), "plain-ns")
	b.ReportMetric(result.Median(ratios), "of-plain")
	b.ReportMetric(slices.Min(ratios), "of-plain-least")
	b.ReportMetric(slices.Max(ratios), "of-plain-most")
}

func plainInsert(b *testing.B, dir string) float64 {
	s := compaction.Default()
	sys, err := system.Open(context.Background(), system.NameBigset, s.Name(), dir,
		system.Options{MemTableBytes: 64 << 20, CacheBytes: 64 << 20, Warm: true, Record: system.RecordFor(s)})
	if err != nil {
		b.Fatal(err)
	}
	set, batch, hist, dots := sys.Set(system.SetName), system.NewBatch(1), result.NewHistogram(), make([]uint64, overheadElements)
	began := time.Now()
	last := began
	for i := range overheadElements {
		batch.Reset().Add(system.Elements{Seed: 1}, i, 0)
		if err := set.Insert(batch.List, batch.Dots); err != nil {
			b.Fatal(err)
		}
		dots[i] = batch.Dots[0]
		now := time.Now()
		_ = hist.RecordValue(int64(now.Sub(last)))
		last = now
	}
	end, err := sys.Settle(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	if err := sys.Close(); err != nil {
		b.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		b.Fatal(err)
	}
	return float64(end.Sub(began).Nanoseconds()) / overheadElements
}

func runnerInsert(b *testing.B) float64 {
	w, err := spec.Named("insert")
	if err != nil {
		b.Fatal(err)
	}
	rows, err := Run(context.Background(), w, Options{Rounds: 1, Sizes: []int{overheadElements}, Systems: []spec.System{spec.Bigset}, Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	return 1e9 / rows[0].OpsPerSecond
}
