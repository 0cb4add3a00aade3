package engine_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// TestMetrics: every field of Stats is exported under its own name, with its value and a word of help.
func TestMetrics(t *testing.T) {
	var st engine.Stats
	fill(reflect.ValueOf(&st).Elem(), new(uint64))
	st.Record, st.Strategy = "merge", "filter"
	st.Levels = make([]engine.LevelStats, 2)
	fill(reflect.ValueOf(&st.Levels[1]).Elem(), new(uint64))
	st.Sync = engine.Latency{Count: 6, Seconds: 1.5, Buckets: []uint64{1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0}}
	got, families, last := map[string]float64{}, map[string]bool{}, ""
	for m := range st.Metrics() {
		name := m.Name
		if m.Label != "" {
			name += "{" + m.Label + "=" + m.Of + "}"
		}
		if _, ok := got[name]; ok {
			t.Errorf("%s comes twice", name)
		}
		if got[name] = m.Value; m.Help == "" || m.Kind != engine.Counter && m.Kind != engine.Gauge && m.Kind != engine.Histogram {
			t.Errorf("%s is of kind %q: %q", name, m.Kind, m.Help)
		}
		if m.Family() != last && families[m.Family()] {
			t.Errorf("figures of %s are not together", m.Family())
		}
		last, families[m.Family()] = m.Family(), true
	}
	for i := range reflect.TypeFor[engine.Stats]().NumField() {
		f := reflect.TypeFor[engine.Stats]().Field(i)
		name := f.Tag.Get("json")
		if f.Type.Kind() == reflect.Uint64 {
			if want := reflect.ValueOf(st).Field(i).Uint(); got[name] != float64(want) {
				t.Errorf("%s: got %v, want %d", name, got[name], want)
			}
		} else if name != "levels" && !families[name] {
			t.Errorf("%s is not exported", name)
		}
	}
	for name, want := range map[string]float64{
		"strategy{strategy=filter}": 1, "level_bytes{level=1}": 2, "level_bytes{level=0}": 0,
		"sync_seconds_bucket{le=1.6e-05}": 1, "sync_seconds_bucket{le=6.4e-05}": 3, "sync_seconds_bucket{le=+Inf}": 6,
		"sync_seconds_sum": 1.5, "sync_seconds_count": 6,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s: got %v (%v), want %v", name, v, ok, want)
		}
	}
	n := 0
	for range st.Metrics() {
		if n++; n == 40 { // within a latency
			break
		}
	}
}

// fill gives each number of a struct another value.
func fill(v reflect.Value, next *uint64) {
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Uint64 {
			*next++
			f.SetUint(*next)
		}
	}
}

// TestLatencies: syncs, waits in the queue of a set and swaps are timed, and nothing else is.
func TestLatencies(t *testing.T) {
	p := newPair("store")
	p.opt.Strategy = eager(compaction.Rewriter())
	p.open(t)
	latencies := func() (sync, queue, held uint64) {
		st, err := p.store.Stats()
		must(t, err, "stats")
		for _, l := range []engine.Latency{st.Sync, st.Queue, st.Held} {
			n := uint64(0)
			for _, b := range l.Buckets {
				n += b
			}
			if n != l.Count || (l.Seconds > 0) != (l.Count > 0) {
				t.Errorf("%+v", l)
			}
		}
		return st.Sync.Count, st.Queue.Count, st.Held.Count
	}
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 100), bigset.NoSync)
	if s, q, h := latencies(); s+q+h != 0 {
		t.Errorf("after an unsynced write: %d syncs, %d waits, %d swaps", s, q, h)
	}
	p.all(t, "s", keyscheme.OpRemove, elementNames(0, 50), bigset.Sync)
	if s, q, h := latencies(); s != 1 || q+h != 0 {
		t.Errorf("after a synced write: %d syncs, %d waits, %d swaps", s, q, h)
	}
	var wg sync.WaitGroup
	must(t, p.store.HoldingWriters([]byte("t"), func() error {
		for i := range 3 {
			wg.Go(func() {
				_, err := p.store.Add(bg, []byte("t"), [][]byte{fmt.Append(nil, i)}, bigset.WriteOptions{})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Go(func() { // waits, and writes nothing
			if err := p.store.HoldingWriters([]byte("t"), func() error { return nil }); err != nil {
				t.Error(err)
			}
		})
		p.queued(t, "t", 4)
		return nil
	}), "hold")
	wg.Wait()
	if s, q, _ := latencies(); s < 2 || q == 0 || q > 3 {
		t.Errorf("after writers that queued up: %d syncs, %d waits", s, q)
	}
	_, err := p.store.Compact(bg, engine.CompactOptions{})
	must(t, err, "compact")
	if _, _, h := latencies(); h == 0 {
		t.Error("a swap was not timed")
	}
	p.close(t)
}

// TestInProgress: what goes on in the background is seen while it does.
func TestInProgress(t *testing.T) {
	p := newPair("store")
	p.opt.Strategy = eager(compaction.Rewriter())
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 300), bigset.Sync)
	var flushes, compactions, rewrites uint64
	p.disk.SetHook("look", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && (strings.HasSuffix(op.Path, ".sst") || strings.Contains(op.Path, "span-")) {
			var st engine.Stats
			var err error
			testkit.Beside(func() { st, err = p.store.Stats() })
			if err != nil {
				return err
			}
			flushes, compactions = max(flushes, st.FlushesInProgress), max(compactions, st.CompactionsInProgress)
			rewrites = max(rewrites, st.RewritesInProgress)
		}
		return nil
	})
	p.flush(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 300), bigset.Sync)
	p.flush(t)
	must(t, p.store.CompactTables(bg), "compact tables")
	_, err := p.store.Compact(bg, engine.CompactOptions{})
	must(t, err, "compact")
	p.disk.SetHook("look", nil)
	if flushes == 0 || compactions == 0 || rewrites == 0 {
		t.Errorf("saw %d flushes, %d compactions, %d rewrites under way", flushes, compactions, rewrites)
	}
	st, err := p.store.Stats()
	must(t, err, "stats")
	if st.FlushesInProgress+st.RewritesInProgress != 0 {
		t.Errorf("at rest: %d flushes, %d rewrites", st.FlushesInProgress, st.RewritesInProgress)
	}
	p.close(t)
}

