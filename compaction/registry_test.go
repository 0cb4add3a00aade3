package compaction_test

import (
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"bigset/clock"
	"bigset/compaction"
	"bigset/keyscheme"
)

// nearPrefixes are key prefixes of sets that lie near each other: in one slot, in one range of slots, and in slots that a table of
// sets is likely to put together.
var nearPrefixes = func() (all []string) {
	for _, slot := range []keyscheme.Slot{0, 1, 0x100, 0x10000, 0x10001, 0x100000, 0x1000000, 0xFFFEFFFF, 0xFFFFFFFF} {
		for _, name := range []string{"", "a", "b"} {
			all = append(all, string(keyscheme.AppendPrefix(nil, slot, []byte(name))))
		}
	}
	return all
}()

// someDots are all dots that a Dead of these tests may contain.
var someDots = []clock.Dot{{Actor: "n", Counter: 1}, {Actor: "n", Counter: 2}, {Actor: "m", Counter: 1}}

// TestRegistry compares a registry, and all registries that it was made from, with a plain map: the result of With has the changes,
// and the registries that exist already stay as they were.
func TestRegistry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			registry *compaction.Registry
			model    map[string]*clock.Clock
		}
		versions := []version{{new(compaction.Registry), map[string]*clock.Clock{}}}
		for range rapid.IntRange(1, 8).Draw(t, "versions") {
			from := rapid.SampledFrom(versions).Draw(t, "from")
			next := version{model: maps.Clone(from.model)}
			changes := map[string]*clock.Clock{}
			for _, prefix := range rapid.SliceOfN(rapid.SampledFrom(nearPrefixes), 0, 12).Draw(t, "changes") {
				dead := clock.Of(rapid.SliceOfN(rapid.SampledFrom(someDots), 0, 3).Draw(t, "dead")...)
				if dead.Empty() && rapid.Bool().Draw(t, "nil") {
					dead = nil
				}
				changes[prefix] = dead
			}
			for prefix, dead := range changes {
				if next.model[prefix] = dead; dead == nil || dead.Empty() {
					delete(next.model, prefix)
				}
			}
			next.registry = from.registry.With(changes)
			versions = append(versions, next)
			for i, v := range versions {
				if got, want := v.registry.Len(), len(v.model); got != want {
					t.Fatalf("version %d: %d sets, want %d", i, got, want)
				}
				for _, prefix := range nearPrefixes {
					if got, want := v.registry.Dots([]byte(prefix)), v.model[prefix].Len(); got != want {
						t.Fatalf("version %d: Dots(%x) = %d, want %d", i, prefix, got, want)
					}
					for _, dot := range someDots {
						got := v.registry.Droppable([]byte(prefix), []byte(dot.Actor), dot.Counter)
						if want := v.model[prefix].Contains(dot); got != want {
							t.Fatalf("version %d: Droppable(%x, %v) = %v, want %v", i, prefix, dot, got, want)
						}
					}
				}
			}
		}
	})
}

// TestRegistryNoPrefix: bytes that are not a prefix belong to no set.
func TestRegistryNoPrefix(t *testing.T) {
	prefix := keyscheme.AppendPrefix(nil, 0, nil)
	r := new(compaction.Registry).With(map[string]*clock.Clock{string(prefix): clock.Of(someDots...)})
	for n := range len(prefix) {
		if r.Droppable(prefix[:n], []byte("n"), 1) {
			t.Errorf("Droppable(%x) = true", prefix[:n])
		}
	}
	if r.Droppable(nil, []byte("n"), 1) || !r.Droppable(prefix, []byte("n"), 1) {
		t.Error("nothing is droppable, or the prefix is not")
	}
}

// TestRegistryAllocatesNothing: the drop filter asks for each record of a compaction.
func TestRegistryAllocatesNothing(t *testing.T) {
	changes := map[string]*clock.Clock{}
	for _, prefix := range nearPrefixes[1:] {
		changes[prefix] = clock.Of(someDots...)
	}
	r, actor := new(compaction.Registry).With(changes), []byte("n")
	for i := range 4 {
		prefix, other := []byte(nearPrefixes[i]), []byte(nearPrefixes[i+1])
		if n := testing.AllocsPerRun(100, func() { r.Droppable(prefix, actor, 2); r.Droppable(other, actor, 3) }); n != 0 {
			t.Errorf("Droppable of %x and %x allocates %v times", prefix, other, n)
		}
	}
}

// TestRegistryReaders lets readers ask the published registry while a writer makes and publishes the next ones: each registry
// answers for its own version.
func TestRegistryReaders(t *testing.T) {
	const versions = 300
	type version struct {
		number   uint64
		registry *compaction.Registry
	}
	has := func(i int, number uint64) bool { return (number+uint64(i))%3 != 0 }
	var published atomic.Pointer[version]
	published.Store(&version{0, new(compaction.Registry)})
	var readers sync.WaitGroup
	for first := range 4 {
		readers.Go(func() {
			for i := first; ; i = (i + 1) % len(nearPrefixes) {
				v := published.Load()
				prefix := []byte(nearPrefixes[i])
				if got, want := v.registry.Droppable(prefix, []byte("n"), v.number), v.number > 0 && has(i, v.number); got != want {
					t.Errorf("version %d: Droppable(%x) = %v, want %v", v.number, prefix, got, want)
					return
				}
				if v.registry.Droppable(prefix, []byte("n"), v.number+1) {
					t.Errorf("version %d: the next one's dot of %x is droppable", v.number, prefix)
					return
				}
				if v.number == versions {
					return
				}
			}
		})
	}
	for number := uint64(1); number <= versions; number++ {
		changes := map[string]*clock.Clock{}
		for i, prefix := range nearPrefixes {
			if changes[prefix] = nil; has(i, number) {
				changes[prefix] = clock.Of(clock.Dot{Actor: "n", Counter: number})
			}
		}
		published.Store(&version{number, published.Load().registry.With(changes)})
	}
	readers.Wait()
}
