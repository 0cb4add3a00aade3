package filters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// Filter is a bloom filter of a store: the slices of it that the store has, on a node alone all of them. All its methods may be
// called by any number of goroutines. Checks take no lock.
type Filter struct {
	fs         *Filters
	name       []byte
	generation uint64
	slices     []atomic.Pointer[filterSlice]           // by index; nil if the store does not have it, and idleSlice if it was not used since the open
	guess      uint64                                  // assumed bytes of the layers of an idle slice, see countAll
	options    atomic.Pointer[keyscheme.FilterOptions] // of a slice whose head was read
	hashes     atomic.Uint32                           // see Hashes
	idle       atomic.Pointer[idleSums]
	counts     atomic.Pointer[filterCounts] // nil until it is used
	_          [64]byte                     // marks change what follows, and must not slow down checks, which read what is above
	stamp      atomic.Uint64                // of what it has, see StampNow
}

// idleSlice stands for a slice that the store has on disk only: a store with very many slices can afford only
// 8 bytes for each.
var idleSlice filterSlice

func newFilter(fs *Filters, name []byte, generation uint64, slices uint32) *Filter {
	f := &Filter{fs: fs, name: bytes.Clone(name), generation: generation, slices: make([]atomic.Pointer[filterSlice], max(1, slices))}
	f.stamp.Store(rand.Uint64()) // so that no other process, and no other Filter of this one, has had the same
	return f
}

// add adds a slice that the store has.
func (f *Filter) add(index uint32) *filterSlice {
	part := newFilterSlice(f, index)
	f.slices[index].Store(part)
	return part
}

// at returns a slice, or nil if the store does not have it.
func (f *Filter) at(index uint32) *filterSlice {
	if part := f.slices[index].Load(); part != &idleSlice {
		return part
	}
	return f.wake(index)
}

// wake loads an idle slice into memory.
func (f *Filter) wake(index uint32) *filterSlice {
	part := newFilterSlice(f, index)
	part.bytes = f.guess
	if f.slices[index].CompareAndSwap(&idleSlice, part) {
		return part
	}
	return f.slices[index].Load() // another goroutine was faster
}

// parts returns the slices that the store has, and wakes them.
func (f *Filter) parts() []*filterSlice {
	parts := make([]*filterSlice, 0, len(f.slices))
	for i := range f.slices {
		if part := f.at(uint32(i)); part != nil {
			parts = append(parts, part)
		}
	}
	return parts
}

// awake returns the slices that were used since the open; nothing of the others is in memory.
func (f *Filter) awake() (parts []*filterSlice) {
	for i := range f.slices {
		if part := f.slices[i].Load(); part != nil && part != &idleSlice {
			parts = append(parts, part)
		}
	}
	return parts
}

// SlicesHere returns the slices that the store has, in order: of a filter of a cluster those that the member owns.
func (f *Filter) SlicesHere() (list []uint32) {
	for i := range f.slices {
		if f.slices[i].Load() != nil {
			list = append(list, uint32(i))
		}
	}
	return list
}

// isEmpty reports whether the store has no slice of the filter.
func (f *Filter) isEmpty() bool {
	for i := len(f.slices) - 1; i >= 0; i-- { // the first ones are forgotten first
		if f.slices[i].Load() != nil {
			return false
		}
	}
	return true
}

// part returns the slice that a key belongs to. Its error is bigset.ErrNoFilter if the store does not have the slice.
func (f *Filter) part(h *bloomslice.Hash) (*filterSlice, error) {
	if part := f.at(h.Slice(uint32(len(f.slices)))); part != nil {
		return part, nil
	}
	return nil, bigset.ErrNoFilter
}

