package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine/filters"
	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
)

// Store keeps sets in a folder. All its methods may be called by any number of goroutines. What replicas and servers
// need besides is in Replica, bloom filters are in Filters, and tokens for clients in Tokens.
type Store struct {
	opt          *Options
	record       compaction.Record
	strategy     compaction.Strategy
	deletes      bool // the strategy writes point deletes
	limits       recordLimits
	eventDotsMax int // how many dots an operation may find: bigset.DeltaDotsMax, or a test's

	db   *lsm.DB
	sets setCache

	hot       hotDots
	setCounts setCounts

	registry   atomic.Pointer[compaction.Registry]
	publisher  publisher
	readers    readers                                    // of the whole store, such as verify
	swapping   lockorder.RWMutex[lockorder.StoreSwapping] // read-locked by current swaps, locked to open an iterator over many sets between them
	deleting   lockorder.RWMutex[lockorder.StoreDeleting] // see openSets; read-locked by batches that delete keys
	gate       rangeGate
	passes     lockorder.RWMutex[lockorder.StorePasses] // read-locked by passes over one set, and by goroutines that excise one; locked by sweeps
	swept      uint64                                   // batches applied when a sweep last flushed; guarded by passes
	runner     runner
	recent     recentKeys
	removed    recentKeys // keys of dots that have died: see removed.go
	requestLog requestLog
	notes      notes
	filters    *filters.Owner
	damages    lsm.Damages
	counters   counters
	syncTime   syncTime
	moments    lockorder.Mutex[lockorder.StoreMoments] // held by a goroutine that locks set.mu of several sets
	viewed     func()                                  // called between a view and the opening of its iterator; nil except in tests
	viewing    func()                                  // called between the views of several sets; nil except in tests
	looked     func()                                  // is called by a look-up that has read the keys of an element, before it compares them with Dead; tests set it
	recounted  sync.Map                                // prefixes of sets whose unresolved keys were counted again, see recountOnce
}

// Open opens the store in a folder, or creates it if none exists. Nil options mean the defaults. The folder belongs
// to this store until Close: a second Open returns ErrLocked. An existing store can be opened on a full disk too:
// reads continue, and until some space is free writes return a *DiskSpaceError. If the open itself must write, for
// example to create a store, its error wraps bigset.ErrDiskFull.
func Open(dir string, o *Options) (*Store, error) {
	opt := o.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	s := &Store{opt: opt, limits: defaultRecordLimits, filters: filters.New(), eventDotsMax: bigset.DeltaDotsMax}
	s.sets.init(s)
	s.hot.init(opt.HotBytes)
	s.setCounts.turn = make(chan struct{}, 1)
	if err := s.open(dir); err != nil {
		return nil, fmt.Errorf("engine: open %s: %w", dir, lsm.DiskError(err))
	}
	s.publisher.start(s)
	s.runner.start(s)
	s.filters.Start()
	return s, nil
}

func (s *Store) open(dir string) (err error) {
	s.registry.Store(&compaction.Registry{})
	if s.db, err = lsm.Open(dir, s.opt.below(), s.hooks()); err != nil {
		return err
	}
	s.damages.Open(s.db)
	s.requestLog.open(s.db)
	if err = s.filters.Open(s.db, s.opt.filters(), filters.Sets{Passes: &s.passes, Swapping: &s.swapping}, &s.damages); err == nil {
		s.reportDamage()
		err = s.db.Ready()
	}
	if err != nil {
		s.db.Abandon()
	}
	return err
}

// hooks are the functions by which the store below reaches the sets.
func (s *Store) hooks() lsm.Hooks {
	return lsm.Hooks{
		Registry: &s.registry,
		Fits:     s.fits,
		Moved:    s.forgetNotes,
		Owes:     s.filters.Owes,
		IsFile:   filters.IsFile,
		Event:    s.passOn,
	}
}

// fits chooses how the store reclaims room, by the kind of its records, and returns an error if the options
// contradict that.
func (s *Store) fits(record compaction.Record) error {
	s.record = record
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
	if s.opt.KeepContexts && (s.deletes || !s.strategy.Rewrites()) {
		return fmt.Errorf("%w: unresolved contexts need one that rewrites and writes no deletes, which %s is not",
			compaction.ErrStrategy, s.strategy.Name())
	}
	return nil
}

