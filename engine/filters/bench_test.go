package filters_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/filters"
	"bigset/keyscheme"
)

// bloomdBytes is what bloomd's file holds for 1 M keys at 0.0001.
const bloomdBytes = 2_995_843

func millionKeys() bigset.FilterOptions {
	o := bigset.FilterOptions{Options: bloomslice.DefaultOptions()}
	o.Capacity = 1_000_000
	return o
}

func benchStore(t testing.TB, o options) (*store, *options) {
	o.Logger = silent
	s, err := open(t.TempDir(), &o)
	must(t, err, "open")
	return s, &o
}

func markMany(t testing.TB, f *filters.Filter, n int) {
	keys, added := make([][]byte, 1000), make([]bool, 1000)
	for i := 0; i < n; i += len(keys) {
		for j := range keys {
			keys[j] = fmt.Appendf(keys[j][:0], "key-%d", i+j)
		}
		must(t, f.MarkAll(bg, keys, added), "mark")
	}
}

// TestFilterBytesWritten: 1 M keys marked within one flush interval cost little more than the bits of their filter: in the log and in
// tables together, when all is in tables. Compactions are off: the two small tables of this new store may be compacted into the one
// of the bits, or not yet.
func TestFilterBytesWritten(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("marks a million keys")
	}
	o := options{}
	o.Tune(func(po *pebble.Options) { po.DisableAutomaticCompactions = true })
	s, _ := benchStore(t, o)
	f, err := s.Filters().Create(bg, []byte("f"), millionKeys())
	must(t, err, "create")
	markMany(t, f, 1_000_000)
	must(t, f.Flush(bg), "flush")
	must(t, s.Flush(bg), "flush tables")
	m := s.db.Pebble().Metrics()
	written := m.WAL.BytesWritten
	for _, l := range m.Levels {
		written += l.TableBytesFlushed + l.TableBytesCompacted + l.TableBytesIngested
	}
	t.Logf("%d bytes, %.2f of bloomd's", written, float64(written)/bloomdBytes)
	if written > bloomdBytes*11/10 {
		t.Errorf("%d bytes were written, %d at most", written, bloomdBytes*11/10)
	}
	must(t, s.Close(), "close")
}

// BenchmarkFilterOpen opens a store with 10,000 filters and lists them; a closed filter's heap comes with it.
func BenchmarkFilterOpen(b *testing.B) {
	const many = 10_000
	s, o := benchStore(b, options{})
	for i := range many {
		f, err := s.Filters().Create(bg, fmt.Appendf(nil, "filter-%d", i), bigset.FilterOptions{})
		must(b, err, "create")
		_, err = f.Mark(bg, []byte("k"))
		must(b, err, "mark")
	}
	dir := s.Dir()
	must(b, s.Close(), "close")
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for b.Loop() {
		var err error
		s, err = open(dir, o)
		must(b, err, "open")
		infos, err := s.Filters().List(nil)
		if must(b, err, "list"); len(infos) != many {
			b.Fatal(len(infos))
		}
		b.StopTimer()
		infos = nil
		b.ReportMetric(float64(heap()-before)/many, "heap-bytes/filter")
		must(b, s.Close(), "close")
		b.StartTimer()
	}
}

// BenchmarkFilterFaultIn opens a filter of 3 MB and checks keys until all its pages are in memory.
func BenchmarkFilterFaultIn(b *testing.B) {
	s, _ := benchStore(b, options{})
	f, err := s.Filters().Create(bg, []byte("f"), millionKeys())
	must(b, err, "create")
	markMany(b, f, 1_000_000)
	keys, present := make([][]byte, 400), make([]bool, 400)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key-%d", i*2000)
	}
	for b.Loop() {
		b.StopTimer()
		_, err := f.Close(bg)
		must(b, err, "close")
		b.StartTimer()
		must(b, f.CheckAll(keys, present), "check")
	}
	st, err := s.Stats()
	must(b, err, "stats")
	b.ReportMetric(float64(st.BytesFilters)/bloomslice.PageBytes, "pages")
	must(b, s.Close(), "close")
}

// BenchmarkFilterBeyondCache checks keys of filters that have ten times the bytes that may be in memory.
func BenchmarkFilterBeyondCache(b *testing.B) {
	const many = 4
	s, o := benchStore(b, options{})
	var all []*filters.Filter
	for i := range many {
		f, err := s.Filters().Create(bg, fmt.Append(nil, i), millionKeys())
		must(b, err, "create")
		markMany(b, f, 200_000)
	}
	must(b, s.Close(), "close")
	o.FilterCacheBytes = many * bloomdBytes / 10
	s, err := open(s.Dir(), o)
	must(b, err, "open")
	for i := range many {
		f, err := s.Filters().Get(fmt.Append(nil, i))
		must(b, err, "filter")
		all = append(all, f)
	}
	i, most := 0, uint64(0)
	began := time.Now()
	for b.Loop() {
		_, err := all[i%many].Check(fmt.Appendf(nil, "key-%d", i*7919%200_000))
		must(b, err, "check")
		if i++; i%1000 == 0 {
			st, err := s.Stats()
			must(b, err, "stats")
			most = max(most, st.BytesFilters)
		}
	}
	b.ReportMetric(float64(i)/time.Since(began).Seconds(), "checks/s")
	b.ReportMetric(float64(most)/float64(o.FilterCacheBytes), "of-limit")
	must(b, s.Close(), "close")
}

