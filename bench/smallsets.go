package bench

import (
	"encoding/binary"
	"strconv"

	"bigset/bench/system"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
	"bigset/compaction"
	"bigset/keyscheme"
)

const (
	smallSetElements = 3
	// smallSetBytes is the goal: the heap that a set touched may take.
	smallSetBytes = 1 << 10
	// smallSetsShare is the share of the sets for which the cache has room, smallSetsCacheMax its most bytes. Sets come
	// round in the same order, so none is in memory when it is written again.
	smallSetsShare    = 4
	smallSetsCacheMax = 16 << 20
)

// blindForm is raw Pebble that writes without reading.
const blindForm = "blind"

// smallSets: many sets of three elements each, one element an operation, the first of all sets, then the second, then the
// third, under a cache that holds few of the sets. The elements are sets here. Raw Pebble gets the clock key before each
// write, as the engine must, and beside it writes blindly. Then sets are touched by an add, a look-up and a read, and what
// they take of the heap is weighed, within the cache's bound and without one.
func smallSets(e *env) error {
	list := []contender{{system: system.NameBigset}, {system: system.NamePebble}, {system: system.NamePebble, form: blindForm}}
	n := e.elements
	return e.turns(list, func(c contender) error {
		o := system.Options{Warm: true, SetCacheBytes: smallSetsCache(n)}
		dir := e.folder()
		return e.inFolder(dir, func() error {
			err := e.opened(c, dir, o, func(sys system.System) error { return e.smallSetsOn(c, sys, n) })
			if err != nil || c.system != system.NameBigset || e.round > 0 { // weights are the same in each round
				return err
			}
			return e.weighSmallSets(c, dir, n)
		})
	})
}

// smallSetsCache returns the bytes of the cache for n sets.
func smallSetsCache(n int) int64 {
	return min(smallSetsCacheMax, int64(max(1, n/smallSetsShare))*smallSetBytes)
}

// smallSetName appends the name of the i-th set.
func smallSetName(dst []byte, i int) []byte { return strconv.AppendInt(append(dst, 's'), int64(i), 10) }

func (e *env) smallSetsOn(c contender, sys system.System, n int) error {
	row := Row{Workload: "small-sets", Elements: n}
	if c.form == blindForm {
		row.Workload = "small-sets/blind"
	}
	var insert func(name, element []byte, last uint64) error
	switch sys := sys.(type) {
	case *system.Bigset:
		insert = newSmallSet(sys).insert
	case *system.Raw:
		insert = (&rawSmallSet{sys: sys, blind: c.form == blindForm}).insert
	}
	name, element := make([]byte, 0, 16), make([]byte, 0, system.ElementBytes)
	err := e.measure(sys, row, func(p *phase) error {
		err := p.loop(smallSetElements*n, func(i int) error {
			name, element = smallSetName(name[:0], i%n), e.names().Append(element[:0], i)
			return insert(name, element, uint64(i/n))
		})
		if err != nil {
			return err
		}
		p.user = p.ops * system.ElementBytes
		return p.settle(sys)
	})
	for _, i := range []int{0, n / 2, n - 1} {
		if err == nil {
			err = e.check(sys, string(smallSetName(nil, i)), smallSetElements)
		}
	}
	return err
}

// newSmallSet returns a handle for one set after the other.
func newSmallSet(b *system.Bigset) *bigsetSmallSet {
	return &bigsetSmallSet{set: b.Handle("")}
}

// bigsetSmallSet writes to one set after the other.
type bigsetSmallSet struct {
	set  *system.BigsetSet
	list [1][]byte
}

func (s *bigsetSmallSet) insert(name, element []byte, _ uint64) error {
	s.list[0] = element
	return s.set.Reuse(name).Insert(s.list[:], nil)
}

// rawSmallSet is Pebble by hand for one set after the other: the keys and values that the engine writes.
type rawSmallSet struct {
	sys    *system.Raw
	blind  bool // the clock key is not read
	prefix keyscheme.Prefix
	key    []byte
	value  []byte
}

