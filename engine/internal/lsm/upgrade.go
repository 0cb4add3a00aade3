package lsm

import (
	"context"
	"errors"

	"bigset/compaction"
)

// A store keeps the format with which it was made until it is upgraded, so that the program that made it can continue to use it. A
// store does not write what its format does not have. The steps from each format to the next are here. A step first writes, synced,
// what the next format needs and an older program ignores; the number comes last, in one rename. So a crash leaves a store of one
// format or of the other, and a second call completes what was begun.
//
// From 2 to 3 nothing is written: only the number differs.

// FormatNewest is the format of a new store.
const FormatNewest = formatNewest

// Format returns the number of the store's format.
func (d *DB) Format() int { return int(d.format.Load()) }

// kind returns the content of the format file.
func (d *DB) kind() format { return format{d.Format(), d.record} }

// Upgrade changes the store to the newest format: older programs refuse it from then on. When it returns, that is on disk. A call
// that fails may have upgraded the folder: then the store in memory continues to write the older format, which every format allows.
func (d *DB) Upgrade(ctx context.Context) error {
	if err := errors.Join(ctx.Err(), d.Writable()); err != nil {
		return err
	}
	d.id.mu.Lock()
	defer d.id.mu.Unlock()
	if d.Format() == formatNewest {
		return nil
	}
	if err := writeFormat(d.fs, d.dir, format{formatNewest, d.record}); err != nil {
		return err
	}
	d.format.Store(formatNewest)
	return nil
}

// Record returns the kind of the store's records.
func (d *DB) Record() compaction.Record { return d.record }
