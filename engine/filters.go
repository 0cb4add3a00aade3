package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// filters are the bloom filters that a store knows of, open and closed.
type filters struct {
	s    *Store
	life lockorder.Mutex[lockorder.FiltersLife] // one at a time makes, drops or clears a filter

	mu      lockorder.RWMutex[lockorder.FiltersMu]
	byName  map[string]*Filter
	cleared map[string]int64                    // bytes of the layers of filters that were cleared, by name
	dropped map[string]keyscheme.DirectoryEntry // of names that no replica may bring back, up to a generation

	owesFlush atomic.Bool // the open found no room for the marks of the log: they are in memory, and its segments stay

	owed bool // the open found marks in the log that could not be brought in: its segments stay until the next open

	generation uint64            // the last that was given; guarded by life
	resident   bloomslice.Memory // of slices whose pages may leave memory
	pinned     bloomslice.Memory // of filters that are in memory only
	ring       filterRing        // the open slices, for trim
	bytes      atomic.Int64      // of the layers of all filters that are known, and of those that were cleared
	trimming   lockorder.Mutex[lockorder.FiltersTrimming]
	cutter     filterCutter
	log        filterLog

	faults, evicted, written atomic.Uint64 // pages read, taken out of memory, stored
}

// open reads which filters there are; their heads are read when they are needed.
func (fs *filters) open(s *Store) (err error) {
	fs.s, fs.byName, fs.dropped, fs.cleared = s, map[string]*Filter{}, map[string]keyscheme.DirectoryEntry{}, map[string]int64{}
	fs.cutter.fs = fs
	fs.log.init(s)
	if fs.generation, err = fs.lastGeneration(); err != nil {
		return err
	}
	entries, err := fs.entries(keyscheme.Directory())
	if err != nil {
		return err
	}
	for _, e := range entries {
		fs.generation = max(fs.generation, e.Generation)
		switch e.Kind {
		case keyscheme.EntryDropped:
			fs.dropped[string(e.Name)] = e.DirectoryEntry
		case keyscheme.EntryLeft:
			fs.cutter.dropped = append(fs.cutter.dropped, droppedSlice{string(e.Name), e.Slice, e.Generation})
		case keyscheme.EntryPresent:
			f := fs.byName[string(e.Name)]
			if f == nil || f.generation < e.Generation {
				f = newFilter(fs, e.Name, e.Generation, e.slices)
				fs.byName[string(e.Name)] = f
			}
			if f.generation == e.Generation && int(e.Slice) < len(f.slices) {
				f.add(e.Slice).damaged = e.bad
			}
		}
	}
	if err := fs.replay(); err != nil {
		return err
	}
	fs.countAll()
	return nil
}

// find returns a filter that is listed, or nil. It allocates nothing.
func (fs *filters) find(name []byte) *Filter {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	return fs.byName[string(name)]
}

// list returns the filters that are listed, in no order.
func (fs *filters) list() []*Filter {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	list := make([]*Filter, 0, len(fs.byName))
	for _, f := range fs.byName {
		list = append(list, f)
	}
	return list
}

// all returns the slices of all filters that are listed, in no order.
func (fs *filters) all() (all []*filterSlice) {
	for _, f := range fs.list() {
		all = append(all, f.parts()...)
	}
	return all
}

// stats fills in what concerns filters.
func (fs *filters) stats(st *Stats) {
	for _, f := range fs.list() {
		st.Filters++
		if slices.ContainsFunc(f.parts(), (*filterSlice).isOpen) {
			st.FiltersOpen++
		}
	}
	st.BytesFilters = uint64(max(0, fs.resident.Bytes()+fs.pinned.Bytes()))
	st.FilterPagesRead, st.FilterPagesOut, st.FilterPagesStored = fs.faults.Load(), fs.evicted.Load(), fs.written.Load()
}

// Filter returns a filter, open or closed; its error is bigset.ErrNoFilter. A Filter stays good until the filter is dropped or cleared, and
// then says bigset.ErrNoFilter too.
func (s *Store) Filter(name []byte) (*Filter, error) {
	if f := s.filters.find(name); f != nil {
		return f, nil
	}
	return nil, bigset.ErrNoFilter
}

// CreateFilter makes a filter, and opens it. For a name that is there it returns that filter, unchanged, and bigset.ErrFilterExists. Where a
// filter was cleared it comes back with all that it had, its old options too. Errors are bigset.ErrLimit for the name and bloomslice.ErrOptions
// for options that no filter can have, and ErrFilterLimit for a filter that is too large or too many. When it returns, the filter is on disk; after an error it is not there, but after bigset.ErrFailed it may
// be there at the next open, whole.
func (s *Store) CreateFilter(ctx context.Context, name []byte, o bigset.FilterOptions) (*Filter, error) {
	if err := s.db.Enter(); err != nil {
		return nil, err
	}
	defer s.db.Leave()
	if err := bigset.CheckFilterName(name); err != nil {
		return nil, err
	}
	fs := &s.filters
	if f := fs.listed(name); f != nil {
		return f, bigset.ErrFilterExists
	}
	s.passes.RLock() // a sweep does not copy what comes to be between the sets of its span
	defer s.passes.RUnlock()
	fs.life.Lock()
	defer fs.life.Unlock()
	if f := fs.listed(name); f != nil {
		return f, bigset.ErrFilterExists
	}
	if err := errors.Join(ctx.Err(), s.db.Writable(), s.db.Room()); err != nil {
		return nil, err
	}
	f, err := fs.create(name, o)
	if err != nil {
		return nil, fmt.Errorf("engine: create filter %q: %w", name, lsm.DiskError(err))
	}
	fs.mu.Lock()
	fs.byName[string(name)] = f
	fs.mu.Unlock()
	fs.trim()
	return f, nil
}

