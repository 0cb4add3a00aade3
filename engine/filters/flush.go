package filters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// Up to pagesBatched pages of a filter are stored in one batch, and marks wait while these are collected. From that number on they
// are ingested as a table of at most pagesTabled pages: a table is written once, while a batch is written to the log, then to a
// table, and again by compactions.
const (
	pagesBatched = 256
	pagesTabled  = 4096
)

// Flush makes all marks so far durable, in all filters. If it can't flush a filter, it continues with the others, and returns the
// errors of all of them.
func (fs *Filters) Flush(ctx context.Context) error {
	if err := fs.db.Enter(); err != nil {
		return err
	}
	defer fs.db.Leave()
	return fs.flush(ctx)
}

// flush flushes all filters. What the log of marks had before is then in pages, and is removed from the log.
func (fs *Filters) flush(ctx context.Context) error {
	ended, err := fs.log.Rotate()
	if err != nil {
		return err
	}
	var errs []error
	_ = fs.db.Room() // looks at the disk, because marking does not
	for _, f := range fs.awake() {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if err := f.flush(); err != nil && !errors.Is(err, bigset.ErrNoFilter) {
			errs = append(errs, fmt.Errorf("engine: flush filter %q: %w", f.of.name, lsm.DiskError(err)))
		}
	}
	if err := errors.Join(append(errs, fs.db.SyncLog())...); err != nil {
		return err
	}
	if err := fs.log.Remove(ended); err != nil {
		return lsm.DiskError(err)
	}
	fs.owesFlush.Store(false)
	return nil
}

// shortenLog flushes all filters, because the log of their marks has become long.
func (fs *Filters) shortenLog() {
	if err := fs.flush(context.Background()); err != nil {
		fs.opt.Logger.Error("bigset: filters could not be flushed, and their log grows", "dir", fs.db.Dir(), "cause", err)
	}
}

// flush writes what is dirty. It does not sync.
func (f *filterSlice) flush() error {
	f.flushing.Lock()
	defer f.flushing.Unlock()
	return f.flushLocked()
}

// flushLocked writes what is dirty. flushing is held. What becomes dirty during the call may stay dirty.
func (f *filterSlice) flushLocked() error {
	f.mu.Lock()
	slice := f.slice.Load()
	if slice == nil || f.gone.Load() || f.opt.Load().InMemory {
		f.mu.Unlock()
		return nil
	}
	taking := slice.Take()
	f.mu.Unlock()
	for more := true; more; more = taking.Pages() > 0 {
		store, most := f.store, pagesBatched
		if taking.Pages() >= pagesBatched {
			store, most = f.ingest, pagesTabled
		}
		dirty := f.take(taking, most)
		if dirty.Empty() {
			return nil
		}
		if err := store(dirty); err != nil {
			f.mu.Lock()
			slice.PutBack(dirty)
			f.mu.Unlock()
			return err
		}
		f.of.fs.written.Add(uint64(len(dirty.Pages)))
		f.stored(dirty.Pages)
	}
	return nil
}

// take takes the dirty data of at most most pages, a batch at a time. For each layer it has the last count.
func (f *filterSlice) take(taking *bloomslice.Taking, most int) (dirty bloomslice.Dirty) {
	for {
		f.mu.Lock()
		d := taking.Next(min(pagesBatched, most-len(dirty.Pages)))
		f.mu.Unlock()
		dirty.Pages = append(dirty.Pages, d.Pages...)
		dirty.Layers = append(dirty.Layers, d.Layers...)
		if taking.Pages() == 0 || len(dirty.Pages) >= most {
			break
		}
	}
	slices.SortStableFunc(dirty.Layers, func(a, b bloomslice.Layer) int {
		return cmp.Or(a.ID.Compare(b.ID), cmp.Compare(b.Count, a.Count))
	})
	dirty.Layers = slices.CompactFunc(dirty.Layers, func(a, b bloomslice.Layer) bool { return a.ID == b.ID })
	return dirty
}

