package filters

import (
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lsm"
	"bigset/engine/internal/marklog"
)

// replay applies the log of marks that a crash has left to the filters, flushes them, and removes the log. It skips marks of
// generations that no longer exist. Replaying twice, or over pages that were flushed, changes nothing.
func (fs *Filters) replay() error {
	found, err := fs.log.Find()
	if err != nil || found == 0 {
		return err
	}
	err = fs.log.Replay(func(_ int, records []byte) error {
		defer fs.trim()
		return fs.replayChunk(records)
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

// storeReplayed flushes what was applied, and takes it out of memory, so that the state is as after any other open.
func (fs *Filters) storeReplayed() error {
	if err := fs.db.Held(); err != nil {
		return err
	}
	for _, part := range fs.awake() {
		if _, err := part.close(); err != nil {
			return fmt.Errorf("filter %q: %w", part.of.name, err)
		}
	}
	for _, f := range fs.list() {
		f.counts.Store(nil) // the filter was not used yet
	}
	return fs.flush(context.Background())
}

func (fs *Filters) replayChunk(records []byte) (err error) {
	for len(records) > 0 {
		var r marklog.Record
		if r, records, err = marklog.DecodeRecord(records); err != nil {
			return err
		}
		f := fs.generations[r.Generation]
		if f == nil {
			continue
		}
		part, err := f.part(&r.Hash)
		if err != nil {
			continue
		}
		if err = part.loadHead(); err == nil && !part.opt.Load().InMemory {
			err = part.replay(&r)
		}
		if err == nil || errors.Is(err, bigset.ErrNoFilter) {
			continue
		}
		if err = part.readError(err); !errors.Is(err, bigset.ErrCorrupt) {
			return err
		}
		part.damage(err)
	}
	return nil
}

// replay sets the bits of a record.
func (f *filterSlice) replay(r *marklog.Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	slice, err := f.openLocked()
	if err != nil {
		return err
	}
	f.changed()
	if err := slice.Set(r.To, &r.Hash); errors.Is(err, bloomslice.ErrOptions) {
		return fmt.Errorf("%w: %w", bigset.ErrCorrupt, err)
	} else {
		return err
	}
}

// whole returns an error if filters would deny keys, except that requests on them fail.
func (fs *Filters) whole() error {
	if !fs.owed {
		return nil
	}
	var err error
	for _, part := range fs.awake() {
		part.mu.Lock()
		err = errors.Join(err, part.damaged())
		part.mu.Unlock()
	}
	return err
}

// damage makes all requests on the slice fail until it is dropped: it would deny keys that only the log of marks has. The log stays
// until then.
func (f *filterSlice) damage(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.damaged() == nil {
		f.damagedBy(fmt.Errorf("%w; its marks in the log could not be applied: drop the filter, or restore it from a copy", err))
		f.met(f.damaged())
	}
	f.of.fs.owed = true
	if slice := f.slice.Swap(nil); slice != nil { // what was applied before is in the log, too
		f.of.fs.ring.remove(f)
		slice.Release()
	}
}
