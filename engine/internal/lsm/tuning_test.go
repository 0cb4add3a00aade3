package lsm

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
)

// TestTuningChecked: each field has bounds, and the sentence that refuses a value names the fields. What passes, Pebble opens.
func TestTuningChecked(t *testing.T) {
	for _, c := range []struct {
		what  string
		set   func(*bigset.LSM)
		names string // of the fields in the error; none where it is fine
	}{
		{"nothing", func(*bigset.LSM) {}, ""},
		{"no compaction", func(t *bigset.LSM) { t.Compactions = -1 }, "LSM.Compactions"},
		{"many compactions", func(t *bigset.LSM) { t.Compactions = 257 }, "LSM.Compactions"},
		{"most compactions", func(t *bigset.LSM) { t.Compactions = 256 }, ""},
		{"level 0", func(t *bigset.LSM) { t.L0CompactionThreshold = -1 }, "LSM.L0CompactionThreshold"},
		{"files of level 0", func(t *bigset.LSM) { t.L0CompactionFileThreshold = -1 }, "LSM.L0CompactionFileThreshold"},
		{"stop", func(t *bigset.LSM) { t.L0StopWritesThreshold = -1 }, "LSM.L0StopWritesThreshold"},
		{"stop before the default", func(t *bigset.LSM) { t.L0StopWritesThreshold = 3 }, "LSM.L0StopWritesThreshold LSM.L0CompactionThreshold"},
		{"stop at the default", func(t *bigset.LSM) { t.L0StopWritesThreshold = 4 }, ""},
		{"compact after the default", func(t *bigset.LSM) { t.L0CompactionThreshold = 25 }, "LSM.L0StopWritesThreshold LSM.L0CompactionThreshold"},
		{"both", func(t *bigset.LSM) { t.L0CompactionThreshold, t.L0StopWritesThreshold = 30, 30 }, ""},
		{"base", func(t *bigset.LSM) { t.LBaseMaxBytes = -1 }, "LSM.LBaseMaxBytes"},
		{"file", func(t *bigset.LSM) { t.TargetFileBytes = 4<<30 + 1 }, "LSM.TargetFileBytes"},
		{"largest file", func(t *bigset.LSM) { t.TargetFileBytes = 4 << 30 }, ""},
		{"one memtable", func(t *bigset.LSM) { t.MemTablesStop = 1 }, "LSM.MemTablesStop"},
		{"two memtables", func(t *bigset.LSM) { t.MemTablesStop = 2 }, ""},
		{"split", func(t *bigset.LSM) { t.FlushSplitBytes = -1 }, "LSM.FlushSplitBytes"},
		{"block", func(t *bigset.LSM) { t.BlockBytes = 64<<20 + 1 }, "LSM.BlockBytes"},
		{"index", func(t *bigset.LSM) { t.IndexBlockBytes = -1 }, "LSM.IndexBlockBytes"},
		{"zstd", func(t *bigset.LSM) { t.Compression = bigset.CompressionZstd }, ""},
		{"none", func(t *bigset.LSM) { t.Compression = bigset.CompressionNone }, ""},
		{"other", func(t *bigset.LSM) { t.Compression = bigset.CompressionNone + 1 }, "LSM.Compression"},
		{"bloom", func(t *bigset.LSM) { t.BloomBits = 33 }, "LSM.BloomBits"},
		{"no bloom", func(t *bigset.LSM) { t.BloomBits = -1 }, ""},
		{"files", func(t *bigset.LSM) { t.MaxOpenFiles = -1 }, "LSM.MaxOpenFiles"},
		{"sync", func(t *bigset.LSM) { t.BytesPerSync = -1 }, "LSM.BytesPerSync"},
		{"log", func(t *bigset.LSM) { t.WALBytesPerSync = -1 }, "LSM.WALBytesPerSync"},
	} {
		var tuning bigset.LSM
		c.set(&tuning)
		err := tuning.Check()
		if (err == nil) != (c.names == "") {
			t.Errorf("%s: got %v", c.what, err)
			continue
		}
		for name := range strings.FieldsSeq(c.names) {
			if !strings.Contains(err.Error(), name+" ") {
				t.Errorf("%s: %q does not name %s", c.what, err, name)
			}
		}
		if err != nil {
			continue
		}
		po := BaselineOptions(1<<20, tuning)
		po.FS, po.Logger = vfs.NewMem(), logger{slog.New(slog.DiscardHandler)}
		db, err := pebble.Open("db", po)
		if err == nil {
			err = db.Close()
		}
		if err != nil {
			t.Errorf("%s: Pebble refuses it: %v", c.what, err)
		}
	}
}

// TestTuningApplied: each field reaches Pebble, and the zero value is what is documented.
func TestTuningApplied(t *testing.T) {
	type figures struct {
		upper, l0, files, stop, memTables, open, sync, log, block, index int
		base, file, level6, split                                        int64
		compression                                                      string
		bloom                                                            string
	}
	of := func(t bigset.LSM) figures {
		po := BaselineOptions(1<<20, t)
		po.EnsureDefaults()
		_, upper := po.CompactionConcurrencyRange()
		l := po.Levels[6]
		return figures{upper, po.L0CompactionThreshold, po.L0CompactionFileThreshold, po.L0StopWritesThreshold, po.MemTableStopWritesThreshold, po.MaxOpenFiles,
			po.BytesPerSync, po.WALBytesPerSync, l.BlockSize, l.IndexBlockSize, po.LBaseMaxBytes, po.TargetFileSizes[0], po.TargetFileSizes[6], po.FlushSplitBytes,
			l.Compression().Name, l.FilterPolicy.Name()}
	}
	want := figures{2, 4, 500, 24, 4, 1000, 512 << 10, 0, 8 << 10, 256 << 10, 64 << 20, 2 << 20, 128 << 20, 4 << 20, "Snappy", "rocksdb.BuiltinBloomFilter"}
	if got := of(bigset.LSM{}); got != want {
		t.Errorf("defaults are %+v, want %+v", got, want)
	}
	want = figures{5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 16 << 6, 17, "ZSTD", pebble.NoFilterPolicy.Name()}
	if got := of(bigset.LSM{Compactions: 5, L0CompactionThreshold: 6, L0CompactionFileThreshold: 7, L0StopWritesThreshold: 8, MemTablesStop: 9, MaxOpenFiles: 10, BytesPerSync: 11,
		WALBytesPerSync: 12, BlockBytes: 13, IndexBlockBytes: 14, LBaseMaxBytes: 15, TargetFileBytes: 16, FlushSplitBytes: 17, Compression: bigset.CompressionZstd, BloomBits: -1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
