package comparator_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
	"bigset/comparator"
	"bigset/keyscheme"
)

// benchKeys returns 1024 element keys, with the elements spread over sets. Elements have 16 bytes; if alike is set, the first 8 are
// equal.
func benchKeys(sets int, alike bool) [][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	keys := make([][]byte, 1024)
	for i := range keys {
		p := keyscheme.NewPrefix(fmt.Appendf(nil, "users/%08d/friends", rng.IntN(sets)))
		element := binary.BigEndian.AppendUint64(nil, rng.Uint64())
		if alike {
			element = []byte("element-")
		}
		element = binary.BigEndian.AppendUint64(element, rng.Uint64())
		dot := clock.Dot{Actor: "node-1/incarnation-7", Counter: rng.Uint64N(1 << 30)}
		keys[i] = p.AppendElement(nil, element, dot, keyscheme.OpAdd)
	}
	return keys
}

// mixedLengths gives the keys elements of 8 to 24 bytes.
func mixedLengths(keys [][]byte) [][]byte {
	for i, key := range keys {
		k, err := keyscheme.Decode(key)
		if err != nil {
			panic(err)
		}
		element := append(bytes.Clone(k.Element), k.Element[:8]...)[:8+i%17]
		keys[i] = keyscheme.NewPrefix(k.Set).AppendElement(nil, element, k.Dot(), k.Op)
	}
	return keys
}

func BenchmarkCompare(b *testing.B) {
	for _, load := range []struct {
		name string
		keys [][]byte
	}{
		{"same-set", benchKeys(1, false)},
		{"same-set-alike", benchKeys(1, true)},
		{"same-set-lengths", mixedLengths(benchKeys(1, false))},
		{"different-sets", benchKeys(1000, false)},
	} {
		for _, order := range []struct {
			name    string
			compare func(a, b []byte) int
		}{
			{"default", pebble.DefaultComparer.Compare},
			{"bigset", comparator.Compare},
		} {
			b.Run(load.name+"/"+order.name, func(b *testing.B) {
				b.ReportAllocs()
				sum := 0
				for i := 0; b.Loop(); i++ {
					sum += order.compare(load.keys[i&1023], load.keys[(i*7+1)&1023])
				}
				sink = sum
			})
		}
	}
}

var sink int

func BenchmarkSplit(b *testing.B) {
	keys := benchKeys(1, false)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		sink += comparator.Split(keys[i&1023])
	}
}

func BenchmarkEqual(b *testing.B) {
	keys := benchKeys(1, false)
	twins := make([][]byte, len(keys))
	for i := range keys {
		twins[i] = bytes.Clone(keys[i])
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if comparator.Equal(keys[i&1023], twins[i&1023]) {
			sink++
		}
	}
}

func BenchmarkSeparator(b *testing.B) {
	keys := benchKeys(1, false)
	var dst []byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		x, y := keys[i&1023], keys[(i*7+1)&1023]
		if comparator.Compare(x, y) < 0 {
			dst = comparator.Separator(dst[:0], x, y)
		}
	}
}
