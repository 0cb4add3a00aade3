package peer_test

import (
	"fmt"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// BenchmarkDelta encodes and decodes deltas as a coordinator sends them: adds; every tenth kills one dot.
func BenchmarkDelta(b *testing.B) {
	from := peer.Member{Node: "node-1", Incarnation: clock.Actor("incarnation1"), State: peer.Normal}
	for _, n := range []int{1, 100, 4096} {
		d := peer.Delta{Set: []byte("a set of users"), Request: []byte("request-00000001"), Actor: "actor-of-12b", First: 1 << 30}
		for i := range n {
			it := bigset.Item{Kind: keyscheme.OpAdd, Element: fmt.Appendf(nil, "element-%08d", i)}
			if i%10 == 0 {
				it.Context = []clock.Dot{{Actor: "actor-of-12b", Counter: uint64(i + 1)}}
			}
			d.Items = append(d.Items, it)
		}
		frame, err := peer.Append(nil, from, d)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("append/items=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(frame)))
			var buf []byte
			for b.Loop() {
				if buf, err = peer.Append(buf[:0], from, d); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("decode/items=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(frame)))
			for b.Loop() {
				if _, _, err := peer.Decode(frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
