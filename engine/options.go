package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/compaction"
	"bigset/engine/filters"
	"bigset/engine/internal/lsm"
)

// Options configure a store. Nil and zero fields mean the default.
type Options struct {
	// FS is the file system; the default is the operating system's.
	FS vfs.FS
	// MustExist refuses, with ErrNoStore, to make a store where there is none.
	MustExist bool
	// Record is the kind of record of a new store (default compaction.Merge). A store that exists keeps its own; asking
	// for another one is an error that wraps ErrFormat.
	Record compaction.Record
	// Strategy says how dead keys leave the disk; the default is compaction.For of the store's records. One that can't
	// work on them is refused with compaction.ErrStrategy.
	Strategy compaction.Strategy
	// Durability of operations that name none; the default is Sync.
	Durability bigset.Durability
	// KeepContexts stores an operation with a wide context as it is, without reading: its key is unresolved until the rewriter finds
	// what it supersedes. Off, which is the default, a wide context is resolved when it comes, by one seek, and refused with
	// bigset.ErrBehind where this store has not seen all of it. What is stored so already is understood either way. It needs a strategy that
	// rewrites.
	KeepContexts bool
	// MemTableBytes is the size of a memtable; default 64 MiB, at least 64 KiB, below 4 GiB.
	MemTableBytes int
	// BlockCacheBytes is the size of the cache of table blocks; default 64 MiB.
	BlockCacheBytes int64
	// LSM tunes what is below the sets: compactions, level 0, tables, bloom filters of tables.
	LSM LSM
	// SetCacheBytes bounds the clocks and tombstones kept in memory, approximately; sets in use are kept beyond it.
	// Default 256 MiB.
	SetCacheBytes int64
	// FilterCacheBytes bounds the pages of bloom filters kept in memory, with their tables, which are 8 bytes a page, in memory or not, of an
	// open filter; default 256 MiB. Filters that are in memory only come on top: FilterLimits bounds those.
	FilterCacheBytes int64
	// FilterLimits bound what filters may take; default none.
	FilterLimits filters.Limits
	// FilterDurability says when marks of filters are answered that say nothing of it themselves; default bigset.FilterInterval.
	FilterDurability bigset.FilterDurability
	// RewriteBytesPerSecond bounds what the rewriter reads in the background; default 64 MiB. On demand it is not bounded.
	RewriteBytesPerSecond int64
	// SpanBytes is about how many bytes of keys the rewriter copies in one swap; default 16 MiB.
	SpanBytes int
	// BackgroundInterval is how often background work is looked for; default 100 ms. Negative: never, then tombstones
	// reach the drop filter, and the rewriter works, only through Store.Compact.
	BackgroundInterval time.Duration
	// BallastBytes is the size of a file that is removed when the disk is full, so that what is under way can end; it is
	// made again by a later open that finds room enough. Default 0: none.
	BallastBytes int64
	// RequestAge is how long the events of a request with an id (bigset.WriteOptions.Request) are kept, to answer it when it comes
	// again; default 10 minutes. RequestsKept is of how many requests they are kept at most; default 65,536, some 200 bytes of
	// memory each.
	RequestAge   time.Duration
	RequestsKept int
	// Now is the time by which requests are kept, and by which the answer to a count of parts ends. It may jump; default time.Now. It may be called by any goroutine.
	Now func() time.Time
	// SlowDisk is how long an operation on the disk may take before it is told of; default 1 s, negative is never.
	SlowDisk time.Duration
	// Events is told what the store does in the background; the default drops them. It must not block or call the store: locks of
	// the store and of Pebble may be held.
	Events func(Event)
	// Logger takes what an operator should read; default is slog's default logger at level Warn and above.
	Logger *slog.Logger
	// tune changes what Pebble is opened with; nil leaves it. Tests set it.
	tune func(*pebble.Options)
	// tableKeysMin is how many new keys a span must bring to come in as tables. Tests set it.
	tableKeysMin int
	// runKeysMin is how many keys a dead run must hold to be remembered. Tests set it.
	runKeysMin int
}

func (o *Options) withDefaults() *Options {
	n := Options{}
	if o != nil {
		n = *o
	}
	if n.FS == nil {
		n.FS = vfs.Default
	}
	if n.Logger == nil {
		n.Logger = slog.Default()
	}
	if n.Events == nil {
		n.Events = func(Event) {}
	}
	setDefault(&n.Durability, bigset.Sync)
	setDefault(&n.MemTableBytes, 64<<20)
	setDefault(&n.runKeysMin, runKeysMin)
	setDefault(&n.tableKeysMin, ingestKeysMin)
	setDefault(&n.BlockCacheBytes, 64<<20)
	setDefault(&n.SetCacheBytes, 256<<20)
	setDefault(&n.FilterCacheBytes, 256<<20)
	setDefault(&n.FilterDurability, bigset.FilterInterval)
	setDefault(&n.RewriteBytesPerSecond, 64<<20)
	setDefault(&n.SpanBytes, 16<<20)
	setDefault(&n.BackgroundInterval, 100*time.Millisecond)
	setDefault(&n.SlowDisk, time.Second)
	setDefault(&n.RequestAge, 10*time.Minute)
	setDefault(&n.RequestsKept, 1<<16)
	if n.Now == nil {
		n.Now = time.Now
	}
	return &n
}

// below returns the options of the store below the sets.
func (o *Options) below() lsm.Options {
	return lsm.Options{
		FS: o.FS, MustExist: o.MustExist, Record: o.Record, MemTableBytes: o.MemTableBytes, BlockCacheBytes: o.BlockCacheBytes,
		BallastBytes: o.BallastBytes, SlowDisk: o.SlowDisk, Logger: o.Logger,
		Tuning: lsm.Tuning(o.LSM), Tune: o.tune,
	}
}

// filters returns the options of the store's filters.
func (o *Options) filters() filters.Options {
	return filters.Options{CacheBytes: o.FilterCacheBytes, Limits: o.FilterLimits, Durability: o.FilterDurability, Now: o.Now, Logger: o.Logger}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o *Options) validate() error {
	switch {
	case o.MemTableBytes < 64<<10:
		return errors.New("engine: MemTableBytes must be at least 64 KiB")
	case int64(o.MemTableBytes) >= 4<<30-1:
		return errors.New("engine: MemTableBytes must be below 4 GiB")
	case o.SpanBytes < 1<<10:
		return errors.New("engine: SpanBytes must be at least 1 KiB")
	case o.BlockCacheBytes < 0 || o.SetCacheBytes < 0 || o.BallastBytes < 0 || o.RewriteBytesPerSecond < 0:
		return errors.New("engine: a size must not be negative")
	case o.FilterCacheBytes < 0 || o.FilterDurability > bigset.FilterSync:
		return errors.New("engine: bad cache or durability of filters")
	case o.FilterLimits.Filters < 0 || o.FilterLimits.MemoryBytes < 0:
		return errors.New("engine: a limit of filters must not be negative")
	case o.RequestAge < 0 || o.RequestsKept < 0:
		return errors.New("engine: age and number of requests must not be negative")
	case o.Durability > bigset.NoSync:
		return fmt.Errorf("engine: no durability %d", o.Durability)
	}
	return o.LSM.Check()
}
