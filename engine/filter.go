package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"bigset/bloomslice"
	"bigset/keyscheme"
)

// Filter is a bloom filter of a store: open, with its bits in memory as far as they were needed, or closed. All its methods may be
// called by any number of goroutines. Checks take no lock.
type Filter struct {
	fs         *filters
	name       []byte
	prefix     keyscheme.FilterPrefix
	generation uint64

	opt     atomic.Pointer[keyscheme.FilterOptions]
	slice   atomic.Pointer[bloomslice.Slice] // nil while it is closed
	gone    atomic.Bool                      // dropped or cleared
	touched atomic.Bool                      // used since CloseColdFilters last looked
	used    atomic.Uint64                    // when it was used last, by filters.uses

	checks checkCounts // here, to keep what each mark changes out of the cache lines that each check reads

	flushing             sync.Mutex         // before mu: one at a time stores pages, or lets them go
	mu                   sync.Mutex         // one at a time marks, opens or closes
	layers               []bloomslice.Layer // of a closed filter, as they are stored; nil until they are read. Guarded by mu
	logged               atomic.Uint64      // where the log has the last mark of which a bit is set, or later
	markHits, markMisses uint64             // guarded by mu
	pageIns, pageOuts    atomic.Uint64
}

func newFilter(fs *filters, name []byte, generation uint64) *Filter {
	prefix := keyscheme.NewFilterPrefix(name, 0)
	return &Filter{fs: fs, name: prefix[len(prefix)-len(name):], prefix: prefix, generation: generation}
}

// entry returns the filter's key in the directory.
func (f *Filter) entry() []byte {
	return keyscheme.AppendDirectoryKey(nil, keyscheme.DirectoryEntry{Name: f.name, Generation: f.generation})
}

// FilterInfo is what a store tells of a filter. Counts of what was asked are of this process.
type FilterInfo struct {
	Name       []byte
	Options    FilterOptions
	Generation uint64
	bloomslice.Figures
	Open                   bool   // its bits are in memory, as far as they were needed
	CheckHits, CheckMisses uint64 // keys that were found, or not
	MarkHits, MarkMisses   uint64 // keys that were added, or were there
	PageIns, PageOuts      uint64 // how often it was opened with what it had, and closed
	Damaged                bool   // what is stored of it can't be read; only its name is known
}

// Name returns the filter's name, which must not be changed.
func (f *Filter) Name() []byte { return f.name }

// Check reports whether a key is in the filter: false is certain, true is not. It opens a closed filter. Its errors are ErrNoFilter,
// ErrClosed, ErrCorrupt, and those of the disk; nothing is then known of the key.
func (f *Filter) Check(key []byte) (bool, error) {
	keys, present := [1][]byte{key}, [1]bool{}
	err := f.CheckAll(keys[:], present[:])
	return present[0], err
}

// CheckAll does what Check does for many keys, into present, which is as long as keys.
func (f *Filter) CheckAll(keys [][]byte, present []bool) error {
	n, err := f.CheckNow(keys, present)
	if err != nil || n == len(keys) {
		return err
	}
	keys, present = keys[n:], present[n:]
	if err := f.read(keys, present); err != nil {
		return err
	}
	return f.checked(present[:len(keys)])
}

// CheckNow does what CheckAll does for as many keys, from the first on, as have their pages in memory, and returns how many. It waits for
// nothing.
func (f *Filter) CheckNow(keys [][]byte, present []bool) (n int, err error) {
	if f.fs.s.closed.Load() {
		return 0, ErrClosed
	}
	n = f.look(keys, present)
	return n, f.checked(present[:n])
}

// checked counts keys that were checked. Its error is ErrNoFilter where the filter went meanwhile, and its bits with it.
func (f *Filter) checked(present []bool) error {
	if f.gone.Load() {
		return ErrNoFilter
	}
	var hits uint64
	for _, p := range present {
		if p {
			hits++
		}
	}
	f.checks.add(hits, uint64(len(present))-hits)
	return nil
}

