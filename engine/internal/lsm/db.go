package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/compaction"
	"bigset/engine/internal/lockorder"
)

// DB is one Pebble store in a folder. It opens only if nothing of it is missing or damaged. Once a write could not be made durable,
// it has failed for good: it takes no more writes, and reads continue. All its methods may be called by any number of goroutines, but
// not after Close has returned.
type DB struct {
	dir    string
	opt    *Options
	hooks  Hooks
	record compaction.Record
	format atomic.Int32 // its number

	// Counters are what it has done since it was opened.
	Counters Counters

	fs         vfs.FS // of the options, watched
	disk       disk
	hold       holdFS // Pebble's file system, above fs
	lock       *pebble.Lock
	cache      *pebble.Cache
	pebble     *pebble.DB
	calls      lockorder.Turn[lockorder.Pebble] // of a goroutine in a call to Pebble, or in one from Pebble
	pebbleOpts *pebble.Options
	scheduler  *scheduler
	firstLog   logFile // the log that the open has begun
	id         identity
	standing   standing
	swaps      swapGate
	Unflushed  Unflushed
	spare      atomic.Pointer[Tables] // the kept iterator between two look-ups, or nil
	keeps      atomic.Bool            // an iterator is kept, in use or spare
	lookUps    uint64                 // at the last FlushSmallMemTables
	fullSize   bool                   // memtables have their full size
	damaged    sync.Map               // paths of damaged files that were reported
	flushBegan atomic.Int64           // when the most recently ended flush began, in nanoseconds
	wedged     atomic.Bool            // Pebble panicked with its locks held: it can't be closed

	flushRetry, compactionRetry retry

	compactions    context.Context // of all calls of Compact; done when the store is being closed
	endCompactions context.CancelFunc
	compacting     sync.WaitGroup // calls of Compact, including those whose caller has returned

	applied atomic.Uint64                     // batches applied
	durable atomic.Uint64                     // all batches up to that count are on disk
	syncMu  lockorder.Mutex[lockorder.DBSync] // held during a log sync on behalf of goroutines that only wait

	inside atomic.Int64 // calls in progress
	closed atomic.Bool
	ending chan struct{} // closed with the store
	empty  chan struct{} // signalled when inside may have become 0 after closing
	failed atomic.Pointer[failure]
}

// Options configure a DB. All fields must be set, except those that say otherwise.
type Options struct {
	FS              vfs.FS
	MustExist       bool              // refuse, with ErrNoStore, to make a store if none exists
	Record          compaction.Record // of a new store, 0 is Merge; an existing store must have this kind of record, if it is not 0
	MemTableBytes   int
	BlockCacheBytes int64
	BallastBytes    int64         // see disk.lay; 0 is none
	SlowDisk        time.Duration // how long an operation on the disk may take before it is reported; 0 or less is never
	Logger          *slog.Logger
	Random          io.Reader             // where identities are drawn from, nil is crypto/rand; its reads must not fail, and one goroutine at a time reads
	Tuning          bigset.LSM            // the zero value is the defaults; it has passed its Check
	Tune            func(*pebble.Options) // tests change what Pebble is opened with; may be nil
}

// Hooks are what a DB needs from its owner. All must be set. Those that Pebble may call while it holds its locks say so.
type Hooks struct {
	// Registry has the tombstones by which the merger leaves records out. It is loaded, and the registry in it is read, under
	// Pebble's locks.
	Registry *atomic.Pointer[compaction.Registry]
	// Fits returns why the owner can't work on this kind of record, or nil. It is called by the open, before anything is written.
	Fits func(compaction.Record) error
	// Moved adds to the batch of the first write after an open what has to change in a store that was copied, or restored from a
	// copy.
	Moved func(*pebble.Batch) error
	// Owes reports whether the owner has postponed, for lack of disk space, something that must be written before anything is
	// added.
	Owes func() bool
	// IsFile reports whether a name in the folder is that of a file of the owner's.
	IsFile func(name string) bool
	// Event is called for what the store does by itself. It may be called under Pebble's locks: it must not block or call the
	// store.
	Event func(Event)
}

// failure is the reason why a store takes no more writes.
type failure struct{ cause error }

// closeMost is how long Close waits for work that waits for a failing flush.
const closeMost = 5 * time.Second

// Close waits until no call is in progress; calls last, in which the owner ends its own work and writes its last data; records that
// the store was closed cleanly; and closes it. It also closes a failed store. If one of these steps waits for a flush, and flushes
// fail for lack of room or another reason, Close returns that error after some seconds, and continues in the background.
func (d *DB) Close(last func() error) error {
	if d.closed.Swap(true) {
		return bigset.ErrClosed
	}
	close(d.ending)
	done := make(chan error, 1)
	go func() { done <- d.shut(last) }()
	t := time.NewTicker(closeMost)
	defer t.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-t.C:
			if _, err := d.flushRetry.failing(); err != nil {
				return fmt.Errorf("engine: closing waits for a flush; end the process: %w", DiskError(err))
			}
		}
	}
}

