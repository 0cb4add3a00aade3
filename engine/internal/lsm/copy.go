package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"bigset"
)

// Copy makes a copy of the store, as it is at one moment, in a folder that is new or empty. before is called when the folder is
// claimed, and what it writes is in the copy. Copy returns ErrNotEmpty for a folder that holds something. After a crash the folder
// has the whole store, or Open refuses it with ErrUnfinished and the next Copy replaces it; an error leaves no more than that.
// Copying does not end early when ctx does.
func (d *DB) Copy(ctx context.Context, dest string, before func() error) error {
	return makeStore(d.fs, dest, d.kind, func() error {
		if err := before(); err != nil {
			return err
		}
		if err := d.copyTo(dest); err != nil {
			return err
		}
		return ctx.Err()
	})
}

// partFolder is where Pebble, which insists on making the folder itself, puts a checkpoint before its files are moved up.
const partFolder = "part" + tempSuffix

// checkpointTries is how often a checkpoint is tried when its log can't be read.
const checkpointTries = 5

// copyTo makes a checkpoint with Pebble within dest and moves its files to dest.
func (d *DB) copyTo(dest string) error {
	fs := d.fs
	part := fs.PathJoin(dest, partFolder)
	for try := 1; ; try++ {
		if err := d.pebbleCheckpoint(part); err != nil {
			return err
		}
		err := errors.Join(readLogs(fs, part), checkLogs(fs, part, closeRecord{}, "", 0))
		if err == nil {
			break
		}
		if try == checkpointTries {
			return err
		}
		if err := fs.RemoveAll(part); err != nil {
			return err
		}
	}
	names, err := fs.List(part)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := fs.Rename(fs.PathJoin(part, name), fs.PathJoin(dest, name)); err != nil {
			return err
		}
	}
	return fs.Remove(part)
}

// pebbleCheckpoint makes a checkpoint with Pebble. A failed sync of the new folder makes Pebble panic, although it concerns only
// that folder.
func (d *DB) pebbleCheckpoint(dir string) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fatalError:
			err = d.Fail(r.err)
		case runtime.Error:
			panic(r)
		case error:
			err = r
		default:
			panic(r)
		}
	}()
	return d.pebble.Checkpoint(dir)
}

// readLogs reads the logs in a folder as Pebble's open does, and returns an error if that would fail. Pebble copies the log while
// it is written. If the file of an old log is used again, the copy can hold a part of the old log, followed by a part of the new
// one that was written in between. This can't be distinguished from damage, and checkLogs, which an open calls first, finds more of
// it.
func readLogs(fs vfs.FS, dir string) error {
	logs, err := wal.Scan(wal.Dir{FS: fs, Dirname: dir})
	if err != nil {
		return err
	}
	for i, l := range logs {
		if err := readLog(l, i == len(logs)-1); err != nil {
			return fmt.Errorf("%w: log %v: %w", bigset.ErrCorrupt, l, err)
		}
	}
	return nil
}

// readLog reads one log. Only the last one may end in the middle of a record.
func readLog(l wal.LogicalLog, last bool) (err error) {
	r := l.OpenForRead()
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		rec, _, err := r.NextRecord()
		if err == nil {
			_, err = io.Copy(io.Discard, rec)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), last && errors.Is(err, record.ErrUnexpectedEOF):
			return nil
		default:
			return err
		}
	}
}