// look checks keys until it needs a page that is not in memory, and returns how many that were. It asks nothing of the store, which may be
// closing meanwhile.
func (f *Filter) look(keys [][]byte, present []bool) int {
	slice := f.slice.Load()
	if slice == nil {
		return 0
	}
	f.use()
	for i, key := range keys {
		h := bloomslice.Sum(key)
		has, known := slice.Look(&h)
		if !known {
			return i
		}
		present[i] = has
	}
	return len(keys)
}

// read checks keys whose pages may have to be read.
func (f *Filter) read(keys [][]byte, present []bool) error {
	s := f.fs.s
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	slice, err := f.opened()
	if err != nil {
		return err
	}
	for i, key := range keys {
		h := bloomslice.Sum(key)
		if present[i], err = slice.Check(&h); err != nil {
			return f.readError(err)
		}
		if i%marksLocked == marksLocked-1 {
			f.fs.trim()
		}
	}
	f.fs.trim()
	return nil
}

// Mark adds a key. It reports false when the key is there already, or seems to be, and then changes nothing; that is answered when what it
// found is as durable as if this call had added it. Errors are those of Check; after one the key may be there or not.
func (f *Filter) Mark(ctx context.Context, key []byte) (added bool, err error) {
	keys, news := [1][]byte{key}, [1]bool{}
	err = f.MarkAll(ctx, keys[:], news[:])
	return news[0], err
}

// marksLocked is how many keys are marked before others get at the filter.
const marksLocked = 64

// MarkAll does what Mark does for many keys, in their order, into added, which is as long as keys. It waits for all of them once.
func (f *Filter) MarkAll(ctx context.Context, keys [][]byte, added []bool) error {
	s := f.fs.s
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := errors.Join(ctx.Err(), s.writable()); err != nil {
		return err
	}
	if s.disk.full.Load() != nil {
		if err := s.disk.room(); err != nil {
			return err
		}
	}
	if len(keys) == 0 {
		return nil
	}
	for from := 0; from < len(keys); from += marksLocked {
		to := min(from+marksLocked, len(keys))
		if err := f.markSome(keys[from:to], added[from:to]); err != nil {
			return f.readError(err)
		}
		f.fs.trim()
	}
	return f.waitLogged()
}

// markSome marks so many keys as are marked before others get at the filter.
func (f *Filter) markSome(keys [][]byte, added []bool) error {
	if len(keys) == 1 { // without the room for many
		h := [1]bloomslice.Hash{bloomslice.Sum(keys[0])}
		return f.markHashes(h[:], added)
	}
	return f.markMany(keys, added)
}

func (f *Filter) markMany(keys [][]byte, added []bool) error {
	var hashes [marksLocked]bloomslice.Hash
	for i, key := range keys {
		hashes[i] = bloomslice.Sum(key)
	}
	return f.markHashes(hashes[:len(keys)], added)
}

func (f *Filter) markHashes(hashes []bloomslice.Hash, added []bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	slice, err := f.openLocked()
	if err != nil {
		return err
	}
	opt := f.opt.Load()
	logs := f.durability(opt) != FilterInterval
	for i := range hashes {
		var to bloomslice.Layer
		if to, added[i], err = slice.Admit(&hashes[i], ""); err != nil {
			return err
		}
		if !added[i] {
			f.markMisses++
			continue
		}
		if logs {
			position, err := f.fs.log.append(opt.Generation, &to, &hashes[i])
			if err != nil {
				return err
			}
			f.logged.Store(position) // before the bits: who finds them waits for it
		}
		slice.Commit()
		f.markHits++
	}
	return nil
}

// durability returns when marks of the filter are answered.
func (f *Filter) durability(opt *keyscheme.FilterOptions) FilterDurability {
	switch {
	case opt.InMemory:
		return FilterInterval
	case opt.Durability == FilterServer:
		return f.fs.s.opt.FilterDurability
	}
	return opt.Durability
}

