package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"bigset/bloomslice"
	"bigset/comparator"
	"bigset/keyscheme"
)

// Errors of bloom filters.
var (
	// ErrNoFilter is returned for a filter that this store does not have, or no longer.
	ErrNoFilter = errors.New("engine: filter not found")
	// ErrFilterExists is returned by CreateFilter for a name that is there.
	ErrFilterExists = errors.New("engine: filter exists")
	// ErrFilterOpen is returned by ClearFilter for a filter whose bits are in memory: close it first.
	ErrFilterOpen = errors.New("engine: filter is open")
)

// FilterDurability says when a mark is answered.
type FilterDurability = keyscheme.FilterDurability

// The durabilities of a filter's marks.
const (
	FilterServer   = keyscheme.FilterServer   // what Options.FilterDurability says
	FilterInterval = keyscheme.FilterInterval // at once; what was not flushed since is lost in a crash
	FilterLog      = keyscheme.FilterLog      // when it is in the operating system's hands: it survives the process, not the machine
	FilterSync     = keyscheme.FilterSync     // when it is on disk
)

// FilterOptions are what a filter is made with. The zero fields of Options are bloomslice.DefaultOptions.
type FilterOptions struct {
	bloomslice.Options
	InMemory   bool // its bits are never stored; after a restart it is empty
	Durability FilterDurability
}

// filters are the bloom filters that a store knows of, open and closed.
type filters struct {
	s    *Store
	life sync.Mutex // one at a time makes, drops or clears a filter; behind Store.passes

	mu     sync.RWMutex
	byName map[string]*Filter

	generation uint64        // the last that was given; guarded by life
	resident   atomic.Int64  // bytes of pages in memory that may leave it
	pinned     atomic.Int64  // bytes of pages of filters that are in memory only
	uses       atomic.Uint64 // ticks when memory is short: which filter was used last
	trimming   sync.Mutex
	cutter     filterCutter
	log        filterLog

	faults, evicted, written atomic.Uint64 // pages read, taken out of memory, stored
}

// keyGeneration keeps the last generation that was given to a filter, so that none is given twice. It is on disk.
var keyGeneration = []byte("fg")

