package lsm

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"pgregory.net/rapid"

	"bigset/clock"
	"bigset/keyscheme"
)

// intersects asks a filter, and checks that the filter counts what it leaves out.
func intersects(t testing.TB, dots *clock.Clock, property []byte) bool {
	t.Helper()
	var skipped atomic.Uint64
	ok, err := NewDotFilter(dots, &skipped).Intersects(property)
	if err != nil || ok != (skipped.Load() == 0) {
		t.Fatalf("%v, %v, %d skipped", ok, err, skipped.Load())
	}
	return ok
}

// dotProperty returns what a collector says of a block with such dots.
func dotProperty(t testing.TB, dots ...clock.Dot) []byte {
	t.Helper()
	c := &dotCollector{}
	for i, d := range dots {
		if err := c.AddPointKey(dotKey(d, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	property, err := c.FinishDataBlock(nil)
	if err != nil {
		t.Fatal(err)
	}
	return property
}

func dotKey(d clock.Dot, i int) pebble.InternalKey {
	kinds := []pebble.InternalKeyKind{pebble.InternalKeyKindMerge, pebble.InternalKeyKindSet, pebble.InternalKeyKindDelete, pebble.InternalKeyKindSingleDelete}
	key := keyscheme.NewPrefix([]byte("s")).AppendElement(nil, fmt.Appendf(nil, "%04d", i), d, keyscheme.OpAdd)
	return pebble.MakeInternalKey(key, pebble.SeqNum(i), kinds[i%len(kinds)])
}

// TestDotRanges: among blocks, index blocks and tables with any dots, in records of any kind, a filter leaves out none with a dot
// that it looks for, and leaves out all in which no actor's range overlaps them.
func TestDotRanges(t *testing.T) {
	drawDot := rapid.Custom(func(t *rapid.T) clock.Dot {
		actor := fmt.Sprintf("actor %02d", rapid.IntRange(0, dotActorsMax*3/2).Draw(t, "actor"))
		if rapid.Bool().Draw(t, "short") {
			actor = rapid.SampledFrom([]string{"a", "b", "a\x00", "same", "the same"}).Draw(t, "name")
		}
		return clock.Dot{Actor: clock.Actor(actor), Counter: rapid.Uint64Range(1, 200).Draw(t, "counter") << rapid.SampledFrom([]int{0, 0, 8, 56}).Draw(t, "shift")}
	})
	rapid.Check(t, func(t *rapid.T) {
		c := &dotCollector{}
		var block, index, table []clock.Dot
		wanted := clock.Of(rapid.SliceOfN(drawDot, 0, 3).Draw(t, "wanted")...)
		ask := func(what string, dots []clock.Dot, property []byte, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			spans := map[uint32]dotRange{}
			has := false
			for _, d := range dots {
				tail := keyscheme.ActorTail([]byte(d.Actor))
				s, ok := spans[tail]
				if !ok {
					s = dotRange{tail, d.Counter, d.Counter}
				}
				spans[tail] = dotRange{tail, min(s.first, d.Counter), max(s.last, d.Counter)}
				has = has || wanted.Contains(d)
			}
			may := len(spans) > dotActorsMax
			for d := range wanted.Dots() {
				s, ok := spans[keyscheme.ActorTail([]byte(d.Actor))]
				may = may || ok && s.first <= d.Counter && d.Counter <= s.last
			}
			if got := NewDotFilter(wanted, new(atomic.Uint64)).mayHave(property); got != may || has && !got {
				t.Fatalf("%s with %v may have one of %v: %v, want %v; it has: %v", what, dots, wanted, got, may, has)
			}
		}
		for range rapid.IntRange(0, 6).Draw(t, "blocks") {
			keys := rapid.SampledFrom([]int{0, 1, 2, 5, dotActorsMax * 3}).Draw(t, "keys")
			for range keys {
				d := drawDot.Draw(t, "dot")
				key := dotKey(d, len(table))
				if err := c.AddPointKey(key, nil); err != nil {
					t.Fatal(err)
				}
				for i := range key.UserKey {
					key.UserKey[i] = 0xAA // nothing of it is kept
				}
				block, index, table = append(block, d), append(index, d), append(table, d)
			}
			for _, other := range [][]byte{keyscheme.NewPrefix([]byte("s")).AppendClock(nil), {'i'}} {
				if err := c.AddPointKey(pebble.MakeInternalKey(other, 1, pebble.InternalKeyKindSet), nil); err != nil {
					t.Fatal(err)
				}
			}
			property, err := c.FinishDataBlock(nil)
			ask("a block", block, property, err)
			c.AddPrevDataBlockToIndexBlock()
			if block = nil; rapid.IntRange(0, 2).Draw(t, "end of index block") == 0 {
				property, err = c.FinishIndexBlock(nil)
				ask("an index block", index, property, err)
				index = nil
			}
		}
		property, err := c.FinishTable([]byte("before"))
		property, ok := bytes.CutPrefix(property, []byte("before"))
		if !ok {
			t.Fatalf("FinishTable does not append: %x", property)
		}
		ask("a table", table, property, err)
	})
}

// TestDotRangesUnknown: a block is read if its property is empty or can't be parsed.
func TestDotRangesUnknown(t *testing.T) {
	none := clock.Of(clock.Dot{Actor: "other", Counter: 1})
	whole := dotProperty(t, clock.Dot{Actor: "n", Counter: 300}, clock.Dot{Actor: "n", Counter: 1}, clock.Dot{Actor: "m", Counter: 70_000})
	if intersects(t, none, whole) {
		t.Fatalf("%x has none", whole)
	}
	for n := range whole {
		if !intersects(t, none, whole[:n]) {
			t.Errorf("the first %d bytes of %x are taken", n, whole)
		}
	}
	for _, b := range [][]byte{nil, append(whole[:len(whole):len(whole)], 0), {dotActorsMax + 1}, {0xFF},
		{1, 'a', 'a', 'a', 'a', 0, 5}, // from 0
		{1, 'a', 'a', 'a', 'a', 2, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1}} { // ends beyond the last counter
		if !intersects(t, none, b) {
			t.Errorf("%x is taken", b)
		}
	}
	if intersects(t, none, dotProperty(t)) {
		t.Error("a block without element keys is read")
	}
}

// TestDotRangesEnds: the lowest and the highest counter of a block belong to its range, and their neighbours don't.
func TestDotRangesEnds(t *testing.T) {
	for _, last := range []uint64{7, 8, 300} {
		block := dotProperty(t, clock.Dot{Actor: "n", Counter: 7}, clock.Dot{Actor: "n", Counter: last})
		for counter, want := range map[uint64]bool{6: false, 7: true, last: true, last + 1: false} {
			if got := intersects(t, clock.Of(clock.Dot{Actor: "n", Counter: counter}), block); got != want {
				t.Errorf("a block from 7 to %d may have %d: %v", last, counter, got)
			}
		}
	}
}

// TestDotRangesOnDisk: the bytes of a property are part of the format.
func TestDotRangesOnDisk(t *testing.T) {
	got := dotProperty(t, clock.Dot{Actor: "an actor", Counter: 300}, clock.Dot{Actor: "an actor", Counter: 2}, clock.Dot{Actor: "b", Counter: 1})
	if want := "\x02ctor\x02\xaa\x02\x00\x00\x00b\x01\x00"; string(got) != want {
		t.Errorf("%x, want %x", got, want)
	}
}

func FuzzDotRanges(f *testing.F) {
	f.Add([]byte{}, uint64(1))
	f.Add(dotProperty(f), uint64(1))
	f.Add(dotProperty(f, clock.Dot{Actor: "n", Counter: 300}, clock.Dot{Actor: "m", Counter: 1 << 40}), uint64(300))
	f.Fuzz(func(t *testing.T, b []byte, counter uint64) {
		intersects(t, clock.Of(clock.Dot{Actor: "n", Counter: counter}, clock.Dot{Actor: "a longer one", Counter: 1}), b)
	})
}

// BenchmarkDotCollector measures what the collector costs for each key of a table that is written.
func BenchmarkDotCollector(b *testing.B) {
	keys := tableKeys(keyscheme.NewPrefix([]byte("set")), 150, pebble.InternalKeyKindMerge)
	for _, bench := range []struct {
		name string
		c    pebble.BlockPropertyCollector
	}{{"dots", &dotCollector{}}, {"count", &keyCounter{}}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			var buf []byte
			for i := 0; b.Loop(); i++ {
				if err := bench.c.AddPointKey(keys[i%len(keys)], nil); err != nil {
					b.Fatal(err)
				}
				if i%len(keys) == 0 {
					buf, _ = bench.c.FinishDataBlock(buf[:0])
					bench.c.AddPrevDataBlockToIndexBlock()
				}
			}
		})
	}
}