// TestSetStats holds the figures of sets against what was written.
func TestSetStats(t *testing.T) {
	p := newPair("store")
	p.opt.Strategy = compaction.None()
	p.opt.Tune(func(po *pebble.Options) { // nothing moves between two looks
		testkit.SmallTables(po)
		po.DisableAutomaticCompactions = true
	})
	p.open(t)
	p.all(t, "big", keyscheme.OpAdd, elementNames(0, 1000), bigset.Sync)
	p.all(t, "small", keyscheme.OpAdd, elementNames(0, 10), bigset.Sync)
	before, err := p.store.SetStats(bg, []byte("big"))
	must(t, err, "set stats")
	if before.Live != 1000 || before.Keys > 1000 {
		t.Errorf("before a flush: %+v", before)
	}
	p.flush(t)
	must(t, p.store.CompactTables(bg), "compact")
	p.all(t, "big", keyscheme.OpRemove, elementNames(0, 400), bigset.Sync)
	p.all(t, "gone", keyscheme.OpAdd, elementNames(0, 100), bigset.Sync)
	p.flush(t)
	p.drop(t, "gone", nil, bigset.Sync)
	all := map[string]engine.SetStats{}
	total := uint64(0)
	for st, err := range p.store.EachSetStats(bg) {
		must(t, err, "each set")
		one, err := p.store.SetStats(bg, st.Name)
		must(t, err, "set stats")
		one.BytesHeap, st.BytesHeap = 0, 0 // one in memory has room to grow
		if !reflect.DeepEqual(one, st) {
			t.Errorf("alone %+v, in the list %+v", one, st)
		}
		all[string(st.Name)] = st
		total += st.BytesTables
	}
	st, err := p.store.Stats()
	must(t, err, "stats")
	if total == 0 || total > st.BytesTables {
		t.Errorf("sets take %d bytes of tables that are %d", total, st.BytesTables)
	}
	big, small, gone := all["big"], all["small"], all["gone"]
	if len(all) != 3 || big.Live != 600 || big.Seen != 1400 || big.Dead != 800 || big.Actors != 1 || big.Gaps != 0 ||
		big.BytesClock == 0 || big.BytesTombstone == 0 {
		t.Errorf("big: %+v", big)
	}
	// A table does not name a set if it has fewer than 64 of its keys. The last table of either level may be such a one.
	if big.Keys < 1000-2*63 || big.Keys > 1000 || big.KeysDead != big.Keys-600 || len(big.KeysByLevel) != 7 || slices.Max(big.KeysByLevel) > big.Keys {
		t.Errorf("big: tables have %d keys, %d dead, by level %v", big.Keys, big.KeysDead, big.KeysByLevel)
	}
	if small.Live != 10 || small.Keys != 0 || small.KeysByLevel != nil {
		t.Errorf("small: %+v", small)
	}
	if gone.Live != 0 || gone.Keys != 100 || gone.KeysDead != 100 {
		t.Errorf("gone: %+v", gone)
	}
	for st, err := range p.store.EachSetStats(bg) { // a loop that stops gets no more
		must(t, err, "each set")
		_ = st
		break
	}
	p.close(t)
	for _, err := range p.store.EachSetStats(bg) {
		if err == nil {
			t.Error("a closed store lists its sets")
		}
	}
}