// Close waits for current calls (streams end at their next chunk), records that the store was closed cleanly, and
// closes it. A failed store is closed too; its next open takes a new incarnation. If a current call waits for a
// flush, and flushes fail for lack of room or another reason, Close returns that error after some seconds, and goes
// on in the background: end the process then. What was acknowledged is in the log.
func (s *Store) Close() error { return s.db.Close(s.shut) }

// shut ends the background work, and writes what is in memory. No call is under way.
func (s *Store) shut() error {
	s.runner.stop()
	errs := []error{s.filters.Close()}
	s.publisher.stop()
	if !s.db.HasFailed() {
		errs = append(errs, s.sets.flush())
	}
	return errors.Join(errs...)
}

// Flush makes everything that was written durable and moves it from memory to tables.
func (s *Store) Flush(ctx context.Context) error {
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	if err := errors.Join(ctx.Err(), s.db.Writable()); err != nil {
		return err
	}
	if err := s.db.SyncLog(); err != nil {
		return err
	}
	return s.db.FlushTables(ctx)
}

// Sync returns when everything that was acknowledged before the call, of sets and of filters, is on disk: a power cut
// takes none of it back. It writes the changed pages of all filters except those that exist only in memory; the time
// grows with the number of these pages.
func (s *Store) Sync(ctx context.Context) error {
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	if err := errors.Join(ctx.Err(), s.db.Writable()); err != nil {
		return err
	}
	return s.filters.Filters().Flush(ctx) // this syncs the log even if no filter exists
}

// SyncSets returns when all changes of sets that were acknowledged before the call are on disk. If nothing needs a
// sync it does not touch the disk.
func (s *Store) SyncSets(ctx context.Context) error {
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.db.SyncLog()
}

// Filters returns the store's bloom filters.
func (s *Store) Filters() *filters.Filters { return s.filters.Filters() }

// Failed returns the reason why the store takes no more writes, which wraps bigset.ErrFailed, or nil. Reads continue after a
// failure, but what they show of the last writes may be gone after the next open.
func (s *Store) Failed() error { return s.db.Writable() }

// actorOf returns the actor under which this store mints the dots of a set.
func (s *Store) actorOf(st *set) clock.Actor { return s.db.ActorAt(st.prefix.Slot()) }

// Record returns the kind of the store's records.
func (s *Store) Record() compaction.Record { return s.record }

// Strategy returns how dead keys leave the disk.
func (s *Store) Strategy() compaction.Strategy { return s.strategy }

// Tokens creates and opens the context tokens of a set. They are sealed with keys of this store; only this store
// accepts them, for as long as it lives. A Tokens is for one goroutine, and cheap: create one for each request.
func (s *Store) Tokens(set []byte) *bigset.Tokens { return bigset.NewTokens(s.db.Keyring(), set) }

// FormatNewest is the format of a new store, and of one that was upgraded.
const FormatNewest = lsm.FormatNewest

// Format returns the number of the store's format: FormatNewest, or the previous one if an older program created the
// store.
func (s *Store) Format() int { return s.db.Format() }

// Upgrade brings a store of an older format to the newest one, which is on disk when Upgrade returns. Programs that
// do not know that format refuse the store from then on. Until then the program that created the store can open and
// write it. A crash, or an error, leaves a store of one format or of the other, and Upgrade may be called again.
func (s *Store) Upgrade(ctx context.Context) error {
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	if err := s.db.Upgrade(ctx); err != nil {
		return fmt.Errorf("engine: upgrade: %w", lsm.DiskError(err))
	}
	return nil
}

// Dir returns the store's folder.
func (s *Store) Dir() string { return s.db.Dir() }

// DiskSpace returns how much room is left on the disk. The error is nil while the store takes adds; otherwise it is
// the error that adds return, which wraps bigset.ErrDiskFull. DiskSpace reads the disk if it was not read in the last
// second.
func (s *Store) DiskSpace() (space DiskSpace, full error) { return s.db.DiskSpace() }
