package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
)

// RestoreOptions say how Restore works. All fields must be set.
type RestoreOptions struct {
	FS       vfs.FS                 // of both folders
	IsFile   func(name string) bool // as Hooks.IsFile
	Progress func(RestoreReport)    // is called after each MiB and each file
}

// RestoreReport says how much Restore has to copy, and how much is done.
type RestoreReport struct {
	Files, FilesDone int
	Bytes, BytesDone uint64
}

// Restore makes a store in the folder dest, which must be new or empty, from a checkpoint, or from the folder of a store that is
// not open, however it was left. It copies files and never links them, so neither folder depends on the other. The new store always
// takes a new incarnation before its first write.
//
// It returns ErrNoStore, ErrUnfinished or ErrFormat for a src that is not a store, ErrLocked for one that is open, and ErrNotEmpty
// for a dest that holds something. A crash leaves the whole store in dest, or a folder that Open refuses with ErrUnfinished and
// that the next Restore replaces; an error leaves no more than that.
func Restore(ctx context.Context, src, dest string, o RestoreOptions) (RestoreReport, error) {
	r := restoring{ctx: ctx, src: src, dest: dest, RestoreOptions: o}
	err := r.run()
	return r.rep, err
}

// restoring is one Restore.
type restoring struct {
	RestoreOptions
	ctx       context.Context
	src, dest string
	rep       RestoreReport
}

func (r *restoring) run() (err error) {
	if err := CheckFolder(r.FS, r.src); err != nil {
		return err
	}
	lock, err := lockDir(r.FS, r.src)
	if errors.Is(err, syscall.EROFS) {
		err = nil // no process writes there
	}
	if err != nil {
		return err
	}
	if lock != nil {
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	made, _, err := readFormat(r.FS, r.src, 0)
	if err != nil {
		return err
	}
	return makeStore(r.FS, r.dest, func() format { return made }, r.copyFiles)
}

// CheckFolder returns nil for a folder that holds a whole store of a known format. It reads no more than is necessary for that. Its
// errors are ErrNoStore, ErrUnfinished, ErrFormat, and bigset.ErrCorrupt if Pebble's own files are missing. A nil file system is
// the operating system's.
func CheckFolder(fs vfs.FS, dir string) error {
	if err := refuseUnfinished(fs, dir); err != nil {
		return err
	}
	if _, exists, err := readFormat(fs, dir, 0); err != nil {
		return err
	} else if !exists {
		return fmt.Errorf("%w in %s", ErrNoStore, dir)
	}
	desc, err := pebble.Peek(dir, fs)
	if err == nil && !desc.Exists {
		err = fmt.Errorf("%w: %s has no MANIFEST", bigset.ErrCorrupt, dir)
	}
	return err
}

// CheckUnused returns ErrLocked if the store in a folder is open, here or in another process. It is for tools that read files
// without the engine: files that they find while a store is open may be about to be removed.
func CheckUnused(dir string) error {
	lock, err := lockDir(vfs.Default, dir)
	if err != nil {
		return err
	}
	return lock.Close()
}

// copyFiles copies the files of a store's content.
func (r *restoring) copyFiles() error {
	names, err := r.content()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := r.copyFile(name); err != nil {
			return err
		}
		r.rep.FilesDone++
		r.Progress(r.rep)
	}
	return nil
}

// content lists the files to copy, and counts them.
func (r *restoring) content() (names []string, err error) {
	all, err := r.FS.List(r.src)
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		switch {
		case name == formatFile, name == identityFile, name == lockFile, name == unfinishedFile, name == ballastFile, strings.HasSuffix(name, tempSuffix):
			continue
		}
		info, err := r.FS.Stat(r.FS.PathJoin(r.src, name))
		if err != nil {
			return nil, err
		}
		if info.IsDir() && (isFile(name) || r.IsFile(name) || strings.HasSuffix(name, ".sst")) {
			return nil, damagedFile(r.FS.PathJoin(r.src, name), inPlaceOfFile)
		}
		if info.IsDir() {
			continue
		}
		r.rep.Files++
		r.rep.Bytes += uint64(info.Size())
		names = append(names, name)
	}
	return names, nil
}

// copyBytes is how much is copied between two checks of the context.
const copyBytes = 1 << 20

func (r *restoring) copyFile(name string) (err error) {
	from, err := r.FS.Open(r.FS.PathJoin(r.src, name), vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := r.FS.Create(r.FS.PathJoin(r.dest, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(to, from, copyBytes)
		r.rep.BytesDone += uint64(n)
		if err == io.EOF {
			return to.Sync()
		}
		if err != nil {
			return err
		}
		r.Progress(r.rep)
	}
}