func (d *DB) shut(last func() error) error {
	for d.inside.Load() > 0 {
		<-d.empty
	}
	errs := []error{last()}
	if d.failed.Load() == nil {
		errs = append(errs, d.markClean(errs[0] == nil))
	}
	if !d.wedged.Load() {
		d.scheduler.end() // so that work that Pebble has picked may be cancelled
		d.endCompactions()
		d.compacting.Wait()
	}
	d.closeSpare(d.spare.Load())
	errs = append(errs, d.closePebble())
	if d.hold.drop(); d.failed.Load() == nil && !d.hold.holds() {
		errs = append(errs, writeClosed(d.fs, d.dir, d.firstLog.number))
	}
	d.cache.Unref()
	errs = append(errs, d.lock.Close(), d.disk.closer())
	return errors.Join(errs...)
}

// closePebble closes Pebble. After a failure this may be impossible: then its goroutines end with the process.
func (d *DB) closePebble() (err error) {
	if d.failed.Load() == nil {
		return d.pebble.Close()
	}
	if d.wedged.Load() {
		return fmt.Errorf("%w: end the process before it is opened again", bigset.ErrFailed)
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("engine: closing a failed store: %v", r)
		}
	}()
	return d.pebble.Close()
}

// Enter begins a call, which Leave ends. Close waits for the call.
func (d *DB) Enter() error {
	d.inside.Add(1)
	if d.closed.Load() {
		d.Leave()
		return bigset.ErrClosed
	}
	return nil
}

// Leave ends a call that Enter began.
func (d *DB) Leave() {
	if d.inside.Add(-1) == 0 && d.closed.Load() {
		select {
		case d.empty <- struct{}{}:
		default:
		}
	}
}

// Writable returns why the store takes no writes, or nil.
func (d *DB) Writable() error {
	if f := d.failed.Load(); f != nil {
		return fmt.Errorf("%w: %w", bigset.ErrFailed, f.cause)
	}
	return nil
}

// Fail marks the store as failed, for good.
func (d *DB) Fail(cause error) error {
	if d.failed.CompareAndSwap(nil, &failure{DiskError(cause)}) {
		d.opt.Logger.Error("bigset: store failed and takes no more writes", "dir", d.dir, "cause", cause)
		d.event(Event{Kind: EventFailed, Err: cause})
	}
	return d.Writable()
}

// guard runs f, which writes to Pebble. An error, or the panic that stands for Pebble's fatal error, fails the store: after a
// failed write of the log it is unknown what is on disk.
func (d *DB) guard(f func() error) error {
	if err := d.recovering(f); err != nil {
		return d.Fail(err)
	}
	return nil
}

// recovering runs a function of Pebble's whose failure changes nothing, unless Pebble calls it fatal: then the store fails.
func (d *DB) recovering(f func() error) (err error) {
	d.calls.Take()
	defer func() {
		d.calls.Leave()
		switch r := recover().(type) {
		case nil:
		case fatalError:
			err = d.Fail(r.err)
		case runtime.Error:
			panic(r)
		case error: // a log that can't go on: Pebble panics with it, and keeps its locks
			d.wedged.Store(true)
			err = d.Fail(r)
		default:
			panic(r)
		}
	}()
	return f()
}

// durableUpTo records that all batches counted by n are on disk.
func (d *DB) durableUpTo(n uint64) {
	for {
		was := d.durable.Load()
		if was >= n || d.durable.CompareAndSwap(was, n) {
			return
		}
	}
}

// WaitDurable returns a function that waits until all batches counted by n are on disk, or nil if they are.
func (d *DB) WaitDurable(n uint64) func() error {
	if d.durable.Load() >= n {
		return nil
	}
	return d.SyncLog
}

// SyncLog syncs the log: everything that was applied before the call is durable when it returns nil.
func (d *DB) SyncLog() error {
	d.syncMu.Lock()
	defer d.syncMu.Unlock()
	if err := d.Writable(); err != nil {
		return err
	}
	n := d.applied.Load()
	if d.durable.Load() >= n {
		return nil
	}
	if err := d.guard(func() error { return d.pebble.LogData(nil, pebble.Sync) }); err != nil {
		return err
	}
	d.durableUpTo(n)
	return nil
}

// Closed reports whether Close was called.
func (d *DB) Closed() bool { return d.closed.Load() }

// HasFailed reports whether the store takes no more writes.
func (d *DB) HasFailed() bool { return d.failed.Load() != nil }

// Applied returns how many batches were applied since the open.
func (d *DB) Applied() uint64 { return d.applied.Load() }

// Durable returns a count of batches, in the order of Applied, up to which all are on disk.
func (d *DB) Durable() uint64 { return d.durable.Load() }

// FlushBegan returns when the most recently ended flush began, in nanoseconds since 1970; 0 before the first.
func (d *DB) FlushBegan() int64 { return d.flushBegan.Load() }

// FlushFull reports whether the last flush found no room on the disk.
func (d *DB) FlushFull() bool { return d.flushRetry.full() }

// EndRest lets compactions begin, which otherwise rest for a while after an open.
func (d *DB) EndRest() { d.scheduler.endRest() }

// Resting reports whether compactions rest.
func (d *DB) Resting() bool {
	d.scheduler.mu.Lock()
	defer d.scheduler.mu.Unlock()
	return d.scheduler.resting
}

// Dir returns the store's folder.
func (d *DB) Dir() string { return d.dir }

// Logger returns the logger that the store was opened with.
func (d *DB) Logger() *slog.Logger { return d.opt.Logger }

// FS returns the file system of the store, watched: a write through it that finds the disk full releases the ballast.
func (d *DB) FS() vfs.FS { return d.fs }

func (d *DB) event(e Event) { d.hooks.Event(e) }
