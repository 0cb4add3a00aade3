package wire

import (
	"testing"
)

// The physical limit is a write and a read of the bytes by both sides.
func BenchmarkDo(b *testing.B) {
	v := serve(b, ServerOptions{})
	v.s.loneLeast = loneLeast
	c, err := v.try(ClientOptions{Unwatched: true})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	ctx := b.Context()
	body := make([]byte, 100)
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Do(ctx, Call{Verb: verbEcho, Body: body}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("64", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := c.Do(ctx, Call{Verb: verbEcho, Body: body}); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	b.Run("bulk", func(b *testing.B) {
		big := make([]byte, 1<<20)
		b.SetBytes(2 << 20)
		for b.Loop() {
			if _, err := c.Do(ctx, Call{Verb: verbEcho, Body: big}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
