package engine

import (
	"errors"
	"fmt"
	"io"
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
	// MustExist makes Open return ErrNoStore instead of creating a store if none exists.
	MustExist bool
	// Record is the kind of record of a new store (default compaction.Merge). An existing store keeps its own; asking
	// for another one is an error that wraps ErrFormat.
	Record compaction.Record
	// Strategy is how dead keys leave the disk; the default is compaction.For of the store's records. A strategy that
	// cannot work on them is refused with compaction.ErrStrategy.
	Strategy compaction.Strategy
	// Durability of operations that name none; the default is Sync.
	Durability bigset.Durability
	// KeepContexts stores an operation with a wide context as it is, without reading: its key is unresolved until the
	// rewriter finds what it supersedes. By default it is off: a wide context is resolved by one seek when the
	// operation is applied, and refused with bigset.ErrBehind if the store has not seen all of it. Unresolved keys
	// that are already stored are read either way. KeepContexts needs a strategy that rewrites.
	KeepContexts bool
	// MemTableBytes is the size of a memtable; default 64 MiB, at least 64 KiB, below 4 GiB.
	MemTableBytes int
	// BlockCacheBytes is the size of the cache of table blocks; default 64 MiB.
	BlockCacheBytes int64
	// LSM tunes what lies below the sets: compactions, level 0, tables, bloom filters of tables.
	LSM LSM
	// HotBytes bounds the memory for the dots of elements that were looked up last, which later look-ups answer from; default 64 MiB, negative remembers
	// none. It is taken as it is needed; while few look-ups are answered so, a sixteenth of it.
	HotBytes int64
	// SetCacheBytes bounds the clocks and tombstones kept in memory, approximately; sets in use may exceed it.
	// Default 256 MiB.
	SetCacheBytes int64
	// FilterCacheBytes bounds the memory for pages of bloom filters and for the page tables of open filters. A page
	// table takes 8 bytes for each page, in memory or not. Default 256 MiB. Filters that exist only in memory are not
	// included: FilterLimits bounds those.
	FilterCacheBytes int64
	// FilterLimits bound the resources that filters may take; default none.
	FilterLimits filters.Limits
	// FilterDurability is when marks of filters are answered, unless a call names its own durability; default
	// bigset.FilterInterval.
	FilterDurability bigset.FilterDurability
	// RewriteBytesPerSecond bounds what the rewriter reads in the background; default 64 MiB. Store.Compact is not
	// bounded.
	RewriteBytesPerSecond int64
	// SpanBytes is about how many bytes of keys the rewriter copies in one swap; default 16 MiB.
	SpanBytes int
	// BackgroundInterval is the time between checks for background work; default 100 ms. If it is negative,
	// tombstones reach the drop filter, and the rewriter works, only through Store.Compact.
	BackgroundInterval time.Duration
	// BallastBytes is the size of a file that is removed when the disk is full, so that current work can end. A later
	// open that finds enough room creates it again. Default 0: none.
	BallastBytes int64
	// RequestAge is how long the events of a request with an id (bigset.WriteOptions.Request) are kept, to answer a
	// repetition of it; default 10 minutes. RequestsKept bounds the number of requests kept; default 65,536, some 200
	// bytes of memory each.
	RequestAge   time.Duration
	RequestsKept int
	// CountApart reports whether CountSets counts a set in SetCount.Apart as well, by the set's name; by default none
	// is. Any goroutine may call it.
	CountApart func(name []byte) bool
	// Now is the clock by which requests expire, and by which the answer to a count of parts ends. It may jump;
	// default time.Now. Any goroutine may call it.
	Now func() time.Time
	// Random is where the store draws its keys and the names of its disk and of its incarnations from; default crypto/rand.
	// A name must never be drawn twice, so only a simulation that is to repeat itself sets another source. Its reads must
	// not fail. One goroutine at a time reads.
	Random io.Reader
	// SlowDisk is how long an operation on the disk may take before EventSlowDisk reports it; default 1 s, negative
	// is never.
	SlowDisk time.Duration
	// Events receives an event for each background action; by default events are dropped. It must not block or call
	// the store: locks of the store and of Pebble may be held.
	Events func(Event)
	// Logger receives what an operator should read; default is slog's default logger at level Warn and above.
	Logger *slog.Logger
	// tune changes the options that Pebble is opened with; nil leaves them. Only tests set it.
	tune func(*pebble.Options)
	// tableKeysMin is the number of new keys from which on a portion is ingested as tables. Tests set it.
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
	if n.CountApart == nil {
		n.CountApart = func([]byte) bool { return false }
	}
	if n.Events == nil {
		n.Events = func(Event) {}
	}
	setDefault(&n.Durability, bigset.Sync)
	setDefault(&n.MemTableBytes, 64<<20)
	setDefault(&n.runKeysMin, runKeysMin)
	setDefault(&n.HotBytes, hotBytesDefault)
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

// below returns the options of the Pebble store below the sets.
func (o *Options) below() lsm.Options {
	return lsm.Options{
		FS: o.FS, MustExist: o.MustExist, Record: o.Record, MemTableBytes: o.MemTableBytes, BlockCacheBytes: o.BlockCacheBytes,
		BallastBytes: o.BallastBytes, SlowDisk: o.SlowDisk, Logger: o.Logger, Random: o.Random,
		Tuning: o.LSM, Tune: o.tune,
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
