package enginesource_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bench/sample"
	"bigset/bench/sample/enginesource"
	"bigset/compaction"
	"bigset/engine"
)

// read returns the values of a source by their names, without those that are not known.
func read(s sample.Source) map[string]float64 {
	columns := s.Columns()
	v, out := make([]float64, len(columns)), map[string]float64{}
	for i := range v {
		v[i] = math.NaN()
	}
	s.Read(v)
	for i, c := range columns {
		if !math.IsNaN(v[i]) {
			out[c.Name] = v[i]
		}
	}
	return out
}

func open(t testing.TB, dir string, strategy compaction.Strategy) *engine.Store {
	t.Helper()
	store, err := engine.Open(dir, &engine.Options{Strategy: strategy, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func elements(from, to int) (list [][]byte) {
	for i := range to - from {
		list = append(list, fmt.Appendf(nil, "element-%08x", uint32(from+i)*2654435761))
	}
	return list
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestEngine: the figures are the store's: live keys exactly, dead ones once they are in tables, bytes by cause; after a restart counters go on, and live
// keys are known although no set is in memory.
func TestEngine(t *testing.T) {
	t.Parallel()
	ctx, dir, set := context.Background(), t.TempDir(), []byte("s")
	s := enginesource.New()
	if got := read(s); len(got) > 0 {
		t.Errorf("of nothing: %v", got)
	}
	store := open(t, dir, compaction.Rewriter())
	must(t, s.Engine(ctx, store))
	_, err := store.Add(ctx, set, elements(0, 1000), bigset.WriteOptions{})
	must(t, err, store.Flush(ctx))
	_, err = store.Remove(ctx, set, elements(0, 400), bigset.WriteOptions{})
	must(t, err)
	got := read(s)
	runs, tables := 0., 0. // compactions may have moved them
	for l := range 7 {
		runs, tables = runs+got[sample.Level(l, "sublevels")], tables+got[sample.Level(l, "bytes")]
	}
	for name, want := range map[string]float64{sample.KeysLive: 600, sample.KeysInTables: 1000, sample.KeysDead: 400, sample.ReadAmp: runs, sample.TableBytes: tables,
		sample.RewriteBytes: 0, sample.SweepBytes: 0, sample.Stalls: 0, sample.Stalled: 0} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s: %v (%v), want %v", name, v, ok, want)
		}
	}
	for _, name := range []string{sample.LogBytes, sample.FlushBytes, sample.TableBytes, sample.StoreBytes, sample.MemTableBytes, sample.TombstoneBytes, sample.ReadAmp} {
		if !(got[name] > 0) {
			t.Errorf("%s: %v", name, got[name])
		}
	}
	_, err = store.Compact(ctx, engine.CompactOptions{Set: set})
	must(t, err)
	compacted := read(s)
	if compacted[sample.KeysDead] != 0 || compacted[sample.RewriteBytes]+compacted[sample.SweepBytes] <= 0 {
		t.Errorf("after a compaction: %v", compacted)
	}
	s.Detach()
	must(t, store.Close())
	if got := read(s); len(got) > 0 {
		t.Errorf("detached: %v", got)
	}
	store = open(t, dir, compaction.Rewriter())
	must(t, s.Engine(ctx, store))
	again := read(s)
	if again[sample.KeysLive] != 600 {
		t.Errorf("after a restart: %v live keys", again[sample.KeysLive])
	}
	for i, c := range s.Columns() {
		if c.Growth && again[c.Name] < compacted[c.Name] {
			t.Errorf("column %d, %s: %v after a restart, %v before it", i, c.Name, again[c.Name], compacted[c.Name])
		}
	}
	must(t, store.Close())
	if got := read(s); len(got) > 0 {
		t.Errorf("of a closed store: %v", got)
	}
}

// quiet is a logger that says nothing.
type quiet struct{}

func (quiet) Infof(string, ...any)         {}
func (quiet) Errorf(string, ...any)        {}
func (quiet) Fatalf(text string, a ...any) { panic(fmt.Sprintf(text, a...)) }

// TestPebble: raw Pebble gives the columns that it has.
func TestPebble(t *testing.T) {
	t.Parallel()
	db, err := pebble.Open(t.TempDir(), &pebble.Options{Logger: quiet{}, FormatMajorVersion: pebble.FormatNewest})
	must(t, err)
	s := enginesource.New()
	s.Pebble(db)
	for i := range 1000 {
		must(t, db.Set(fmt.Appendf(nil, "%06d", i), make([]byte, 100), pebble.NoSync))
	}
	must(t, db.Flush())
	_, closer, err := db.Get([]byte("000500"))
	must(t, err, closer.Close())
	must(t, db.Delete([]byte("000500"), pebble.NoSync), db.Flush(), db.Compact(context.Background(), []byte("0"), []byte("1"), false))
	got := read(s)
	for _, name := range []string{sample.LogBytes, sample.FlushBytes, sample.CompactBytes, sample.TableBytes, sample.StoreBytes, sample.ReadAmp, sample.CacheHit} {
		if !(got[name] > 0) {
			t.Errorf("%s: %v", name, got[name])
		}
	}
	by := 0.
	for l := range 7 {
		by += got[sample.Level(l, "compacted")]
	}
	if by != got[sample.CompactBytes] {
		t.Errorf("%v bytes by level, %v in all", by, got[sample.CompactBytes])
	}
	for _, name := range []string{sample.KeysLive, sample.KeysDead, sample.FilterDrops, sample.TombstoneBytes} {
		if v, ok := got[name]; ok {
			t.Errorf("%s is known: %v", name, v)
		}
	}
	if names := s.Columns(); slices.ContainsFunc(names, func(c sample.Column) bool { return c.Name == "" }) {
		t.Error("a column has no name")
	}
	s.Detach()
	must(t, db.Close())
	if got := read(s); len(got) > 0 {
		t.Errorf("detached: %v", got)
	}
}