// Info is what a store reports of a filter. The counts of checks and marks are those of this process.
type Info struct {
	Name       []byte
	Options    bigset.FilterOptions
	Generation uint64
	bloomslice.Figures
	Open                   bool   // its bits are in memory, as far as they were needed
	CheckHits, CheckMisses uint64 // keys that were found, or not
	MarkHits, MarkMisses   uint64 // keys that were added, or already present
	PageIns, PageOuts      uint64 // how often it was opened with stored content, and closed
	SlicesHere             int    // slices that the store has
	Pages                  uint64 // pages that the bits of its layers take; only those with a bit are stored
	Damaged                bool   // damage was found in what is stored of it, see Damage. If Options are zero, only its name is known
}

// Name returns the filter's name, which must not be changed.
func (f *Filter) Name() []byte { return f.name }

// Check reports whether a key is in the filter: false is certain, true is not. It opens a closed filter. Its errors are
// bigset.ErrNoFilter, also for a key of a slice that the store does not have, bigset.ErrClosed, bigset.ErrCorrupt, and those of the
// disk; then nothing is known of the key.
func (f *Filter) Check(key []byte) (bool, error) {
	keys, present := [1][]byte{key}, [1]bool{}
	err := f.CheckAll(keys[:], present[:])
	return present[0], err
}

// hashedAtOnce is how many keys are hashed before their bits are looked at, and how many are marked before other goroutines get the
// slice.
const hashedAtOnce = 64

// hashing has room for the hashes of many keys.
type hashing [hashedAtOnce]bloomslice.Hash

// of hashes the first of some keys, as many as fit.
func (h *hashing) of(keys [][]byte) []bloomslice.Hash {
	n := min(len(keys), hashedAtOnce)
	for i, key := range keys[:n] {
		h[i] = bloomslice.Sum(key)
	}
	return h[:n]
}

// CheckAll does what Check does for many keys, into present, which is as long as keys.
func (f *Filter) CheckAll(keys [][]byte, present []bool) error {
	if f.fs.db.Closed() {
		return bigset.ErrClosed
	}
	if len(keys) == 1 { // avoids the array for many
		h := [1]bloomslice.Hash{bloomslice.Sum(keys[0])}
		return f.checkHashes(h[:], present)
	}
	return f.checkMany(keys, present)
}

func (f *Filter) checkMany(keys [][]byte, present []bool) error {
	var room hashing
	for len(keys) > 0 {
		hashes := room.of(keys)
		n := len(hashes)
		if err := f.checkHashes(hashes, present[:n]); err != nil {
			return err
		}
		keys, present = keys[n:], present[n:]
	}
	return nil
}

func (f *Filter) checkHashes(hashes []bloomslice.Hash, present []bool) error {
	for i, step := 0, f.step(len(hashes)); i < len(hashes); i += step {
		part, err := f.part(&hashes[i])
		if err != nil {
			return err
		}
		if err := part.checkHashes(hashes[i:i+step], present[i:i+step]); err != nil {
			return err
		}
	}
	return nil
}

// Hashes returns about how many bits a key has in the first layer, or 0 if nothing of the filter was used since the open.
func (f *Filter) Hashes() int {
	if n := f.hashes.Load(); n > 0 {
		return int(n)
	}
	for i := range f.slices {
		part := f.slices[i].Load()
		if part == nil || part == &idleSlice {
			continue
		}
		if opt := part.opt.Load(); opt != nil {
			if shape, err := opt.Shape(0); err == nil {
				f.hashes.Store(shape.K) // another number of owners changes it by a few
				return int(shape.K)
			}
		}
		return 0
	}
	return 0
}

// CheckNow does what CheckAll does for a prefix of keys whose pages are in memory, and returns its length. It never blocks.
func (f *Filter) CheckNow(keys [][]byte, present []bool) (n int, err error) {
	if f.fs.db.Closed() {
		return 0, bigset.ErrClosed
	}
	if len(keys) == 1 {
		h := [1]bloomslice.Hash{bloomslice.Sum(keys[0])}
		return f.lookAll(h[:], present)
	}
	return f.lookMany(keys, present)
}