// listed returns a filter that is listed, and on disk: of one that was in a range when a crash ended its drop, the directory may tell still.
func (fs *filters) listed(name []byte) *Filter {
	if f := fs.find(name); f != nil && f.onDisk() {
		return f
	}
	return nil
}

// onDisk reports whether any slice of the filter has a head, also one that can't be read.
func (f *Filter) onDisk() bool {
	return slices.ContainsFunc(f.parts(), func(part *filterSlice) bool { return !errors.Is(part.loadHead(), bigset.ErrNoFilter) })
}

func setFilterDefaults(o *bigset.FilterOptions) {
	d := bloomslice.DefaultOptions()
	setDefault(&o.Capacity, d.Capacity)
	setDefault(&o.Probability, d.Probability)
	setDefault(&o.Scale, d.Scale)
	setDefault(&o.Reduction, d.Reduction)
	setDefault(&o.Slices, d.Slices)
	setDefault(&o.Owners, d.Owners)
}

// nextGeneration returns a generation that no filter has had. The lock of life is held.
func (fs *filters) nextGeneration() uint64 {
	return max(fs.generation+1, uint64(fs.s.opt.Now().UnixMicro()))
}

// create opens the filter that was cleared, or makes a new one.
func (fs *filters) create(name []byte, o bigset.FilterOptions) (*Filter, error) {
	f, stale, err := fs.unlisted(name)
	if err != nil {
		return nil, err
	}
	if f != nil {
		err := f.comeBack()
		if err == nil {
			fs.uncleared(name)
		}
		return f, err
	}
	setFilterDefaults(&o)
	if err := o.Check(); err != nil {
		return nil, err
	}
	if err := fs.mayCreate(&o); err != nil {
		return nil, err
	}
	return fs.make(name, o, stale)
}

// comeBack opens a filter that was cleared.
func (f *Filter) comeBack() (err error) {
	for _, part := range f.parts() {
		part.mu.Lock()
		_, e := part.openLocked()
		part.mu.Unlock()
		err = errors.Join(err, e)
	}
	return err
}

// make writes a new filter down and opens it. Entries of the directory that nothing stands behind go.
func (fs *filters) make(name []byte, o bigset.FilterOptions, stale []present) (*Filter, error) {
	f := newFilter(fs, name, fs.nextGeneration(), o.Slices)
	opt := &keyscheme.FilterOptions{Options: o.Options, Generation: f.generation, InMemory: o.InMemory, Durability: o.Durability}
	batch := fs.s.db.NewBatch()
	var err error
	for _, e := range stale {
		err = errors.Join(err, batch.SingleDelete(keyscheme.AppendDirectoryKey(nil, e.DirectoryEntry), nil))
	}
	for i := range o.Slices {
		part := f.add(i)
		slice, e := part.newSlice(opt, nil)
		if e == nil {
			e = slice.AddLayer("")
		}
		if err = errors.Join(err, e); err != nil {
			break
		}
		part.begin(opt, slice)
		err = part.storeNew(batch, opt, slice.Layers())
	}
	err = errors.Join(err, batch.Set(keyGeneration, binary.BigEndian.AppendUint64(nil, f.generation), nil))
	if err := fs.commit(batch, err); err != nil {
		f.release()
		return nil, err
	}
	fs.generation = f.generation
	for _, part := range f.parts() {
		fs.ring.add(part) // not before its head is on disk: a trim may store what it has
	}
	return f, nil
}

// begin opens a slice that is new.
func (f *filterSlice) begin(opt *keyscheme.FilterOptions, slice *bloomslice.Slice) {
	f.opt.Store(opt)
	f.slice.Store(slice)
	f.used.Store(usedLately)
	f.count(slice.Layers())
	slice.Bound(f.mayGrow)
}

// storeNew has a batch bring a slice that is new.
func (f *filterSlice) storeNew(batch *pebble.Batch, opt *keyscheme.FilterOptions, layers []bloomslice.Layer) error {
	return errors.Join(
		batch.Set(f.prefix.AppendHead(nil, f.generation), keyscheme.AppendFilterHead(nil, *opt), nil),
		batch.Set(f.entry(), keyscheme.AppendPresentValue(nil, opt.Slices), nil),
		f.storeLayers(batch, layers))
}

// release lets go of what the filter has in memory.
func (f *Filter) release() {
	for _, part := range f.parts() {
		part.count(nil)
		if slice := part.slice.Swap(nil); slice != nil {
			slice.Release()
		}
	}
}

// commit commits a batch and waits until it is on disk; err is what went wrong while it was made.
func (fs *filters) commit(batch *pebble.Batch, err error) error {
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	wait, err := fs.s.db.Commit(batch, true)
	if err != nil {
		return err
	}
	return wait()
}

// Filters lists the filters whose names begin with the prefix, by name. It brings none of them into memory.
func (s *Store) Filters(prefix []byte) ([]FilterInfo, error) {
	if err := s.db.Enter(); err != nil {
		return nil, err
	}
	defer s.db.Leave()
	var infos []FilterInfo
	for _, f := range s.filters.list() {
		if !bytes.HasPrefix(f.name, prefix) {
			continue
		}
		info, err := f.info()
		if errors.Is(err, bigset.ErrNoFilter) {
			continue // it went meanwhile
		}
		if err != nil && !errors.Is(err, bigset.ErrCorrupt) {
			return nil, err
		}
		infos = append(infos, info) // a damaged one is listed, so that it can be dropped
	}
	sortInfos(infos)
	return infos, nil
}
