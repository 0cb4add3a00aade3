package bigset

import "errors"

// Errors of operations. Their texts name the engine, because it returns them.
var (
	// ErrClosed is returned by every call on a closed store.
	ErrClosed = errors.New("engine: store is closed")
	// ErrFailed is returned by writes after a write could not be made durable. Nothing acknowledged is lost; the outcome of what
	// was in flight is unknown. Reads continue, but the newest events that they show may be lost. Close the store and open it again.
	ErrFailed = errors.New("engine: store failed, close it and open it again")
	// ErrNotFound is returned for a set that this store does not know.
	ErrNotFound = errors.New("engine: set not found")
	// ErrLimit is returned when a name, an element, a batch or a context is too large: *LimitError says which and how much.
	ErrLimit = errors.New("engine: limit exceeded")
	// ErrContext is returned for an impossible context: one with dots that this store has never issued, or with malformed dots.
	ErrContext = errors.New("engine: context refused")
	// ErrBehind is returned for a wide context that names events that this store has not seen: deliver them first, or use a replica
	// that has seen them as coordinator.
	ErrBehind = errors.New("engine: context is ahead of this store")
	// ErrContextRequired is returned under PolicyRequired for an operation without a context.
	ErrContextRequired = errors.New("engine: context required")
	// ErrDelta is returned for a delta that is malformed or names dots that this store has never issued.
	ErrDelta = errors.New("engine: delta refused")
	// ErrFacts is returned for facts that are malformed or name dots that this store has never issued.
	ErrFacts = errors.New("engine: facts refused")
	// ErrUnresolved is returned by operations that can't copy a key with an unresolved wide context (engine.Options.KeepContexts).
	ErrUnresolved = errors.New("engine: a key with an unresolved context can't be copied")
	// ErrCursor is returned for the token of a page that belongs to a listing in the other direction.
	ErrCursor = errors.New("engine: the token is of a listing in the other direction")
	// ErrRequest is returned for options that contradict each other.
	ErrRequest = errors.New("engine: bad request")
)

// Errors of the disk.
var (
	// ErrCorrupt is returned when bytes on disk are not what was written; *engine.CorruptionError says where, if that is known.
	ErrCorrupt = errors.New("engine: store is damaged")
	// ErrDiskFull is in the chain of errors that a full disk caused.
	ErrDiskFull = errors.New("engine: disk is full, free some space")
)

// Errors of bloom filters.
var (
	// ErrNoFilter is returned for a filter that this store does not have, or no longer has.
	ErrNoFilter = errors.New("engine: filter not found")
	// ErrFilterExists is returned by filters.Filters.Create for a name that exists.
	ErrFilterExists = errors.New("engine: filter exists")
	// ErrFilterOpen is returned by filters.Filters.Clear for a filter whose bits are in memory: close it first.
	ErrFilterOpen = errors.New("engine: filter is open")
	// ErrSliceAway is returned to a replica for a slice of a filter that is being removed here together with its range, or whose
	// previous copy has not been excised yet. Nothing was changed; ask another replica.
	ErrSliceAway = errors.New("engine: slice is not here now")
)
