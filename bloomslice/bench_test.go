package bloomslice

import (
	"fmt"
	"testing"
)

// bare is what a check costs at least: the hashes, and the bits in one piece of memory.
func bare(bits []uint64, k uint32, perHash uint64, key []byte) bool {
	h := Sum(key)
	for i := range k {
		bit := uint64(i)*perHash + h.at(i)%perHash
		if bits[bit/wordBits]&(1<<(wordBits-1)>>(bit%wordBits)) == 0 {
			return false
		}
	}
	return true
}

// BenchmarkCheck compares checks of a filter of a million keys with bare probes of the same bits.
func BenchmarkCheck(b *testing.B) {
	o := options(1_000_000, 0.0001)
	s := slice(b, o, nil, nil)
	const n = 1_000_000
	keys := make([][]byte, 2*n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key%09d", i)
	}
	for _, key := range keys[:n] {
		h := Sum(key)
		if _, added, _ := s.Admit(&h, ""); added {
			s.Commit()
		}
	}
	l := (*s.layers.Load())[0]
	flat := make([]uint64, len(l.pages)*pageWords)
	for i := range l.pages {
		copy(flat[i*pageWords:], l.pages[i].Load()[:])
	}
	for name, base := range map[string]int{"hit": 0, "miss": n} {
		b.Run("bare/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				bare(flat, l.shape.K, l.perHash.m, keys[base+i*7919%n])
			}
		})
		b.Run("slice/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h := Sum(keys[base+i*7919%n])
				_, _ = s.Check(&h)
			}
		})
	}
}

// BenchmarkMark adds new keys.
func BenchmarkMark(b *testing.B) {
	s := slice(b, options(1_000_000, 0.0001), nil, nil)
	b.ReportAllocs()
	key := []byte("key000000000")
	for i := 0; b.Loop(); i++ {
		for j, v := len(key)-1, i; v > 0; j, v = j-1, v/10 {
			key[j] = byte('0' + v%10)
		}
		h := Sum(key)
		if _, added, _ := s.Admit(&h, ""); added {
			s.Commit()
		}
	}
}
