package bloomslice

import (
	"fmt"
	"testing"
)

// bare is the least that a check costs: the hashes, and the bits in one piece of memory.
func bare(bits []uint64, k uint32, perHash uint64, key []byte) bool {
	h := Sum(key)
	return bareHas(bits, k, perHash, &h)
}

func bareHas(bits []uint64, k uint32, perHash uint64, h *Hash) bool {
	for i := range k {
		bit := uint64(i)*perHash + h.at(i)%perHash
		if bits[bit/wordBits]&(1<<(wordBits-1)>>(bit%wordBits)) == 0 {
			return false
		}
	}
	return true
}

// benchKeys returns keys, concatenated.
func benchKeys(n int) [][]byte {
	keys := make([][]byte, n)
	var all []byte
	for i := range keys {
		at := len(all)
		all = fmt.Appendf(all, "%012d", i)
		keys[i] = all[at:len(all):len(all)]
	}
	return keys
}

// BenchmarkCheck compares checks of a filter of a million keys with bare probes of the same bits.
func BenchmarkCheck(b *testing.B) {
	s := slice(b, options(1_000_000, 0.0001), nil, nil)
	const n = 1_000_000
	keys := benchKeys(2 * n)
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
	for _, c := range []struct {
		name string
		keys [][]byte
	}{{"hit", keys[:n]}, {"miss", keys[n:]}} {
		b.Run("bare/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				bare(flat, l.shape.K, l.perHash.m, c.keys[i%n])
			}
		})
		b.Run("slice/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h := Sum(c.keys[i%n])
				_, _ = s.Look(&h)
			}
		})
	}
}

// BenchmarkMark adds new keys to a filter of a million, and starts again with a new filter after each million.
func BenchmarkMark(b *testing.B) {
	const n = 1_000_000
	keys := benchKeys(n)
	var s *Slice
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%n == 0 {
			s = slice(b, options(n, 0.0001), nil, nil)
		}
		h := Sum(keys[i%n])
		if _, added, _ := s.Admit(&h, ""); added {
			s.Commit()
		}
	}
}

// BenchmarkMarkBare sets the same bits in one piece of memory.
func BenchmarkMarkBare(b *testing.B) {
	const n = 1_000_000
	keys := benchKeys(n)
	s := slice(b, options(n, 0.0001), nil, nil)
	if err := s.AddLayer(""); err != nil {
		b.Fatal(err)
	}
	l := (*s.layers.Load())[0]
	var flat []uint64
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%n == 0 {
			flat = make([]uint64, len(l.pages)*pageWords)
		}
		h := Sum(keys[i%n])
		if bareHas(flat, l.shape.K, l.perHash.m, &h) {
			continue
		}
		for i := range l.shape.K {
			bit := uint64(i)*l.perHash.m + h.at(i)%l.perHash.m
			flat[bit/wordBits] |= 1 << (wordBits - 1) >> (bit % wordBits)
		}
	}
}
