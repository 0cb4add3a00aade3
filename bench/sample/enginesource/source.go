package enginesource

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bench/sample"
	"bigset/engine"
)

// levelCount is how many levels Pebble has.
const levelCount = 7

// Source returns the figures of a store, or of raw Pebble, in the same columns; figures that a store doesn't have are unknown. While
// nothing is attached, all are unknown. Counters continue from store to store: a restart does not reset them. Any number of goroutines may
// call the methods.
type Source struct {
	name    string
	columns []sample.Column

	mu          sync.Mutex
	read        func(*figures) error // reads what is attached; nil if nothing is
	carry, last []float64            // for counters: the count before this store, and including it
	hits, looks uint64               // of the block cache, at the last read
}

// New returns a source to which nothing is attached.
func New() *Source {
	s := &Source{name: "store", columns: columns()}
	s.carry, s.last = make([]float64, len(s.columns)), make([]float64, len(s.columns))
	return s
}

// fields are the columns of a store other than those of levels.
var fields = []struct {
	sample.Column
	of func(*figures) float64
}{
	{growth(sample.LogBytes, "B"), func(f *figures) float64 { return f.log }},
	{growth(sample.FlushBytes, "B"), func(f *figures) float64 { return f.flush }},
	{growth(sample.CompactBytes, "B"), func(f *figures) float64 { return f.compact }},
	{growth(sample.RewriteBytes, "B"), func(f *figures) float64 { return f.rewrite }},
	{growth(sample.SweepBytes, "B"), func(f *figures) float64 { return f.sweep }},
	{growth(sample.IngestBytes, "B"), func(f *figures) float64 { return f.ingest }},
	{gauge(sample.KeysLive, "keys"), func(f *figures) float64 { return f.live }},
	{gauge(sample.KeysInTables, "keys"), func(f *figures) float64 { return f.keys }},
	{gauge(sample.KeysDead, "keys"), func(f *figures) float64 { return max(0, f.keys-f.live) }},
	{gauge(sample.TombstoneBytes, "B"), func(f *figures) float64 { return f.tombstones }},
	{gauge(sample.Deletes, "keys"), func(f *figures) float64 { return f.deletes }},
	{gauge(sample.TableBytes, "B"), func(f *figures) float64 { return f.tables }},
	{gauge(sample.StoreBytes, "B"), func(f *figures) float64 { return f.files }},
	{gauge(sample.MemTableBytes, "B"), func(f *figures) float64 { return f.memTables }},
	{gauge(sample.CompactionDebt, "B"), func(f *figures) float64 { return f.debt }},
	{growth(sample.Stalls, "stalls"), func(f *figures) float64 { return f.stalls }},
	{growth(sample.Stalled, "s"), func(f *figures) float64 { return f.stalled }},
	{growth(sample.FilterDrops, "keys"), func(f *figures) float64 { return f.drops }},
	{gauge(sample.CacheHit, "1"), func(f *figures) float64 { return f.cacheHit }},
	{gauge(sample.ReadAmp, "1"), func(f *figures) float64 { return f.readAmp }},
}

func growth(name, unit string) sample.Column {
	return sample.Column{Name: name, Unit: unit, Growth: true}
}

func gauge(name, unit string) sample.Column { return sample.Column{Name: name, Unit: unit} }

// levelColumns are the columns of each level.
var levelColumns = []struct {
	figure, unit string
	growth       bool
	of           func(*level) uint64
}{
	{"bytes", "B", false, func(l *level) uint64 { return l.bytes }},
	{"tables", "tables", false, func(l *level) uint64 { return l.tables }},
	{"compacted", "B", true, func(l *level) uint64 { return l.compacted }},
	{"sublevels", "", false, func(l *level) uint64 { return l.sublevels }},
}

func columns() (list []sample.Column) {
	for _, f := range fields {
		list = append(list, f.Column)
	}
	for i := range levelCount {
		for _, c := range levelColumns {
			list = append(list, sample.Column{Name: sample.Level(i, c.figure), Unit: c.unit, Growth: c.growth})
		}
	}
	return list
}

// figures are the figures of a store at a moment; counters count since its open. NaN means unknown.
type figures struct {
	log, flush, compact, rewrite, sweep, ingest float64
	live, keys, tombstones, deletes             float64
	tables, files, memTables, debt              float64
	stalls, stalled, drops, cacheHit, readAmp   float64
	hits, looks                                 uint64
	levels                                      [levelCount]level
}

type level struct{ bytes, tables, compacted, sublevels uint64 }

// Engine attaches a store and detaches what was attached before.
func (s *Source) Engine(ctx context.Context, store *engine.Store) error {
	l, err := newLive(ctx, store)
	if err != nil {
		return fmt.Errorf("enginesource: %w", err)
	}
	s.attach(func(f *figures) error { return ofEngine(store, l, f) })
	return nil
}

// Pebble attaches raw Pebble. It must be detached before it is closed.
func (s *Source) Pebble(db *pebble.DB) { s.attach(func(f *figures) error { return ofPebble(db, f) }) }

// Detach reads the attached store for the last time. The store is not used after Detach has returned.
func (s *Source) Detach() { s.attach(nil) }

func (s *Source) attach(read func(*figures) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read != nil {
		s.get(make([]float64, len(s.columns)))
	}
	copy(s.carry, s.last)
	s.read, s.hits, s.looks = read, 0, 0
}

