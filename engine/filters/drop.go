package filters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/comparator"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// Drop removes a filter for good: when it returns, that is on disk, and a filter of the same name starts empty. Its pages are
// removed later. Its error is bigset.ErrNoFilter. A filter that replicas share must be dropped with DropGeneration, or it comes
// back from them.
func (fs *Filters) Drop(ctx context.Context, name []byte) error {
	if err := fs.db.Enter(); err != nil {
		return err
	}
	defer fs.db.Leave()
	for {
		fs.life.Lock()
		f := fs.listed(name)
		busy := f.flushed()
		if busy == nil {
			defer fs.life.Unlock()
			return fs.dropListed(ctx, name, f)
		}
		fs.life.Unlock() // so that other filters can be made or dropped
		busy.awaitFlush()
	}
}

// awaitFlush returns when no pages of the slice are being stored.
func (f *filterSlice) awaitFlush() {
	f.flushing.Lock()
	defer f.flushing.Unlock()
}

// flushed returns a slice whose pages are being stored, or nil.
func (f *Filter) flushed() *filterSlice {
	if f == nil {
		return nil
	}
	for _, part := range f.awake() {
		if !part.flushing.TryLock() {
			return part
		}
		part.flushing.Unlock()
	}
	return nil
}

func (fs *Filters) dropListed(ctx context.Context, name []byte, f *Filter) error {
	if f == nil {
		return bigset.ErrNoFilter
	}
	if err := errors.Join(ctx.Err(), fs.db.Writable()); err != nil {
		return err
	}
	if err := fs.drop(f, fs.db.NewBatch()); err != nil {
		return fmt.Errorf("engine: drop filter %q: %w", name, lsm.DiskError(err))
	}
	return nil
}

// drop adds the removal of a filter to a batch, and commits the batch.
func (fs *Filters) drop(f *Filter, batch *pebble.Batch) error {
	parts := f.parts()
	unlock := lockParts(parts) // nothing of it is being written
	defer unlock()
	var err error
	for _, part := range parts {
		err = errors.Join(err, batch.SingleDelete(part.entry(), nil), batch.Set(part.directoryKey(keyscheme.EntryLeft), nil, nil))
	}
	if err := fs.commit(batch, err); err != nil {
		return err
	}
	for _, part := range parts {
		fs.forget(part)
		fs.exciser.add(droppedSlice{string(f.name), uint32(part.index), f.generation})
	}
	return nil
}

// lockParts prevents storing pages of slices, and marking in them. The lock life is held, so only one goroutine at a time locks
// several.
func lockParts(parts []*filterSlice) (unlock func()) {
	for _, part := range parts {
		part.flushing.Lock()
	}
	for _, part := range parts {
		part.mu.Lock()
	}
	return func() {
		for _, part := range parts {
			part.mu.Unlock()
			part.flushing.Unlock()
		}
	}
}

// goes records that a slice is about to be removed, from disk or from memory.
func (f *filterSlice) goes() {
	f.of.stamp.Add(1)
	f.gone.Store(true)
}

// forget removes a slice from its filter, and the filter from the list if that was its last slice. The slice's lock is held.
func (fs *Filters) forget(part *filterSlice) {
	part.goes()
	part.count(nil)
	part.dropSums()
	if slice := part.slice.Swap(nil); slice != nil {
		fs.ring.remove(part)
		slice.Release()
	}
	f := part.of
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.slices[part.index].CompareAndSwap(part, nil)
	if f.isEmpty() && fs.byName[string(f.name)] == f {
		fs.unlistLocked(f)
	}
}

