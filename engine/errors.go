package engine

import "bigset/engine/internal/lsm"

// Errors of opening a store.
var (
	// ErrLocked is returned when another process, or another Store of this one, has the folder open.
	ErrLocked = lsm.ErrLocked
	// ErrFormat is returned for a folder that holds no store, or one of a format that this program does not know.
	ErrFormat = lsm.ErrFormat
	// ErrNoStore is returned when the folder contains no store and none was to be created.
	ErrNoStore = lsm.ErrNoStore
	// ErrUnfinished is returned for a folder into which a store was being copied when the process ended.
	ErrUnfinished = lsm.ErrUnfinished
	// ErrReadOnly is in the chain of errors of a file system that cannot be written to. Open needs a writable one;
	// Restore can read from a read-only one.
	ErrReadOnly = lsm.ErrReadOnly
	// ErrNotEmpty is returned by Checkpoint and Restore for a folder that holds something.
	ErrNotEmpty = lsm.ErrNotEmpty
)

// Types of package lsm that users of the engine meet. They are aliases because an internal package cannot be imported
// from outside of engine.
type (
	// CorruptionError reports where damage was found. errors.Is finds bigset.ErrCorrupt in it.
	CorruptionError = lsm.CorruptionError
	// DiskSpaceError reports that there is little room left on the disk. errors.Is finds bigset.ErrDiskFull in it.
	DiskSpaceError = lsm.DiskSpaceError
	// DiskSpace is the room on the disk that a store is on.
	DiskSpace = lsm.DiskSpace
	// RestoreReport reports how much Restore has to copy, and how much is done.
	RestoreReport = lsm.RestoreReport
)