// open reads which filters there are; their heads are read when they are needed.
func (fs *filters) open(s *Store) (err error) {
	fs.s, fs.byName = s, map[string]*Filter{}
	fs.cutter.fs = fs
	fs.log.init(s)
	if value, closer, err := s.db.Get(keyGeneration); err == nil {
		if len(value) != 8 {
			return fmt.Errorf("%w: generation of filters", ErrCorrupt)
		}
		fs.generation = binary.BigEndian.Uint64(value)
		if err := closer.Close(); err != nil {
			return err
		}
	} else if !errors.Is(err, pebble.ErrNotFound) {
		return err
	}
	b := keyscheme.Directory()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return err
	}
	defer closing(it, &err)
	for ok := it.First(); ok; ok = it.Next() {
		key, err := keyscheme.Decode(it.Key())
		if err != nil {
			return fmt.Errorf("%w: directory of filters: %w", ErrCorrupt, err)
		}
		e, _ := keyscheme.DecodeDirectoryKey(key.Rest)
		fs.generation = max(fs.generation, e.Generation)
		if e.Dropped {
			fs.cutter.dropped = append(fs.cutter.dropped, droppedFilter{string(e.Name), e.Slice, e.Generation})
		} else if e.Slice == 0 {
			fs.byName[string(e.Name)] = newFilter(fs, e.Name, e.Generation)
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	return fs.replay()
}

// find returns a filter that is listed, or nil. It allocates nothing.
func (fs *filters) find(name []byte) *Filter {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	return fs.byName[string(name)]
}

// all returns the filters that are listed, in no order.
func (fs *filters) all() []*Filter {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	list := make([]*Filter, 0, len(fs.byName))
	for _, f := range fs.byName {
		list = append(list, f)
	}
	return list
}

// stats fills in what concerns filters.
func (fs *filters) stats(st *Stats) {
	for _, f := range fs.all() {
		st.Filters++
		if f.slice.Load() != nil {
			st.FiltersOpen++
		}
	}
	st.BytesFilters = uint64(max(0, fs.resident.Load()+fs.pinned.Load()))
	st.FilterPagesRead, st.FilterPagesOut, st.FilterPagesStored = fs.faults.Load(), fs.evicted.Load(), fs.written.Load()
}

// Filter returns a filter, open or closed; its error is ErrNoFilter. A Filter stays good until the filter is dropped or cleared, and
// then says ErrNoFilter too.
func (s *Store) Filter(name []byte) (*Filter, error) {
	if f := s.filters.find(name); f != nil {
		return f, nil
	}
	return nil, ErrNoFilter
}

// CreateFilter makes a filter, and opens it. For a name that is there it returns that filter, unchanged, and ErrFilterExists. Where a
// filter was cleared it comes back with all that it had, its old options too. Errors are ErrLimit for the name and bloomslice.ErrOptions
// for options that no filter can have. When it returns, the filter is on disk; after an error it is not there, but after ErrFailed it may
// be there at the next open, whole.
func (s *Store) CreateFilter(ctx context.Context, name []byte, o FilterOptions) (*Filter, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	if keyscheme.CheckFilterName(name) != nil {
		return nil, &LimitError{"bytes of a filter's name", len(name), keyscheme.FilterNameBytesMax}
	}
	o.setDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Durability > FilterSync {
		return nil, fmt.Errorf("%w: no durability %d of filters", ErrRequest, o.Durability)
	}
	fs := &s.filters
	if f := fs.listed(name); f != nil {
		return f, ErrFilterExists
	}
	s.passes.RLock() // a sweep does not copy what comes to be between the sets of its span
	defer s.passes.RUnlock()
	fs.life.Lock()
	defer fs.life.Unlock()
	if f := fs.listed(name); f != nil {
		return f, ErrFilterExists
	}
	if err := errors.Join(ctx.Err(), s.writable(), s.disk.room()); err != nil {
		return nil, err
	}
	f, err := fs.create(name, o)
	if err != nil {
		return nil, fmt.Errorf("engine: create filter %q: %w", name, diskError(err))
	}
	fs.mu.Lock()
	fs.byName[string(name)] = f
	fs.mu.Unlock()
	return f, nil
}

// listed returns a filter that is listed, and on disk: of one that was in a range when a crash ended its drop, the directory may tell still.
func (fs *filters) listed(name []byte) *Filter {
	if f := fs.find(name); f != nil && !errors.Is(f.loadHead(), ErrNoFilter) {
		return f
	}
	return nil
}

func (o *FilterOptions) setDefaults() {
	d := bloomslice.DefaultOptions()
	setDefault(&o.Capacity, d.Capacity)
	setDefault(&o.Probability, d.Probability)
	setDefault(&o.Scale, d.Scale)
	setDefault(&o.Reduction, d.Reduction)
}

// create opens the filter that was cleared, or makes a new one.
func (fs *filters) create(name []byte, o FilterOptions) (*Filter, error) {
	entries, err := fs.entries(keyscheme.DirectoryOf(name, 0))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		f := newFilter(fs, name, e.Generation)
		f.logged.Store(fs.log.end()) // what it had before it was cleared may not be on disk yet
		if err := f.comeBack(); !errors.Is(err, ErrNoFilter) {
			return f, err
		}
	}
	return fs.make(name, o, entries)
}

// entries returns what a part of the directory says.
func (fs *filters) entries(b keyscheme.Bounds) (entries []keyscheme.DirectoryEntry, err error) {
	it, err := fs.s.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return nil, err
	}
	defer closing(it, &err)
	for ok := it.First(); ok; ok = it.Next() {
		key, err := keyscheme.Decode(it.Key())
		if err != nil {
			return nil, fmt.Errorf("%w: directory of filters: %w", ErrCorrupt, err)
		}
		e, _ := keyscheme.DecodeDirectoryKey(key.Rest)
		e.Name = bytes.Clone(e.Name)
		entries = append(entries, e)
	}
	return entries, it.Error()
}

// make writes a new filter down and opens it. Entries of the directory that nothing stands behind go.
func (fs *filters) make(name []byte, o FilterOptions, stale []keyscheme.DirectoryEntry) (*Filter, error) {
	s := fs.s
	generation := max(fs.generation+1, uint64(s.opt.Now().UnixMicro()))
	f := newFilter(fs, name, generation)
	opt := keyscheme.FilterOptions{Options: o.Options, Generation: generation, InMemory: o.InMemory, Durability: o.Durability}
	slice, err := f.newSlice(&opt, nil)
	if err != nil {
		return nil, err
	}
	batch := s.db.NewBatch()
	for _, e := range stale {
		err = errors.Join(err, batch.SingleDelete(keyscheme.AppendDirectoryKey(nil, e), nil))
	}
	err = errors.Join(err,
		batch.Set(f.prefix.AppendHead(nil, generation), keyscheme.AppendFilterHead(nil, opt), nil),
		batch.Set(f.entry(), nil, nil),
		batch.Set(keyGeneration, binary.BigEndian.AppendUint64(nil, generation), nil),
		f.storeLayers(batch, slice.Layers()))
	if err := fs.commit(batch, err); err != nil {
		slice.Release()
		return nil, err
	}
	fs.generation = generation
	f.opt.Store(&opt)
	f.slice.Store(slice)
	return f, nil
}

