package coord_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"bigset"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

// framed is a replica whose answers go through frames, as over a wire.
type framed struct {
	*local.Replica
	bytes int
	buf   []byte
}

func (f *framed) CountParts(ctx context.Context, set []byte, r bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
	c, by, err := f.Replica.CountParts(ctx, set, r)
	if err != nil {
		return c, by, err
	}
	b, err := peer.Append(nil, by, peer.PartCounts(c))
	if err != nil {
		return c, by, err
	}
	f.bytes += len(b)
	m, by, err := peer.DecodeOwned(b)
	return bigset.PartCounts(m.(peer.PartCounts)), by, err
}

func (f *framed) Read(ctx context.Context, set []byte, o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) {
		scrap := o.Scrap
		var sent *fold.Chunk
		o.Scrap = func() *fold.Chunk { return sent }
		for c, err := range f.Replica.Read(ctx, set, o) {
			if err == nil {
				if f.buf, err = peer.Append(f.buf[:0], f.Member(), peer.Chunk(*c)); err == nil {
					f.bytes += len(f.buf)
					sent = c
					c, _, err = peer.DecodeChunk(f.buf, scrap())
				}
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// BenchmarkCount counts a set of 1 M elements at R=2, in turns with a read of all of it. It reports how much longer the read takes, and the bytes of the
// answers. There is no network, no TLS, and no system call.
func BenchmarkCount(b *testing.B) {
	const elements = 1_000_000
	var list []peer.Replica
	var first *engine.Store
	for i := range 3 {
		store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1})
		if err != nil {
			b.Fatal(err)
		}
		defer store.Close()
		if first == nil {
			first = store
		}
		rep, err := local.New(fmt.Sprintf("node%d", i), store, peer.Normal)
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, &framed{Replica: rep})
	}
	for i := 0; i < elements; i += bigset.BatchOpsMax {
		var ops []bigset.Op
		for k := range min(bigset.BatchOpsMax, elements-i) {
			ops = append(ops, bigset.Op{Kind: keyscheme.OpAdd, Element: fmt.Appendf(nil, "element-%09d", i+k)})
		}
		r, err := first.Write(ctx, set, ops, bigset.WriteOptions{Durability: bigset.NoSync})
		if err != nil {
			b.Fatal(err)
		}
		for _, rep := range list[1:] {
			if _, err := rep.Apply(ctx, r.Delta, bigset.NoSync); err != nil {
				b.Fatal(err)
			}
		}
	}
	co, err := coord.New(coord.Options{Place: coord.List(func([]byte) []peer.Replica { return list }), HedgeTime: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	defer co.Close(ctx)
	bytes := func() (n int) {
		for _, rep := range list {
			n += rep.(*framed).bytes
			rep.(*framed).bytes = 0
		}
		return n
	}
	var counting, reading time.Duration
	var counted, sent int
	for b.Loop() {
		began := time.Now()
		n, err := co.Count(ctx, coord.Read{Set: set})
		if err != nil || n.Elements != elements || n.Read > 0 {
			b.Fatal(n, err)
		}
		counting += time.Since(began)
		counted += bytes()
		began = time.Now()
		read := 0
		for part, err := range co.Read(ctx, coord.Read{Set: set}) {
			if err != nil {
				b.Fatal(err)
			}
			read += len(part.Elements)
		}
		if reading += time.Since(began); read != elements {
			b.Fatal(read)
		}
		sent += bytes()
	}
	b.ReportMetric(reading.Seconds()/counting.Seconds(), "read/count")
	b.ReportMetric(counting.Seconds()*1e9/float64(b.N)/elements, "count-ns/element")
	b.ReportMetric(float64(counted)/float64(b.N), "count-bytes")
	b.ReportMetric(float64(sent)/float64(b.N), "read-bytes")
}