// Layers and pages are whole records, never operands: in key order they may come right after an element of a set that the
// compaction leaves out, and then Pebble panics if the next key is a merge over a set (its issue 6168).

// store writes pages and counts in one batch.
func (f *filterSlice) store(dirty bloomslice.Dirty) error {
	batch := f.of.fs.db.NewBatch()
	err := f.storeLayers(batch, dirty.Layers)
	prefix := f.prefix()
	var key []byte
	for i := range dirty.Pages {
		p := &dirty.Pages[i]
		key = prefix.AppendPage(key[:0], f.of.generation, p.ID, p.Page)
		err = errors.Join(err, batch.Set(key, p.Value, nil))
	}
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	_, err = f.of.fs.db.Commit(batch, false)
	return err
}

func (f *filterSlice) storeLayers(batch *pebble.Batch, layers []bloomslice.Layer) (err error) {
	prefix := f.prefix()
	for _, l := range layers {
		key := prefix.AppendLayer(nil, f.of.generation, l.ID)
		err = errors.Join(err, batch.Set(key, keyscheme.AppendFilterLayer(nil, l), nil))
	}
	return err
}

// ingest writes pages to a table and ingests it, after the counts: no page is ever on disk without its layer. The counts are not in
// the table, so that the table overlaps only pages that were stored before; otherwise it would be compacted at once.
func (f *filterSlice) ingest(dirty bloomslice.Dirty) error {
	fs := f.of.fs
	if fs.db.FlushFull() { // Pebble might wait for that flush, and all writers for the table
		return &lsm.DiskSpaceError{}
	}
	if len(dirty.Layers) > 0 {
		if err := f.store(bloomslice.Dirty{Layers: dirty.Layers}); err != nil {
			return err
		}
	}
	if err := fs.db.SyncLog(); err != nil {
		return err
	}
	files := fs.db.SpanFiles()
	defer files.RemoveFiles()
	prefix := f.prefix()
	path, err := files.WriteTable(func(yield func(key, value []byte) error) error {
		var key []byte
		for i := range dirty.Pages {
			p := &dirty.Pages[i]
			key = prefix.AppendPage(key[:0], f.of.generation, p.ID, p.Page)
			if err := yield(key, p.Value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	fs.ingested.Add(uint64(files.Bytes))
	// Pebble treats a MANIFEST that can't be written as fatal here: this is not recovered, and the process ends.
	return fs.db.IngestOther(context.Background(), []string{path})
}

// closeRounds is how often a slice that is being closed is flushed concurrently with marks, before marks have to wait.
const closeRounds = 3

// close flushes the slice and takes its bits out of memory.
func (f *filterSlice) close() (bool, error) {
	f.flushing.Lock()
	defer f.flushing.Unlock()
	for range closeRounds {
		if err := f.flushLocked(); err != nil {
			return false, err
		}
		if closed, over := f.closeClean(); over {
			return closed, nil
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if slice := f.slice.Load(); slice != nil && !f.gone.Load() {
		f.dropSums() // what is stored from here on is not recorded
		for taking := slice.Take(); ; {
			dirty := taking.Next(pagesBatched)
			if dirty.Empty() {
				break
			}
			if err := f.store(dirty); err != nil {
				slice.PutBack(dirty)
				return false, err
			}
			f.of.fs.written.Add(uint64(len(dirty.Pages)))
		}
		f.shut(slice)
		return true, nil
	}
	return false, nil
}

// closeClean closes a slice with nothing dirty. It reports false, over, if another goroutine was faster.
func (f *filterSlice) closeClean() (closed, over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	slice := f.slice.Load()
	switch {
	case slice == nil || f.gone.Load() || f.opt.Load().InMemory:
		return false, true
	case slice.Dirty():
		return false, false
	}
	f.shut(slice)
	return true, true
}

// shut takes the bits of a slice, all of which are stored, out of memory. The slice's lock is held.
func (f *filterSlice) shut(slice *bloomslice.Slice) {
	f.remember(slice.Layers())
	f.slice.Store(nil)
	f.of.fs.ring.remove(f)
	f.of.counted().pageOuts.Add(1)
	slice.Release()
}

// CloseCold closes the filters that were not used since its last call, except those that are only in memory. It returns their
// number.
func (fs *Filters) CloseCold(ctx context.Context) (n int, err error) {
	for _, f := range fs.list() {
		closed, e := f.closeParts(ctx, func(part *filterSlice) bool { return !part.wasUsed(usedSinceCold) && part.slice.Load() != nil })
		if e != nil && !errors.Is(e, bigset.ErrNoFilter) {
			err = errors.Join(err, e)
		}
		if closed {
			n++
		}
	}
	return n, err
}

const (
	tablesFew = 8    // if tables take no more than this part of the cache, slices without pages stay open
	trimShare = 32   // trim frees this part of the cache below the limit, so that marks need no other trim for a while
	trimLooks = 4096 // how many slices one trim looks at, at most, because its caller waits
)

// trim takes pages out of memory when they exceed the limit. It goes round the open slices: it skips a slice once if the slice was
// used since the last visit, and takes pages from the others. If another goroutine is already trimming, trim returns, unless memory
// is far over its limit. Pages that can't be written stay.
func (fs *Filters) trim() {
	most := fs.opt.CacheBytes
	have := fs.resident.Bytes()
	if have <= most {
		return
	}
	if have > most+most/4 {
		fs.trimming.Lock()
	} else if !fs.trimming.TryLock() {
		return
	}
	defer fs.trimming.Unlock()
	if fs.resident.Bytes() <= most {
		return // another goroutine has trimmed
	}
	enough := most - most/trimShare
	failed := false
	for range min(2*fs.ring.len(), trimLooks) {
		want := fs.resident.Bytes() - enough
		f := fs.ring.next()
		if want <= 0 || f == nil {
			return
		}
		if f.wasUsed(usedSinceTrim) {
			continue
		}
		if err := f.giveWay(want, !failed); err != nil { // the disk's error, which concerns others too
			failed = true
			fs.unwritable(f, err)
		}
	}
}

// giveWay takes pages of a slice out of memory. A slice without pages is left alone until it is used again; if tables take much of
// the memory, it is closed instead, unless no other slice is open. If write is false, only stored pages are removed.
func (f *filterSlice) giveWay(want int64, write bool) error {
	freed, err := f.evict(want, write)
	if err != nil || freed >= want || !write {
		return err
	}
	if fs := f.of.fs; fs.resident.Tables.Load() <= fs.opt.CacheBytes/tablesFew {
		fs.ring.rest(f)
	} else if freed == 0 && fs.ring.len() > 1 {
		_, err = f.close()
	}
	return err
}

func (fs *Filters) unwritable(f *filterSlice, err error) {
	fs.opt.Logger.Error("bigset: a filter's pages could not be written, and stay in memory", "filter", string(f.of.name), "cause", err)
}

// evict takes pages of an open filter out of memory. If they are not enough, and write is true, it stores changed pages and takes
// them as well. It returns how many bytes that frees.
func (f *filterSlice) evict(want int64, write bool) (freed int64, err error) {
	f.flushing.Lock()
	defer f.flushing.Unlock()
	for try := range 2 {
		f.mu.Lock()
		slice := f.slice.Load()
		if slice == nil || f.gone.Load() || f.opt.Load().InMemory {
			f.mu.Unlock()
			return freed, nil
		}
		freed += slice.Evict(want - freed)
		f.mu.Unlock()
		if freed >= want || try > 0 || !write {
			break
		}
		if err = f.flushLocked(); err != nil {
			break
		}
	}
	f.of.fs.evicted.Add(uint64(freed / bloomslice.PageBytes))
	return freed, err
}
