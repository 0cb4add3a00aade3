package filters

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
	"bigset/engine/internal/marklog"
	"bigset/keyscheme"
)

// Filters are the bloom filters of a store, open and closed. All methods may be called by any number of goroutines. After the store
// was closed they return bigset.ErrClosed.
type Filters struct {
	db       *lsm.DB
	opt      Options
	damages  *lsm.Damages
	passes   ReadLocker // see Sets
	swapping ReadLocker // see Sets

	life lockorder.Mutex[lockorder.FiltersLife] // held while a filter is made, dropped or cleared

	mu          lockorder.RWMutex[lockorder.FiltersMu]
	byName      map[string]*Filter
	generations map[uint64]*Filter                  // those of byName
	cleared     map[string]int64                    // bytes of the layers of filters that were cleared, by name
	dropped     map[string]keyscheme.DirectoryEntry // of names: no replica may bring back their generations up to the one of the entry

	made, madeDurable atomic.Uint64 // batches of slices that were made for replicas, and how many of them are on disk

	owesFlush atomic.Bool // the open found no room for the marks of the log: they are in memory, and its segments stay

	owed bool // the open found marks in the log that could not be applied: its segments stay until the next open

	generation uint64                     // the last that was given; guarded by life
	stray      []keyscheme.DirectoryEntry // of slices for which the open has found nothing else; guarded by life
	resident   bloomslice.Memory          // of slices whose pages may leave memory
	pinned     bloomslice.Memory          // of filters that are only in memory
	ring       ring                       // the open slices, for trim
	bytes      atomic.Int64               // of the layers of all known filters, including those that were cleared
	trimming   lockorder.Mutex[lockorder.FiltersTrimming]
	exciser    exciser
	log        marklog.Log

	faults, evicted, written atomic.Uint64 // pages read, taken out of memory, stored
	ingested                 atomic.Uint64 // bytes of tables that were written for them
}

// open reads which filters exist; their heads are read when they are needed.
func (fs *Filters) open() (err error) {
	fs.byName, fs.generations = map[string]*Filter{}, map[uint64]*Filter{}
	fs.dropped, fs.cleared = map[string]keyscheme.DirectoryEntry{}, map[string]int64{}
	fs.exciser.fs = fs
	fs.log.Init(fs.db, fs.opt.segmentBytes, fs.shortenLog)
	if fs.generation, err = fs.lastGeneration(); err != nil {
		return err
	}
	var last *Filter // entries come by name
	if err := fs.eachEntry(keyscheme.Directory(), func(e present) { last = fs.found(last, e) }); err != nil {
		return err
	}
	if err := fs.replay(); err != nil {
		return err
	}
	fs.countAll()
	return nil
}

// found applies an entry of the directory, and returns the filter that it belongs to, if any. last is the filter of the entry
// before.
func (fs *Filters) found(last *Filter, e present) *Filter {
	fs.generation = max(fs.generation, e.Generation)
	switch e.Kind {
	case keyscheme.EntryDropped:
		e.Name = bytes.Clone(e.Name)
		fs.dropped[string(e.Name)] = e.DirectoryEntry
	case keyscheme.EntryLeft:
		fs.exciser.dropped = append(fs.exciser.dropped, droppedSlice{string(e.Name), e.Slice, e.Generation})
	case keyscheme.EntryPresent:
		f := last
		if f == nil || !bytes.Equal(f.name, e.Name) {
			f = nil
		}
		if f == nil || f.generation < e.Generation {
			if f != nil {
				fs.strayOf(f)
			}
			f = newFilter(fs, e.Name, e.Generation, e.slices)
			fs.enlist(f)
		}
		switch {
		case f.generation != e.Generation || int(e.Slice) >= len(f.slices):
			e.Name = f.name
			fs.stray = append(fs.stray, e.DirectoryEntry)
		case e.bad != nil:
			f.add(e.Slice).damagedBy(e.bad)
		default:
			f.slices[e.Slice].Store(&idleSlice)
		}
		return f
	}
	return last
}

