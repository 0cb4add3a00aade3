package filters

import (
	"errors"
	"fmt"
	"sync/atomic"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// filterSlice is one slice of a filter: open, with its bits in memory as far as they were needed, or closed. Its methods may be
// called by any number of goroutines. Checks take no lock.
//
// A store may have very many slices that were used once, so a slice takes only 96 bytes, and what a closed one rarely has is kept
// separately.
type filterSlice struct {
	of *Filter

	slice atomic.Pointer[bloomslice.Slice]        // nil while it is closed
	opt   atomic.Pointer[keyscheme.FilterOptions] // shared by the slices of a filter; nil until the head was read
	used  atomic.Uint32                           // bits that record its recent use: usedSinceCold and so on
	gone  atomic.Bool                             // dropped or cleared
	place int32                                   // in filters.ring, from 1; 0 is none. Guarded by the ring's lock
	index uint16                                  // below bloomslice.SlicesMax
	flags sliceFlags                              // guarded by mu

	flushing lockorder.Mutex[lockorder.SliceFlushing] // held while pages are stored or released
	mu       lockorder.Mutex[lockorder.SliceMu]       // held while marking, opening or closing

	bytes  uint64        // of its layers, as counted in filters.bytes. Guarded by mu
	logged atomic.Uint64 // the log position of the last mark whose bits are set, or later
	rest   *sliceRest    // guarded by mu
	sum    [16]byte      // with flagDigested: the digest. Guarded by mu
}

// sliceRest is what few slices have.
type sliceRest struct {
	layers  []bloomslice.Layer // of a closed slice, as they are stored; nil until they are read
	damaged error              // why marks of the log could not be applied
	sums    pageSums           // of an open slice that was compared
}

// sliceFlags are bits of the state of a slice.
type sliceFlags uint8

const (
	flagMerged    sliceFlags = 1 << iota // pages of another replica were joined, which the log does not contain
	flagDigested                         // sum is the digest of what it has
	flagDigesting                        // a goroutine is computing the digest
	flagQuiet                            // with flagDigesting: nothing has changed since that goroutine began
	flagSumming                          // a goroutine collects the hashes of its pages
	flagStored                           // with flagSumming: a page was stored since that goroutine began
)

func newFilterSlice(of *Filter, index uint32) *filterSlice {
	return &filterSlice{of: of, index: uint16(index)}
}

// prefix returns the prefix of the keys of the slice.
func (f *filterSlice) prefix() keyscheme.FilterPrefix {
	return keyscheme.NewFilterPrefix(f.of.name, uint32(f.index))
}

// changed records that bits or counts change. It is called before bits are set, and the lock is held until they are. So a goroutine that
// sees a bit sees the new stamp, and a digest that begins under the new stamp contains the bit.
func (f *filterSlice) changed() {
	f.of.stamp.Add(1)
	f.flags &^= flagDigested | flagQuiet
}

// damaged returns why requests on the slice fail, or nil. The lock is held.
func (f *filterSlice) damaged() error {
	if f.rest == nil {
		return nil
	}
	return f.rest.damaged
}

// damagedBy makes all requests on the slice fail. The lock is held, or no other goroutine knows the slice.
func (f *filterSlice) damagedBy(err error) {
	f.dropSums()
	f.rest = &sliceRest{damaged: err}
}

// remember keeps the layers of a closed slice, as they are stored. The lock is held.
func (f *filterSlice) remember(layers []bloomslice.Layer) {
	damaged := f.damaged()
	f.dropSums()
	f.rest = &sliceRest{layers: layers, damaged: damaged}
}

// entry returns the slice's entry in the directory.
func (f *filterSlice) entry() []byte { return f.directoryKey(keyscheme.EntryPresent) }

func (f *filterSlice) directoryKey(kind keyscheme.EntryKind) []byte {
	return keyscheme.AppendDirectoryKey(nil, f.directoryEntry(kind))
}

func (f *filterSlice) directoryEntry(kind keyscheme.EntryKind) keyscheme.DirectoryEntry {
	return keyscheme.DirectoryEntry{Kind: kind, Name: f.of.name, Slice: uint32(f.index), Generation: f.of.generation}
}

func (f *filterSlice) isOpen() bool { return f.slice.Load() != nil }

// checkHashes checks keys by their hashes, and counts them.
func (f *filterSlice) checkHashes(hashes []bloomslice.Hash, present []bool) error {
	hits, err := f.present(hashes, present)
	if err == nil {
		f.of.counted().checks.add(hits, uint64(len(hashes))-hits)
	}
	return err
}

// present checks keys by their hashes, and returns how many are in the slice.
func (f *filterSlice) present(hashes []bloomslice.Hash, present []bool) (hits uint64, err error) {
	if n := f.look(hashes, present); n < len(hashes) {
		if err := f.read(hashes[n:], present[n:]); err != nil {
			return 0, err
		}
	}
	return f.hits(present[:len(hashes)])
}

// checked counts keys that were looked at. Its error is that of hits.
func (f *filterSlice) checked(present []bool) error {
	hits, err := f.hits(present)
	if err == nil {
		f.of.counted().checks.add(hits, uint64(len(present))-hits)
	}
	return err
}

// hits returns how many of the keys that were looked at are in the slice. Its error is bigset.ErrNoFilter if the filter, and its
// bits with it, have been removed since.
func (f *filterSlice) hits(present []bool) (hits uint64, err error) {
	if f.gone.Load() {
		return 0, bigset.ErrNoFilter
	}
	for _, p := range present {
		if p {
			hits++
		}
	}
	return hits, nil
}

// look checks keys until it needs a page that is not in memory, and returns how many it has checked. It does not use the store,
// which may be closing.
func (f *filterSlice) look(hashes []bloomslice.Hash, present []bool) int {
	slice := f.slice.Load()
	if slice == nil {
		return 0
	}
	f.use()
	for i := range hashes {
		has, known := slice.Look(&hashes[i])
		if !known {
			return i
		}
		present[i] = has
	}
	return len(hashes)
}

// read checks keys whose pages may have to be read.
func (f *filterSlice) read(hashes []bloomslice.Hash, present []bool) error {
	fs := f.of.fs
	if err := fs.db.Enter(); err != nil {
		return err
	}
	defer fs.db.Leave()
	slice, err := f.opened()
	if err != nil {
		return f.readError(err)
	}
	for i := range hashes {
		if present[i], err = slice.Check(&hashes[i]); err != nil {
			return f.readError(err)
		}
	}
	f.of.fs.trim()
	return nil
}

// markHashes marks keys by their hashes, in layers of an owner. If report is not nil, it is called for each key with the layer that
// has its bits.
func (f *filterSlice) markHashes(hashes []bloomslice.Hash, owner string, added []bool, report func(i int, in bloomslice.Layer)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	slice, err := f.openLocked()
	if err != nil {
		return err
	}
	opt := f.opt.Load()
	logs := f.durability(opt) != bigset.FilterInterval
	var hits, misses uint64
	defer func() { f.of.counted().marks.add(hits, misses) }()
	for i := range hashes {
		var to bloomslice.Layer
		if to, added[i], err = slice.Admit(&hashes[i], owner); err != nil {
			f.changed() // a layer may have been added
			return err
		}
		if report != nil {
			report(i, to)
		}
		if logs && (added[i] || f.flags&flagMerged != 0) {
			if err := f.log(&to, &hashes[i]); err != nil {
				return err
			}
		}
		if !added[i] {
			misses++
			continue
		}
		if err := f.mayMark(opt, slice); err != nil {
			return err
		}
		f.changed()
		slice.Commit()
		hits++
	}
	return nil
}

// log appends a mark to the log of marks before its bits are set, so that a goroutine that finds the bits can wait for it.
func (f *filterSlice) log(to *bloomslice.Layer, h *bloomslice.Hash) error {
	position, err := f.of.fs.log.Append(f.of.generation, to, h)
	if err != nil {
		return err
	}
	f.logged.Store(position)
	return nil
}

// durability returns the durability that marks of the filter have when they are answered.
func (f *filterSlice) durability(opt *keyscheme.FilterOptions) bigset.FilterDurability {
	switch {
	case opt.InMemory:
		return bigset.FilterInterval
	case opt.Durability == bigset.FilterServer:
		return f.of.fs.opt.Durability
	}
	return opt.Durability
}

// promise returns the kind of promise that an acknowledged mark of the filter makes and that a crash may break. Filters that are
// only in memory promise nothing.
func (f *filterSlice) promise(opt *keyscheme.FilterOptions) lsm.Promise {
	switch d := f.durability(opt); {
	case opt.InMemory || d == bigset.FilterSync:
		return 0
	case d == bigset.FilterInterval:
		return lsm.PromiseFiltersMemory
	}
	return lsm.PromiseFiltersLog
}

// waitLogged returns when everything up to a position of the log is as durable as the filter's marks must be, and when the disk
// records what may nevertheless be lost.
func (f *filterSlice) waitLogged(position uint64) error {
	d, err := f.durabilityNow(), f.of.fs.db.Promise(f.promise(f.opt.Load()))
	if err != nil || d == bigset.FilterInterval {
		return err
	}
	if err := f.of.fs.awaitMade(); err != nil {
		return err
	}
	return f.of.fs.log.Wait(position, d)
}

// opened returns the slice of an open filter, and opens a closed one.
func (f *filterSlice) opened() (*bloomslice.Slice, error) {
	f.use()
	if slice := f.slice.Load(); slice != nil {
		return slice, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.openLocked()
}

// Bits of filterSlice.used.
const (
	usedSinceCold = 1 << iota // since CloseCold last looked
	usedSinceTrim             // since trim last looked
	usedInRing                // since it last left filters.ring
	usedLately    = usedSinceCold | usedSinceTrim | usedInRing
)

// use records that the filter is in use.
func (f *filterSlice) use() {
	if f.used.Load() == usedLately { // otherwise each check would write what all checks read
		return
	}
	if f.used.Swap(usedLately)&usedInRing == 0 {
		f.of.fs.ring.add(f)
	}
}

// wasUsed clears a bit of used, and reports whether it was set.
func (f *filterSlice) wasUsed(bit uint32) bool { return f.used.And(^bit)&bit != 0 }

func (f *filterSlice) openLocked() (*bloomslice.Slice, error) {
	f.use()
	if slice := f.slice.Load(); slice != nil {
		return slice, nil
	}
	if f.gone.Load() {
		return nil, bigset.ErrNoFilter
	}
	if err := f.damaged(); err != nil {
		return nil, err
	}
	layers, err := f.storedLayers()
	if err != nil {
		return nil, err
	}
	opt := f.opt.Load()
	if len(layers) == 0 {
		return nil, fmt.Errorf("%w: filter %q has no layers", bigset.ErrCorrupt, f.of.name)
	}
	if shape, e := opt.Shape(0); opt.InMemory && e == nil {
		if err := f.of.fs.mayPin(shape.TableBytes()); err != nil {
			return nil, err
		}
	}
	slice, err := f.newSlice(opt, layers)
	if err == nil && opt.InMemory {
		err = slice.AddLayer("") // it starts again
	}
	if err != nil {
		return nil, fmt.Errorf("%w: filter %q: %w", bigset.ErrCorrupt, f.of.name, err)
	}
	if !opt.InMemory {
		f.of.counted().pageIns.Add(1)
	}
	f.count(slice.Layers())
	slice.Bound(f.mayGrow)
	f.slice.Store(slice)
	f.of.fs.ring.add(f)
	f.rest = nil
	return slice, nil
}

// newSlice returns a slice with layers that are stored, or without layers for a filter that is only in memory.
func (f *filterSlice) newSlice(opt *keyscheme.FilterOptions, layers []bloomslice.Layer) (*bloomslice.Slice, error) {
	if opt.InMemory {
		return bloomslice.New(opt.Options, nil, nil, &f.of.fs.pinned)
	}
	return bloomslice.New(opt.Options, layers, pageSource{f}, &f.of.fs.resident)
}

// readError adds the filter's name to an error, marks damage as such, and records it.
func (f *filterSlice) readError(err error) error {
	switch {
	case errors.Is(err, bigset.ErrNoFilter), errors.Is(err, bigset.ErrFailed), errors.Is(err, bigset.ErrClosed), errors.Is(err, bigset.ErrCorrupt):
	case errors.Is(err, bloomslice.ErrCorruptPage):
		err = fmt.Errorf("%w: filter %q: %w", bigset.ErrCorrupt, f.of.name, err)
	default:
		err = fmt.Errorf("engine: filter %q: %w", f.of.name, lsm.DiskError(err))
	}
	f.met(err)
	return err
}

// met records damage of the filter, if err is damage.
func (f *filterSlice) met(err error) { f.of.fs.damages.Met(f.of.damaged(), err) }

func (f *Filter) damaged() lsm.Damaged {
	return lsm.Damaged{Name: string(f.name), Generation: f.generation}
}

// addTo adds what is known of the slice, even if its error is bigset.ErrCorrupt.
func (f *filterSlice) addTo(info *Info) error {
	info.SlicesHere++
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone.Load() {
		return bigset.ErrNoFilter
	}
	var layers []bloomslice.Layer
	if slice := f.slice.Load(); slice != nil {
		layers, info.Open = slice.Layers(), true
	} else {
		err := f.damaged()
		if err == nil {
			layers, err = f.storedLayers()
		}
		if err != nil {
			f.met(err)
			return err
		}
	}
	info.addLayers(f.opt.Load(), layers)
	return nil
}

// addLayers adds the figures of a slice with these layers.
func (info *Info) addLayers(opt *keyscheme.FilterOptions, layers []bloomslice.Layer) {
	sums := bloomslice.FiguresOf(layers)
	info.Options = bigset.FilterOptions{Options: opt.Options, InMemory: opt.InMemory, Durability: opt.Durability}
	info.Capacity += sums.Capacity
	info.Size += sums.Size
	info.Storage += sums.Storage
	for i := range layers {
		info.Pages += (layers[i].Shape.Bytes + bloomslice.PageBytes - 1) / bloomslice.PageBytes
	}
}
