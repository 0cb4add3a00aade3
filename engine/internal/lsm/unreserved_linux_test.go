package lsm

import (
	iofs "io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestUnreserved: in memory a store takes the room of what was written to it, and not the 70 MiB that its log may grow to.
func TestUnreserved(t *testing.T) {
	top, err := os.MkdirTemp("/dev/shm", "unreserved")
	if err != nil || !inMemory(top) {
		t.Skip("no file system in memory")
	}
	defer os.RemoveAll(top)
	dir := filepath.Join(top, "made", "by", "open")
	d, err := Open(dir, Options{FS: vfs.Default, MemTableBytes: 64 << 20, BlockCacheBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler)}, hooks())
	must(t, err, "open")
	must(t, d.Ready(), "ready")
	must(t, write(d, "k"), "write")
	taken := int64(0)
	must(t, filepath.WalkDir(dir, func(path string, _ iofs.DirEntry, err error) error {
		var st syscall.Stat_t
		if err == nil {
			err = syscall.Stat(path, &st)
		}
		taken += st.Blocks * 512
		return err
	}), "walk")
	must(t, d.Close(func() error { return nil }), "close")
	if taken == 0 || taken > 1<<20 {
		t.Errorf("a store of one key takes %d bytes", taken)
	}
}
