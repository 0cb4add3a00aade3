package lsm

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Open opens the store in a folder, or makes one if there is none. The folder belongs to it until Close: a second Open gets
// ErrLocked. An existing store opens even on a full disk, and then takes no writes until there is room. The owner calls Ready when
// it has read what it needs, or Abandon if it can't go on.
func Open(dir string, o Options, h Hooks) (*DB, error) {
	d := &DB{dir: dir, opt: &o, hooks: h, empty: make(chan struct{}, 1), ending: make(chan struct{})}
	d.flushRetry.hurry = d.ending
	d.Unflushed.init(o.MemTableBytes)
	d.compactions, d.endCompactions = context.WithCancel(context.Background())
	d.fs = d.disk.watch(d)
	if err := d.open(); err != nil {
		d.Abandon()
		return nil, err
	}
	return d, nil
}

func (d *DB) open() (err error) {
	if err := d.lockFolder(); err != nil {
		return err
	}
	made, exists, err := readFormat(d.opt.FS, d.dir, d.opt.Record)
	if err != nil {
		return err
	}
	d.record = made.record
	d.format.Store(int32(made.number))
	if err := d.hooks.Fits(d.record); err != nil {
		return err
	}
	if !exists {
		if err := writeFormat(d.fs, d.dir, made); err != nil {
			return err
		}
	}
	torn, err := d.checkWhole()
	if err != nil {
		return err
	}
	if err := d.removeLeftovers(); err != nil {
		return err
	}
	d.cache = BaselineCache(d.opt.MemTableBytes, d.opt.BlockCacheBytes)
	po := d.pebbleOptions(d.cache)
	po.Lock, d.pebbleOpts = d.lock, po
	d.hold.over(d.fs, d.dir)
	if exists {
		d.hold.arm()
	}
	if err := d.disk.roomToOpen(); err != nil {
		return err
	}
	if torn {
		if err := d.openTorn(po); err != nil {
			return err
		}
	}
	rest := time.Duration(0)
	if exists {
		rest = openRest
	}
	if err := d.openPebble(po, rest); err != nil {
		return err
	}
	if d.firstLog, err = lastLog(&d.hold, d.dir); err != nil { // the log may be in memory
		return err
	}
	d.hold.disarm() // what is written from now on is acknowledged, so it must not be in memory
	if int(d.pebble.Metrics().Levels[0].Sublevels) >= po.L0CompactionThreshold {
		d.scheduler.endRest()
	}
	return d.loadIdentity()
}

// checkWhole reads the MANIFEST and the logs before Pebble does, and returns an error that wraps bigset.ErrCorrupt if something is damaged or
// lost. It reports whether the MANIFEST ends in a record that a power cut took back.
func (d *DB) checkWhole() (torn bool, err error) {
	if err := forgetLostMarker(d.fs, d.dir); err != nil {
		return false, err
	}
	closed, err := readClosed(d.fs, d.dir)
	if err != nil {
		return false, err
	}
	_, marked, err := readIdentity(d.fs, d.dir)
	if err != nil {
		return false, err
	}
	torn, leastLog, err := checkManifest(d.fs, d.dir, closed)
	if err != nil {
		return false, err
	}
	return torn, checkLogs(d.fs, d.dir, closed, marked, leastLog)
}

// Ready ends the open: it puts the ballast in place, and logs it if the open found the disk full.
func (d *DB) Ready() error {
	d.disk.opened()
	return d.disk.lay()
}

func (d *DB) openPebble(po *pebble.Options, rest time.Duration) error {
	d.scheduler = newScheduler(rest)
	d.scheduler.paused = func() bool { return d.hold.holds() || d.compactionRetry.pause() > 0 }
	po.Experimental.CompactionScheduler = d.scheduler
	err := d.recovering(func() (err error) {
		d.pebble, err = pebble.Open(d.dir, po)
		return err
	})
	if err != nil {
		d.scheduler.abandon()
	}
	switch {
	case err == nil:
		if d.pebble.Metrics().MemTable.Count > 1 { // the log's content could not be flushed
			d.Unflushed.Blind()()
		}
		return nil
	case strings.Contains(err.Error(), "format major version"): // Pebble has no other way to tell
		return fmt.Errorf("%w: use a newer program: %w", ErrFormat, err)
	case errors.As(err, new(pebble.ErrMissingWALRecoveryDir)),
		strings.Contains(err.Error(), "name from file"): // of the order of keys, or of the merger
		return fmt.Errorf("%w: file OPTIONS is another program's, or damaged: %w", ErrFormat, err)
	case errors.Is(err, pebble.ErrDBNotPristine):
		return &CorruptionError{Path: d.dir, Err: errors.New("no file marker.format-version names Pebble's format, restore the folder from a copy")}
	case errors.Is(err, iofs.ErrNotExist), strings.Contains(err.Error(), "object size mismatch"): // a table that the MANIFEST names
		return &CorruptionError{Path: d.dir, Err: fmt.Errorf("a table is missing or has the wrong length: %w; restore the folder from a copy", err)}
	}
	return err
}

// openTorn opens and closes a store whose MANIFEST ends in a bad record, so that Pebble writes a new one. Nothing is deleted: files
// that Pebble considers useless are moved to the folder archive.
func (d *DB) openTorn(po *pebble.Options) error {
	d.opt.Logger.Warn("bigset: the MANIFEST ends in a record that was being written when the power failed; "+
		"files that nothing names are kept in the folder archive, delete it when `bigset verify` finds nothing wrong", "dir", d.dir)
	keep := po.Clone()
	keep.Cleaner = pebble.ArchiveCleaner{}
	if err := d.openPebble(keep, 0); err != nil {
		return err
	}
	db := d.pebble
	d.pebble = nil
	err := d.recovering(db.Close)
	if err == nil && d.hold.holds() {
		err = &DiskSpaceError{Need: d.hold.bytes()}
	}
	return err
}

func (d *DB) lockFolder() error {
	fs := d.fs
	if err := refuseUnfinished(fs, d.dir); err != nil {
		return err
	}
	if err := checkFiles(fs, d.dir, d.hooks.IsFile); err != nil {
		return err
	}
	if d.opt.MustExist {
		if _, err := fs.Stat(fs.PathJoin(d.dir, formatFile)); err != nil {
			return fmt.Errorf("%w in %s", ErrNoStore, d.dir)
		}
	}
	if err := makeFolder(fs, d.dir); err != nil {
		return err
	}
	if err := refuseForeign(fs, d.dir); err != nil {
		return err
	}
	lock, err := lockDir(fs, d.dir)
	if err != nil {
		return err
	}
	d.lock = lock
	return refuseUnfinished(fs, d.dir) // a copy may have begun and ended since
}

// removeLeftovers removes files that were being written for a swap when the process ended, tables that were never swapped in, and
// the marker of a copy that was finished.
func (d *DB) removeLeftovers() error {
	fs := d.fs
	names, err := fs.List(d.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == unfinishedFile || strings.HasPrefix(name, spanFilePrefix) && strings.HasSuffix(name, tempSuffix) {
			if err := fs.Remove(fs.PathJoin(d.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Abandon releases what an open had taken if it has failed since.
func (d *DB) Abandon() {
	close(d.ending)
	d.endCompactions()
	if d.pebble != nil && !d.wedged.Load() {
		_ = d.pebble.Close() // the error that made the open fail is the one to report
	}
	d.hold.drop()
	if d.cache != nil {
		d.cache.Unref()
	}
	if d.lock != nil {
		_ = d.lock.Close()
	}
	_ = d.disk.closer()
}
