package bigset

import "fmt"

// LSM tunes the log-structured merge tree below a store: engine.Options.LSM. The zero value means the defaults; a zero
// field means the default that its comment names. The fields say how much and how large, and may change from one open
// to the next: data on disk can be read whatever they are, and takes their form when it is written again. MemTableBytes
// and BlockCacheBytes of engine.Options are the sizes of a memtable and of the cache of blocks.
//
// The rest is fixed, because the store's correctness depends on it. Tables use Pebble's newest row format. Its
// columnar blocks need prefixes in bytewise order, which those of elements do not have. Separation of values needs
// columnar blocks, and is therefore off. The order of keys, the merger, the events and the files are the store's own.
type LSM struct {
	// Compactions is the greatest number of compactions at a time; default 2, at most 256. More than one runs only
	// when level 0 or the debt grows.
	Compactions int
	// L0CompactionThreshold is how many sublevels of level 0 start a compaction of it; default 4. A lower value makes
	// reads cheaper, but more bytes are written.
	L0CompactionThreshold int
	// L0CompactionFileThreshold is how many tables of level 0 start a compaction of it; default 500.
	L0CompactionFileThreshold int
	// L0StopWritesThreshold is how many sublevels of level 0 make writes wait; default 24. A value below
	// L0CompactionThreshold is refused: writes would wait for a compaction that does not start.
	L0StopWritesThreshold int
	// LBaseMaxBytes is the greatest size of the level after level 0, in bytes; default 64 MiB. The levels after it grow tenfold each.
	LBaseMaxBytes int64
	// TargetFileBytes is about the size of a table of level 0, in bytes; default 2 MiB, at most 4 GiB. It doubles from level to level.
	TargetFileBytes int64
	// MemTablesStop is how many memtables, including those that wait for their flush, make writes wait; default 4, at
	// least 2. Together they may take MemTablesStop times engine.Options.MemTableBytes.
	MemTablesStop int
	// FlushSplitBytes is the size in bytes at which a flush begins another table; default twice TargetFileBytes.
	FlushSplitBytes int64
	// BlockBytes is the size of a block of a table before compression, in bytes; default 8 KiB, at most 64 MiB. With
	// smaller blocks look-ups read less; larger ones compress better.
	BlockBytes int
	// IndexBlockBytes is the size of a block of a table's index, in bytes; default 256 KiB, at most 64 MiB. A larger index has two levels.
	IndexBlockBytes int
	// Compression is how blocks are compressed; default CompressionSnappy.
	Compression Compression
	// BloomBits is how many bits each element has in the bloom filter of its table; default 10, at most 32. A
	// negative value means no filter: look-ups of absent elements, and adds that look their element up, then read
	// every table that may hold it.
	BloomBits int
	// MaxOpenFiles bounds the tables that are open at a time; default 1,000.
	MaxOpenFiles int
	// BytesPerSync is the number of bytes after which a table that is being written is synced, so that no sync is
	// long; default 512 KiB.
	BytesPerSync int
	// WALBytesPerSync is the same for the log, in addition to the syncs that operations ask for; default 0, never.
	WALBytesPerSync int
}

// Compression is how blocks of tables are compressed. It applies to tables that are written from then on; all kinds
// can be read.
type Compression byte

// Kinds of compression.
const (
	// CompressionSnappy is fast, and the default.
	CompressionSnappy Compression = iota
	// CompressionZstd makes smaller tables for several times the CPU.
	CompressionZstd
	// CompressionNone stores blocks as they are.
	CompressionNone
)

// The greatest values of an LSM.
const (
	compactionsMax = 256
	blockBytesMax  = 64 << 20
	fileBytesMax   = 4 << 30
	bloomBitsMax   = 32
)

// WithDefaults returns l with the default of each field that is zero. FlushSplitBytes stays zero: Pebble then goes by TargetFileBytes.
func (l LSM) WithDefaults() LSM {
	orDefault(&l.Compactions, 2)
	orDefault(&l.L0CompactionThreshold, 4)
	orDefault(&l.L0CompactionFileThreshold, 500)
	orDefault(&l.L0StopWritesThreshold, 24)
	orDefault(&l.LBaseMaxBytes, 64<<20)
	orDefault(&l.TargetFileBytes, 2<<20)
	orDefault(&l.MemTablesStop, 4)
	orDefault(&l.BlockBytes, 8<<10)
	orDefault(&l.IndexBlockBytes, 256<<10)
	orDefault(&l.BloomBits, 10)
	orDefault(&l.MaxOpenFiles, 1000)
	orDefault(&l.BytesPerSync, 512<<10)
	return l
}

func orDefault[T int | int64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Check returns an error that names the fields if the values, with the defaults applied, are invalid. engine.Open refuses
// what Check refuses.
func (l LSM) Check() error {
	l = l.WithDefaults()
	for _, f := range []struct {
		name        string
		value       int64
		least, most int64 // most 0 is no bound
	}{
		{"Compactions", int64(l.Compactions), 1, compactionsMax},
		{"L0CompactionThreshold", int64(l.L0CompactionThreshold), 1, 0},
		{"L0CompactionFileThreshold", int64(l.L0CompactionFileThreshold), 1, 0},
		{"L0StopWritesThreshold", int64(l.L0StopWritesThreshold), 1, 0},
		{"LBaseMaxBytes", l.LBaseMaxBytes, 1, 0},
		{"TargetFileBytes", l.TargetFileBytes, 1, fileBytesMax},
		{"MemTablesStop", int64(l.MemTablesStop), 2, 0},
		{"FlushSplitBytes", l.FlushSplitBytes, 0, 0},
		{"BlockBytes", int64(l.BlockBytes), 1, blockBytesMax},
		{"IndexBlockBytes", int64(l.IndexBlockBytes), 1, blockBytesMax},
		{"MaxOpenFiles", int64(l.MaxOpenFiles), 1, 0},
		{"BytesPerSync", int64(l.BytesPerSync), 1, 0},
		{"WALBytesPerSync", int64(l.WALBytesPerSync), 0, 0},
	} {
		if f.value < f.least {
			return fmt.Errorf("engine: LSM.%s is %d, the minimum is %d", f.name, f.value, f.least)
		}
		if f.most > 0 && f.value > f.most {
			return fmt.Errorf("engine: LSM.%s is %d, the maximum is %d", f.name, f.value, f.most)
		}
	}
	switch {
	case l.BloomBits > bloomBitsMax:
		return fmt.Errorf("engine: LSM.BloomBits is %d, the maximum is %d", l.BloomBits, bloomBitsMax)
	case l.Compression > CompressionNone:
		return fmt.Errorf("engine: LSM.Compression is %d, which is no kind of compression", l.Compression)
	case l.L0StopWritesThreshold < l.L0CompactionThreshold:
		return fmt.Errorf("engine: LSM.L0StopWritesThreshold is %d and LSM.L0CompactionThreshold is %d: writes would stop before level 0 is compacted, and wait for ever; "+
			"the first must be at least the second", l.L0StopWritesThreshold, l.L0CompactionThreshold)
	}
	return nil
}