// commit commits a batch and waits until it is on disk; err is what went wrong while it was made.
func (fs *filters) commit(batch *pebble.Batch, err error) error {
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	wait, err := fs.s.commit(batch, true)
	if err != nil {
		return err
	}
	return wait()
}

// DropFilter takes a filter away, for good: when it returns that is on disk, and a filter of the same name starts empty. Its pages go
// later. Its error is ErrNoFilter.
func (s *Store) DropFilter(ctx context.Context, name []byte) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	fs := &s.filters
	fs.life.Lock()
	defer fs.life.Unlock()
	f := fs.listed(name)
	if f == nil {
		return ErrNoFilter
	}
	if err := errors.Join(ctx.Err(), s.writable()); err != nil {
		return err
	}
	if err := fs.drop(f); err != nil {
		return fmt.Errorf("engine: drop filter %q: %w", name, diskError(err))
	}
	return nil
}

func (fs *filters) drop(f *Filter) error {
	f.flushing.Lock() // nothing of it is on its way to disk
	defer f.flushing.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	gone := droppedFilter{string(f.name), 0, f.generation}
	batch := fs.s.db.NewBatch()
	err := errors.Join(batch.SingleDelete(f.entry(), nil), batch.Set(gone.entry(), nil, nil))
	if err := fs.commit(batch, err); err != nil {
		return err
	}
	fs.forget(f)
	fs.cutter.add(gone)
	return nil
}

// forget takes a filter off the list. Its lock is held.
func (fs *filters) forget(f *Filter) {
	f.gone.Store(true)
	if slice := f.slice.Load(); slice != nil {
		f.slice.Store(nil)
		slice.Release()
	}
	fs.mu.Lock()
	if fs.byName[string(f.name)] == f {
		delete(fs.byName, string(f.name))
	}
	fs.mu.Unlock()
}

// cutRange runs what cuts a range out, while nobody makes, marks or stores filters that lie in it, and forgets those. What a crash leaves
// of them are entries of the directory without a filter.
func (fs *filters) cutRange(b keyscheme.Bounds, cut func() error) error {
	fs.life.Lock()
	defer fs.life.Unlock()
	within := func(p keyscheme.FilterPrefix) bool {
		return comparator.Compare(p, b.Lower) >= 0 && comparator.Compare(p, b.Upper) < 0
	}
	batch := fs.s.db.NewBatch()
	entries, err := fs.entries(keyscheme.Directory())
	for _, e := range entries { // also those of filters that were cleared
		if !e.Dropped && within(keyscheme.NewFilterPrefix(e.Name, e.Slice)) {
			err = errors.Join(err, batch.SingleDelete(keyscheme.AppendDirectoryKey(nil, e), nil))
		}
	}
	var in []*Filter
	for _, f := range fs.all() {
		if within(f.prefix) {
			f.flushing.Lock()
			defer f.flushing.Unlock()
			f.mu.Lock()
			defer f.mu.Unlock()
			f.gone.Store(true) // who finds no page asks
			in = append(in, f)
		}
	}
	if err == nil {
		err = cut()
	}
	if err != nil {
		for _, f := range in {
			f.gone.Store(false)
		}
		return errors.Join(err, batch.Close())
	}
	for _, f := range in {
		fs.forget(f)
	}
	if batch.Empty() {
		return batch.Close()
	}
	return fs.commit(batch, nil)
}

// ClearFilter forgets a closed filter, until it is created again or the store is opened again: all that it has stays on disk. Its errors
// are ErrNoFilter and ErrFilterOpen.
func (s *Store) ClearFilter(name []byte) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	fs := &s.filters
	fs.life.Lock()
	defer fs.life.Unlock()
	f := fs.find(name)
	if f == nil {
		return ErrNoFilter
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.slice.Load() != nil {
		return ErrFilterOpen
	}
	fs.forget(f)
	return nil
}

// Filters lists the filters whose names begin with the prefix, by name. It brings none of them into memory.
func (s *Store) Filters(prefix []byte) ([]FilterInfo, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	var infos []FilterInfo
	for _, f := range s.filters.all() {
		if !bytes.HasPrefix(f.name, prefix) {
			continue
		}
		info, err := f.info()
		if errors.Is(err, ErrNoFilter) {
			continue // it went meanwhile
		}
		if err != nil && !errors.Is(err, ErrCorrupt) {
			return nil, err
		}
		infos = append(infos, info) // a damaged one is listed, so that it can be dropped
	}
	sortInfos(infos)
	return infos, nil
}
