package engine

import (
	"errors"
	"runtime/metrics"

	"bigset"
)

// Stats are figures of a store: what it has done since it was opened, and what it contains now. Sizes are in bytes.
// The tags describe each figure, and Metrics exports every field by its tags alone.
type Stats struct {
	Record   string `json:"record" metric:"gauge" help:"kind of the records of element keys"`
	Strategy string `json:"strategy" metric:"gauge" help:"how dead keys leave the disk"`

	BytesWAL     uint64 `json:"bytes_wal" metric:"counter" help:"bytes written to the log"`
	BytesFlush   uint64 `json:"bytes_flush" metric:"counter" help:"bytes written to tables by flushes"`
	BytesCompact uint64 `json:"bytes_compact" metric:"counter" help:"bytes written to tables by compactions"`
	BytesRewrite uint64 `json:"bytes_rewrite" metric:"counter" help:"bytes written to tables by the rewriter"`
	BytesSweep   uint64 `json:"bytes_sweep" metric:"counter" help:"of bytes_rewrite, those of passes over many small sets"`
	BytesRead    uint64 `json:"bytes_read" metric:"counter" help:"bytes read by compactions"`

	BytesOnDisk     uint64 `json:"bytes_on_disk" metric:"gauge" help:"bytes of everything: tables in use and not yet removed, log, metadata"`
	BytesTables     uint64 `json:"bytes_tables" metric:"gauge" help:"bytes of tables in use"`
	BytesMemTables  uint64 `json:"bytes_memtables" metric:"gauge" help:"bytes of memtables"`
	BytesHeap       uint64 `json:"bytes_heap" metric:"gauge" help:"bytes on the heap of the process"`
	BytesSets       uint64 `json:"bytes_sets" metric:"gauge" help:"bytes of clocks and tombstones in memory, approximately"`
	BytesTombstones uint64 `json:"bytes_tombstones" metric:"gauge" help:"bytes of the sets' tombstones in memory, approximately"`
	DotsLive        uint64 `json:"dots_live" metric:"gauge" help:"live dots of the sets in memory: elements, and second dots of elements"`
	SetsInMemory    uint64 `json:"sets_in_memory" metric:"gauge" help:"sets whose clock and tombstone are in memory"`
	SetsForgotten   uint64 `json:"sets_forgotten" metric:"counter" help:"times that a set was taken out of memory"`
	SetsDamaged     uint64 `json:"sets_damaged" metric:"gauge" help:"sets in which damage was found"`

	Filters           uint64 `json:"filters" metric:"gauge" help:"bloom filters"`
	FiltersDamaged    uint64 `json:"filters_damaged" metric:"gauge" help:"bloom filters in which damage was found"`
	FiltersOpen       uint64 `json:"filters_open" metric:"gauge" help:"bloom filters that are open"`
	BytesFilters      uint64 `json:"bytes_filters" metric:"gauge" help:"bytes of pages of bloom filters in memory, with their tables"`
	FilterPagesRead   uint64 `json:"filter_pages_read" metric:"counter" help:"pages of bloom filters brought into memory"`
	FilterPagesOut    uint64 `json:"filter_pages_out" metric:"counter" help:"pages of bloom filters taken out of memory because it was short"`
	FilterPagesStored uint64 `json:"filter_pages_stored" metric:"counter" help:"pages of bloom filters written by flushes of them"`

	KeysAdded       uint64 `json:"keys_added" metric:"counter" help:"element keys written by operations"`
	KeysTabled      uint64 `json:"keys_tabled" metric:"counter" help:"element keys written to tables, counted at each write"`
	KeysInTables    uint64 `json:"keys_in_tables" metric:"gauge" help:"element keys in tables, by the tables' own counts"`
	DeletesInTables uint64 `json:"deletes_in_tables" metric:"gauge" help:"deletes of single keys and of ranges of keys that tables hold, approximately"`
	BytesDeleted    uint64 `json:"bytes_deleted" metric:"gauge" help:"bytes of tables that compactions would free for these deletes, approximately"`
	Filtered        uint64 `json:"filtered" metric:"counter" help:"times that the drop filter left a record out, for readers and for tables"`

	TombstonesPublished uint64 `json:"tombstones_published" metric:"counter" help:"tombstones handed to the drop filter"`
	Rewrites            uint64 `json:"rewrites" metric:"counter" help:"spans swapped by the rewriter"`
	RewritesLeft        uint64 `json:"rewrites_left" metric:"counter" help:"spans that the rewriter left because they were being written"`
	RewriteKeys         uint64 `json:"rewrite_keys" metric:"counter" help:"element keys that the rewriter read"`
	RewriteDropped      uint64 `json:"rewrite_dropped" metric:"counter" help:"element keys that the rewriter left out"`
	RewriteResolved     uint64 `json:"rewrite_closed" metric:"counter" help:"unresolved keys that the rewriter resolved"`
	Ingests             uint64 `json:"ingests" metric:"counter" help:"portions of sets from other stores that were ingested as tables"`
	BytesIngested       uint64 `json:"bytes_ingested" metric:"counter" help:"bytes of those tables"`
	LocatedInLog        uint64 `json:"located_in_log" metric:"counter" help:"keys that were found by their dots in the log of recent writes"`
	LocatedByScan       uint64 `json:"located_by_scan" metric:"counter" help:"keys that were found by their dots in a scan of their set"`
	LocateScans         uint64 `json:"locate_scans" metric:"counter" help:"scans of a set for keys by their dots"`
	LocateSkips         uint64 `json:"locate_skips" metric:"counter" help:"blocks and whole tables that such scans skipped because they hold none of the dots"`
	LookUps             uint64 `json:"look_ups" metric:"counter" help:"elements looked up, by queries and by writes"`
	HotLookUps          uint64 `json:"hot_look_ups" metric:"counter" help:"of look_ups, those that were answered from what is remembered of elements"`
	BytesHot            uint64 `json:"bytes_hot" metric:"gauge" help:"bytes of what is remembered of elements that were looked up"`
	RunsPassed          uint64 `json:"runs_passed" metric:"counter" help:"runs of dead keys that reads seeked over"`
	Excises             uint64 `json:"excises" metric:"counter" help:"emptied sets excised"`
	Flushes             uint64 `json:"flushes" metric:"counter" help:"flushes of memtables"`
	Compactions         uint64 `json:"compactions" metric:"counter" help:"compactions"`
	CompactionDebt      uint64 `json:"compaction_debt" metric:"gauge" help:"bytes that compactions have yet to read"`
	BackgroundErrors    uint64 `json:"background_errors" metric:"counter" help:"background tasks that failed and are tried again"`
	Stalls              uint64 `json:"stalls" metric:"counter" help:"times that writes had to wait for flushes or compactions"`
	StallMillis         uint64 `json:"stall_milliseconds" metric:"counter" help:"milliseconds that writes had to wait for flushes or compactions, including a wait that has not ended"`
	BlockCacheHits      uint64 `json:"block_cache_hits" metric:"counter" help:"blocks of tables that were found in the block cache"`
	BlockCacheMisses    uint64 `json:"block_cache_misses" metric:"counter" help:"blocks of tables that were read from files"`
	BytesBlockCache     uint64 `json:"bytes_block_cache" metric:"gauge" help:"bytes of blocks in the block cache"`
	SlowDisk            uint64 `json:"slow_disk" metric:"counter" help:"reports of operations on the disk that took long"`
	FullDisk            uint64 `json:"full_disk" metric:"counter" help:"times that the disk was found full: a write failed, or adds began to be refused"`
	DiskFreeBytes       uint64 `json:"disk_free_bytes" metric:"gauge" help:"bytes that are free on the disk of the store; 0 if unknown"`
	DiskReserveBytes    uint64 `json:"disk_reserve_bytes" metric:"gauge" help:"bytes free at which adds are refused"`
	DiskSpaceLevel      uint64 `json:"disk_space_level" metric:"gauge" help:"0 while the disk has room; 1, 2, 3, 4 when at most 10, 5, 3, 2 % are free, of 50 GiB at most; at 4 adds are refused"`
	Corruptions         uint64 `json:"corruptions" metric:"counter" help:"times that damaged bytes were read"`

	FlushesInProgress     uint64 `json:"flushes_in_progress" metric:"gauge" help:"flushes under way"`
	CompactionsInProgress uint64 `json:"compactions_in_progress" metric:"gauge" help:"compactions under way"`
	RewritesInProgress    uint64 `json:"rewrites_in_progress" metric:"gauge" help:"spans being rewritten"`

	Sync  Latency `json:"sync_seconds" metric:"histogram" help:"seconds from a batch's commit until it was on disk, for synced writes"`
	Queue Latency `json:"queue_seconds" metric:"histogram" help:"seconds that writes waited for earlier ones on their set, or for the rewriter, if they waited"`
	Gate  Latency `json:"gate_seconds" metric:"histogram" help:"seconds that writes, and reads of a set's clock, waited for the swap or the excise of a range of sets, if they waited"`
	Held  Latency `json:"held_seconds" metric:"histogram" help:"seconds that a swap of the rewriter held the writers of a set, or of a range of sets"`

	Levels []LevelStats `json:"levels"`
}

