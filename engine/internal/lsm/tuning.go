package lsm

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"bigset"
)

var compressions = [...]*sstable.CompressionProfile{
	bigset.CompressionSnappy: sstable.SnappyCompression, bigset.CompressionZstd: sstable.ZstdCompression, bigset.CompressionNone: sstable.NoCompression,
}

// tune sets what of Pebble's options t is about. FlushSplitBytes may be zero: Pebble then goes by TargetFileBytes.
func tune(po *pebble.Options, t bigset.LSM) {
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