func (f *Filter) lookMany(keys [][]byte, present []bool) (n int, err error) {
	var room hashing
	for n < len(keys) {
		hashes := room.of(keys[n:])
		known, err := f.lookAll(hashes, present[n:n+len(hashes)])
		if n += known; err != nil || known < len(hashes) {
			return n, err
		}
	}
	return n, nil
}

// lookAll checks keys by their hashes, until it needs a page that is not in memory.
func (f *Filter) lookAll(hashes []bloomslice.Hash, present []bool) (n int, err error) {
	for step := f.step(len(hashes)); n < len(hashes); n += step {
		part, err := f.part(&hashes[n])
		if err != nil {
			return n, err
		}
		known := part.look(hashes[n:n+step], present[n:])
		if err := part.checked(present[n : n+known]); err != nil || known < step {
			return n + known, err
		}
	}
	return n, nil
}

// step returns how many of the given number of keys are certainly in one slice.
func (f *Filter) step(keys int) int {
	if len(f.slices) > 1 {
		return 1
	}
	return keys
}

// Mark adds a key. It reports false, and changes nothing, if the key is already present or seems to be; it then returns only when
// what it found is as durable as if this call had added it. Errors are those of Check; after one, the key may be present or not.
func (f *Filter) Mark(ctx context.Context, key []byte) (added bool, err error) {
	keys, news := [1][]byte{key}, [1]bool{}
	err = f.MarkAll(ctx, keys[:], news[:])
	return news[0], err
}

// MarkAll does what Mark does for many keys, in their order, into added, which is as long as keys. It waits only once for all of
// them.
func (f *Filter) MarkAll(ctx context.Context, keys [][]byte, added []bool) error {
	fs := f.fs
	if err := fs.db.Enter(); err != nil {
		return err
	}
	defer fs.db.Leave()
	if err := f.fs.mayMark(ctx); err != nil {
		return err
	}
	switch len(keys) {
	case 0:
		return nil
	case 1: // without the room for many
		h := [1]bloomslice.Hash{bloomslice.Sum(keys[0])}
		last, position, err := f.markHashes(h[:], added)
		if err != nil {
			return err
		}
		return last.waitLogged(position)
	}
	return f.markMany(keys, added)
}

// mayMark returns why nothing can be marked now.
func (fs *Filters) mayMark(ctx context.Context) error {
	if err := errors.Join(ctx.Err(), fs.db.Writable()); err != nil {
		return err
	}
	if fs.db.Full() {
		return fs.db.Room()
	}
	return nil
}

func (f *Filter) markMany(keys [][]byte, added []bool) error {
	var room hashing
	var last *filterSlice
	position := uint64(0)
	for len(keys) > 0 {
		hashes := room.of(keys)
		n := len(hashes)
		part, at, err := f.markHashes(hashes, added[:n])
		if err != nil {
			return err
		}
		last, position = part, max(position, at)
		keys, added = keys[n:], added[n:]
	}
	return last.waitLogged(position)
}

// markHashes marks keys by their hashes. It returns the position up to which the log has to be durable for them, and for those that
// were found.
func (f *Filter) markHashes(hashes []bloomslice.Hash, added []bool) (part *filterSlice, position uint64, err error) {
	for i, step := 0, f.step(len(hashes)); i < len(hashes); i += step {
		if part, err = f.part(&hashes[i]); err != nil {
			return nil, 0, err
		}
		if err = part.markHashes(hashes[i:i+step], "", added[i:i+step], nil); err != nil {
			return nil, 0, part.readError(err)
		}
		position = max(position, part.logged.Load())
	}
	f.fs.trim()
	return part, position, nil
}

// Info returns what is known of the filter. It does not open it. Its error is bigset.ErrNoFilter, or that of a disk that can't be
// read.
func (f *Filter) Info() (Info, error) {
	if err := f.fs.db.Enter(); err != nil {
		return Info{}, err
	}
	defer f.fs.db.Leave()
	return f.info()
}

