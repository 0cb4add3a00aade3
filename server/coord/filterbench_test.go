package coord_test

import (
	"fmt"
	"testing"

	"bigset"
	"bigset/server/coord"
	"bigset/server/peer"
)

// BenchmarkFilterBatch marks and checks keys at three replicas in this process, in one request, with and without ManySlices.
func BenchmarkFilterBatch(b *testing.B) {
	for _, size := range []struct {
		keys   int
		slices uint32
	}{{1, 1}, {1, 256}, {1, 4096}, {10, 4096}, {1000, 256}} {
		for _, together := range []bool{true, false} {
			if !together && size.keys == 1 {
				continue
			}
			x := newFilterBench(b, size.slices, together)
			for what, do := range map[string]func(coord.FilterKeys) error{
				"check": func(r coord.FilterKeys) error { _, err := x.co.CheckFilter(ctx, r); return err },
				"mark":  func(r coord.FilterKeys) error { _, err := x.co.MarkFilter(ctx, r); return err },
			} {
				b.Run(fmt.Sprintf("%s/keys=%d/slices=%d/together=%v", what, size.keys, size.slices, together), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if err := do(x.next(size.keys)); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// filterBench is a coordinator over replicas in this process.
type filterBench struct {
	co *coord.Coordinator
	f  coord.Filter
	n  int
	r  coord.FilterKeys
}

func newFilterBench(b *testing.B, slices uint32, together bool) *filterBench {
	c := newFilterCluster(b, newSched(1), 3)
	var replicas []peer.SliceReplica
	for _, l := range c.links {
		if replicas = append(replicas, l.Replica); !together {
			replicas[len(replicas)-1] = single{l.Replica}
		}
	}
	x := &filterBench{f: filterOf(slices, 1)}
	x.f.Options.Capacity, x.f.Options.Durability = 1<<24, bigset.FilterInterval
	var err error
	x.co, err = coord.New(coord.Options{Place: coord.List(func([]byte) []peer.Replica { return nil }),
		PlaceSlice: coord.ListSlices(func([]byte, uint32) []peer.SliceReplica { return replicas })})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = x.co.Close(ctx) })
	return x
}

// next returns a request with some keys, others than the one before.
func (x *filterBench) next(n int) coord.FilterKeys {
	if x.r.Keys == nil {
		x.r = coord.FilterKeys{Filter: x.f, Keys: make([][]byte, n)}
	}
	for i := range x.r.Keys {
		x.n++
		x.r.Keys[i] = fmt.Appendf(x.r.Keys[i][:0], "key %d", x.n%100_000)
	}
	return x.r
}
