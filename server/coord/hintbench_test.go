package coord_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"bigset"
	"bigset/engine"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

// BenchmarkReplay compares, in turns over stores on disk, synced writes of clients with the replay of as many hints. Run it with
// -benchtime 1x -count 7: each run is a turn of each.
func BenchmarkReplay(b *testing.B) {
	for _, sets := range []int{1, 1000} {
		b.Run(fmt.Sprint("sets=", sets), func(b *testing.B) {
			x := newReplayBench(b, sets)
			for b.Loop() {
				one, many := x.writes(1), x.writes(16)
				single, window := x.replay(1), x.replay(256)
				b.ReportMetric(one, "writes/s")
				b.ReportMetric(many, "writes16/s")
				b.ReportMetric(single, "hints1/s")
				b.ReportMetric(window, "hints256/s")
				b.ReportMetric(window/one, "x-writes")
				b.ReportMetric(window/many, "x-writes16")
			}
		})
	}
}

// replayBench is a store that clients write to, another that hints are replayed to, and the hints.
type replayBench struct {
	b      *testing.B
	sets   int
	origin *local.Replica
	behind *local.Replica
	hints  *coord.Hints
	count  int // of deltas so far
	each   int
	dots   map[int]uint64 // the last counter of a set
}

func newReplayBench(b *testing.B, sets int) *replayBench {
	x := &replayBench{b: b, sets: sets, each: 2000, dots: map[int]uint64{}}
	open := func(node string) *local.Replica {
		store, err := engine.Open(b.TempDir(), nil)
		if err != nil {
			b.Fatal(err)
		}
		rep, err := local.New(node, store, peer.Normal)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := store.Close(); err != nil {
				b.Error(err)
			}
		})
		return rep
	}
	x.origin, x.behind = open("origin"), open("behind")
	f, err := coord.OSFolder(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	x.hints = openHints(b, f, coord.HintOptions{})
	b.Cleanup(func() { _ = x.hints.Close() })
	return x
}

func (x *replayBench) set(i int) []byte { return fmt.Appendf(nil, "set%06d", i%x.sets) }

// writes returns how many synced writes a second the clients do together.
func (x *replayBench) writes(clients int) float64 {
	begin := time.Now()
	var g sync.WaitGroup
	for c := range clients {
		g.Go(func() {
			for i := c; i < x.each; i += clients {
				ops := []bigset.Op{{Kind: keyscheme.OpAdd, Element: fmt.Appendf(nil, "element%09d", x.count+i)}}
				if _, _, err := x.origin.Write(ctx, x.set(i), ops, bigset.WriteOptions{Durability: bigset.Sync}); err != nil {
					x.b.Error(err)
				}
			}
		})
	}
	g.Wait()
	x.count += x.each
	return float64(x.each) / time.Since(begin).Seconds()
}

// replay returns how many hints a second arrive in windows of a size.
func (x *replayBench) replay(window int) float64 {
	var adders sync.WaitGroup
	deltas := make(chan peer.Delta)
	for range 64 { // they share the syncs of the log
		adders.Go(func() {
			for d := range deltas {
				if err := x.hints.Add("behind", sender, d); err != nil {
					x.b.Error(err)
				}
			}
		})
	}
	for i := range x.each {
		x.dots[i%x.sets]++
		d := hinted(int(x.dots[i%x.sets]), fmt.Sprintf("element%09d", x.count+i))
		d.Set, d.Request = x.set(i), fmt.Appendf(nil, "%016d", x.count+i)
		deltas <- d
	}
	close(deltas)
	adders.Wait()
	x.count += x.each
	begin := time.Now()
	to := coord.Targets{Set: func([]byte) peer.Replica { return x.behind }, Window: window}
	if sent, err := x.hints.Replay(ctx, "behind", to); sent != x.each || err != nil {
		x.b.Errorf("%d sent, %v", sent, err)
	}
	return float64(x.each) / time.Since(begin).Seconds()
}
