package door

import (
	"context"

	"bigset/bloomslice"
)

// Filters is what stands behind a door that knows bloom filters: those of a store alone, or of a cluster. Its methods may be called by any number of
// goroutines; names and keys belong to the caller again when a method returns. Errors are bigset.ErrNoFilter, bigset.ErrFilterOpen and
// bloomslice.ErrOptions; anything else is a fault of the node, and what a change came to is then not known.
type Filters interface {
	// Find returns a filter, or bigset.ErrNoFilter. Unless FindsWait reports true it does not wait, and allocates nothing.
	Find(ctx context.Context, name []byte) (Filter, error)
	// FindsWait reports whether Find may have to ask others which filters there are.
	FindsWait() bool
	// Create makes a filter. created is false where it is there already; then nothing changes.
	Create(ctx context.Context, name []byte, o FilterCreate) (created bool, err error)
	// Drop takes a filter away for good; when it returns that is durable.
	Drop(ctx context.Context, name []byte) error
	// Clear forgets a closed filter until it is created again, or the node starts again.
	Clear(ctx context.Context, name []byte) error
	// Close flushes a filter and takes it out of memory. Closing a closed one, or one that is in memory only, does nothing.
	Close(ctx context.Context, name []byte) error
	// Flush makes what was set durable, in one filter or in all.
	Flush(ctx context.Context, name []byte) error
	FlushAll(ctx context.Context) error
	// List returns what is known of some filters, in byte order of their names: all that l describes, or the first l.Most. All that were
	// there when the first part was asked for, with l.After empty, and still are when the last is, are in one of them.
	List(ctx context.Context, l FilterListing) ([]FilterInfo, error)
}

// FilterListing says which part of which list is wanted.
type FilterListing struct {
	Prefix   []byte // of the names
	After    string // names come after it; empty for the first part
	Most     int    // filters
	Absolute bool   // figures are exact, as Filter.Info's
}

// Filter is one filter. Its errors are bigset.ErrNoFilter where it went meanwhile.
type Filter interface {
	// Check reports for each key whether it is there, into present, which is as long as keys.
	Check(ctx context.Context, keys [][]byte, present []bool) error
	// Set adds keys in their order and reports for each whether it was new. It returns when they are as durable as the filter promises.
	Set(ctx context.Context, keys [][]byte, added []bool) error
	// CheckNow and SetNow do what Check and Set do for as many keys, from the first on, as need not wait for a disk or for anybody who
	// may be waiting for one, and return how many those are. After an error nothing is known of any.
	CheckNow(keys [][]byte, present []bool) (n int, err error)
	SetNow(keys [][]byte, added []bool) (n int, err error)
	// ChecksWait and SetsWait report whether Check, or Set, always waits, for a log, a disk or another node, so that CheckNow, or SetNow,
	// does nothing.
	ChecksWait() bool
	SetsWait() bool
	// Info returns what is known of the filter, without bringing it into memory. Where the filter is spread over nodes, absolute asks all
	// of them; otherwise some may stand for all. On a node alone the answers are equal.
	Info(ctx context.Context, absolute bool) (FilterInfo, error)
}

// FilterCreate is what create was told; what it was not told is nil.
type FilterCreate struct {
	Capacity    *uint64
	Probability *float64
	InMemory    *bool
}

// FilterInfo is what is known of a filter.
type FilterInfo struct {
	Name                   string
	Probability            float64
	InMemory               bool // its bits are in memory now
	CheckHits, CheckMisses uint64
	SetHits, SetMisses     uint64
	PageIns, PageOuts      uint64
	bloomslice.Figures     // capacity, size, storage
}
