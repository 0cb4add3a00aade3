package testkit

import "github.com/cockroachdb/pebble/v2"

// SmallTables makes blocks, tables and levels so small that a few hundred keys fill all levels.
func SmallTables(po *pebble.Options) {
	po.LBaseMaxBytes = 16 << 10
	po.L0CompactionThreshold = 2
	for i := range po.Levels {
		po.Levels[i].BlockSize, po.Levels[i].IndexBlockSize = 512, 1024
	}
	po.TargetFileSizes[0] = 4 << 10
}