// LevelStats are figures of one level of the LSM.
type LevelStats struct {
	Tables       uint64 `json:"tables" metric:"gauge" help:"tables in the level"`
	Bytes        uint64 `json:"bytes" metric:"gauge" help:"bytes of tables in the level"`
	BytesWritten uint64 `json:"bytes_written" metric:"counter" help:"bytes written to the level by flushes, compactions and the rewriter"`
	BytesCompact uint64 `json:"bytes_compact" metric:"counter" help:"of these, bytes written by compactions"`
	Sublevels    uint64 `json:"sublevels" metric:"gauge" help:"runs of tables in the level, of which a read of a key may look at each"`
}

// Stats returns the store's figures. It reads the properties of all tables, which takes milliseconds for a thousand
// tables, and holds Pebble's lock for microseconds. If the properties are damaged, KeysInTables is 0.
func (s *Store) Stats() (Stats, error) {
	if err := s.db.Enter(); err != nil {
		return Stats{}, err
	}
	defer s.db.Leave()
	c, l, m := &s.counters, &s.db.Counters, s.db.Metrics()
	st := Stats{
		Record: s.record.String(), Strategy: s.strategy.Name(),
		BytesWAL: m.WAL.BytesWritten, BytesOnDisk: m.DiskSpaceUsage(), BytesMemTables: m.MemTable.Size,
		KeysAdded: c.added.Load(), KeysTabled: l.Tabled.Load(), Filtered: l.Filtered.Load(),
		TombstonesPublished: c.published.Load(), BytesRewrite: c.rewriteBytes.Load(), BytesSweep: c.sweepBytes.Load(),
		DeletesInTables: m.Keys.TombstoneCount, BytesDeleted: m.Table.Garbage.PointDeletionsBytesEstimate + m.Table.Garbage.RangeDeletionsBytesEstimate,
		BlockCacheHits: uint64(m.BlockCache.Hits), BlockCacheMisses: uint64(m.BlockCache.Misses), BytesBlockCache: uint64(m.BlockCache.Size),
		StallMillis: uint64(l.Stalled.Sum().Milliseconds()), DotsLive: uint64(max(0, s.sets.live.Load())), BytesTombstones: uint64(max(0, s.sets.deadBytes.Load())),
		Rewrites: c.rewrites.Load(), RewritesLeft: c.rewritesLeft.Load(), Excises: c.excises.Load(),
		RewriteKeys: c.rewriteKeys.Load(), RewriteDropped: c.rewriteDrops.Load(), RewriteResolved: c.rewriteResolved.Load(), RunsPassed: c.runsPassed.Load(),
		HotLookUps: s.hot.hits.Load(), LookUps: c.lookUps.Load(), BytesHot: uint64(s.hot.bytes.Load()),
		Ingests: c.ingests.Load(), BytesIngested: c.ingestBytes.Load(),
		LocatedInLog: c.locatedInLog.Load(), LocatedByScan: c.locatedByScan.Load(), LocateScans: c.locateScans.Load(),
		LocateSkips: c.locateSkips.Load(),
		Flushes:     l.Flushes.Load(), Compactions: l.Compactions.Load(),
		CompactionDebt: m.Compact.EstimatedDebt, BackgroundErrors: l.BackgroundErrors.Load(), Stalls: l.Stalls.Load(),
		FlushesInProgress: uint64(m.Flush.NumInProgress), CompactionsInProgress: uint64(m.Compact.NumInProgress),
		RewritesInProgress: uint64(c.rewriting.Load()),
		Sync:               latencyOf(&l.Synced), Queue: latencyOf(&c.queued), Gate: latencyOf(&s.gate.waited), Held: latencyOf(&c.held),
		Corruptions: l.Corruptions.Load(), SlowDisk: l.SlowDisk.Load(), FullDisk: l.FullDisk.Load(),
	}
	for _, l := range m.Levels {
		written := l.TableBytesFlushed + l.TableBytesCompacted + l.TableBytesIngested
		st.Levels = append(st.Levels, LevelStats{Tables: uint64(l.TablesCount), Bytes: uint64(l.TablesSize), BytesWritten: written,
			BytesCompact: l.TableBytesCompacted, Sublevels: uint64(l.Sublevels)})
		st.BytesFlush += l.TableBytesFlushed
		st.BytesCompact += l.TableBytesCompacted
		st.BytesRead += l.TableBytesRead
		st.BytesTables += uint64(l.TablesSize)
	}
	st.SetsInMemory, st.BytesSets, st.SetsForgotten = s.sets.size()
	f := s.filters.Stats()
	st.Filters, st.FiltersOpen, st.BytesFilters = f.Filters, f.Open, f.Bytes
	st.FilterPagesRead, st.FilterPagesOut, st.FilterPagesStored = f.PagesRead, f.PagesOut, f.PagesStored
	st.BytesIngested += f.BytesIngested
	known := s.damage()
	st.FiltersDamaged, st.SetsDamaged = uint64(len(known.Filters)), uint64(len(known.Sets))
	space, _ := s.DiskSpace()
	st.DiskFreeBytes, st.DiskReserveBytes, st.DiskSpaceLevel = space.Free, space.Reserve, uint64(space.Level)
	st.BytesHeap = heapBytes()
	var err error
	if st.KeysInTables, err = s.keysInTables(); errors.Is(err, bigset.ErrCorrupt) {
		err = nil // damaged properties of a table must not hide all other figures
	}
	return st, err
}

// heapBytes returns the size of objects on the heap. It does not stop the world, as runtime.ReadMemStats does.
func heapBytes() uint64 {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	return heap[0].Value.Uint64()
}

// size returns how many sets are in memory, about how many bytes they take, and how many were taken out of memory.
func (c *setCache) size() (sets, bytes, gone uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint64(len(c.byName)), uint64(max(0, c.bytes)), c.gone
}

// keysInTables sums the tables' own counts of element keys.
func (s *Store) keysInTables() (uint64, error) {
	tables, err := s.db.ReadTables()
	if err != nil {
		return 0, err
	}
	n := uint64(0)
	for _, t := range tables {
		n += t.Keys
	}
	return n, nil
}
