package readcore_test

import (
	"fmt"
	"testing"

	"bigset/clock"
	"bigset/fold"
	"bigset/readcore"
)

// benchElements is the size of the set that is merged, in chunks of 1,000.
const benchElements = 1 << 20

// BenchmarkMerge merges a set of a million elements of 16 bytes: streams that agree, streams of which one has missed every
// hundredth element, and streams that each lack every second one.
func BenchmarkMerge(b *testing.B) {
	for _, c := range []struct {
		what  string
		lacks func(stream, n int) bool
	}{
		{"agree", func(int, int) bool { return false }},
		{"missed=1%", func(stream, n int) bool { return stream == 0 && n%100 == 0 }},
		{"halves", func(stream, n int) bool { return n%2 == stream }},
	} {
		for _, r := range []int{2, 3} {
			b.Run(fmt.Sprintf("%s/R=%d", c.what, r), func(b *testing.B) {
				streams := make([][]*fold.Chunk, r)
				for i := range streams {
					streams[i] = benchStream(b, func(n int) bool { return c.lacks(i, n) })
				}
				b.ReportAllocs()
				for b.Loop() {
					if n := mergeAll(b, streams); n != benchElements {
						b.Fatal(n)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchElements, "ns/element")
			})
		}
	}
}

// benchStream makes the chunks of a stream, each in memory of its own; the stream has not seen what it does not have.
func benchStream(b *testing.B, lacks func(n int) bool) (chunks []*fold.Chunk) {
	seen := &clock.Clock{}
	f := fold.New(&clock.Clock{}, fold.Options{})
	actor := []byte("node-incarna")
	for n := range benchElements {
		if lacks(n) {
			continue
		}
		name := fmt.Appendf(nil, "element-%08d", n)
		if f.Starts(name) {
			chunks = append(chunks, f.Chunk(false))
		}
		if err := f.Step(name, actor, uint64(n+1), 'a', []byte{0}); err != nil {
			b.Fatal(err)
		}
		seen.Add(clock.Dot{Actor: clock.Actor(actor), Counter: uint64(n + 1)})
	}
	chunks = append(chunks, f.Chunk(true))
	for _, c := range chunks {
		c.Clock = seen
	}
	return chunks
}

// chunkOf is the one chunk of a stream of n elements.
func chunkOf(t *testing.T, n int) *fold.Chunk {
	f := fold.New(&clock.Clock{}, fold.Options{ElementsMax: n})
	for i := range n {
		if err := f.Step(fmt.Appendf(nil, "element-%08d", i), []byte("node"), uint64(i+1), 'a', []byte{0}); err != nil {
			t.Fatal(err)
		}
	}
	c := f.Chunk(true)
	c.Clock = clock.Of(clock.Dot{Actor: "node", Counter: 1})
	return c
}

func mergeAll(b *testing.B, streams [][]*fold.Chunk) (n int) {
	m := readcore.New(readcore.Options{Streams: len(streams)})
	next := make([]int, len(streams))
	var wants []int
	for {
		wants = m.Wants(wants[:0])
		for _, i := range wants {
			if err := m.Admit(i, streams[i][next[i]]); err != nil {
				b.Fatal(err)
			}
			next[i]++
		}
		r, _ := m.Step()
		if n += len(r.Elements); r.Done {
			return n
		}
	}
}
