package lsm

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset/keyscheme"
)

// NewBatch returns an empty batch, for Commit.
func (d *DB) NewBatch() *pebble.Batch { return d.pebble.NewBatch() }

// Commit applies a batch to Pebble. With sync it returns a function that waits until the batch is durable, otherwise nil. It closes
// the batch when it is no longer needed. A failure fails the store for good.
func (d *DB) Commit(batch *pebble.Batch, sync bool) (wait func() error, err error) {
	return d.CommitElements(batch, sync, nil)
}

// CommitElements is Commit of a batch that has entered a generation of Unflushed, which it leaves; g is nil if the batch has
// entered none.
func (d *DB) CommitElements(batch *pebble.Batch, sync bool, g *Generation) (wait func() error, err error) {
	if err := d.begin(); err != nil {
		if g != nil {
			d.Unflushed.Leave(g, 0)
		}
		return nil, err
	}
	applied := d.applied.Load()
	if err := d.guard(func() error {
		if sync {
			return d.pebble.ApplyNoSyncWait(batch, pebble.Sync)
		}
		return d.pebble.Apply(batch, pebble.NoSync)
	}); err != nil {
		return nil, err
	}
	if g != nil {
		d.leave(g, uint64(batch.SeqNum()))
	}
	d.applied.Add(1)
	if !sync {
		return nil, batch.Close()
	}
	began := time.Now()
	return func() error {
		defer d.Counters.Synced.Observe(began)
		if err := d.guard(batch.SyncWait); err != nil {
			return err
		}
		d.durableUpTo(applied)
		return batch.Close()
	}, nil
}

// leave removes an applied batch from its generation. Pebble clears a large batch, which has a place of its own in the queue of
// memtables, and its number is then 0.
func (d *DB) leave(g *Generation, seq uint64) {
	if seq == 0 {
		d.Unflushed.LeaveUnknown(g)
	} else {
		d.Unflushed.Leave(g, seq)
	}
}

// begin returns why no batch may be applied now, or nil.
func (d *DB) begin() error {
	if err := d.Writable(); err != nil {
		return err
	}
	if err := d.disk.stalled(); err != nil {
		return err
	}
	return d.Mark() // which writes, so it is called only if the batch may follow
}

// Ingest adds tables of files to the store, above everything that it holds. Pebble treats a MANIFEST that can't be written as fatal here:
// this is not recovered, and the process ends. An ingest that has begun does not end early when ctx does.
//
// If the span of a new table lies in a gap between two keys of an old one, Pebble cuts the old one there, and the new one gets a place in the same
// level. Otherwise it would stay in level 0, and the next compaction would write both again: a flush of two sets makes a table with a gap in which
// all sets between them lie. Nothing is cut where the old table can't be read.
func (d *DB) Ingest(ctx context.Context, files *SpanFiles, paths []string) error {
	defer d.Unflushed.Blind()()
	at := ends{db: d.pebble}
	defer func() { _ = at.Close() }() // the ingest has its own error
	for _, span := range files.spans(paths) {
		if at.read(span, true) != nil {
			return d.IngestOther(ctx, paths)
		}
	}
	return apart(func() error { return d.ingestCutting(ctx, paths) })
}

// IngestOther is Ingest of tables without keys of elements. It cuts nothing.
func (d *DB) IngestOther(ctx context.Context, paths []string) error {
	return d.pebble.Ingest(uncancelled(ctx), paths)
}

// ingestCutting is an ingest for which Pebble may cut tables: see cutting.
func (d *DB) ingestCutting(ctx context.Context, paths []string) error {
	return d.pebble.Ingest(uncancelled(ctx), paths)
}

// cutting reports to Pebble whether it may cut tables: only for an ingest that ingestCutting has begun, in whose goroutine Pebble asks. Only the
// stack shows that. Pebble asks twice in one ingest, and panics if it hears no and then yes (ingestApply, v2.1.7), so the answer can't be a
// setting that other ingests change.
func cutting() bool {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, ".ingestCutting") {
			return true
		}
		if !more {
			return false
		}
	}
}

// Compact compacts everything within the bounds. When ctx is done it returns, and the compaction continues in the background until
// it ends or the store is closed: Pebble ends the process when a compaction is cancelled that it has picked but not begun.
func (d *DB) Compact(ctx context.Context, b keyscheme.Bounds) error {
	done := make(chan error, 1)
	d.compacting.Go(func() {
		done <- d.recovering(func() error { return d.pebble.Compact(d.compactions, b.Lower, b.Upper, true) })
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// NewIter opens an iterator. In the middle of a swap it may show the span of the swap as empty; OpenSet does not.
func (d *DB) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) { return d.pebble.NewIter(o) }

// View returns a value, which is valid until it is closed, or pebble.ErrNotFound.
func (d *DB) View(key []byte) ([]byte, io.Closer, error) { return d.pebble.Get(key) }

// Get returns a copy of a value, and whether the key exists.
func (d *DB) Get(key []byte) ([]byte, bool, error) {
	key = slices.Clip(key) // so that the value is not written into the caller's memory
	return d.GetBehind(&key)
}

// GetBehind is Get of the key in a buffer. The value is appended to the key, in the buffer's memory.
func (d *DB) GetBehind(buf *[]byte) ([]byte, bool, error) {
	n := len(*buf)
	v, closer, err := d.pebble.Get(*buf)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	*buf = append(*buf, v...)
	return (*buf)[n:], true, closer.Close()
}

// Each calls f for all keys within the bounds, in order, until it returns an error. Key and value are valid during the call.
func (d *DB) Each(b keyscheme.Bounds, f func(key, value []byte) error) (err error) {
	it, err := d.pebble.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return err
	}
	defer Closing(it, &err)
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = f(it.Key(), value)
		}
		if err != nil {
			return err
		}
	}
	return it.Error()
}

// Metrics returns Pebble's figures.
func (d *DB) Metrics() *pebble.Metrics { return d.pebble.Metrics() }

// Pebble returns the underlying Pebble, for tests: writes through it are not guarded.
func (d *DB) Pebble() *pebble.DB { return d.pebble }
