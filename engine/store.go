package engine

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset/clock"
	"bigset/compaction"
	"bigset/engine/internal/lockorder"
	"bigset/keyscheme"
)

// Store keeps sets in a folder. All its methods may be called by any number of goroutines.
type Store struct {
	dir      string
	opt      *Options
	record   compaction.Record
	strategy compaction.Strategy
	deletes  bool // the strategy writes point deletes
	limits   recordLimits

	fs         vfs.FS // of the options, watched
	disk       disk
	hold       holdFS // Pebble's, above fs
	lock       *pebble.Lock
	cache      *pebble.Cache
	db         *pebble.DB
	pebble     lockorder.Turn[lockorder.Pebble] // of a goroutine in a call of Pebble's, or of one that Pebble makes
	pebbleOpts *pebble.Options
	scheduler  *scheduler
	firstLog   logFile // the log that Open has begun
	id         identity
	sets       setCache

	registry   atomic.Pointer[compaction.Registry]
	publisher  publisher
	readers    readers // of the whole store: verify
	swaps      swapGate
	swapping   lockorder.RWMutex[lockorder.StoreSwapping] // read-locked by swaps under way, locked to open an iterator over many sets between them
	gate       rangeGate
	passes     lockorder.RWMutex[lockorder.StorePasses] // read-locked by passes over one set, and by what cuts one out; locked by sweeps
	swept      uint64                                   // batches applied when a sweep last flushed; guarded by passes
	runner     runner
	recent     recentKeys
	requestLog requestLog
	notes      notes
	filters    filters
	damages    damages
	counters   counters
	fullSize   atomic.Bool  // memtables have their full size
	damaged    sync.Map     // paths of damaged files that were told of
	flushBegan atomic.Int64 // when the last flush that is done began, in nanoseconds
	recounted  sync.Map     // prefixes of sets whose open keys were counted anew, see recountOnce
	wedged     atomic.Bool  // Pebble panicked with its locks held: it can't be closed

	flushRetry, compactionRetry retry

	applied atomic.Uint64                        // batches applied
	durable atomic.Uint64                        // all batches up to that count are on disk
	syncMu  lockorder.Mutex[lockorder.StoreSync] // one log sync at a time on behalf of those who only wait

	inside atomic.Int64 // calls under way
	closed atomic.Bool
	ending chan struct{} // closed with the store
	empty  chan struct{} // told when inside may have become 0 after closing
	failed atomic.Pointer[failure]
}

// failure is why a store takes no more writes.
type failure struct{ cause error }

// Open opens the store in a folder, making it if there is none. Nil options are the defaults. The folder belongs to this
// store until Close: a second one gets ErrLocked. A store that exists is opened on a full disk too: reads go on, and until some space
// is free writes return a *DiskSpaceError. Where the open has to write, for a new store for one, its error wraps ErrDiskFull.
func Open(dir string, o *Options) (*Store, error) {
	opt := o.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	s := &Store{dir: dir, opt: opt, limits: defaultRecordLimits, empty: make(chan struct{}, 1), ending: make(chan struct{})}
	s.flushRetry.hurry = s.ending
	s.fs = s.disk.watch(s)
	s.sets.init(s)
	if err := s.open(); err != nil {
		s.releaseFiles()
		return nil, fmt.Errorf("engine: open %s: %w", dir, diskError(err))
	}
	s.publisher.start(s)
	s.runner.start(s)
	s.filters.cutter.start()
	return s, nil
}