// InfoOf is Info with the figures of some slices only. The counts of checks and marks are those of the whole filter.
func (f *Filter) InfoOf(wanted func(slice uint32) bool) (Info, error) {
	if err := f.fs.db.Enter(); err != nil {
		return Info{}, err
	}
	defer f.fs.db.Leave()
	info := Info{Name: f.name, Generation: f.generation}
	f.addCounts(&info)
	var err error
	for i := range f.slices {
		if !wanted(uint32(i)) {
			continue
		}
		part := f.slices[i].Load()
		if part == &idleSlice {
			part = newFilterSlice(f, uint32(i)) // reading only its figures does not wake it
		}
		if part == nil {
			continue
		}
		if e := part.addTo(&info); !errors.Is(e, bigset.ErrNoFilter) {
			err = errors.Join(err, e)
		}
	}
	info.Damaged = f.fs.damages.Has(f.damaged())
	return info, err
}

// addCounts adds the counts of checks and marks.
func (f *Filter) addCounts(info *Info) {
	if c := f.counts.Load(); c != nil {
		info.CheckHits, info.CheckMisses = c.checks.sums()
		info.MarkHits, info.MarkMisses = c.marks.sums()
		info.PageIns, info.PageOuts = c.pageIns.Load(), c.pageOuts.Load()
	}
}

// info returns what is known, even if its error is bigset.ErrCorrupt.
func (f *Filter) info() (Info, error) {
	info := Info{Name: f.name, Generation: f.generation}
	f.addCounts(&info)
	parts, idle := f.awakeAndIdle()
	there, err := f.addIdle(&info, idle)
	for _, part := range parts {
		if e := part.addTo(&info); !errors.Is(e, bigset.ErrNoFilter) {
			there++
			err = errors.Join(err, e)
		}
	}
	if there == 0 {
		return info, bigset.ErrNoFilter
	}
	info.Damaged = f.fs.damages.Has(f.damaged())
	return info, err
}

func sortInfos(infos []Info) {
	slices.SortFunc(infos, func(a, b Info) int { return bytes.Compare(a.Name, b.Name) })
}

// Flush makes all marks so far durable. A closed filter has nothing to flush.
func (f *Filter) Flush(ctx context.Context) error {
	fs := f.fs
	if err := fs.db.Enter(); err != nil {
		return err
	}
	defer fs.db.Leave()
	if err := errors.Join(ctx.Err(), fs.db.Writable()); err != nil {
		return err
	}
	if f.isGone() {
		return bigset.ErrNoFilter
	}
	var err error
	for _, part := range f.awake() {
		err = errors.Join(err, part.flush())
	}
	if err = errors.Join(err, fs.db.SyncLog()); err != nil {
		return fmt.Errorf("engine: flush filter %q: %w", f.name, lsm.DiskError(err))
	}
	return nil
}

// isGone reports whether the store no longer has anything of the filter.
func (f *Filter) isGone() bool {
	for i := range f.slices {
		if part := f.slices[i].Load(); part != nil && !part.gone.Load() {
			return false
		}
	}
	return true
}

// Close flushes the filter and takes its bits out of memory; the next check or mark opens it again. It reports whether it closed
// anything: a closed filter is left alone, and so is one that is only in memory.
func (f *Filter) Close(ctx context.Context) (closed bool, err error) {
	return f.closeParts(ctx, func(*filterSlice) bool { return true })
}

// closeParts closes the slices for which want returns true.
func (f *Filter) closeParts(ctx context.Context, want func(*filterSlice) bool) (closed bool, err error) {
	fs := f.fs
	if err := fs.db.Enter(); err != nil {
		return false, err
	}
	defer fs.db.Leave()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if f.isGone() {
		return false, bigset.ErrNoFilter
	}
	for _, part := range f.awake() {
		if !want(part) {
			continue
		}
		one, e := part.close()
		closed, err = closed || one, errors.Join(err, e)
	}
	if err == nil && closed {
		err = fs.db.SyncLog()
	}
	if err != nil {
		return false, fmt.Errorf("engine: close filter %q: %w", f.name, lsm.DiskError(err))
	}
	return closed, nil
}
