package keyscheme_test

import (
	"fmt"
	"testing"

	"bigset/clock"
	"bigset/keyscheme"
)

func benchKey() []byte {
	p := keyscheme.NewPrefix([]byte("users/00000042/friends"))
	return p.AppendElement(nil, []byte("element-01234567"), clock.Dot{Actor: "node-1/incarnation-7", Counter: 123456}, keyscheme.OpAdd)
}

func BenchmarkDecode(b *testing.B) {
	key := benchKey()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := keyscheme.Decode(key); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkElementDot(b *testing.B) {
	key := benchKey()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, _, ok := keyscheme.ElementDot(key); !ok {
			b.Fatal("not an element key")
		}
	}
}

func BenchmarkDotTail(b *testing.B) {
	key := benchKey()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, ok := keyscheme.DotTail(key); !ok {
			b.Fatal("not an element key")
		}
	}
}

func BenchmarkDecodeElement(b *testing.B) {
	key := benchKey()
	n, _, _, _, _ := keyscheme.ElementDot(key)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, _, ok := keyscheme.DecodeElement(n, key); !ok {
			b.Fatal("not an element key")
		}
	}
}

func BenchmarkAppendElement(b *testing.B) {
	p := keyscheme.NewPrefix([]byte("users/00000042/friends"))
	element, dot := []byte("element-01234567"), clock.Dot{Actor: "node-1/incarnation-7", Counter: 123456}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = p.AppendElement(dst[:0], element, dot, keyscheme.OpAdd)
	}
}

func BenchmarkSetSlot(b *testing.B) {
	name := []byte("users/00000042/friends")
	b.ReportAllocs()
	for b.Loop() {
		keyscheme.SetSlot(name)
	}
}

// BenchmarkMergeTombstone merges a large tombstone with operands of one dot each, as a flush does.
func BenchmarkMergeTombstone(b *testing.B) {
	for _, n := range []int{10, 10000} {
		b.Run(fmt.Sprintf("operands=%d", n), func(b *testing.B) {
			base := clock.Of()
			base.AddRange("actor", 1, 100000)
			operands := [][]byte{keyscheme.AppendTombstoneValue(nil, base)}
			for i := range n {
				one := clock.Of(clock.Dot{Actor: "actor", Counter: uint64(100002 + i*3)})
				operands = append(operands, keyscheme.AppendTombstoneValue(nil, one))
			}
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				dst = keyscheme.MergeTombstoneValues(dst[:0], operands)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/operand")
		})
	}
}

func BenchmarkToken(b *testing.B) {
	ctx := keyscheme.TokenContent{Form: keyscheme.Narrow, Set: []byte("users/00000042/friends"), Element: []byte("element-01234567"),
		Dots: clock.Of(clock.Dot{Actor: "node-1/incarnation-7", Counter: 123456})}
	token, err := ring.Seal(nil, ctx)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("seal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if token, err = ring.Seal(token[:0], ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unseal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ring.Unseal(token, keyscheme.Narrow, ctx.Set, ctx.Element); err != nil {
				b.Fatal(err)
			}
		}
	})
}