func (s *Store) open() (err error) {
	if err := s.lockFolder(); err != nil {
		return err
	}
	var exists bool
	if s.record, exists, err = readFormat(s.opt, s.dir); err != nil {
		return err
	}
	if s.strategy = s.opt.Strategy; s.strategy == nil {
		s.strategy = compaction.For(s.record)
	}
	if err := s.strategy.WorksOn(s.record); err != nil {
		return err
	}
	if s.deletes = s.strategy.Deletes(); s.deletes && s.record != compaction.Set {
		return fmt.Errorf("%w: %s deletes by point, which Pebble does not survive over %s records",
			compaction.ErrStrategy, s.strategy.Name(), s.record)
	}
	if s.opt.OpenContexts && (s.deletes || !s.strategy.Rewrites()) {
		return fmt.Errorf("%w: open contexts need one that rewrites and writes no deletes, which %s is not",
			compaction.ErrStrategy, s.strategy.Name())
	}
	if !exists {
		if err := writeFormat(s.fs, s.dir, s.record); err != nil {
			return err
		}
	}
	if err := forgetLostMarker(s.fs, s.dir); err != nil {
		return err
	}
	closed, err := readClosed(s.fs, s.dir)
	if err != nil {
		return err
	}
	_, marked, err := readIdentity(s.fs, s.dir)
	if err != nil {
		return err
	}
	torn, leastLog, err := checkManifest(s.fs, s.dir, closed)
	if err != nil {
		return err
	}
	if err := checkLogs(s.fs, s.dir, closed, marked, leastLog); err != nil {
		return err
	}
	if err := s.removeLeftovers(); err != nil {
		return err
	}
	s.registry.Store(&compaction.Registry{})
	s.cache = BaselineCache(s.opt.MemTableBytes, s.opt.BlockCacheBytes)
	po := s.pebbleOptions(s.cache)
	po.Lock, s.pebbleOpts = s.lock, po
	s.hold.arm(s.fs, s.dir)
	if !exists {
		s.hold.disarm()
	}
	if err := s.disk.roomToOpen(); err != nil {
		return err
	}
	if torn {
		if err := s.openTorn(po); err != nil {
			return err
		}
	}
	rest := time.Duration(0)
	if exists {
		rest = openRest
	}
	if err := s.openPebble(po, rest); err != nil {
		return err
	}
	if s.firstLog, err = lastLog(&s.hold, s.dir); err != nil { // which may be in memory
		return err
	}
	s.hold.disarm() // what is written from here on is acknowledged, so it must not be in memory
	if int(s.db.Metrics().Levels[0].Sublevels) >= po.L0CompactionThreshold {
		s.scheduler.endRest()
	}
	if err := s.loadIdentity(); err != nil {
		return err
	}
	s.damages.open(s)
	if err := s.filters.open(s); err != nil {
		return err
	}
	s.reportDamage()
	s.disk.opened()
	return s.disk.lay()
}

func (s *Store) openPebble(po *pebble.Options, rest time.Duration) error {
	s.scheduler = newScheduler(rest)
	s.scheduler.paused = func() bool { return s.hold.holds() || s.compactionRetry.pause() > 0 }
	po.Experimental.CompactionScheduler = s.scheduler
	err := s.recovering(func() (err error) {
		s.db, err = pebble.Open(s.dir, po)
		return err
	})
	if err != nil {
		s.scheduler.abandon()
	}
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "format major version"): // Pebble has no other way to tell
		return fmt.Errorf("%w: use a newer program: %w", ErrFormat, err)
	case errors.As(err, new(pebble.ErrMissingWALRecoveryDir)),
		strings.Contains(err.Error(), "name from file"): // of the order of keys, or of the merger
		return fmt.Errorf("%w: file OPTIONS is another program's, or damaged: %w", ErrFormat, err)
	case errors.Is(err, pebble.ErrDBNotPristine):
		return &CorruptionError{Path: s.dir, Err: errors.New("no file marker.format-version names Pebble's format, bring the folder back from a copy")}
	case errors.Is(err, iofs.ErrNotExist), strings.Contains(err.Error(), "object size mismatch"): // a table that the MANIFEST names
		return &CorruptionError{Path: s.dir, Err: fmt.Errorf("a table is gone, or has not its length: %w; bring the folder back from a copy", err)}
	}
	return err
}

// openTorn opens and closes a store whose MANIFEST ends in a bad record, so that Pebble writes a new one. Nothing is deleted:
// what Pebble takes for useless goes to the folder archive.
func (s *Store) openTorn(po *pebble.Options) error {
	s.opt.Logger.Warn("bigset: the MANIFEST ends in a record that was being written when the power went; "+
		"files that nothing names are kept in the folder archive, delete it when `bigset verify` finds nothing wrong", "dir", s.dir)
	keep := po.Clone()
	keep.Cleaner = pebble.ArchiveCleaner{}
	if err := s.openPebble(keep, 0); err != nil {
		return err
	}
	db := s.db
	s.db = nil
	err := s.recovering(db.Close)
	if err == nil && s.hold.holds() {
		err = &DiskSpaceError{Need: s.hold.bytes()}
	}
	return err
}