func (s *rawSmallSet) insert(name, element []byte, last uint64) error {
	s.prefix = keyscheme.AppendPrefix(s.prefix[:0], keyscheme.SetSlot(name), name)
	clockKey := s.prefix.AppendClock(s.key[:0])
	at := len(clockKey)
	if !s.blind {
		if err := s.readClock(clockKey, last > 0); err != nil {
			return err
		}
	}
	if s.value == nil {
		s.value = keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: clock.Of(clock.Dot{Actor: system.RawActor, Counter: 1})})
	}
	s.key = s.prefix.AppendElement(clockKey, element, clock.Dot{Actor: system.RawActor, Counter: last + 1}, keyscheme.OpAdd)
	b := s.sys.DB().NewBatch()
	defer func() { _ = b.Close() }() // it is committed, or there is an error already
	write := b.Merge
	if s.sys.Record() == compaction.Set {
		write = b.Set
	}
	if err := write(s.key[at:], keyscheme.ClosedValue, nil); err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(s.value[len(s.value)-8:], last)
	if err := b.Set(s.key[:at], s.value, nil); err != nil {
		return err
	}
	return b.Commit(s.sys.WriteOptions())
}

// readClock gets the clock key, which is there or not.
func (s *rawSmallSet) readClock(key []byte, there bool) error {
	_, closer, err := s.sys.DB().Get(key)
	if err == pebble.ErrNotFound {
		return system.Expect("clock keys", false, there)
	}
	if err != nil {
		return err
	}
	if err := closer.Close(); err != nil {
		return err
	}
	return system.Expect("clock keys", true, there)
}

// What sets in memory weigh is measured on a store whose own caches are small, and full before it begins: then they do not
// grow with the sets.
const weighMemTable = 1 << 20

// weighBlockCache returns bytes for the filters and index blocks of n small sets; without them each look-up would read them.
func weighBlockCache(n int) int64 { return max(1<<20, int64(n)*16) }

// weighSmallSets touches all sets, under the cache's bound and without one, and notes by how much the heap grew. A row's
// operations are the sets that it is to be shared among: with a bound as many as it has room for.
func (e *env) weighSmallSets(c contender, dir string, n int) error {
	bounded := smallSetsCache(n)
	for i, w := range []struct {
		part  string
		cache int64
		among int64
	}{
		{"small-sets/bounded", bounded, bounded / smallSetBytes},
		{"small-sets/heap", int64(n) << 20, int64(n)},
	} {
		o := system.Options{Warm: true, MemTableBytes: weighMemTable, CacheBytes: weighBlockCache(n), SetCacheBytes: w.cache}
		err := e.opened(c, dir, o, func(sys system.System) error {
			if _, err := sys.Usage(); err != nil { // it reads the clocks of all sets, and so fills the block cache
				return err
			}
			before := heapBytes()
			if err := e.touchSmallSets(sys.(*system.Bigset), n, smallSetElements+i); err != nil {
				return err
			}
			grown := max(0, int64(heapBytes())-int64(before))
			row := Row{Workload: w.part, Elements: n}
			label(sys, &row)
			e.rows.Add(row, Figures{Ops: uint64(w.among), HeapBytes: new(uint64(grown))}, nil)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// touchSmallSets adds to each set its so-manieth element, looks that up, and reads the set.
func (e *env) touchSmallSets(b *system.Bigset, n, nth int) error {
	s := newSmallSet(b)
	name, element := make([]byte, 0, 16), make([]byte, 0, system.ElementBytes)
	for i := range n {
		if i%checkEvery == 0 && e.ctx.Err() != nil {
			return e.ctx.Err()
		}
		name, element = smallSetName(name[:0], i), e.names().Append(element[:0], nth*n+i)
		if err := s.insert(name, element, 0); err != nil {
			return err
		}
		found, err := s.set.Contains(element)
		if err != nil {
			return err
		}
		if err := system.Expect("found", found, true); err != nil {
			return err
		}
		if err := system.CountBy(s.set, nth+1); err != nil {
			return err
		}
	}
	_, err := b.Settle(e.ctx)
	return err
}

// heapShare is the heap of one row, of what it may be.
func heapShare(of, _ *Figures) (float64, bool) {
	if of.HeapBytes == nil {
		return 0, false
	}
	return ratio(float64(*of.HeapBytes), float64(of.Ops)*smallSetBytes)
}

func smallSetGoals() []goal {
	return []goal{
		beside("of raw that gets the clock key", "small-sets", "small-sets", 0.5),
		{what: "heap of a set touched", of: pick{workload: "small-sets/heap", system: system.NameBigset}, have: heapShare,
			atMost: true, limit: 1, unit: " KiB"},
		{what: "heap under a bounded cache, of its bound", of: pick{workload: "small-sets/bounded", system: system.NameBigset},
			have: heapShare, atMost: true, limit: 1.1},
	}
}
