package filters_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"bigset"
	"bigset/compaction"
	"bigset/engine/filters"
	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

var bg = context.Background()

// silent is a logger for stores whose errors are caused by the test.
var silent = slog.New(slog.DiscardHandler)

func must(t rapid.TB, err error, what string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// options are those of a store of filters. A field that is zero has the value that a store of sets gives it.
type options struct {
	FS               vfs.FS
	MemTableBytes    int
	BlockCacheBytes  int64
	FilterCacheBytes int64
	FilterLimits     filters.Limits
	FilterDurability bigset.FilterDurability
	Logger           *slog.Logger
	tune             func(*pebble.Options)
	segmentBytes     int64
}

// Tune makes the store run Pebble with the changes of f.
func (o *options) Tune(f func(*pebble.Options)) { o.tune = f }

// store owns filters, and nothing else.
type store struct {
	db       *lsm.DB
	own      *filters.Owner
	damages  lsm.Damages
	passes   lockorder.RWMutex[lockorder.StorePasses]
	swapping lockorder.RWMutex[lockorder.StoreSwapping]
}

// open opens the store in a folder, or makes one.
func open(dir string, o *options) (*store, error) {
	n := *o
	if n.FS == nil {
		n.FS = vfs.Default
	}
	for _, d := range []struct {
		field *int64
		value int64
	}{{&n.BlockCacheBytes, 64 << 20}, {&n.FilterCacheBytes, 256 << 20}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if n.Logger == nil {
		n.Logger = silent
	}
	if n.MemTableBytes == 0 {
		n.MemTableBytes = 64 << 20
	}
	if n.FilterDurability == 0 {
		n.FilterDurability = bigset.FilterInterval
	}
	s := &store{own: filters.New()}
	registry := &atomic.Pointer[compaction.Registry]{}
	registry.Store(&compaction.Registry{})
	var err error
	s.db, err = lsm.Open(dir, lsm.Options{FS: n.FS, MemTableBytes: n.MemTableBytes, BlockCacheBytes: n.BlockCacheBytes, Logger: n.Logger, Tune: n.tune}, lsm.Hooks{
		Registry: registry,
		Fits:     func(compaction.Record) error { return nil },
		Moved:    func(*pebble.Batch) error { return nil },
		Owes:     s.own.Owes,
		IsFile:   filters.IsFile,
		Event:    func(lsm.Event) {},
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, lsm.DiskError(err))
	}
	s.damages.Open(s.db)
	fo := filters.Options{CacheBytes: n.FilterCacheBytes, Limits: n.FilterLimits, Durability: n.FilterDurability, Now: time.Now, Logger: n.Logger}
	fo.SegmentsOf(n.segmentBytes)
	err = s.own.Open(s.db, fo, filters.Sets{Passes: &s.passes, Swapping: &s.swapping}, &s.damages)
	if err == nil {
		err = s.db.Ready()
	}
	if err != nil {
		s.db.Abandon()
		return nil, fmt.Errorf("open %s: %w", dir, lsm.DiskError(err))
	}
	s.own.Start()
	return s, nil
}

func (s *store) Filters() *filters.Filters { return s.own.Filters() }

func (s *store) Close() error { return s.db.Close(s.own.Close) }

func (s *store) Failed() error { return s.db.Writable() }

func (s *store) Dir() string { return s.db.Dir() }

// Flush moves everything written from memory to tables.
func (s *store) Flush(ctx context.Context) error {
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	if err := s.db.SyncLog(); err != nil {
		return err
	}
	return s.db.FlushTables(ctx)
}

// FlushTables is Pebble's flush.
func (s *store) FlushTables() error { return s.db.Pebble().Flush() }

// CompactTables compacts all tables of Pebble.
func (s *store) CompactTables(ctx context.Context) error {
	s.db.EndRest()
	b := keyscheme.SlotRange(0, keyscheme.SlotMax)
	return s.db.Pebble().Compact(ctx, b.Lower, b.Upper, true)
}

// Stats returns figures under the names that a store of sets gives them.
func (s *store) Stats() (st struct{ Filters, FiltersOpen, BytesFilters, FilterPagesRead, FilterPagesOut, FilterPagesStored uint64 }, err error) {
	f := s.own.Stats()
	st.Filters, st.FiltersOpen, st.BytesFilters = f.Filters, f.Open, f.Bytes
	st.FilterPagesRead, st.FilterPagesOut, st.FilterPagesStored = f.PagesRead, f.PagesOut, f.PagesStored
	return st, nil
}

// DropRange excises a range of slots.
func (s *store) DropRange(ctx context.Context, first, last keyscheme.Slot) error {
	b := keyscheme.SlotRange(first, last)
	s.passes.Lock()
	defer s.passes.Unlock()
	if err := errors.Join(s.db.FlushTables(ctx), s.db.Mark(), s.db.SyncLog()); err != nil {
		return err
	}
	s.swapping.RLock()
	defer s.swapping.RUnlock()
	return s.own.ExciseRange(b, func() error { return s.db.Excise(ctx, b) })
}

// Checkpoint makes a copy in a folder.
func (s *store) Checkpoint(ctx context.Context, dest string) error {
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	if err := errors.Join(s.db.Writable(), s.db.Held()); err != nil {
		return err
	}
	return lsm.DiskError(s.db.Copy(ctx, dest, func() error {
		if err := s.own.Flush(ctx); err != nil {
			return err
		}
		return s.own.Whole()
	}))
}

// restore makes a store from a checkpoint, or from a folder that a crash has left.
func restore(src, dest string, fs vfs.FS) (lsm.RestoreReport, error) {
	return lsm.Restore(bg, src, dest, lsm.RestoreOptions{FS: fs, IsFile: filters.IsFile, Progress: func(lsm.RestoreReport) {}})
}

// report is the result of Verify.
type report struct {
	filters.Counts
	Problems []string
}

func (r *report) OK() bool { return len(r.Problems) == 0 }

// Verify passes all keys to a Verifier.
func (s *store) Verify() (rep report, err error) {
	problem := func(filter []byte, what string) {
		rep.Problems = append(rep.Problems, fmt.Sprintf("%q: %s", filter, what))
	}
	v, err := s.own.Verify(filters.Findings{Counts: &rep.Counts, Problem: problem, Unread: map[lsm.Damaged]string{}})
	if err != nil {
		return rep, err
	}
	s.swapping.Lock()
	b := keyscheme.SlotRange(0, keyscheme.SlotMax)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	s.swapping.Unlock()
	if err != nil {
		return rep, err
	}
	defer lsm.Closing(it, &err)
	for ok := it.First(); ok; ok = it.Next() {
		k, err := keyscheme.Decode(it.Key())
		if err == nil {
			err = v.Key(&k, it.Value())
		}
		if err != nil {
			return rep, err
		}
	}
	if err := it.Error(); err != nil {
		return rep, err
	}
	return rep, v.Finish()
}

// EachKey calls f for all keys within some bounds.
func (s *store) EachKey(b keyscheme.Bounds, f func(*keyscheme.Key)) error {
	return s.db.Each(b, func(raw, _ []byte) error {
		k, err := keyscheme.Decode(raw)
		if err == nil {
			f(&k)
		}
		return err
	})
}

// FilterKeys counts the keys that the store has of a filter, by generation.
func (s *store) FilterKeys(name []byte) (keys map[uint64]int, err error) {
	keys = map[uint64]int{}
	err = s.EachKey(keyscheme.NewFilterPrefix(name, 0).All(), func(k *keyscheme.Key) {
		f, _ := keyscheme.DecodeFilterKey(k.Rest)
		keys[f.Generation]++
	})
	return keys, err
}

// Directory counts the directory's entries: filters that exist, and those that are still to be excised.
func (s *store) Directory() (present, dropped int, err error) {
	err = s.EachKey(keyscheme.Directory(), func(k *keyscheme.Key) {
		if e, _ := keyscheme.DecodeDirectoryKey(k.Rest); e.Kind == keyscheme.EntryLeft {
			dropped++
		} else if e.Kind == keyscheme.EntryPresent {
			present++
		}
	})
	return present, dropped, err
}

// room is a store on a disk of its own.
type room struct {
	label string
	disk  *testkit.Disk
	opt   options
	store *store
}

// newRoom returns a room whose store is not open yet. Its options give little data the shape of much.
func newRoom(label string) *room {
	r := &room{label: label, disk: testkit.NewDisk(), opt: options{MemTableBytes: 64 << 10, Logger: silent}}
	r.opt.Tune(testkit.SmallTables)
	return r
}

func (r *room) open(t rapid.TB) {
	t.Helper()
	r.opt.FS = r.disk
	var err error
	r.store, err = open("store", &r.opt)
	must(t, err, "open "+r.label)
}

// openedAt opens the store in a folder of a disk.
func (r *room) openedAt(t rapid.TB, label, dir string, disk *testkit.Disk) *room {
	t.Helper()
	n := &room{label: label, disk: disk, opt: r.opt}
	n.opt.FS = disk
	var err error
	n.store, err = open(dir, &n.opt)
	must(t, err, "open "+label)
	return n
}

func (r *room) close(t rapid.TB) {
	t.Helper()
	must(t, r.store.Close(), "close "+r.label)
}

// closeWithin closes a store that has failed; the error does not matter, but the close must end.
func closeWithin(t *testing.T, s *store, label string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Close()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Errorf("%s: closing the failed store hangs", label)
	}
}

// pebbleSilent is a logger for a Pebble that a test opens by itself.
type pebbleSilent struct{}

func (pebbleSilent) Infof(string, ...any)  {}
func (pebbleSilent) Errorf(string, ...any) {}
func (pebbleSilent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
