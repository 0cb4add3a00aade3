package lsm

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// unfinishedFile is in a folder while a store is being copied into it. The format file, by which a folder is recognized as a store,
// is written last.
const unfinishedFile = "UNFINISHED"

// lockFile is the name of Pebble's lock.
const lockFile = "LOCK"

// makeStore fills a folder with the files of a store, except the format file and the identity file. A crash at any moment leaves a
// whole store there, or a folder that Open refuses with ErrUnfinished and that the next makeStore replaces. Without an identity
// file the store takes a new incarnation before its first write, whatever was copied and wherever it is moved. made is called for
// the format when the files are in place: it is at least that of the files.
func makeStore(fs vfs.FS, dir string, made func() format, fill func() error) (err error) {
	lock, err := claim(fs, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	err = fill()
	if err == nil {
		err = SyncFolder(fs, dir)
	}
	if err != nil {
		return errors.Join(err, clearFolder(fs, dir), fs.Remove(fs.PathJoin(dir, unfinishedFile)))
	}
	if err := writeFormat(fs, dir, made()); err != nil {
		return err
	}
	return errors.Join(fs.Remove(fs.PathJoin(dir, unfinishedFile)), SyncFolder(fs, dir))
}

// claim takes an empty folder, or empties one in which an earlier copy was not finished.
func claim(fs vfs.FS, dir string) (*pebble.Lock, error) {
	if err := makeFolder(fs, dir); err != nil {
		return nil, err
	}
	if err := refuseUsed(fs, dir); err != nil { // before a lock leaves its trace in a folder of another program
		return nil, err
	}
	lock, err := lockDir(fs, dir)
	if err != nil {
		return nil, err
	}
	err = refuseUsed(fs, dir) // another process may have finished since
	if err == nil {
		err = WriteFile(fs, dir, unfinishedFile, "A store is being copied into this folder.\n")
	}
	if err == nil {
		err = clearFolder(fs, dir)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// refuseUsed refuses a folder that holds anything but an unfinished copy.
func refuseUsed(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	if slices.Contains(names, formatFile) {
		return fmt.Errorf("%w: %s holds a store", ErrNotEmpty, dir)
	}
	if slices.Contains(names, unfinishedFile) {
		return nil
	}
	for _, name := range names {
		if name != lockFile && name != unfinishedFile+tempSuffix {
			return fmt.Errorf("%w: %s holds %q", ErrNotEmpty, dir, name)
		}
	}
	return nil
}

// clearFolder removes everything that was copied into a folder.
func clearFolder(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == lockFile || name == unfinishedFile {
			continue
		}
		if err := fs.RemoveAll(fs.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// lockDir locks a folder, so that no other store is opened there.
func lockDir(fs vfs.FS, dir string) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(dir, fs)
	if err == nil || errors.Is(err, iofs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return lock, err
	}
	return nil, fmt.Errorf("%w: %w", ErrLocked, err)
}

// refuseUnfinished refuses a folder into which a store was being copied.
func refuseUnfinished(fs vfs.FS, dir string) error {
	if _, err := fs.Stat(fs.PathJoin(dir, formatFile)); err == nil {
		return nil
	}
	if _, err := fs.Stat(fs.PathJoin(dir, unfinishedFile)); err == nil {
		return fmt.Errorf("%w: in %s", ErrUnfinished, dir)
	}
	return nil
}
