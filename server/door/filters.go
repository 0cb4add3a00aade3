package door

import (
	"context"

	"bigset/bloomslice"
)

// Filters serves the bloom filters of a door: those of a store without a cluster, or of a cluster. Its methods may be called by any number
// of goroutines. Names and keys belong to the caller again when a method returns. Errors are bigset.ErrNoFilter, bigset.ErrFilterOpen and
// bloomslice.ErrOptions. Any other error is a fault of the node, and the outcome of a change is then unknown.
type Filters interface {
	// Find returns a filter, or bigset.ErrNoFilter. Unless FindsWait reports true, it does not wait and allocates nothing.
	Find(ctx context.Context, name []byte) (Filter, error)
	// FindsWait reports whether Find may have to ask other nodes which filters exist.
	FindsWait() bool
	// Create makes a filter. created is false if it exists already; then nothing changes.
	Create(ctx context.Context, name []byte, o FilterCreate) (created bool, err error)
	// Drop removes a filter for good. The drop is durable when Drop returns.
	Drop(ctx context.Context, name []byte) error
	// Clear hides a closed filter until it is created again, or the node restarts.
	Clear(ctx context.Context, name []byte) error
	// Close flushes a filter and removes it from memory. Closing a closed filter, or one in memory only, does nothing.
	Close(ctx context.Context, name []byte) error
	// Flush makes all keys set in one filter durable, FlushAll those in all filters.
	Flush(ctx context.Context, name []byte) error
	FlushAll(ctx context.Context) error
	// List returns information about filters, in byte order of their names: all that l describes, or the first l.Most. Every filter that
	// existed when the first part was requested, with l.After empty, and still exists at the last part, is in one of the parts.
	List(ctx context.Context, l FilterListing) ([]FilterInfo, error)
}

// FilterListing describes a part of a list.
type FilterListing struct {
	Prefix   []byte // of the names
	After    string // names come after it; empty for the first part
	Most     int    // filters
	Absolute bool   // figures are exact, as for Filter.Info
}

// Filter is one filter. Its methods return bigset.ErrNoFilter if it has been dropped since Find.
type Filter interface {
	// Check reports for each key in present whether the filter contains it. present is as long as keys.
	Check(ctx context.Context, keys [][]byte, present []bool) error
	// Set adds keys in their order and reports for each whether it was new. When it returns, they are as durable as the filter promises.
	Set(ctx context.Context, keys [][]byte, added []bool) error
	// CheckNow and SetNow do what Check and Set do, but only for the first keys that need not wait for a disk, or for anything that may
	// itself wait for one. They return the number of those keys. After an error nothing is known about any key.
	CheckNow(keys [][]byte, present []bool) (n int, err error)
	SetNow(keys [][]byte, added []bool) (n int, err error)
	// ChecksWait and SetsWait report whether Check, or Set, always waits for a log, a disk or another node, so that CheckNow, or SetNow,
	// does nothing.
	ChecksWait() bool
	SetsWait() bool
	// Pieces returns the pieces of work that a key is, see Conn.Now: at least 1, and more for a filter with many hash functions.
	Pieces() int
	// Info returns information about the filter without loading it into memory. If the filter is spread over nodes, absolute asks all of
	// them; otherwise some may stand for all. On a node without a cluster both answers are equal.
	Info(ctx context.Context, absolute bool) (FilterInfo, error)
}

// FilterCreate contains the options named in create; the others are nil.
type FilterCreate struct {
	Capacity    *uint64
	Probability *float64
	InMemory    *bool
}

// FilterInfo is information about a filter.
type FilterInfo struct {
	Name                   string
	Probability            float64
	InMemory               bool // its bits are in memory now
	Volatile               bool // its keys are lost when the node stops. A node of a cluster has no such filter, and the client API does not report it
	CheckHits, CheckMisses uint64
	SetHits, SetMisses     uint64
	PageIns, PageOuts      uint64
	bloomslice.Figures     // capacity, size, storage
}
