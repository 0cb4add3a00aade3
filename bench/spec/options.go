package spec

import "slices"

// Option is an option of the LSM that a file may set by its name.
type Option struct {
	Name        string
	Field       string // of engine.LSM
	Least, Most int64
	Bytes       bool // the value is a size, such as 64MiB
	About       string
}

const bytesMax = 1 << 40

var options = []Option{
	{"l0-compaction-threshold", "L0CompactionThreshold", 1, 1000, false, "sublevels of L0 at which it is compacted"},
	{"l0-compaction-file-threshold", "L0CompactionFileThreshold", 1, 100_000, false, "tables of L0 at which it is compacted"},
	{"l0-stop-writes-threshold", "L0StopWritesThreshold", 1, 1000, false, "sublevels of L0 at which writes wait"},
	{"lbase-max-bytes", "LBaseMaxBytes", 1 << 10, bytesMax, true, "greatest size of the level below L0"},
	{"target-file-size", "TargetFileBytes", 1 << 10, 1 << 32, true, "size of a table of L0; each level below has twice that of the one above"},
	{"flush-split-bytes", "FlushSplitBytes", 1, bytesMax, true, "size at which a flush begins another table"},
	{"memtable-stop-writes-threshold", "MemTablesStop", 2, 1000, false, "memtables at which writes wait"},
	{"compactions", "Compactions", 1, 256, false, "greatest number of compactions at a time"},
	{"block-size", "BlockBytes", 256, 64 << 20, true, "size of a block of a table"},
	{"index-block-size", "IndexBlockBytes", 256, 64 << 20, true, "size of a block of a table's index"},
	{"bloom-bits", "BloomBits", 0, 32, false, "bits for each key in the bloom filter of a table; 0 is no filter"},
	{"max-open-files", "MaxOpenFiles", 16, 1_000_000, false, "files that are open at a time"},
	{"bytes-per-sync", "BytesPerSync", 1, 1 << 32, true, "bytes of a table after which they are synced"},
	{"wal-bytes-per-sync", "WALBytesPerSync", 0, 1 << 32, true, "bytes of the log after which they are synced; 0 is never"},
}

// Options returns the options of the LSM that a file may set.
func Options() []Option { return slices.Clone(options) }
