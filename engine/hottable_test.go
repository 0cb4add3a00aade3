package engine

import (
	"encoding/binary"
	"fmt"
	"maps"
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
			dots, ok, _ = table.appendDots(nil, sets[n.set], []byte(n.element))
			return slices.DeleteFunc(dots, isDead), ok
		}
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			n := name{fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "set")), fmt.Sprint("element ", rapid.IntRange(0, 30).Draw(t, "element"))}
			if len(n.element)%2 == 0 {
				n.element += string(make([]byte, 100))
			}
			if sets[n.set] == nil {
				sets[n.set] = &hotSet{table.sets.Add(1), "this", table.mode.Load()}
			}
			hs := sets[n.set]
			dots, ok := has(n)
			if ok && !slices.Equal(dots, is[n]) {
				t.Fatalf("%q of %s has %v, want %v", n.element, n.set, dots, is[n])
			}
			switch rapid.IntRange(0, 9).Draw(t, "do") {
			case 0, 1, 2, 3:
				table.keep(hs, []byte(n.element), is[n], table.puts.Load(), nil)
				if _, ok := has(n); !ok && most >= 5000 && len(is[n]) <= 1 {
					t.Fatalf("%q was not kept", n.element)
				}
			case 4, 5, 6:
				// A batch: its deaths are published after its puts.
				actor := rapid.SampledFrom([]clock.Actor{"this", "this", "a", "that"}).Draw(t, "actor")
				replaces := rapid.Bool().Draw(t, "replaces")
				late, killed, before, batch := is[n], maps.Clone(dead), table.puts.Load(), table.puts.Add(1)
				for range rapid.IntRange(1, 3).Draw(t, "adds") {
					counter++
					if replaces {
						for _, d := range is[n] {
							killed[d] = true
						}
					}
					is[n] = append(is[n][:len(is[n]):len(is[n])], clock.Dot{Actor: actor, Counter: counter})
				}
				for _, d := range is[n][len(late):] {
					table.put(hs, addKey{[]byte(n.element), d, replaces}, func(d clock.Dot) bool { return killed[d] }, batch)
					if dots, ok := has(n); ok && len(dots) == 0 && len(late) > 0 {
						t.Fatalf("%q of %s has no dots in the middle of a batch that replaces %v", n.element, n.set, late)
					}
				}
				if dots, ok := has(n); replaces && most >= 5000 && (!ok || len(dots) == 0) {
					t.Fatalf("%q of %s is not remembered after a batch that replaces %v", n.element, n.set, late)
				}
				dead = killed
				is[n] = slices.DeleteFunc(slices.Clone(is[n]), isDead)
				slices.SortFunc(is[n], clock.Dot.Compare)
				table.keep(hs, []byte(n.element), slices.DeleteFunc(slices.Clone(late), isDead), before, nil) // began before
			case 7:
				for _, d := range is[n] {
					dead[d] = true
				}
				delete(is, n)
			case 8:
				if rapid.IntRange(0, 9).Draw(t, "forget") == 0 {
					delete(sets, n.set)
					table.keep(hs, []byte(n.element), []clock.Dot{{Actor: "lost", Counter: 1}}, math.MaxUint64, nil)
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

// TestHotRoom: an entry whose dots no longer fit gets another place, and what is next to its former one stays.
func TestHotRoom(t *testing.T) {
	t.Parallel()
	var table hotDots
	table.init(hotShardBytes)
	hs, want := &hotSet{1, "this", table.mode.Load()}, map[string][]clock.Dot{}
	for i, e := range []string{"first", "second"} {
		want[e] = []clock.Dot{{Actor: "this", Counter: uint64(i + 1)}}
		table.keep(hs, []byte(e), want[e], math.MaxUint64, nil)
	}
	for _, d := range []clock.Dot{{Actor: "this", Counter: 3}, {Actor: "zebra", Counter: 4}} {
		want["first"] = append(want["first"], d)
		table.put(hs, addKey{element: []byte("first"), dot: d}, func(clock.Dot) bool { return false }, 1)
		for e, dots := range want {
			if got, ok, _ := table.appendDots(nil, hs, []byte(e)); !ok || !slices.Equal(got, dots) {
				t.Errorf("after %v the %s element has %v, %v, want %v", d, e, got, ok, dots)
			}
		}
	}
}

// TestHotPutsOfOthers: two batches of different sets that put at the same time do not let a look-up that began before the later one remember what it found.
func TestHotPutsOfOthers(t *testing.T) {
	t.Parallel()
	var table hotDots
	table.init(hotShardBytes)
	hs := &hotSet{1, "this", table.mode.Load()}
	element := []byte("element")
	s, h := table.place(hs, element)
	other := []byte(nil)
	for i := 0; other == nil; i++ {
		e := fmt.Append(nil, i)
		if _, g := table.place(hs, e); s.putsOf(g) == s.putsOf(h) {
			other = e
		}
	}
	alive := func(clock.Dot) bool { return false }
	earlier, later := table.puts.Add(1), table.puts.Add(1)
	began := earlier
	table.put(hs, addKey{element: element, dot: clock.Dot{Actor: "this", Counter: 1}}, alive, later)
	table.put(hs, addKey{element: other, dot: clock.Dot{Actor: "this", Counter: 2}}, alive, earlier)
	table.keep(hs, element, nil, began, nil)
	if dots, ok, _ := table.appendDots(nil, hs, element); ok {
		t.Errorf("it is remembered that the element has %v", dots)
	}
}

// TestHotMode: while few look-ups find what they ask for, few shards are used, and all again when it would gain.
func TestHotMode(t *testing.T) {
	t.Parallel()
	var table hotDots
	table.init(hotShardsMax * hotShardBytes)
	all := table.newMode(hotShardsMax)
	if table.mode.Load().shards != hotShardsMax/hotFew {
		t.Error("all shards are used at first")
	}
	table.mode.Store(all)
	if n := all.judged.Load(); n < hotShardsMax*hotShardBytes/hotFirst {
		t.Errorf("all shards are judged after %d look-ups", n)
	}
	table.count(all, int(all.judged.Load())-1, 0)
	if table.mode.Load() != all {
		t.Error("they were judged before the table was full")
	}
	table.count(all, 1, 0)
	few := table.mode.Load()
	if few.shards != hotShardsMax/hotFew {
		t.Fatalf("%d shards after look-ups that found nothing", few.shards)
	}
	table.count(all, hotJudged, 0)
	table.count(few, hotJudged, hotJudged/hotAgain-1)
	if table.mode.Load() != few {
		t.Error("all shards are used although it would not gain")
	}
	table.count(few, hotJudged, hotJudged/hotAgain)
	again := table.mode.Load()
	if again.shards != hotShardsMax {
		t.Fatalf("%d shards although it would gain", again.shards)
	}
	for range 3 {
		table.count(again, int(again.judged.Load()), int(again.judged.Load())/hotLeast)
	}
	if table.mode.Load() != again {
		t.Error("few shards are used although it gains")
	}
	// A set that has other shards than are used has whole entries nevertheless.
	hs := &hotSet{1, "this", again}
	for i := range 1000 {
		table.mode.Store(again)
		e := fmt.Append(nil, i)
		table.keep(hs, e, nil, math.MaxUint64, nil)
		table.mode.Store(table.newMode(1))
		d := clock.Dot{Actor: "this", Counter: uint64(i + 1)}
		table.put(hs, addKey{element: e, dot: d}, func(clock.Dot) bool { return false }, 1)
		table.mode.Store(table.newMode(hotShardsMax))
		if dots, ok, _ := table.appendDots(nil, hs, e); !ok || !slices.Equal(dots, []clock.Dot{d}) {
			t.Fatalf("%s is remembered as %v", e, dots)
		}
	}
}

// BenchmarkHotTable measures a full table of the default size: an element that is not found and then kept, as after each look-up that the table can't
// answer, and elements at random that are found.
//
//	go test ./engine -run - -bench HotTable
func BenchmarkHotTable(b *testing.B) {
	var table hotDots
	table.init(hotBytesDefault)
	hs, n := &hotSet{1, "0123456789ab", table.newMode(hotShardsMax)}, uint64(0)
	var element [16]byte
	var room [4]clock.Dot
	keep := func() {
		n++
		binary.BigEndian.PutUint64(element[:], n*0x9e3779b97f4a7c15)
		if _, ok, _ := table.appendDots(room[:0], hs, element[:]); !ok {
			table.keep(hs, element[:], append(room[:0], clock.Dot{Actor: hs.actor, Counter: n}), 0, nil)
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
			if _, ok, _ := table.appendDots(room[:0], hs, element[:]); ok {
				found++
			}
		}
		if found < b.N {
			b.Fatalf("%d of %d found", found, b.N)
		}
	})
}
