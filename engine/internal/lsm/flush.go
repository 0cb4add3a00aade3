package lsm

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// flushPoll is how often a flush that is waited for is checked for failure.
const flushPoll = 20 * time.Millisecond

// FlushTables moves everything that was written from memory to tables. If a flush finds no room, it continues in the background,
// and FlushTables returns an error.
func (d *DB) FlushTables(ctx context.Context) error {
	if d.flushRetry.full() { // another memtable would wait after it
		if err := d.awaitFlush(ctx, nil); err != nil {
			return err
		}
	}
	if err := d.disk.stalled(); err != nil {
		return err
	}
	var flushed <-chan struct{}
	err := d.recovering(func() (err error) {
		flushed, err = d.pebble.AsyncFlush()
		return err
	})
	if err != nil {
		return DiskError(err)
	}
	return d.awaitFlush(ctx, flushed)
}

// awaitFlush waits for a flush, or for the failing one if flushed is nil.
func (d *DB) awaitFlush(ctx context.Context, flushed <-chan struct{}) error {
	before, _ := d.flushRetry.failing()
	t := time.NewTicker(flushPoll)
	defer t.Stop()
	for {
		select {
		case <-flushed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			tries, err := d.flushRetry.failing()
			if err == nil && flushed == nil {
				return nil
			}
			if err != nil && tries > before+1 && (errors.Is(err, syscall.ENOSPC) || d.closed.Load()) {
				return fmt.Errorf("engine: flush: %w", DiskError(err))
			}
		}
	}
}

// lookUpsMin is how many look-ups since the last call make a flush worthwhile.
const lookUpsMin = 1000

// memTablesMax is how many memtables may pile up while Pebble is still growing them.
const memTablesMax = 2

// FlushSmallMemTables flushes early after an open. Pebble begins with a memtable of 256 KiB, doubles it at each rotation, and
// flushes none until together they reach half of the full size: ten of them, each searched by every look-up.
//
// lookUps is the number of look-ups since the open. FlushSmallMemTables does nothing unless there were many since the last call.
// Only one goroutine may call it.
func (d *DB) FlushSmallMemTables(lookUps uint64) error {
	if d.fullSize {
		return nil
	}
	many := lookUps-d.lookUps >= lookUpsMin
	d.lookUps = lookUps
	if !many {
		return nil
	}
	m := d.pebble.Metrics().MemTable
	if m.Size >= uint64(d.opt.MemTableBytes) {
		d.fullSize = true
		return nil
	}
	if m.Count <= memTablesMax {
		return nil
	}
	return d.recovering(func() error {
		_, err := d.pebble.AsyncFlush()
		return DiskError(err)
	})
}
