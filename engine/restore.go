package engine

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset/engine/filters"
	"bigset/engine/internal/lsm"
)

// RestoreOptions say how Restore works. Nil and zero fields mean the default.
type RestoreOptions struct {
	// FS is the file system of both folders; the default is the operating system's.
	FS vfs.FS
	// Progress is told after each MiB and each file, if it is not nil.
	Progress func(RestoreReport)
}

// Restore makes a store in the folder dest, which must be new or empty, from a checkpoint, or from the folder of a store
// that is not open, however it was left. Files are copied, never linked, so neither folder depends on the other. The new
// store takes a new incarnation before its first write, always.
//
// ErrNoStore, ErrUnfinished and ErrFormat are returned for a src that is none, ErrLocked for one that is open, ErrNotEmpty
// for a dest that holds something. A crash leaves the whole store in dest, or a folder that Open refuses with ErrUnfinished
// and the next Restore takes; an error leaves no more than that.
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

// CheckFolder returns nil for a folder that holds a whole store of a format that this program knows, of which it reads no
// more than that: ErrNoStore, ErrUnfinished, ErrFormat, or bigset.ErrCorrupt when Pebble's own files are missing. A nil file system
// is the operating system's.
func CheckFolder(fs vfs.FS, dir string) error {
	if fs == nil {
		fs = vfs.Default
	}
	return lsm.CheckFolder(fs, dir)
}

// CheckUnused returns ErrLocked when the store in a folder is open, here or in another process. It is for tools that read files beside the
// engine: what they find while a store is open may be on its way out.
func CheckUnused(dir string) error { return lsm.CheckUnused(dir) }