func (s *Store) lockFolder() error {
	fs := s.fs
	if err := refuseUnfinished(fs, s.dir); err != nil {
		return err
	}
	if err := checkFiles(fs, s.dir); err != nil {
		return err
	}
	if s.opt.MustExist {
		if _, err := fs.Stat(fs.PathJoin(s.dir, formatFile)); err != nil {
			return fmt.Errorf("%w in %s", ErrNoStore, s.dir)
		}
	}
	if err := makeFolder(fs, s.dir); err != nil {
		return err
	}
	if err := refuseForeign(fs, s.dir); err != nil {
		return err
	}
	lock, err := lockDir(fs, s.dir)
	if err != nil {
		return err
	}
	s.lock = lock
	return refuseUnfinished(fs, s.dir) // a copy may have begun and ended meanwhile
}

// removeLeftovers removes what a rewriter had written when the process ended, tables that were never swapped in, and the
// sign of a copy that was finished.
func (s *Store) removeLeftovers() error {
	fs := s.fs
	names, err := fs.List(s.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == unfinishedFile || strings.HasPrefix(name, spanFilePrefix) && strings.HasSuffix(name, tempSuffix) {
			if err := fs.Remove(fs.PathJoin(s.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// releaseFiles gives back what a failed Open had taken.
func (s *Store) releaseFiles() {
	close(s.ending)
	if s.db != nil && !s.wedged.Load() {
		_ = s.db.Close() // the error that made Open fail is the one to report
	}
	s.hold.drop()
	if s.cache != nil {
		s.cache.Unref()
	}
	if s.lock != nil {
		_ = s.lock.Close()
	}
	_ = s.disk.closer()
}

// closeMost is how long Close waits for what waits for a flush that fails.
const closeMost = 5 * time.Second

// Close waits for calls under way (streams end at their next chunk), writes down that the store was left in order, and
// closes it. A failed store is closed too; its next open takes a new incarnation. Where a call under way waits for a flush, and flushes
// fail for lack of room or another reason, Close returns that error after some seconds, and goes on in the background: end the process
// then. What was acknowledged is in the log.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	close(s.ending)
	done := make(chan error, 1)
	go func() { done <- s.shut() }()
	t := time.NewTicker(closeMost)
	defer t.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-t.C:
			if _, err := s.flushRetry.failing(); err != nil {
				return fmt.Errorf("engine: closing waits for a flush, end the process: %w", diskError(err))
			}
		}
	}
}

func (s *Store) shut() error {
	for s.inside.Load() > 0 {
		<-s.empty
	}
	s.runner.stop()
	errs := []error{s.filters.shut()}
	s.publisher.stop()
	if s.failed.Load() == nil {
		errs = append(errs, s.sets.flush(), s.markClean())
	}
	errs = append(errs, s.closePebble())
	if s.hold.drop(); s.failed.Load() == nil && !s.hold.holds() {
		errs = append(errs, noteClosed(s.fs, s.dir, s.firstLog.number))
	}
	s.cache.Unref()
	errs = append(errs, s.lock.Close(), s.disk.closer())
	return errors.Join(errs...)
}

// closePebble closes Pebble. After a failure it may be unable to: then its goroutines end with the process.
func (s *Store) closePebble() (err error) {
	if s.failed.Load() == nil {
		return s.db.Close()
	}
	if s.wedged.Load() {
		return fmt.Errorf("%w: end the process before it is opened again", ErrFailed)
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("engine: closing a failed store: %v", r)
		}
	}()
	return s.db.Close()
}

// enter begins a call; leave ends it.
func (s *Store) enter() error {
	s.inside.Add(1)
	if s.closed.Load() {
		s.leave()
		return ErrClosed
	}
	return nil
}

func (s *Store) leave() {
	if s.inside.Add(-1) == 0 && s.closed.Load() {
		select {
		case s.empty <- struct{}{}:
		default:
		}
	}
}

// writable returns why the store takes no writes, or nil.
func (s *Store) writable() error {
	if f := s.failed.Load(); f != nil {
		return fmt.Errorf("%w: %w", ErrFailed, f.cause)
	}
	return nil
}

// Failed returns the reason why the store takes no more writes, which wraps ErrFailed, or nil. Reads go on after a
// failure, but what they show of the last writes may be gone after the next open.
func (s *Store) Failed() error { return s.writable() }

// fail marks the store as failed, for good.
func (s *Store) fail(cause error) error {
	if s.failed.CompareAndSwap(nil, &failure{diskError(cause)}) {
		s.opt.Logger.Error("bigset: store failed, it takes no more writes", "dir", s.dir, "cause", cause)
		s.event(Event{Kind: EventFailed, Err: cause})
	}
	return s.writable()
}

// guard runs something that writes to Pebble. An error, or the panic that stands for Pebble's fatal error, fails the store:
// after a failed write of the log nobody knows what is on disk.
func (s *Store) guard(f func() error) error {
	if err := s.recovering(f); err != nil {
		return s.fail(err)
	}
	return nil
}

// recovering runs something of Pebble's whose failure changes nothing, unless Pebble calls it fatal: then the store fails.
func (s *Store) recovering(f func() error) (err error) {
	s.pebble.Take()
	defer func() {
		s.pebble.Leave()
		switch r := recover().(type) {
		case nil:
		case fatalError:
			err = s.fail(r.err)
		case runtime.Error:
			panic(r)
		case error: // a log that can't go on: Pebble panics with it, and keeps its locks
			s.wedged.Store(true)
			err = s.fail(r)
		default:
			panic(r)
		}
	}()
	return f()
}

// durableUpTo notes that all batches counted by n are on disk.
func (s *Store) durableUpTo(n uint64) {
	for {
		was := s.durable.Load()
		if was >= n || s.durable.CompareAndSwap(was, n) {
			return
		}
	}
}

// waitDurable returns how to wait until all batches counted by n are on disk, or nil when they are.
func (s *Store) waitDurable(n uint64) func() error {
	if s.durable.Load() >= n {
		return nil
	}
	return s.syncLog
}

// syncLog syncs the log: all that was applied before the call is durable when it returns nil.
func (s *Store) syncLog() error {
	s.syncMu.Lock()
	defer s.syncMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	n := s.applied.Load()
	if s.durable.Load() >= n {
		return nil
	}
	if err := s.guard(func() error { return s.db.LogData(nil, pebble.Sync) }); err != nil {
		return err
	}
	s.durableUpTo(n)
	return nil
}

// Flush makes all that was written durable and moves it from memory to tables.
func (s *Store) Flush(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := errors.Join(ctx.Err(), s.writable()); err != nil {
		return err
	}
	if err := s.syncLog(); err != nil {
		return err
	}
	return s.flushTables(ctx)
}

// flushPoll is how often a flush that is waited for is asked whether it fails.
const flushPoll = 20 * time.Millisecond

// flushTables moves all that was written from memory to tables. A flush that finds no room goes on in the background, and is an error
// here.
func (s *Store) flushTables(ctx context.Context) error {
	if err := s.disk.held(); err != nil {
		return err
	}
	if s.flushRetry.full() { // another memtable would wait behind it
		if err := s.awaitFlush(ctx, nil); err != nil {
			return err
		}
	}
	var flushed <-chan struct{}
	err := s.recovering(func() (err error) {
		flushed, err = s.db.AsyncFlush()
		return err
	})
	if err != nil {
		return diskError(err)
	}
	return s.awaitFlush(ctx, flushed)
}

// awaitFlush waits for a flush, or for the one that fails if flushed is nil.
func (s *Store) awaitFlush(ctx context.Context, flushed <-chan struct{}) error {
	before, _ := s.flushRetry.failing()
	t := time.NewTicker(flushPoll)
	defer t.Stop()
	for {
		select {
		case <-flushed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			tries, err := s.flushRetry.failing()
			if err == nil && flushed == nil {
				return nil
			}
			if err != nil && tries > before+1 && (errors.Is(err, syscall.ENOSPC) || s.closed.Load()) {
				return fmt.Errorf("engine: flush: %w", diskError(err))
			}
		}
	}
}

// Actor returns the actor under which this store mints dots until it is closed, or drops a range.
func (s *Store) Actor() clock.Actor { return s.actor() }

// Record returns the kind of the store's records.
func (s *Store) Record() compaction.Record { return s.record }

// Strategy returns how dead keys leave the disk.
func (s *Store) Strategy() compaction.Strategy { return s.strategy }

// OpenContexts reports whether the store was opened with Options.OpenContexts.
func (s *Store) OpenContexts() bool { return s.opt.OpenContexts }

// Keyring returns the keys that seal this store's context tokens. They are made with the store and live as long.
func (s *Store) Keyring() keyscheme.Keyring { return s.id.keyring }

// Dir returns the store's folder.
func (s *Store) Dir() string { return s.dir }
