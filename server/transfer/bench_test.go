package transfer_test

import (
	"fmt"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
	"bigset/server/peer"
	"bigset/server/peer/local"
	"bigset/server/transfer"
)

// BenchmarkCopy copies a set of a million elements between two stores in folders.
func BenchmarkCopy(b *testing.B) {
	for _, ahead := range []bool{false, true} {
		b.Run(fmt.Sprintf("ahead=%v", ahead), func(b *testing.B) {
			a := replica(b, b.TempDir())
			fill(b, a, 1_000_000)
			for range b.N {
				b.StopTimer()
				to := replica(b, b.TempDir())
				m, err := transfer.New(to.local, transfer.Options{Ahead: ahead})
				must(b, err, "mover")
				b.StartTimer()
				r, err := m.Copy(bg, a.local, whole)
				must(b, err, "copy")
				b.ReportMetric(float64(r.Elements)/r.Elapsed.Seconds(), "elements/s")
				b.ReportMetric(mbPerSecond(&r), "MB/s")
			}
		})
	}
}

func replica(b testing.TB, dir string) *node {
	store, err := engine.Open(dir, &engine.Options{BackgroundInterval: -1})
	must(b, err, "open")
	b.Cleanup(func() { _ = store.Close() })
	replica, err := local.New("n", store, peer.Normal)
	must(b, err, "local")
	return &node{name: "n", store: store, local: replica}
}

func fill(b testing.TB, n *node, count int) {
	const batch = 50_000
	for i := 0; i < count; i += batch {
		f := bigset.Facts{Set: []byte("set")}
		for k := i; k < i+batch; k++ {
			f.Keys = append(f.Keys, fold.Element{Name: fmt.Appendf(nil, "element-%08d", k*7919%count), Dots: []clock.Dot{{Actor: "somebody-else", Counter: uint64(k + 1)}}})
		}
		_, err := n.store.Replica().ApplyFacts(bg, f, bigset.ApplyOptions{Durability: bigset.NoSync})
		must(b, err, "facts")
	}
	must(b, n.store.Flush(bg), "flush")
}
