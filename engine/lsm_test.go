package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/engine"
)

// TestLSM: a store is written and read under one tuning after the other, and is whole each time. What would stop writes is refused, before there is a folder.
func TestLSM(t *testing.T) {
	fs := vfs.NewMem()
	_, err := engine.Open("db", &engine.Options{FS: fs, LSM: engine.LSM{L0StopWritesThreshold: 3}})
	if err == nil || !strings.Contains(err.Error(), "LSM.L0StopWritesThreshold is 3 and LSM.L0CompactionThreshold is 4") {
		t.Errorf("got %v", err)
	}
	if _, err := fs.Stat("db"); err == nil {
		t.Error("a folder was made")
	}
	for i, l := range []engine.LSM{
		{},
		{Compactions: 1, L0CompactionThreshold: 1, L0StopWritesThreshold: 2, MemTablesStop: 2, TargetFileBytes: 4 << 10, LBaseMaxBytes: 8 << 10, BlockBytes: 256, IndexBlockBytes: 256},
		{Compression: bigset.CompressionZstd, BloomBits: -1, FlushSplitBytes: 1 << 10},
		{Compression: bigset.CompressionNone, BloomBits: 32, MaxOpenFiles: 16, BytesPerSync: 1, WALBytesPerSync: 1},
		{},
	} {
		s, err := engine.Open("db", &engine.Options{FS: fs, Logger: silent, MemTableBytes: 64 << 10, LSM: l})
		must(t, err, "open")
		for j := range 40 {
			var elements [][]byte
			for k := range 50 {
				elements = append(elements, fmt.Appendf(nil, "%d-%d-%d", k, i, j))
			}
			_, err := s.Add(bg, []byte("s"), elements, bigset.WriteOptions{Durability: bigset.NoSync})
			must(t, err, "add")
		}
		must(t, s.Flush(bg), "flush")
		rep, err := s.Verify(bg, engine.VerifyOptions{})
		if must(t, err, "verify"); !rep.OK() || rep.Elements != uint64(i+1)*2000 {
			t.Errorf("tuning %d: %d elements, %v", i, rep.Elements, rep.Problems)
		}
		must(t, s.Close(), "close")
	}
}
