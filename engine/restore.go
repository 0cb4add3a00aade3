package engine

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset/engine/filters"
	"bigset/engine/internal/lsm"
)

// RestoreOptions configure Restore. Nil and zero fields mean the default.
type RestoreOptions struct {
	// FS is the file system of both folders; the default is the operating system's.
	FS vfs.FS
	// Progress is called after each MiB and each file, if it is not nil.
	Progress func(RestoreReport)
}

// Restore creates a store in the folder dest, which must be new or empty, from a checkpoint, or from the folder of a
// store that is not open, however it was stopped. Files are copied, never linked, so neither folder depends on the
// other. The new store always takes a new incarnation before its first write.
//
// Restore returns ErrNoStore, ErrUnfinished or ErrFormat if src is no complete store of a known format, ErrLocked if
// it is open, and ErrNotEmpty if dest holds something. After a crash dest holds the whole store, or Open refuses it
// with ErrUnfinished and the next Restore may use it; an error leaves no more than that.
func Restore(ctx context.Context, src, dest string, o *RestoreOptions) (RestoreReport, error) {
	below := lsm.RestoreOptions{FS: vfs.Default, IsFile: filters.IsFile, Progress: func(RestoreReport) {}}
	if o != nil && o.FS != nil {
		below.FS = o.FS
	}
	if o != nil && o.Progress != nil {
		below.Progress = o.Progress
	}
	rep, err := lsm.Restore(ctx, src, dest, below)
	if err != nil {
		err = fmt.Errorf("engine: restore %s to %s: %w", src, dest, lsm.DiskError(err))
	}
	return rep, err
}

// CheckFolder returns nil if a folder holds a whole store of a format that this program knows. Otherwise it returns
// ErrNoStore, ErrUnfinished, ErrFormat, or bigset.ErrCorrupt if Pebble's own files are missing. It reads no more than
// it needs for that. A nil file system is the operating system's.
func CheckFolder(fs vfs.FS, dir string) error {
	if fs == nil {
		fs = vfs.Default
	}
	return lsm.CheckFolder(fs, dir)
}

// CheckUnused returns ErrLocked if the store in a folder is open, here or in another process. It is for tools that
// read files without the engine: files of an open store may be removed at any moment.
func CheckUnused(dir string) error { return lsm.CheckUnused(dir) }