// strayOf records the entries of a filter that is superseded by a later generation while the directory is read: a crash has left
// them.
func (fs *Filters) strayOf(f *Filter) {
	for _, part := range f.parts() {
		fs.stray = append(fs.stray, part.directoryEntry(keyscheme.EntryPresent))
	}
}

// enlist lists a filter, and replaces a listed filter of the same name.
func (fs *Filters) enlist(f *Filter) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if other := fs.byName[string(f.name)]; other != nil {
		fs.unlistLocked(other)
	}
	fs.byName[string(f.name)], fs.generations[f.generation] = f, f
}

// unlistLocked removes a filter from the list. The lock is held.
func (fs *Filters) unlistLocked(f *Filter) {
	delete(fs.byName, string(f.name))
	if fs.generations[f.generation] == f {
		delete(fs.generations, f.generation)
	}
}

// find returns a filter that is listed, or nil. It allocates nothing.
func (fs *Filters) find(name []byte) *Filter {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	return fs.byName[string(name)]
}

// list returns the filters that are listed, in no order.
func (fs *Filters) list() []*Filter {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	list := make([]*Filter, 0, len(fs.byName))
	for _, f := range fs.byName {
		list = append(list, f)
	}
	return list
}

// awake returns the slices of all listed filters, in no order, except those that are idle.
func (fs *Filters) awake() (all []*filterSlice) {
	for _, f := range fs.list() {
		all = append(all, f.awake()...)
	}
	return all
}

// Get returns a filter, open or closed; its error is bigset.ErrNoFilter. A Filter stays valid until the filter is dropped or
// cleared; after that its methods return bigset.ErrNoFilter.
func (fs *Filters) Get(name []byte) (*Filter, error) {
	if f := fs.find(name); f != nil {
		return f, nil
	}
	return nil, bigset.ErrNoFilter
}

// Create makes a filter, and opens it. For a name that exists it returns the existing filter, unchanged, and
// bigset.ErrFilterExists. A filter that was cleared comes back with everything that it had, including its old options. Errors are
// bigset.ErrLimit for the name, bloomslice.ErrOptions for options that no filter can have, and this package's ErrLimit for a filter
// that is too large, or one too many. When Create returns, the filter is on disk. After an error it does not exist; after
// bigset.ErrFailed it may exist at the next open, whole.
func (fs *Filters) Create(ctx context.Context, name []byte, o bigset.FilterOptions) (*Filter, error) {
	if err := fs.db.Enter(); err != nil {
		return nil, err
	}
	defer fs.db.Leave()
	if err := bigset.CheckFilterName(name); err != nil {
		return nil, err
	}
	if f := fs.listed(name); f != nil {
		return f, bigset.ErrFilterExists
	}
	fs.passes.RLock() // a sweep does not copy what is created between the sets of its span
	defer fs.passes.RUnlock()
	fs.life.Lock()
	defer fs.life.Unlock()
	if f := fs.listed(name); f != nil {
		return f, bigset.ErrFilterExists
	}
	if err := errors.Join(ctx.Err(), fs.db.Writable(), fs.db.Room()); err != nil {
		return nil, err
	}
	f, err := fs.create(name, o)
	if err != nil {
		return nil, fmt.Errorf("engine: create filter %q: %w", name, lsm.DiskError(err))
	}
	fs.enlist(f)
	fs.trim()
	return f, nil
}

// listed returns a filter that is listed, and on disk. If a crash ended the drop of its range, the directory may still list a
// filter that is not.
func (fs *Filters) listed(name []byte) *Filter {
	if f := fs.find(name); f != nil && f.onDisk() {
		return f
	}
	return nil
}

// onDisk reports whether any slice of the filter has a head, readable or not.
func (f *Filter) onDisk() bool {
	for i := range f.slices {
		if part := f.at(uint32(i)); part != nil && !errors.Is(part.loadHead(), bigset.ErrNoFilter) {
			return true
		}
	}
	return false
}