// exciseRange implements Owner.ExciseRange.
func (fs *Filters) exciseRange(b keyscheme.Bounds, excise func() error) error {
	fs.life.Lock()
	defer fs.life.Unlock()
	var prefix []byte
	within := func(name []byte, slice uint32) bool {
		prefix = keyscheme.AppendFilterPrefix(prefix[:0], name, slice)
		return comparator.Compare(prefix, b.Lower) >= 0 && comparator.Compare(prefix, b.Upper) < 0
	}
	in := fs.slicesIn(within)
	batch := fs.db.NewBatch()
	entries, whole, err := fs.unlistedIn(within)
	for _, part := range in {
		entries = append(entries, part.directoryEntry(keyscheme.EntryPresent))
	}
	for _, e := range entries {
		err = errors.Join(err, batch.SingleDelete(keyscheme.AppendDirectoryKey(nil, e), nil))
	}
	unlock := lockParts(in)
	defer unlock()
	for _, part := range in {
		part.goes() // a reader that finds no page checks this
	}
	if err == nil {
		err = excise()
	}
	if err != nil {
		for _, part := range in {
			part.gone.Store(false)
		}
		return errors.Join(err, batch.Close())
	}
	for _, part := range in {
		fs.forget(part)
	}
	for _, name := range whole {
		fs.uncleared([]byte(name))
	}
	fs.stray = slices.DeleteFunc(fs.stray, func(e keyscheme.DirectoryEntry) bool { return within(e.Name, e.Slice) })
	if batch.Empty() {
		return batch.Close()
	}
	return fs.commit(batch, nil)
}

// slicesIn returns the slices of listed filters for which within returns true. It does not wake others.
func (fs *Filters) slicesIn(within func(name []byte, slice uint32) bool) (in []*filterSlice) {
	for _, f := range fs.list() {
		for i := range f.slices {
			if f.slices[i].Load() != nil && within(f.name, uint32(i)) {
				if part := f.at(uint32(i)); part != nil {
					in = append(in, part)
				}
			}
		}
	}
	return in
}

// unlistedIn returns the entries of the directory for which within returns true and that belong to no listed filter: those of
// filters that were cleared, and those that crashes have left. whole are the names of filters that were cleared and have no other
// entries.
func (fs *Filters) unlistedIn(within func(name []byte, slice uint32) bool) (in []keyscheme.DirectoryEntry, whole []string, err error) {
	fs.mu.RLock()
	names := slices.Collect(maps.Keys(fs.cleared))
	fs.mu.RUnlock()
	for _, name := range names {
		entries, err := fs.entries(keyscheme.DirectoryOf(keyscheme.EntryPresent, []byte(name)))
		if err != nil {
			return nil, nil, err
		}
		some := len(in)
		for _, e := range entries {
			if within(e.Name, e.Slice) {
				in = append(in, e.DirectoryEntry)
			}
		}
		if len(in)-some == len(entries) {
			whole = append(whole, name)
		}
	}
	for _, e := range fs.stray {
		if within(e.Name, e.Slice) && !slices.Contains(names, string(e.Name)) { // otherwise it was read above
			in = append(in, e)
		}
	}
	return in, whole, nil
}

// Clear forgets a closed filter until it is created again or the store is opened again: everything that it has stays on disk. Its
// errors are bigset.ErrNoFilter and bigset.ErrFilterOpen.
func (fs *Filters) Clear(name []byte) error {
	if err := fs.db.Enter(); err != nil {
		return err
	}
	defer fs.db.Leave()
	fs.life.Lock()
	defer fs.life.Unlock()
	f := fs.find(name)
	if f == nil {
		return bigset.ErrNoFilter
	}
	parts := f.parts()
	if slices.ContainsFunc(parts, (*filterSlice).isOpen) { // without waiting for a goroutine that flushes it
		return bigset.ErrFilterOpen
	}
	unlock := lockParts(parts)
	defer unlock()
	for _, part := range parts {
		if part.isOpen() {
			return bigset.ErrFilterOpen
		}
		if err := part.damaged(); err != nil { // or it would come back without what the log of marks has of it
			return err
		}
	}
	bytes := int64(0)
	for _, part := range parts {
		bytes += int64(part.bytes)
		fs.forget(part)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.bytes.Add(bytes) // they are still on disk
	fs.cleared[string(name)] = bytes
	return nil
}
