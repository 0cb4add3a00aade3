package filters

import (
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lsm"
	"bigset/engine/internal/marklog"
	"bigset/keyscheme"
)

// replay brings what the log of marks has into the filters, flushes them, and takes the log away: it is a crash that has left it. Marks of
// generations that are not there any more are left out. To do it twice, or over pages that were flushed, changes nothing.
func (fs *Filters) replay() error {
	found, err := fs.log.Find()
	if err != nil || found == 0 {
		return err
	}
	filters, err := fs.byGeneration()
	if err != nil {
		return err
	}
	err = fs.log.Replay(func(_ int, records []byte) error {
		defer fs.trim()
		return fs.replayChunk(records, filters)
	})
	if err != nil {
		return err
	}
	if fs.owed {
		if err := fs.log.Keep(); err != nil {
			return err
		}
	}
	if err = fs.storeReplayed(); errors.Is(lsm.DiskError(err), bigset.ErrDiskFull) {
		fs.owesFlush.Store(true)
		return nil
	}
	return err
}

// storeReplayed flushes what was brought in, and takes it out of memory, as it is after any other open.
func (fs *Filters) storeReplayed() error {
	if err := fs.db.Held(); err != nil {
		return err
	}
	for _, part := range fs.all() {
		if _, err := part.close(); err != nil {
			return fmt.Errorf("filter %q: %w", part.name, err)
		}
		part.pageIns.Store(0)
		part.pageOuts.Store(0)
	}
	return fs.flush(context.Background())
}

// byGeneration returns the filters that are there by their generations.
func (fs *Filters) byGeneration() (map[uint64]*Filter, error) {
	filters := map[uint64]*Filter{}
	for _, f := range fs.list() {
		for _, part := range f.parts() {
			switch err := part.loadHead(); {
			case err == nil:
				filters[f.generation] = f
			case errors.Is(err, bigset.ErrCorrupt):
				filters[f.generation] = f
				part.damage(err)
			case !errors.Is(err, bigset.ErrNoFilter):
				return nil, err
			}
		}
	}
	return filters, nil
}

func (fs *Filters) replayChunk(records []byte, filters map[uint64]*Filter) (err error) {
	for len(records) > 0 {
		var r marklog.Record
		if r, records, err = marklog.DecodeRecord(records); err != nil {
			return err
		}
		f := filters[r.Generation]
		if f == nil {
			continue
		}
		part, err := f.part(&r.Hash)
		if opt := part.options(); err != nil || opt == nil || opt.InMemory {
			continue
		}
		if err := part.replay(&r); err != nil {
			if err = part.readError(err); !errors.Is(err, bigset.ErrCorrupt) {
				return err
			}
			part.damage(err)
		}
	}
	return nil
}

// replay sets the bits that a record tells of.
func (f *filterSlice) replay(r *marklog.Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	slice, err := f.openLocked()
	if err != nil {
		return err
	}
	f.changes++
	if err := slice.Set(r.To, &r.Hash); errors.Is(err, bloomslice.ErrOptions) {
		return fmt.Errorf("%w: %w", bigset.ErrCorrupt, err)
	} else {
		return err
	}
}

// options returns what the slice was made with, as far as it was read.
func (f *filterSlice) options() *keyscheme.FilterOptions {
	if f == nil {
		return nil
	}
	return f.opt.Load()
}

// whole returns why filters would deny keys, if what they were asked for were not an error.
func (fs *Filters) whole() error {
	if !fs.owed {
		return nil
	}
	var err error
	for _, part := range fs.all() {
		part.mu.Lock()
		err = errors.Join(err, part.damaged)
		part.mu.Unlock()
	}
	return err
}

// damage has all that is asked of the slice fail, until it is dropped: it would deny keys that only the log of marks has. The log stays
// until then.
func (f *filterSlice) damage(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.damaged == nil {
		f.damaged = fmt.Errorf("%w; what the log of marks has of it could not be brought in: drop the filter, or bring it back from a copy", err)
		f.met(f.damaged)
	}
	f.fs.owed = true
	if slice := f.slice.Swap(nil); slice != nil { // what was brought in before is in the log, too
		f.fs.ring.remove(f)
		slice.Release()
	}
}
