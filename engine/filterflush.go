package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset/bloomslice"
	"bigset/keyscheme"
)

// pagesBatched is how many pages of a filter are written in one batch, beside which marks wait.
const pagesBatched = 256

// FlushFilters makes all that was marked so far durable, in all filters. It goes on behind a filter that it can't flush, and returns the
// errors of all of them.
func (s *Store) FlushFilters(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return s.filters.flush(ctx)
}

// flush flushes all filters. What the log of marks said before is then in pages, and goes.
func (fs *filters) flush(ctx context.Context) error {
	ended, err := fs.log.rotate()
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range fs.all() {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if err := f.flush(); err != nil && !errors.Is(err, ErrNoFilter) {
			errs = append(errs, fmt.Errorf("engine: flush filter %q: %w", f.name, diskError(err)))
		}
	}
	if err := errors.Join(append(errs, fs.s.syncLog())...); err != nil {
		return err
	}
	return diskError(fs.log.remove(ended))
}

// Flush makes all that was marked so far durable. Of a closed filter that is done.
func (f *Filter) Flush(ctx context.Context) error {
	s := f.fs.s
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := errors.Join(ctx.Err(), s.writable()); err != nil {
		return err
	}
	if f.gone.Load() {
		return ErrNoFilter
	}
	if err := errors.Join(f.flush(), s.syncLog()); err != nil {
		return fmt.Errorf("engine: flush filter %q: %w", f.name, diskError(err))
	}
	return nil
}

// flush writes what is dirty. It does not sync.
func (f *Filter) flush() error {
	f.flushing.Lock()
	defer f.flushing.Unlock()
	return f.flushLocked()
}

// flushLocked writes what is dirty, while flushing is held.
func (f *Filter) flushLocked() error {
	f.mu.Lock()
	slice := f.slice.Load()
	if slice == nil || f.gone.Load() || f.opt.Load().InMemory {
		f.mu.Unlock()
		return nil
	}
	taking, generation := slice.Take(), f.opt.Load().Generation
	f.mu.Unlock()
	for {
		f.mu.Lock()
		dirty := taking.Next(pagesBatched)
		f.mu.Unlock()
		if dirty.Empty() {
			return nil
		}
		if err := f.store(dirty, generation); err != nil {
			f.mu.Lock()
			slice.PutBack(dirty)
			f.mu.Unlock()
			return err
		}
	}
}

// store writes pages and counts in one batch.
func (f *Filter) store(dirty bloomslice.Dirty, generation uint64) error {
	batch := f.fs.s.db.NewBatch()
	err := f.storeLayers(batch, generation, dirty.Layers)
	var key []byte
	for i := range dirty.Pages {
		p := &dirty.Pages[i]
		key = f.prefix.AppendPage(key[:0], generation, p.ID, p.Page)
		if p.Whole {
			err = errors.Join(err, batch.Set(key, p.Value, nil))
		} else {
			err = errors.Join(err, batch.Merge(key, p.Value, nil))
		}
	}
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	_, err = f.fs.s.commit(batch, false)
	return err
}

func (f *Filter) storeLayers(batch *pebble.Batch, generation uint64, layers []bloomslice.Layer) (err error) {
	for _, l := range layers {
		key := f.prefix.AppendLayer(nil, generation, l.ID)
		err = errors.Join(err, batch.Merge(key, keyscheme.AppendFilterLayer(nil, l), nil))
	}
	return err
}

// Close flushes the filter and takes its bits out of memory; the next check or mark opens it again. It reports whether there was
// anything to do: a closed filter is left alone, and so is one that is in memory only.
func (f *Filter) Close(ctx context.Context) (closed bool, err error) {
	s := f.fs.s
	if err := s.enter(); err != nil {
		return false, err
	}
	defer s.leave()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if f.gone.Load() {
		return false, ErrNoFilter
	}
	closed, err = f.close()
	if err == nil && closed {
		err = s.syncLog()
	}
	if err != nil {
		return false, fmt.Errorf("engine: close filter %q: %w", f.name, diskError(err))
	}
	return closed, nil
}

func (f *Filter) close() (bool, error) {
	f.flushing.Lock()
	defer f.flushing.Unlock()
	for {
		if err := f.flushLocked(); err != nil {
			return false, err
		}
		f.mu.Lock()
		slice := f.slice.Load()
		switch {
		case slice == nil || f.gone.Load() || f.opt.Load().InMemory:
			f.mu.Unlock()
			return false, nil
		case slice.DirtyPages() > 0: // somebody was faster
			f.mu.Unlock()
			continue
		}
		f.layers = slice.Layers()
		f.slice.Store(nil)
		f.pageOuts.Add(1)
		f.mu.Unlock()
		slice.Release()
		return true, nil
	}
}

// CloseColdFilters closes the filters that were not used since it was last called, but for those in memory only. It returns how many.
func (s *Store) CloseColdFilters(ctx context.Context) (n int, err error) {
	for _, f := range s.filters.all() {
		if f.touched.Swap(false) || f.slice.Load() == nil {
			continue
		}
		closed, e := f.Close(ctx)
		if e != nil && !errors.Is(e, ErrNoFilter) {
			err = errors.Join(err, e)
		}
		if closed {
			n++
		}
	}
	return n, err
}

// trim takes pages out of memory when there are more than there may be: first those of the filters that were used least lately. Who finds
// another at it goes on, unless there are far too many. What can't be flushed stays: then the store has failed, and says so.
func (fs *filters) trim() {
	most := fs.s.opt.FilterCacheBytes
	have := fs.resident.Load()
	if have <= most {
		return
	}
	if have > most+most/4 {
		fs.trimming.Lock()
	} else if !fs.trimming.TryLock() {
		return
	}
	defer fs.trimming.Unlock()
	fs.uses.Add(1)
	filters := slices.DeleteFunc(fs.all(), func(f *Filter) bool { return f.slice.Load() == nil })
	slices.SortFunc(filters, func(a, b *Filter) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	for _, f := range filters {
		want := fs.resident.Load() - most + most/8
		if want <= most/8 {
			return
		}
		if err := f.evict(want); err != nil {
			fs.s.opt.Logger.Error("bigset: a filter's pages could not be written, they stay in memory", "filter", string(f.name), "cause", err)
			return
		}
	}
}

// evict takes pages of an open filter out of memory, and writes them first where that is needed.
func (f *Filter) evict(want int64) error {
	f.flushing.Lock()
	defer f.flushing.Unlock()
	for try := range 2 {
		f.mu.Lock()
		slice := f.slice.Load()
		if slice == nil || f.gone.Load() || f.opt.Load().InMemory {
			f.mu.Unlock()
			return nil
		}
		want -= slice.Evict(want)
		f.mu.Unlock()
		if want <= 0 || try > 0 {
			return nil
		}
		if err := f.flushLocked(); err != nil {
			return err
		}
	}
	return nil
}

// shut flushes all filters and ends what goes on in the background. Nobody else uses them any more.
func (fs *filters) shut() error {
	fs.cutter.stop()
	fs.log.work.Wait()
	var err error
	if fs.s.failed.Load() == nil {
		err = fs.flush(context.Background())
	}
	return errors.Join(err, fs.log.close())
}
