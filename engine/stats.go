package engine

import (
	"bytes"
	"context"
	"runtime"

	"bigset/keyscheme"
)

// Stats are figures of a store: what it has done since it was opened, and what it holds now. Sizes are bytes.
type Stats struct {
	Record   string `json:"record"`
	Strategy string `json:"strategy"`

	BytesWAL     uint64 `json:"bytes_wal"`     // written to the log
	BytesFlush   uint64 `json:"bytes_flush"`   // written to tables by flushes
	BytesCompact uint64 `json:"bytes_compact"` // written to tables by compactions
	BytesRewrite uint64 `json:"bytes_rewrite"` // written to tables by the rewriter
	BytesRead    uint64 `json:"bytes_read"`    // read by compactions

	BytesOnDisk    uint64 `json:"bytes_on_disk"` // everything: tables in use and not yet removed, log, metadata
	BytesTables    uint64 `json:"bytes_tables"`  // tables in use
	BytesMemTables uint64 `json:"bytes_memtables"`
	BytesHeap      uint64 `json:"bytes_heap"` // of the whole process
	BytesSets      uint64 `json:"bytes_sets"` // clocks and tombstones in memory, approximately
	SetsInMemory   int    `json:"sets_in_memory"`

	KeysAdded    uint64 `json:"keys_added"`     // element keys written by operations
	KeysTabled   uint64 `json:"keys_tabled"`    // element keys written to tables, each as often as it was
	KeysInTables uint64 `json:"keys_in_tables"` // element keys in tables now, by the tables' own counts
	Filtered     uint64 `json:"filtered"`       // times that the filter left a record out, for readers and for tables

	TombstonesPublished uint64 `json:"tombstones_published"`
	Rewrites            uint64 `json:"rewrites"`        // spans swapped
	RewritesLeft        uint64 `json:"rewrites_left"`   // spans left because they were being written
	RewriteKeys         uint64 `json:"rewrite_keys"`    // element keys that the rewriter read
	RewriteDropped      uint64 `json:"rewrite_dropped"` // of them those it left out
	Excises             uint64 `json:"excises"`         // emptied sets cut out
	Flushes             uint64 `json:"flushes"`
	Compactions         uint64 `json:"compactions"`
	CompactionDebt      uint64 `json:"compaction_debt"` // bytes that compactions have still to look at
	BackgroundErrors    uint64 `json:"background_errors"`
	SlowDisk            uint64 `json:"slow_disk"`   // reports of operations on the disk that took long
	FullDisk            uint64 `json:"full_disk"`   // times that the disk was found full
	Corruptions         uint64 `json:"corruptions"` // times that damaged bytes were met

	Levels []LevelStats `json:"levels"`
}

// LevelStats are figures of one level of the LSM.
type LevelStats struct {
	Tables       int    `json:"tables"`
	Bytes        uint64 `json:"bytes"`
	BytesWritten uint64 `json:"bytes_written"` // by flushes, compactions and the rewriter
}

// Stats returns the store's figures. It reads the properties of all tables, which is milliseconds for a thousand.
func (s *Store) Stats() (Stats, error) {
	if err := s.enter(); err != nil {
		return Stats{}, err
	}
	defer s.leave()
	c, m := &s.counters, s.db.Metrics()
	st := Stats{
		Record: s.record.String(), Strategy: s.strategy.Name(),
		BytesWAL: m.WAL.BytesWritten, BytesOnDisk: m.DiskSpaceUsage(), BytesMemTables: m.MemTable.Size,
		KeysAdded: c.added.Load(), KeysTabled: c.tabled.Load(), Filtered: c.filtered.Load(),
		TombstonesPublished: c.published.Load(), BytesRewrite: c.rewriteBytes.Load(),
		Rewrites: c.rewrites.Load(), RewritesLeft: c.rewritesLeft.Load(), Excises: c.excises.Load(),
		RewriteKeys: c.rewriteKeys.Load(), RewriteDropped: c.rewriteDrops.Load(),
		Flushes: c.flushes.Load(), Compactions: c.compactions.Load(),
		CompactionDebt: m.Compact.EstimatedDebt, BackgroundErrors: c.backgroundErr.Load(),
		Corruptions: c.corruptions.Load(), SlowDisk: c.slowDisk.Load(), FullDisk: c.fullDisk.Load(),
	}
	for _, l := range m.Levels {
		written := l.TableBytesFlushed + l.TableBytesCompacted + l.TableBytesIngested
		st.Levels = append(st.Levels, LevelStats{Tables: int(l.TablesCount), Bytes: uint64(l.TablesSize), BytesWritten: written})
		st.BytesFlush += l.TableBytesFlushed
		st.BytesCompact += l.TableBytesCompacted
		st.BytesRead += l.TableBytesRead
		st.BytesTables += uint64(l.TablesSize)
	}
	st.SetsInMemory, st.BytesSets = s.sets.size()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	st.BytesHeap = heap.HeapAlloc
	var err error
	st.KeysInTables, err = s.keysInTables()
	return st, err
}

// size returns how many sets are in memory, and about how many bytes they take.
func (c *setCache) size() (sets int, bytes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byName), uint64(max(0, c.bytes))
}

// keysInTables sums the tables' own counts of element keys.
func (s *Store) keysInTables() (uint64, error) {
	tables, err := s.readTables()
	if err != nil {
		return 0, err
	}
	n := uint64(0)
	for _, t := range tables {
		n += t.keys
	}
	return n, nil
}

// SetStats are figures of one set.
type SetStats struct {
	Name           []byte
	Live           uint64 // live dots
	Seen, Dead     uint64 // dots
	Actors, Gaps   int    // of the clock
	BytesClock     int    // encoded
	BytesTombstone int    // encoded
	BytesHeap      int64
}

// SetStats returns the figures of one set.
func (s *Store) SetStats(ctx context.Context, name []byte) (out SetStats, err error) {
	err = s.withSet(ctx, name, func(st *set) error {
		v := st.view()
		out = SetStats{
			Name: bytes.Clone(st.name), Seen: v.seen.Len(), Dead: v.dead.Len(), Live: liveDots(v.seen, v.dead),
			Actors: len(v.seen.Actors()), Gaps: v.seen.GapCount(),
			BytesClock:     len(keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: v.seen})),
			BytesTombstone: len(keyscheme.AppendTombstoneValue(nil, v.dead)),
			BytesHeap:      int64(v.seen.HeapBytes() + v.dead.HeapBytes()),
		}
		return nil
	})
	return out, err
}
