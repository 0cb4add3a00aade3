package lsm

import (
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset/compaction"
)

// open opens a store in the folder "store", with an owner that asks for nothing.
func open(t *testing.T, fs vfs.FS) (*DB, error) {
	t.Helper()
	registry := &atomic.Pointer[compaction.Registry]{}
	registry.Store(&compaction.Registry{})
	return Open("store", Options{FS: fs, MemTableBytes: 1 << 20, BlockCacheBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler)}, Hooks{
		Registry: registry,
		Fits:     func(compaction.Record) error { return nil },
		Moved:    func(*pebble.Batch) error { return nil },
		Owes:     func() bool { return false },
		IsFile:   func(string) bool { return false },
		Event:    func(Event) {},
	})
}
