package lsm

import (
	"errors"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// heldDir is a folder that was opened to be synced.
type heldDir struct {
	vfs.File
	fs *holdFS
}

// Sync implements vfs.File.
func (d heldDir) Sync() error {
	return d.fs.change(d.File.Sync, func(*vfs.MemFS) error { return nil })
}

// heldFile is a file that was created during an open or a hold.
type heldFile struct {
	vfs.File // on disk or in memory; changes while fs.mu is locked, or by the goroutine that writes
	fs       *holdFS
	path     string
	inMemory bool
	kept     atomic.Pointer[[]byte] // what was written to disk, so that it can move to memory; nil if it can't
}

// Write implements vfs.File.
func (f *heldFile) Write(p []byte) (n int, err error) {
	err = f.change("write", func() (err error) {
		kept := f.kept.Load()
		if kept != nil { // before the write: Pebble's files in memory overwrite p when invariants are checked
			*kept = append(*kept, p...)
		}
		if n, err = f.File.Write(p); err != nil && kept != nil {
			*kept = (*kept)[:len(*kept)-len(p)]
		}
		return err
	}, func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

// Sync implements vfs.File.
func (f *heldFile) Sync() error { return f.sync(func() error { return f.File.Sync() }) }

// SyncData implements vfs.File.
func (f *heldFile) SyncData() error { return f.sync(func() error { return f.File.SyncData() }) }

// SyncTo implements vfs.File.
func (f *heldFile) SyncTo(length int64) (whole bool, err error) {
	err = f.sync(func() (err error) {
		whole, err = f.File.SyncTo(length)
		return err
	})
	return whole, err
}

func (f *heldFile) sync(onDisk func() error) error {
	return f.change("sync", onDisk, func() error { return nil })
}

// Preallocate implements vfs.File. It only saves time.
func (f *heldFile) Preallocate(offset, length int64) error {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	return f.File.Preallocate(offset, length)
}

// Close implements vfs.File.
func (f *heldFile) Close() error {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	f.fs.names.Lock()
	delete(f.fs.writing, f)
	f.fs.names.Unlock()
	return f.File.Close()
}

// change changes the file on the disk, or in memory if there is a hold. A file that was begun on the disk moves to memory; for a
// table the error makes Pebble write another one.
func (f *heldFile) change(op string, onDisk, inMemory func() error) error {
	return f.fs.change(onDisk, func(mem *vfs.MemFS) error {
		if f.inMemory {
			return inMemory()
		}
		kept := f.kept.Load()
		if kept == nil {
			return noRoom(op, f.path)
		}
		name, err := f.fs.held(op, f.path)
		if err != nil {
			return err
		}
		m, err := mem.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		_, err = m.Write(*kept)
		_, _ = f.File.Close(), f.fs.FS.Remove(f.path) // nothing names it; what is left of it is overwritten
		f.File, f.inMemory = m, true
		f.kept.Store(nil)
		return errors.Join(err, inMemory())
	})
}
