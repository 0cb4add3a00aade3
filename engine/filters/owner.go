package filters

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"bigset"
	"bigset/engine/internal/lsm"
	"bigset/engine/internal/marklog"
	"bigset/keyscheme"
)

// Options say what filters may take, and when their marks are answered. All fields but Limits must be set.
type Options struct {
	// CacheBytes bounds the pages that are kept in memory, including the tables of open filters, which take 8 bytes per page, in
	// memory or not. Filters that are only in memory are not included: Limits bounds those.
	CacheBytes int64
	// Limits bound what filters may take; the zero value has no limits.
	Limits Limits
	// Durability is the durability of filters whose options leave it to the server.
	Durability bigset.FilterDurability
	// Now is the time from which generations are derived. It may jump.
	Now func() time.Time
	// Logger gets what an operator should read.
	Logger *slog.Logger

	// segmentBytes is the length at which a segment of the log of marks is to be removed: 0 is segmentBytesMax. Tests set it.
	segmentBytes int64
}

// segmentBytesMax is how long a segment of the log of marks becomes before all filters are flushed, so that it can be removed.
const segmentBytesMax = 64 << 20

// ReadLocker is the shared half of a sync.RWMutex.
type ReadLocker interface {
	RLock()
	RUnlock()
}

// Sets are the locks that filters and the sets of the same store share.
type Sets struct {
	// Passes is locked exclusively by goroutines that copy everything that lies between the sets of a span.
	Passes ReadLocker
	// Swapping is locked exclusively while an iterator over many sets is opened.
	Swapping ReadLocker
}

// Owner has the methods for the store that owns the filters. Programs use Filters.
type Owner struct{ fs *Filters }

// New returns the owner of filters that are not open yet. Only Owes may be called before Open.
func New() *Owner { return &Owner{&Filters{}} }

// Open reads which filters a store has, and applies the marks that a crash has left in their log. It records damage that it finds
// in a filter in damages. If the disk has no room for those marks, they stay in memory and in the log, see Owes.
func (o *Owner) Open(db *lsm.DB, opt Options, sets Sets, damages *lsm.Damages) error {
	fs := o.fs
	opt.segmentBytes = cmp.Or(opt.segmentBytes, segmentBytesMax)
	fs.db, fs.opt, fs.damages, fs.passes, fs.swapping = db, opt, damages, sets.Passes, sets.Swapping
	return fs.open()
}

// IsFile reports whether a name in a store's folder is that of a file of its filters.
func IsFile(name string) bool { return marklog.IsSegment(name) }

// Filters returns the filters, for programs.
func (o *Owner) Filters() *Filters { return o.fs }

// Start starts the background work: excising dropped filters.
func (o *Owner) Start() { o.fs.exciser.start() }

// Stop ends that work. What is left is done after the next open.
func (o *Owner) Stop() { o.fs.exciser.stop() }

// Close flushes all filters and ends their background work. No other goroutine may use them any more.
func (o *Owner) Close() error {
	fs := o.fs
	o.Stop()
	fs.log.Settle()
	var err error
	if !fs.db.HasFailed() {
		err = fs.flush(context.Background())
	}
	if fs.owesFlush.Load() && errors.Is(err, bigset.ErrDiskFull) {
		err = nil // the log of marks has everything, and nothing was marked since
	}
	return errors.Join(err, fs.log.Close())
}

// Owes reports whether the open has found no room for the marks of the log, and no flush has succeeded since.
func (o *Owner) Owes() bool { return o.fs.owesFlush.Load() }

// Flush makes all marks so far durable, in all filters, as Filters.Flush does, within a call of the store that has begun.
func (o *Owner) Flush(ctx context.Context) error { return o.fs.flush(ctx) }

// Whole returns an error if the log of marks has keys that the filters would deny without it.
func (o *Owner) Whole() error { return o.fs.whole() }

// ExciseRange runs excise, which excises a range, and prevents making, marking or storing slices in the range while it runs. Then
// it forgets those slices. If a crash interrupts it, entries of the directory without a filter are left.
func (o *Owner) ExciseRange(b keyscheme.Bounds, excise func() error) error {
	return o.fs.exciseRange(b, excise)
}

// Has reports whether a generation of a filter is listed.
func (o *Owner) Has(name string, generation uint64) bool {
	f := o.fs.find([]byte(name))
	return f != nil && f.generation == generation
}

// Stats are figures of all filters.
type Stats struct {
	Filters, Open                    uint64
	Bytes                            uint64 // of pages in memory, with their tables
	PagesRead, PagesOut, PagesStored uint64 // loaded into memory, taken out of it because it was short, written by flushes
	BytesIngested                    uint64 // of tables that were written for them
}

// Stats returns the current figures.
func (o *Owner) Stats() (st Stats) {
	fs := o.fs
	for _, f := range fs.list() {
		st.Filters++
		if slices.ContainsFunc(f.awake(), (*filterSlice).isOpen) {
			st.Open++
		}
	}
	st.Bytes = uint64(max(0, fs.resident.Bytes()+fs.pinned.Bytes()))
	st.PagesRead, st.PagesOut, st.PagesStored = fs.faults.Load(), fs.evicted.Load(), fs.written.Load()
	st.BytesIngested = fs.ingested.Load()
	return st
}
