package clock

import (
	"math/rand/v2"
	"testing"
)

func BenchmarkAdd(b *testing.B) {
	b.Run("contiguous", func(b *testing.B) {
		b.ReportAllocs()
		c, n := new(Clock), uint64(0)
		for b.Loop() {
			n++
			c.Add(Dot{"abcdefghijkl", n})
		}
	})
	b.Run("contiguous beyond a gap", func(b *testing.B) {
		b.ReportAllocs()
		c, n := new(Clock), uint64(1)
		for b.Loop() {
			n++
			c.Add(Dot{"abcdefghijkl", n})
		}
	})
	b.Run("random", func(b *testing.B) {
		b.ReportAllocs()
		c, rnd := new(Clock), rand.New(rand.NewPCG(1, 1))
		for b.Loop() {
			c.Add(Dot{"abcdefghijkl", rnd.Uint64N(10_000_000) + 1})
		}
	})
	b.Run("swapped pairs", func(b *testing.B) {
		b.ReportAllocs()
		c, n := new(Clock), uint64(0)
		for b.Loop() {
			n++
			c.Add(Dot{"abcdefghijkl", ((n - 1) ^ 1) + 1})
		}
	})
}

var sink1 bool

func BenchmarkContains(b *testing.B) {
	c := tenMillion()
	for _, other := range []Actor{"0", "b", "c"} {
		c.AddRange(other, 1, 1000)
	}
	for _, bc := range []struct {
		name string
		dot  Dot
	}{
		{"base", Dot{"a", 50}}, {"page", Dot{"a", 5_000_050}}, {"miss", Dot{"a", 5_000_000}},
		{"above", Dot{"a", 1 << 40}}, {"no actor", Dot{"d", 5}},
	} {
		name := []byte(bc.dot.Actor)
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink1 = c.Contains(bc.dot)
			}
		})
		b.Run(bc.name+" bytes", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink1 = c.ContainsBytes(name, bc.dot.Counter)
			}
		})
	}
	b.Run("page view", func(b *testing.B) {
		b.ReportAllocs()
		view := c.Counters("a")
		for b.Loop() {
			sink1 = view.Contains(5_000_050)
		}
	})
	b.Run("random view", func(b *testing.B) {
		b.ReportAllocs()
		view, n := c.Counters("a"), uint64(0)
		for b.Loop() {
			n = (n + 7_654_321) % 10_000_000
			sink1 = view.Contains(n)
		}
	})
}

func BenchmarkClone(b *testing.B) {
	c := tenMillion()
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.Clone()
		}
	})
	b.Run("and write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.Clone().Add(Dot{"a", 5_000_000})
		}
	})
}

func BenchmarkUnionEncoded(b *testing.B) {
	for _, bc := range []struct {
		name string
		add  *Clock
	}{
		{"dot", Of(Dot{"a", 5_000_000})}, {"two dots", Of(Dot{"a", 5_000_000}, Dot{"a", 5_000_002})},
		{"same 10M", tenMillion()},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			c, enc := tenMillion(), bc.add.Append(nil)
			for b.Loop() {
				if err := c.UnionEncoded(enc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCodec(b *testing.B) {
	c := tenMillion()
	plain, packed := c.Append(nil), c.AppendCompressed(nil)
	b.Run("Append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			plain = c.Append(plain[:0])
		}
	})
	b.Run("AppendCompressed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			packed = c.AppendCompressed(packed[:0])
		}
	})
	b.Run("Decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(plain); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Decode compressed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(packed); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Decode dot", func(b *testing.B) {
		b.ReportAllocs()
		dot := Of(Dot{"abcdefghijkl", 1_000_000}).Append(nil)
		for b.Loop() {
			if _, err := Decode(dot); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAlgebra(b *testing.B) {
	c, dot := tenMillion(), Of(Dot{"a", 5_000_001})
	other := c.Clone()
	pack(other)
	b.Run("Union of a dot", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.Union(dot)
		}
	})
	b.Run("Subtract a dot", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d := c.Clone()
			d.Subtract(dot)
		}
	})
	b.Run("Descends", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sink1 = c.Descends(other)
		}
	})
	b.Run("Equal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sink1 = c.Equal(other)
		}
	})
}

// BenchmarkManyActors measures a write in a clock of 100 M events by a thousand actors, with the first event of each missing.
func BenchmarkManyActors(b *testing.B) {
	c, actors := new(Clock), make([]Actor, 1000)
	for i := range actors {
		actors[i] = Actor([]byte{'a', 'c', 't', 'o', 'r', byte(i >> 8), byte(i)})
		c.AddRange(actors[i], 2, 100_000)
	}
	dead, next := c.Clone(), uint64(100_000)
	dead.Subtract(Of(Dot{actors[999], 5}))
	b.Run("Add", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			next++
			c.Add(Dot{actors[next%1000], next})
		}
	})
	b.Run("AddRange", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			next++
			c.AddRange(actors[next%1000], next, next+2)
		}
	})
	b.Run("Clone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.Clone()
		}
	})
	b.Run("Clone and write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			next++
			c.Clone()
			c.Add(Dot{actors[0], next})
		}
	})
	b.Run("HasMore", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sink1 = c.HasMore(dead)
		}
	})
	b.Run("AppendPart", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = c.Counters(actors[500]).AppendPart(buf[:0], 0)
		}
	})
}