// setDefaults fills in fields that are 0.
func setDefaults(o *bigset.FilterOptions) {
	d := bloomslice.DefaultOptions()
	o.Capacity = cmp.Or(o.Capacity, d.Capacity)
	o.Probability = cmp.Or(o.Probability, d.Probability)
	o.Scale = cmp.Or(o.Scale, d.Scale)
	o.Reduction = cmp.Or(o.Reduction, d.Reduction)
	o.Slices = cmp.Or(o.Slices, d.Slices)
	o.Owners = cmp.Or(o.Owners, d.Owners)
}

// LastGeneration returns the largest generation that the store knows: of filters that it has, or had, or had to drop. A cluster
// gives the next filter one above those of all members, see bigset.NextGeneration.
func (fs *Filters) LastGeneration() uint64 {
	fs.life.Lock()
	defer fs.life.Unlock()
	return fs.generation
}

// nextGeneration returns a generation that no filter has had. The lock life is held.
func (fs *Filters) nextGeneration() uint64 {
	return bigset.NextGeneration(fs.generation, fs.opt.Now())
}

// create opens the filter that was cleared, or makes a new one.
func (fs *Filters) create(name []byte, o bigset.FilterOptions) (*Filter, error) {
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
	setDefaults(&o)
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

// make stores a new filter and opens it. It removes entries of the directory for which no slice exists.
func (fs *Filters) make(name []byte, o bigset.FilterOptions, stale []present) (*Filter, error) {
	f := newFilter(fs, name, fs.nextGeneration(), o.Slices)
	opt := &keyscheme.FilterOptions{Options: o.Options, Generation: f.generation, InMemory: o.InMemory, Durability: o.Durability}
	batch := fs.db.NewBatch()
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
		fs.ring.add(part) // not before its head is on disk: a trim may store its pages
	}
	return f, nil
}

// begin opens a new slice.
func (f *filterSlice) begin(opt *keyscheme.FilterOptions, slice *bloomslice.Slice) {
	f.opt.Store(opt)
	f.slice.Store(slice)
	f.used.Store(usedLately)
	f.count(slice.Layers())
	slice.Bound(f.mayGrow)
}

// storeNew adds a new slice to a batch.
func (f *filterSlice) storeNew(batch *pebble.Batch, opt *keyscheme.FilterOptions, layers []bloomslice.Layer) error {
	return errors.Join(
		batch.Set(f.prefix().AppendHead(nil, f.of.generation), keyscheme.AppendFilterHead(nil, *opt), nil),
		batch.Set(f.entry(), keyscheme.AppendPresentValue(nil, opt.Slices), nil),
		f.storeLayers(batch, layers))
}

// release frees what the filter has in memory.
func (f *Filter) release() {
	for _, part := range f.awake() {
		part.count(nil)
		if slice := part.slice.Swap(nil); slice != nil {
			slice.Release()
		}
	}
}

// commit commits a batch and waits until it is on disk; err is an error from making the batch.
func (fs *Filters) commit(batch *pebble.Batch, err error) error {
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	wait, err := fs.db.Commit(batch, true)
	if err != nil {
		return err
	}
	return wait()
}

// List lists the filters whose names begin with the prefix, by name. It loads none of them into memory.
func (fs *Filters) List(prefix []byte) ([]Info, error) {
	if err := fs.db.Enter(); err != nil {
		return nil, err
	}
	defer fs.db.Leave()
	var infos []Info
	for _, f := range fs.list() {
		if !bytes.HasPrefix(f.name, prefix) {
			continue
		}
		info, err := f.info()
		if errors.Is(err, bigset.ErrNoFilter) {
			continue // it was removed since
		}
		if err != nil && !errors.Is(err, bigset.ErrCorrupt) {
			return nil, err
		}
		infos = append(infos, info) // a damaged filter is listed, so that it can be dropped
	}
	sortInfos(infos)
	return infos, nil
}
