package lsm

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset/keyscheme"
)

// NewBatch returns an empty batch, for Commit.
func (d *DB) NewBatch() *pebble.Batch { return d.pebble.NewBatch() }

// Commit applies a batch to Pebble. It returns how to wait for it to be durable, nil when that was not asked for; the batch
// is closed when nobody needs it any more. A failure fails the store for good.
func (d *DB) Commit(batch *pebble.Batch, sync bool) (wait func() error, err error) {
	return d.CommitElements(batch, sync, nil)
}

// CommitElements is Commit of a batch that has entered a generation of Unflushed, nil for none, which it leaves.
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

// leave takes a batch that was applied out of its generation. Pebble clears a large batch, which lies in the row of memtables by itself, and its number is then 0.
func (d *DB) leave(g *Generation, seq uint64) {
	if seq == 0 {
		d.Unflushed.LeaveUnknown(g)
	} else {
		d.Unflushed.Leave(g, seq)
	}
}

// begin returns why no batch may be applied now.
func (d *DB) begin() error {
	if err := d.Writable(); err != nil {
		return err
	}
	if err := d.disk.stalled(); err != nil {
		return err
	}
	return d.Mark() // which writes: only where the batch may follow
}

// Ingest puts tables into the store, above all that it holds. What Pebble calls fatal here is a MANIFEST that can't be written: it is
// not recovered, the process ends.
func (d *DB) Ingest(ctx context.Context, paths []string) error {
	defer d.Unflushed.Blind()()
	return d.IngestOther(ctx, paths)
}

// IngestOther is Ingest of tables without keys of elements.
func (d *DB) IngestOther(ctx context.Context, paths []string) error {
	return d.pebble.Ingest(ctx, paths)
}

// Compact compacts all that lies within some bounds. When ctx is done it returns, and the compaction goes on in the background until it is
// over or the store is closed: Pebble ends the process when a compaction is taken back that it has picked and not begun.
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

// NewIter opens an iterator. In the middle of a swap it may show the span of the swap empty: OpenSet does not.
func (d *DB) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) { return d.pebble.NewIter(o) }

// View returns a value, which is valid until it is closed, or pebble.ErrNotFound.
func (d *DB) View(key []byte) ([]byte, io.Closer, error) { return d.pebble.Get(key) }

// Get returns a copy of a value, and whether there is one.
func (d *DB) Get(key []byte) ([]byte, bool, error) {
	key = slices.Clip(key) // nothing is written behind the caller's
	return d.GetBehind(&key)
}

// GetBehind is Get of the key in a buffer. The value is copied behind the key, and is the buffer's.
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

// Each calls f for all keys within some bounds, in order, until it returns an error. Key and value are valid during the call.
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

// Pebble returns the Pebble below, for tests: what is written through it is not guarded.
func (d *DB) Pebble() *pebble.DB { return d.pebble }