// Name implements sample.Source.
func (s *Source) Name() string { return s.name }

// Columns implements sample.Source.
func (s *Source) Columns() []sample.Column { return s.columns }

// Read implements sample.Source.
func (s *Source) Read(values []float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read == nil {
		return
	}
	s.get(values)
}

// get reads all figures. For a closed store they stay unknown.
func (s *Source) get(values []float64) {
	nan := math.NaN()
	f := figures{rewrite: nan, sweep: nan, live: nan, keys: nan, tombstones: nan, stalls: nan, stalled: nan, drops: nan}
	if err := s.read(&f); err != nil {
		return
	}
	f.cacheHit = nan
	if looks := f.looks - s.looks; looks > 0 {
		f.cacheHit = float64(f.hits-s.hits) / float64(looks)
	}
	s.hits, s.looks = f.hits, f.looks
	for i := range fields {
		values[i] = fields[i].of(&f)
	}
	at := len(fields)
	for i := range f.levels {
		for k := range levelColumns {
			values[at] = float64(levelColumns[k].of(&f.levels[i]))
			at++
		}
	}
	for i, c := range s.columns {
		if c.Growth && !math.IsNaN(values[i]) {
			values[i] += s.carry[i]
			s.last[i] = max(s.last[i], values[i])
		}
	}
}

func ofEngine(store *engine.Store, live *live, f *figures) error {
	st, err := store.Stats()
	if err != nil {
		return err
	}
	n := func(v uint64) float64 { return float64(v) }
	f.log, f.flush, f.compact = n(st.BytesWAL), n(st.BytesFlush), n(st.BytesCompact)
	f.rewrite, f.sweep, f.ingest = n(st.BytesRewrite-st.BytesSweep), n(st.BytesSweep), n(st.BytesIngested)
	f.live, f.keys, f.tombstones, f.deletes = live.count(&st), n(st.KeysInTables), n(st.BytesTombstones), n(st.DeletesInTables)
	f.tables, f.files, f.memTables, f.debt = n(st.BytesTables), n(st.BytesOnDisk), n(st.BytesMemTables), n(st.CompactionDebt)
	f.stalls, f.stalled, f.drops = n(st.Stalls), n(st.StallMillis)/1000, n(st.Filtered)
	f.hits, f.looks = st.BlockCacheHits, st.BlockCacheHits+st.BlockCacheMisses
	for i, l := range st.Levels {
		f.levels[i] = level{l.Bytes, l.Tables, l.BytesCompact, l.Sublevels}
		f.readAmp += n(l.Sublevels)
	}
	return nil
}

func ofPebble(db *pebble.DB, f *figures) error {
	m := db.Metrics()
	f.log, f.rewrite, f.sweep = float64(m.WAL.BytesWritten), 0, 0
	f.deletes, f.files = float64(m.Keys.TombstoneCount), float64(m.DiskSpaceUsage())
	f.memTables, f.debt, f.readAmp = float64(m.MemTable.Size), float64(m.Compact.EstimatedDebt), float64(m.ReadAmp())
	f.hits, f.looks = uint64(m.BlockCache.Hits), uint64(m.BlockCache.Hits+m.BlockCache.Misses)
	for i := range m.Levels {
		l := &m.Levels[i]
		f.flush, f.compact = f.flush+float64(l.TableBytesFlushed), f.compact+float64(l.TableBytesCompacted)
		f.ingest, f.tables = f.ingest+float64(l.TableBytesIngested), f.tables+float64(l.TablesSize)
		f.levels[i] = level{uint64(l.TablesSize), uint64(l.TablesCount), l.TableBytesCompacted, uint64(l.Sublevels)}
	}
	return nil
}

// live counts the live dots of all sets. The store knows those of the sets in memory. In a store that was empty these are all sets until
// one leaves memory: until then, their sum is the count. Afterwards the count is read from the disk, seldom enough to cost little.
type live struct {
	ctx   context.Context
	store *engine.Store
	whole bool // all sets have been in memory since the open

	dots float64 // of the last count
	next time.Time
}

// A count is repeated after countShare times its own duration.
const countShare = 200

func newLive(ctx context.Context, store *engine.Store) (*live, error) {
	st, err := store.Stats()
	if err != nil {
		return nil, err
	}
	l := &live{ctx: ctx, store: store, whole: st.SetsForgotten == 0, dots: math.NaN()}
	if !l.whole {
		return l, nil
	}
	sets := uint64(0)
	for _, err := range store.Sets(ctx, bigset.SetsOptions{}) {
		if err != nil {
			return nil, err
		}
		sets++
	}
	l.whole = sets == 0
	return l, nil
}

func (l *live) count(st *engine.Stats) float64 {
	if l.whole = l.whole && st.SetsForgotten == 0; l.whole {
		return float64(st.DotsLive)
	}
	began := time.Now()
	if began.Before(l.next) {
		return l.dots
	}
	dots := uint64(0)
	for info, err := range l.store.Sets(l.ctx, bigset.SetsOptions{}) {
		if err != nil {
			return math.NaN()
		}
		dots += info.Live
	}
	l.dots, l.next = float64(dots), time.Now().Add(countShare*time.Since(began))
	return l.dots
}
