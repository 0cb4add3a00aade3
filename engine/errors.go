package engine

import (
	"errors"
	"fmt"

	"bigset/engine/internal/lsm"
)

// Errors of opening a store.
var (
	// ErrLocked is returned when another process, or another Store of this one, has the folder open.
	ErrLocked = lsm.ErrLocked
	// ErrFormat is returned for a folder that holds no store, or one of a format that this program does not know.
	ErrFormat = lsm.ErrFormat
	// ErrNoStore is returned when there is no store in the folder and none was to be made.
	ErrNoStore = lsm.ErrNoStore
	// ErrUnfinished is returned for a folder into which a store was being copied when the process ended.
	ErrUnfinished = lsm.ErrUnfinished
	// ErrReadOnly is in the chain of errors of a file system that can't be written to. Open needs one that can; Restore reads from
	// one that can't.
	ErrReadOnly = lsm.ErrReadOnly
	// ErrNotEmpty is returned by Checkpoint and Restore for a folder that holds something.
	ErrNotEmpty = lsm.ErrNotEmpty
)

// Errors of operations.
var (
	// ErrClosed is returned by every call on a closed store.
	ErrClosed = lsm.ErrClosed
	// ErrFailed is returned by writes after a write could not be made durable. Nothing acknowledged is lost; what was in
	// flight is unknown. Reads go on, but what they show last may not last. Close the store and open it again.
	ErrFailed = lsm.ErrFailed
	// ErrNotFound is returned for a set of which this store has never heard.
	ErrNotFound = errors.New("engine: set not found")
	// ErrLimit is returned when a name, an element, a batch or a context is too large: *LimitError says which and how much.
	ErrLimit = errors.New("engine: over a limit")
	// ErrContext is returned for a context that cannot be: with dots that this store has never issued, or malformed ones.
	ErrContext = errors.New("engine: context refused")
	// ErrBehind is returned for a wide context that names events which this store has not seen: deliver them first, or let a
	// replica coordinate that has.
	ErrBehind = errors.New("engine: context is ahead of this store")
	// ErrContextRequired is returned under PolicyRequired for an operation without a context.
	ErrContextRequired = errors.New("engine: context required")
	// ErrDelta is returned for a delta that is malformed or names dots that this store has never issued.
	ErrDelta = errors.New("engine: delta refused")
	// ErrFacts is returned for facts that are malformed or name dots that this store has never issued.
	ErrFacts = errors.New("engine: facts refused")
	// ErrOpenKey is returned where a key with an open wide context (Options.OpenContexts) is met by what can't copy it.
	ErrOpenKey = errors.New("engine: a key with an open context can't be copied")
	// ErrRequest is returned for options that contradict each other.
	ErrRequest = errors.New("engine: bad request")
)

// Errors of the disk.
var (
	// ErrSliceAway is returned to a replica for a slice of a filter that is being taken away here, with its range, or of which an older copy
	// is still to be cut out: nothing has happened, and others have it.
	ErrSliceAway = errors.New("engine: slice is not here now")
	// ErrCorrupt is returned when bytes on disk are not what was written; *CorruptionError says where, if that is known.
	ErrCorrupt = lsm.ErrCorrupt
	// ErrDiskFull is in the chain of errors that a full disk caused.
	ErrDiskFull = lsm.ErrDiskFull
)

// LimitError says which limit was passed. errors.Is finds ErrLimit in it.
type LimitError struct {
	What     string // what was too large, for instance "element"
	Got, Max int    // in the unit that What implies: bytes, or a count of operations
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%v: %s of %d, at most %d", ErrLimit, e.What, e.Got, e.Max)
}

// Unwrap makes errors.Is find ErrLimit.
func (e *LimitError) Unwrap() error { return ErrLimit }

// Types of the room below that users of the engine meet. They are aliases because an internal package can't be imported from outside of
// engine.
type (
	// CorruptionError says where damage was found. errors.Is finds ErrCorrupt in it.
	CorruptionError = lsm.CorruptionError
	// DiskSpaceError says that there is little room left on the disk. errors.Is finds ErrDiskFull in it.
	DiskSpaceError = lsm.DiskSpaceError
	// DiskSpace is the room on the disk that a store is on.
	DiskSpace = lsm.DiskSpace
	// RestoreReport says how much Restore has to copy, and how much is done.
	RestoreReport = lsm.RestoreReport
)