// waitLogged returns when all bits that are set in the filter are as durable as its marks are to be: those of the caller's keys, and
// those that it found.
func (f *Filter) waitLogged() error {
	opt := f.opt.Load()
	if d := f.durability(opt); d != FilterInterval {
		return f.fs.log.wait(f.logged.Load(), d)
	}
	return nil
}

// opened returns the slice of an open filter, and opens a closed one.
func (f *Filter) opened() (*bloomslice.Slice, error) {
	f.use()
	if slice := f.slice.Load(); slice != nil {
		return slice, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.openLocked()
}

// use notes that the filter is in use.
func (f *Filter) use() {
	if !f.touched.Load() {
		f.touched.Store(true)
	}
	if now := f.fs.uses.Load(); f.used.Load() != now { // the clock ticks where memory is short: this costs nothing else
		f.used.Store(now)
	}
}

func (f *Filter) openLocked() (*bloomslice.Slice, error) {
	f.use()
	if slice := f.slice.Load(); slice != nil {
		return slice, nil
	}
	if f.gone.Load() {
		return nil, ErrNoFilter
	}
	layers, err := f.storedLayers()
	if err != nil {
		return nil, err
	}
	opt := f.opt.Load()
	if len(layers) == 0 {
		return nil, fmt.Errorf("%w: filter %q has no layers", ErrCorrupt, f.name)
	}
	slice, err := f.newSlice(opt, layers)
	if err != nil {
		return nil, fmt.Errorf("%w: filter %q: %w", ErrCorrupt, f.name, err)
	}
	if !opt.InMemory {
		f.pageIns.Add(1)
	}
	f.slice.Store(slice)
	f.layers = nil
	return slice, nil
}

// newSlice returns a slice with layers that are stored. That of a filter in memory only begins anew, with one layer, as any new one does.
func (f *Filter) newSlice(opt *keyscheme.FilterOptions, layers []bloomslice.Layer) (slice *bloomslice.Slice, err error) {
	if opt.InMemory {
		slice, err = bloomslice.New(opt.Options, nil, nil, &f.fs.pinned)
	} else {
		slice, err = bloomslice.New(opt.Options, layers, pageSource{f}, &f.fs.resident)
	}
	if err != nil {
		return nil, err
	}
	return slice, slice.AddLayer("")
}

// comeBack opens a filter that was cleared. Its error is ErrNoFilter where there is none.
func (f *Filter) comeBack() error {
	if err := f.loadHead(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.openLocked()
	return err
}

// loadHead reads the filter's options, if it has not been done. Its errors are ErrNoFilter and ErrCorrupt.
func (f *Filter) loadHead() error {
	if f.opt.Load() != nil {
		return nil
	}
	value, closer, err := f.fs.s.db.Get(f.prefix.AppendHead(nil, f.generation))
	if errors.Is(err, pebble.ErrNotFound) {
		return ErrNoFilter
	}
	if err != nil {
		return diskError(err)
	}
	opt, err := keyscheme.DecodeFilterHead(value)
	if err == nil && opt.Generation != f.generation {
		err = fmt.Errorf("a head of generation %d, in generation %d", opt.Generation, f.generation)
	}
	if err := errors.Join(err, closer.Close()); err != nil {
		return fmt.Errorf("%w: filter %q: %w", ErrCorrupt, f.name, err)
	}
	f.opt.Store(&opt)
	return nil
}

// storedLayers returns the layers of a closed filter. The lock is held.
func (f *Filter) storedLayers() (layers []bloomslice.Layer, err error) {
	if f.layers != nil {
		return f.layers, nil
	}
	if err := f.loadHead(); err != nil {
		return nil, err
	}
	b := f.prefix.Layers(f.generation)
	it, err := f.fs.s.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return nil, err
	}
	defer func() { err = diskError(err) }()
	defer closing(it, &err)
	layers = []bloomslice.Layer{}
	for ok := it.First(); ok; ok = it.Next() {
		l, err := f.decodeLayer(it)
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	f.layers = layers
	return layers, nil
}

func (f *Filter) decodeLayer(it *pebble.Iterator) (l bloomslice.Layer, err error) {
	key, err := keyscheme.Decode(it.Key())
	if err != nil {
		return l, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	fk, ok := keyscheme.DecodeFilterKey(key.Rest)
	if !ok {
		return l, fmt.Errorf("%w: key of a layer of filter %q", ErrCorrupt, f.name)
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return l, err
	}
	if l, err = keyscheme.DecodeFilterLayer(value); err != nil {
		return l, fmt.Errorf("%w: layer %d of filter %q: %w", ErrCorrupt, fk.Layer.Index, f.name, err)
	}
	l.ID = fk.Layer
	return l, nil
}

// pageSource reads the pages of a filter.
type pageSource struct{ f *Filter }

// Page implements bloomslice.Source.
func (p pageSource) Page(id bloomslice.LayerID, page uint32) ([]byte, error) {
	buf := keyBuffers.Get().(*[]byte)
	defer keyBuffers.Put(buf)
	*buf = p.f.prefix.AppendPage((*buf)[:0], p.f.generation, id, page)
	value, closer, err := p.f.fs.s.db.Get(*buf)
	switch {
	case err == nil:
		value = bytes.Clone(value)
		err = closer.Close()
	case errors.Is(err, pebble.ErrNotFound):
		value, err = nil, nil
	}
	if p.f.gone.Load() { // its pages may have been on their way out
		return nil, ErrNoFilter
	}
	p.f.fs.faults.Add(1)
	return value, err
}

// readError names the filter, and calls damage by its name.
func (f *Filter) readError(err error) error {
	switch {
	case errors.Is(err, ErrNoFilter), errors.Is(err, ErrFailed), errors.Is(err, ErrClosed):
		return err
	case errors.Is(err, bloomslice.ErrCorruptPage):
		return fmt.Errorf("%w: filter %q: %w", ErrCorrupt, f.name, err)
	}
	return fmt.Errorf("engine: filter %q: %w", f.name, diskError(err))
}

// Info returns what is known of the filter. It does not open it. Its error is ErrNoFilter, or that of a disk that can't be read.
func (f *Filter) Info() (FilterInfo, error) {
	if err := f.fs.s.enter(); err != nil {
		return FilterInfo{}, err
	}
	defer f.fs.s.leave()
	return f.info()
}

// info returns what is known, also with ErrCorrupt.
func (f *Filter) info() (FilterInfo, error) {
	info := FilterInfo{Name: f.name, PageIns: f.pageIns.Load(), PageOuts: f.pageOuts.Load()}
	info.CheckHits, info.CheckMisses = f.checks.sums()
	f.mu.Lock()
	defer f.mu.Unlock()
	info.MarkHits, info.MarkMisses = f.markHits, f.markMisses
	if f.gone.Load() {
		return info, ErrNoFilter
	}
	var layers []bloomslice.Layer
	if slice := f.slice.Load(); slice != nil {
		layers, info.Open = slice.Layers(), true
	} else {
		var err error
		if layers, err = f.storedLayers(); err != nil {
			info.Damaged = errors.Is(err, ErrCorrupt)
			return info, err
		}
	}
	opt := f.opt.Load()
	info.Options = FilterOptions{opt.Options, opt.InMemory, opt.Durability}
	info.Generation, info.Figures = opt.Generation, bloomslice.Sums(layers)
	return info, nil
}

func sortInfos(infos []FilterInfo) {
	slices.SortFunc(infos, func(a, b FilterInfo) int { return bytes.Compare(a.Name, b.Name) })
}
