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
	life sync.Mutex // one at a time makes, drops or clears a filter

	mu     sync.RWMutex
	byName map[string]*Filter

	generation uint64 // the last that was given; guarded by life
	resident   atomic.Int64
	uses       atomic.Uint64 // a clock that ticks when a filter is used: which of them was used last
	trimming   sync.Mutex
	cutter     filterCutter
	log        filterLog
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
		if e.Dropped {
			fs.cutter.dropped = append(fs.cutter.dropped, droppedFilter{string(e.Name), e.Slice, e.Gone})
			fs.generation = max(fs.generation, e.Gone)
		} else if e.Slice == 0 {
			fs.byName[string(e.Name)] = newFilter(fs, e.Name)
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
// for options that no filter can have. When it returns, the filter is on disk; after an error it is not there.
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
	fs.life.Lock()
	defer fs.life.Unlock()
	if f := fs.find(name); f != nil {
		return f, ErrFilterExists
	}
	if err := errors.Join(ctx.Err(), s.writable()); err != nil {
		return nil, err
	}
	f := newFilter(fs, name)
	f.logged.Store(fs.log.end()) // what it had before it was cleared may not be on disk yet
	err := f.comeBack()
	if errors.Is(err, ErrNoFilter) {
		err = fs.make(f, o)
	}
	if err != nil {
		return nil, fmt.Errorf("engine: create filter %q: %w", name, diskError(err))
	}
	fs.mu.Lock()
	fs.byName[string(name)] = f
	fs.mu.Unlock()
	return f, nil
}

func (o *FilterOptions) setDefaults() {
	d := bloomslice.DefaultOptions()
	setDefault(&o.Capacity, d.Capacity)
	setDefault(&o.Probability, d.Probability)
	setDefault(&o.Scale, d.Scale)
	setDefault(&o.Reduction, d.Reduction)
}

// make writes a new filter down and opens it.
func (fs *filters) make(f *Filter, o FilterOptions) error {
	s := fs.s
	generation := max(fs.generation+1, uint64(s.opt.now().UnixMicro()))
	opt := keyscheme.FilterOptions{Options: o.Options, Generation: generation, InMemory: o.InMemory, Durability: o.Durability}
	slice, err := bloomslice.New(opt.Options, nil, f.source(generation), &fs.resident)
	if err != nil {
		return err
	}
	if err := slice.AddLayer(""); err != nil {
		return err
	}
	batch := s.db.NewBatch()
	err = errors.Join(
		batch.Set(f.prefix.AppendHead(nil), keyscheme.AppendFilterHead(nil, opt), nil),
		batch.Set(keyscheme.AppendDirectoryKey(nil, keyscheme.DirectoryEntry{Name: f.name}), nil, nil),
		batch.Set(keyGeneration, binary.BigEndian.AppendUint64(nil, generation), nil),
		f.storeLayers(batch, generation, slice.Layers()))
	if err := fs.commit(batch, err); err != nil {
		return err
	}
	fs.generation = generation
	f.opt.Store(&opt)
	f.slice.Store(slice)
	return nil
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
	f := fs.find(name)
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
	if err := f.loadHead(); err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	f.flushing.Lock() // nothing of it is on its way to disk
	defer f.flushing.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	gone := droppedFilter{string(f.name), 0, anyGeneration}
	if opt := f.opt.Load(); opt != nil {
		gone.generation = opt.Generation
	}
	batch := fs.s.db.NewBatch()
	err := errors.Join(
		batch.Delete(f.prefix.AppendHead(nil), nil),
		batch.Delete(keyscheme.AppendDirectoryKey(nil, keyscheme.DirectoryEntry{Name: f.name}), nil),
		batch.Set(gone.key(), nil, nil))
	if err := fs.commit(batch, err); err != nil {
		return err
	}
	fs.forget(f)
	if gone.generation == anyGeneration { // before another filter of the name can come
		return fs.cut(gone)
	}
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
	delete(fs.byName, string(f.name))
	fs.mu.Unlock()
}

// forgetRange forgets the filters of a range that was cut out: their heads are gone, which after a crash is enough.
func (fs *filters) forgetRange(b keyscheme.Bounds) error {
	batch := fs.s.db.NewBatch()
	var err error
	for _, f := range fs.all() {
		if comparator.Compare(f.prefix, b.Lower) >= 0 && comparator.Compare(f.prefix, b.Upper) < 0 {
			f.mu.Lock()
			fs.forget(f)
			f.mu.Unlock()
			err = errors.Join(err, batch.Delete(keyscheme.AppendDirectoryKey(nil, keyscheme.DirectoryEntry{Name: f.name}), nil))
		}
	}
	if err != nil || batch.Empty() {
		return errors.Join(err, batch.Close())
	}
	_, err = fs.s.commit(batch, false)
	return err
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

// anyGeneration stands for the generations of a filter whose head can't be read: all that it may have had goes.
const anyGeneration = 0