// BenchmarkFirstMarks marks 1,000 keys in a new filter of 256 slices, as a replica does it: slice after slice, or in one call.
func BenchmarkFirstMarks(b *testing.B) {
	const parts = 256
	spec := bigset.SliceSpec{Options: bigset.FilterOptions{Durability: bigset.FilterLog,
		Options: bloomslice.Options{Capacity: 1_000_000, Probability: 1e-4, Scale: 4, Reduction: 0.9, Slices: parts, Owners: 3}}}
	var hashes [parts][]bloomslice.Hash
	for i := range 1000 {
		h := bloomslice.Sum(fmt.Append(nil, i))
		hashes[h.Slice(parts)] = append(hashes[h.Slice(parts)], h)
	}
	run := func(b *testing.B, mark func(*store)) {
		s, _ := benchStore(b, options{})
		for b.Loop() {
			spec.Generation++
			spec.Name = fmt.Append(nil, spec.Generation)
			mark(s)
		}
		must(b, s.Close(), "close")
	}
	b.Run("slice-by-slice", func(b *testing.B) {
		run(b, func(s *store) {
			for i := range hashes {
				spec.Slice = uint32(i)
				_, err := s.Filters().MarkSlice(bg, spec, 1, hashes[i], make([]bool, len(hashes[i])))
				must(b, err, "mark")
			}
		})
	})
	b.Run("one-call", func(b *testing.B) {
		run(b, func(s *store) {
			all := make([]filters.SliceMarking, 0, parts)
			for i := range hashes {
				spec.Slice = uint32(i)
				all = append(all, filters.SliceMarking{Spec: spec, Hashes: hashes[i], Added: make([]bool, len(hashes[i]))})
			}
			s.Filters().MarkSlices(bg, all)
			for i := range all {
				must(b, all[i].Err, "mark")
			}
		})
	})
}

// BenchmarkOpenSlices opens a store of 1,000 filters of 256 slices each, none of which is used, lists the filters, digests all slices, and drops
// a range of one slot. The heap is what the store takes for each slice.
func BenchmarkOpenSlices(b *testing.B) {
	const many, parts = 1000, 256
	s, o := benchStore(b, options{MemTableBytes: 1 << 20, BlockCacheBytes: 1 << 20, FilterLimits: filters.Limits{TotalBytes: 1 << 60}})
	for i := range many {
		name := fmt.Appendf(nil, "filter-%d", i)
		f, err := s.Filters().Create(bg, name, bigset.FilterOptions{Options: bloomslice.Options{Capacity: 1_000_000, Slices: parts}})
		must(b, err, "create")
		_, err = f.Close(bg)
		must(b, err, "close")
	}
	dir := s.Dir()
	must(b, s.Close(), "close")
	s = nil
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	step := func(what string, f func()) {
		began := time.Now()
		f()
		b.ReportMetric(time.Since(began).Seconds(), "s-"+what)
		b.ReportMetric(float64(heap()-before)/many/parts, "bytes-"+what)
	}
	for b.Loop() {
		step("open", func() {
			var err error
			s, err = open(dir, o)
			must(b, err, "open")
		})
		list := func() {
			infos, err := s.Filters().List(nil)
			if must(b, err, "list"); len(infos) != many || infos[1].SlicesHere != parts {
				b.Fatal(len(infos))
			}
		}
		step("list", list)
		step("list-again", list)
		step("digest", func() {
			for _, err := range s.Filters().SliceDigests(bg, 0, keyscheme.SlotMax) {
				must(b, err, "digest")
			}
		})
		step("flush", func() { must(b, s.Filters().Flush(bg), "flush") })
		slot := keyscheme.SlotOf(keyscheme.PartitionFilter, []byte("filter-1"), 3)
		step("drop-range", func() { must(b, s.DropRange(bg, slot, slot), "drop") })
		must(b, s.Close(), "close")
	}
}

// BenchmarkDigestChanged marks a key in a slice of 730 pages and asks for its digest.
func BenchmarkDigestChanged(b *testing.B) {
	s, _ := benchStore(b, options{})
	f, err := s.Filters().Create(bg, []byte("f"), millionKeys())
	must(b, err, "create")
	markMany(b, f, 900_000)
	slot := keyscheme.SlotOf(keyscheme.PartitionFilter, []byte("f"), 0)
	n := 0
	for b.Loop() {
		n++
		_, err := f.Mark(bg, fmt.Append(nil, "more", n))
		must(b, err, "mark")
		for _, err := range s.Filters().SliceDigests(bg, slot, slot) {
			must(b, err, "digest")
		}
	}
	must(b, s.Close(), "close")
}
