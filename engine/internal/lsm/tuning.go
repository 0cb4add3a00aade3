package lsm

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// Tuning is what of Pebble may be set. The zero value is the defaults. engine.LSM has the same fields, and says what they mean.
type Tuning struct {
	Compactions               int
	L0CompactionThreshold     int
	L0CompactionFileThreshold int
	L0StopWritesThreshold     int
	LBaseMaxBytes             int64
	TargetFileBytes           int64
	MemTablesStop             int
	FlushSplitBytes           int64
	BlockBytes                int
	IndexBlockBytes           int
	Compression               Compression
	BloomBits                 int
	MaxOpenFiles              int
	BytesPerSync              int
	WALBytesPerSync           int
}

// Compression says how blocks of tables are compressed. It is for tables that are written from then on; all are read.
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

var compressions = [...]*sstable.CompressionProfile{
	CompressionSnappy: sstable.SnappyCompression, CompressionZstd: sstable.ZstdCompression, CompressionNone: sstable.NoCompression,
}

// The greatest values of a Tuning.
const (
	compactionsMax = 256
	blockBytesMax  = 64 << 20
	fileBytesMax   = 4 << 30
	bloomBitsMax   = 32
)

// WithDefaults returns t with the default of each field that is zero. FlushSplitBytes stays zero: Pebble then goes by TargetFileBytes.
func (t Tuning) WithDefaults() Tuning {
	orDefault(&t.Compactions, 2)
	orDefault(&t.L0CompactionThreshold, 4)
	orDefault(&t.L0CompactionFileThreshold, 500)
	orDefault(&t.L0StopWritesThreshold, 24)
	orDefault(&t.LBaseMaxBytes, 64<<20)
	orDefault(&t.TargetFileBytes, 2<<20)
	orDefault(&t.MemTablesStop, 4)
	orDefault(&t.BlockBytes, 8<<10)
	orDefault(&t.IndexBlockBytes, 256<<10)
	orDefault(&t.BloomBits, 10)
	orDefault(&t.MaxOpenFiles, 1000)
	orDefault(&t.BytesPerSync, 512<<10)
	return t
}

func orDefault[T int | int64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Check returns what is wrong with the values, defaults included, in a sentence that names the fields.
func (t Tuning) Check() error {
	t = t.WithDefaults()
	for _, f := range []struct {
		name        string
		value       int64
		least, most int64 // most 0 is no bound
	}{
		{"Compactions", int64(t.Compactions), 1, compactionsMax},
		{"L0CompactionThreshold", int64(t.L0CompactionThreshold), 1, 0},
		{"L0CompactionFileThreshold", int64(t.L0CompactionFileThreshold), 1, 0},
		{"L0StopWritesThreshold", int64(t.L0StopWritesThreshold), 1, 0},
		{"LBaseMaxBytes", t.LBaseMaxBytes, 1, 0},
		{"TargetFileBytes", t.TargetFileBytes, 1, fileBytesMax},
		{"MemTablesStop", int64(t.MemTablesStop), 2, 0},
		{"FlushSplitBytes", t.FlushSplitBytes, 0, 0},
		{"BlockBytes", int64(t.BlockBytes), 1, blockBytesMax},
		{"IndexBlockBytes", int64(t.IndexBlockBytes), 1, blockBytesMax},
		{"MaxOpenFiles", int64(t.MaxOpenFiles), 1, 0},
		{"BytesPerSync", int64(t.BytesPerSync), 1, 0},
		{"WALBytesPerSync", int64(t.WALBytesPerSync), 0, 0},
	} {
		if f.value < f.least {
			return fmt.Errorf("engine: LSM.%s is %d, the minimum is %d", f.name, f.value, f.least)
		}
		if f.most > 0 && f.value > f.most {
			return fmt.Errorf("engine: LSM.%s is %d, the maximum is %d", f.name, f.value, f.most)
		}
	}
	switch {
	case t.BloomBits > bloomBitsMax:
		return fmt.Errorf("engine: LSM.BloomBits is %d, the maximum is %d", t.BloomBits, bloomBitsMax)
	case int(t.Compression) >= len(compressions):
		return fmt.Errorf("engine: LSM.Compression is %d, which is no kind of compression", t.Compression)
	case t.L0StopWritesThreshold < t.L0CompactionThreshold:
		return fmt.Errorf("engine: LSM.L0StopWritesThreshold is %d and LSM.L0CompactionThreshold is %d: writes would stop before level 0 is compacted, and wait for ever; "+
			"the first must be at least the second", t.L0StopWritesThreshold, t.L0CompactionThreshold)
	}
	return nil
}

// apply sets what of Pebble's options t is about.
func (t Tuning) apply(po *pebble.Options) {
	t = t.WithDefaults()
	po.CompactionConcurrencyRange = func() (lower, upper int) { return 1, t.Compactions }
	po.L0CompactionThreshold = t.L0CompactionThreshold
	po.L0CompactionFileThreshold = t.L0CompactionFileThreshold
	po.L0StopWritesThreshold = t.L0StopWritesThreshold
	po.LBaseMaxBytes = t.LBaseMaxBytes
	po.TargetFileSizes[0] = t.TargetFileBytes // Pebble doubles it from level to level
	po.MemTableStopWritesThreshold = t.MemTablesStop
	po.FlushSplitBytes = t.FlushSplitBytes
	po.MaxOpenFiles = t.MaxOpenFiles
	po.BytesPerSync, po.WALBytesPerSync = t.BytesPerSync, t.WALBytesPerSync
	policy := pebble.NoFilterPolicy
	if t.BloomBits > 0 {
		policy = bloom.FilterPolicy(t.BloomBits)
	}
	for i := range po.Levels {
		l := &po.Levels[i]
		l.BlockSize, l.IndexBlockSize = t.BlockBytes, t.IndexBlockBytes
		l.FilterPolicy, l.FilterType = policy, pebble.TableFilter
		l.Compression = func() *sstable.CompressionProfile { return compressions[t.Compression] }
	}
}
