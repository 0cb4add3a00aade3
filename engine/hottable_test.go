package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset/clock"
)

// TestHotTable compares a table of a few entries, whose positions begin again often, with what its elements have.
func TestHotTable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var table hotDots
		most := rapid.SampledFrom([]int64{300, 1000, 5000, 40_000, 200_000}).Draw(t, "bytes")
		table.init(most)
		again := rapid.SampledFrom([]uint32{3000, 20_000, math.MaxUint32}).Draw(t, "positions")
		for i := range table.shards {
			s := &table.shards[i]
			if s.last = min(s.last, again); rapid.Bool().Draw(t, "near the end") {
				s.next, s.ring, s.chains = s.last-uint32(rapid.IntRange(0, 100).Draw(t, "left")), make([]byte, s.most), make([]uint32, s.most/hotChainBytes)
				s.next = max(s.next, 1)
				table.bytes.Add(int64(len(s.ring) + 4*len(s.chains)))
			}
		}
		type name struct{ set, element string }
		sets := map[string]*hotSet{}
		is, dead := map[name][]clock.Dot{}, map[clock.Dot]bool{}
		isDead := func(d clock.Dot) bool { return dead[d] }
		counter := uint64(0)
		has := func(n name) (dots []clock.Dot, ok bool) {
			dots, ok = table.appendDots(nil, sets[n.set], []byte(n.element))
			return slices.DeleteFunc(dots, isDead), ok
		}
		found := 0
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			n := name{fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "set")), fmt.Sprint("element ", rapid.IntRange(0, 30).Draw(t, "element"))}
			if len(n.element)%2 == 0 {
				n.element += string(make([]byte, 100))
			}
			if sets[n.set] == nil {
				sets[n.set] = &hotSet{table.sets.Add(1), "this"}
			}
			hs := sets[n.set]
			dots, ok := has(n)
			if ok && !slices.Equal(dots, is[n]) {
				t.Fatalf("%q of %s has %v, want %v", n.element, n.set, dots, is[n])
			}
			if ok {
				found++
			}
			switch rapid.IntRange(0, 9).Draw(t, "do") {
			case 0, 1, 2, 3:
				table.keep(hs, []byte(n.element), is[n], table.puts.Load())
				if _, ok := has(n); !ok && most >= 5000 && len(is[n]) <= 1 {
					t.Fatalf("%q was not kept", n.element)
				}
			case 4, 5, 6:
				if rapid.Bool().Draw(t, "replaces") {
					for _, d := range is[n] {
						dead[d] = true
					}
				}
				counter++
				d := clock.Dot{Actor: rapid.SampledFrom([]clock.Actor{"this", "this", "a", "that"}).Draw(t, "actor"), Counter: counter}
				before := table.puts.Load()
				late := is[n]
				is[n] = append(slices.DeleteFunc(slices.Clone(is[n]), isDead), d)
				slices.SortFunc(is[n], clock.Dot.Compare)
				table.put(hs, hotPut{[]byte(n.element), d}, isDead, table.puts.Add(1))
				table.keep(hs, []byte(n.element), slices.DeleteFunc(slices.Clone(late), isDead), before) // began before
			case 7:
				for _, d := range is[n] {
					dead[d] = true
				}
				delete(is, n)
			case 8:
				if rapid.IntRange(0, 9).Draw(t, "forget") == 0 {
					delete(sets, n.set)
					table.keep(hs, []byte(n.element), []clock.Dot{{Actor: "lost", Counter: 1}}, math.MaxUint64)
				}
			}
		}
		bytes, entries := int64(0), map[string]bool{}
		for i := range table.shards {
			bytes += int64(cap(table.shards[i].ring) + 4*cap(table.shards[i].chains))
		}
		if bytes != table.bytes.Load() || bytes > most {
			t.Fatalf("%d bytes, counted %d, at most %d", bytes, table.bytes.Load(), most)
		}
		table.each(func(e hotEntry) {
			key := fmt.Sprint(e.set(), string(e.element()))
			if entries[key] {
				t.Fatalf("%s is there twice", key)
			}
			entries[key] = true
		})
	})
}

// BenchmarkHotTable measures a full table of the default size: an element that is not found and then kept, as after each look-up that the table can't
// answer, and elements at random that are found.
//
//	go test ./engine -run - -bench HotTable
func BenchmarkHotTable(b *testing.B) {
	var table hotDots
	table.init(hotBytesDefault)
	hs, n := &hotSet{1, "0123456789ab"}, uint64(0)
	var element [16]byte
	var room [4]clock.Dot
	keep := func() {
		n++
		binary.BigEndian.PutUint64(element[:], n*0x9e3779b97f4a7c15)
		if _, ok := table.appendDots(room[:0], hs, element[:]); !ok {
			table.keep(hs, element[:], append(room[:0], clock.Dot{Actor: hs.actor, Counter: n}), 0)
		}
	}
	for n < 3_000_000 {
		keep()
	}
	b.Run("kept", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			keep()
		}
	})
	b.Run("found", func(b *testing.B) {
		b.ReportAllocs()
		i, found := uint64(1), 0
		for b.Loop() {
			i = i*6364136223846793005 + 1442695040888963407
			binary.BigEndian.PutUint64(element[:], (n-i>>33%1_000_000)*0x9e3779b97f4a7c15)
			if _, ok := table.appendDots(room[:0], hs, element[:]); ok {
				found++
			}
		}
		if found < b.N {
			b.Fatalf("%d of %d found", found, b.N)
		}
	})
}
