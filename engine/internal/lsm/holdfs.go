package lsm

import (
	"errors"
	"io"
	iofs "io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset/engine/internal/lockorder"
)

// holdFS is Pebble's file system. It lets a store be opened on a full disk.
//
// Pebble's open flushes the content of the log, and retries forever if that fails. So the first operation of an open that finds the
// disk full begins a hold: it and all later changes happen in memory, and the folder stays unchanged. Reads see both. Syncs of held
// files do nothing, so the store refuses all writes during the hold. settle ends it: it writes the files to disk in an order that
// leaves, at every moment, either the old state or the new one.
//
//	tables, MANIFEST, OPTIONS    nothing names them yet
//	marker                       from here on the new MANIFEST counts
//	log                          an older log may have a torn end, which Pebble accepts only in the newest log
//	removals                     of the old log, MANIFEST and OPTIONS
//
// A crash before the marker is written is a crash of an open that has changed nothing. All methods may be called by any number of
// goroutines.
type holdFS struct {
	vfs.FS
	dir   string
	armed atomic.Bool // the store is being opened, so a full disk begins a hold
	mem   atomic.Pointer[vfs.MemFS]

	mu   lockorder.RWMutex[lockorder.HoldMu] // read-locked by changes, locked when a hold begins and ends
	late error                               // why settle has stopped halfway; guarded by mu

	names   lockorder.Mutex[lockorder.HoldNames]
	removed map[string]bool        // files on disk that readers must not see any more; guarded by names
	made    map[string]bool        // tables that this open has written to disk and that no MANIFEST on disk names; guarded by names
	writing map[*heldFile]struct{} // files that were created during the open or the hold and are not closed; guarded by names
}

const (
	holdRoot    = "/"
	tableSuffix = ".sst"
	allMarkers  = "marker."
	manifests   = "MANIFEST-"
	logSuffix   = ".log"
)

// over initializes h above a file system, with the folder of the store.
func (h *holdFS) over(fs vfs.FS, dir string) {
	h.FS, h.dir = fs, dir
	h.removed, h.made, h.writing = map[string]bool{}, map[string]bool{}, map[*heldFile]struct{}{}
}

// arm makes a full disk begin a hold, until disarm.
func (h *holdFS) arm() { h.armed.Store(true) }

// disarm ends the time in which a hold may begin. A hold that has begun lasts.
func (h *holdFS) disarm() {
	h.armed.Store(false)
	if h.holds() {
		return
	}
	h.names.Lock()
	defer h.names.Unlock()
	clear(h.made)
	for f := range h.writing {
		f.kept.Store(nil)
	}
	clear(h.writing)
}

// holds reports whether changes are in memory and not on disk.
func (h *holdFS) holds() bool { return h.mem.Load() != nil }

// bytes returns how many bytes settle would write, at least 1 if there is a hold.
func (h *holdFS) bytes() (n uint64) {
	mem := h.mem.Load()
	if mem == nil {
		return 0
	}
	names, _ := mem.List(holdRoot)
	for _, name := range names {
		if info, err := mem.Stat(holdRoot + name); err == nil {
			n += uint64(info.Size())
		}
	}
	return max(n, 1)
}

// Unwrap implements vfs.FS.
func (h *holdFS) Unwrap() vfs.FS { return h.FS }

// change makes a change on the disk, or in memory if there is a hold. If the disk is full, it begins a hold.
func (h *holdFS) change(onDisk func() error, inMemory func(mem *vfs.MemFS) error) error {
	h.mu.RLock()
	if !h.holds() {
		err := onDisk()
		h.mu.RUnlock()
		if !errors.Is(err, syscall.ENOSPC) || !h.armed.Load() {
			return err
		}
		h.begin()
		h.mu.RLock()
	}
	defer h.mu.RUnlock()
	if mem := h.mem.Load(); mem != nil {
		return inMemory(mem)
	}
	return onDisk() // the hold was settled in between
}

func (h *holdFS) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mem.CompareAndSwap(nil, vfs.NewMem())
}

// held returns the place in memory of a file of the folder. Nothing else can be changed during a hold.
func (h *holdFS) held(op, path string) (string, error) {
	if name := h.PathBase(path); h.PathJoin(h.dir, name) == path {
		return holdRoot + name, nil
	}
	return "", noRoom(op, path)
}

func noRoom(op, path string) error { return &iofs.PathError{Op: op, Path: path, Err: syscall.ENOSPC} }

// note records that a file on disk exists again, or no longer exists.
func (h *holdFS) note(path string, removed bool) {
	h.names.Lock()
	defer h.names.Unlock()
	if removed {
		h.removed[path] = true
	} else {
		delete(h.removed, path)
	}
}

func (h *holdFS) isRemoved(path string) bool {
	h.names.Lock()
	defer h.names.Unlock()
	return h.removed[path]
}

// Create implements vfs.FS.
func (h *holdFS) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return h.create(path, func() (vfs.File, error) { return h.FS.Create(path, category) })
}

// ReuseForWrite implements vfs.FS.
func (h *holdFS) ReuseForWrite(old, path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := h.create(path, func() (vfs.File, error) { return h.FS.ReuseForWrite(old, path, category) })
	if hf, ok := f.(*heldFile); ok && hf.inMemory {
		err = h.Remove(old)
	}
	return f, err
}

func (h *holdFS) create(path string, onDisk func() (vfs.File, error)) (vfs.File, error) {
	f := &heldFile{fs: h, path: path}
	err := h.change(func() (err error) {
		f.File, err = onDisk()
		return err
	}, func(mem *vfs.MemFS) error {
		name, err := h.held("create", path)
		if err != nil {
			return err
		}
		f.inMemory = true
		h.note(path, false)
		f.File, err = mem.Create(name, vfs.WriteCategoryUnspecified)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !f.inMemory && !h.armed.Load() {
		return f.File, nil
	}
	h.names.Lock()
	defer h.names.Unlock()
	h.writing[f] = struct{}{}
	switch name := h.PathBase(path); {
	case f.inMemory:
	case strings.HasSuffix(name, tableSuffix):
		h.made[path] = true
	case strings.HasPrefix(name, markerPrefix):
		h.named()
		fallthrough
	default:
		f.kept.Store(&[]byte{})
	}
	return f, nil
}

// named records that the MANIFEST on disk counts from now on: the files that it names stay, and so does the MANIFEST itself.
func (h *holdFS) named() {
	clear(h.made)
	for f := range h.writing {
		if strings.HasPrefix(h.PathBase(f.path), manifests) {
			f.kept.Store(nil)
		}
	}
}

// Remove implements vfs.FS.
func (h *holdFS) Remove(path string) error {
	return h.change(func() error { return h.FS.Remove(path) }, func(mem *vfs.MemFS) error {
		name, err := h.held("remove", path)
		if err != nil {
			return err
		}
		h.names.Lock()
		made := h.made[path]
		delete(h.made, path)
		h.names.Unlock()
		if made { // otherwise each open of a full disk would leave one more
			return h.FS.Remove(path)
		}
		err = mem.Remove(name)
		if _, e := h.FS.Stat(path); e == nil && !h.isRemoved(path) {
			h.note(path, true)
			err = nil
		}
		return err
	})
}

// Rename implements vfs.FS.
func (h *holdFS) Rename(from, to string) error {
	return h.change(func() error { return h.FS.Rename(from, to) }, func(mem *vfs.MemFS) error {
		source, err := h.held("rename", from)
		if err != nil {
			return err
		}
		target, err := h.held("rename", to)
		if err != nil {
			return err
		}
		if _, err := mem.Stat(source); err == nil {
			h.note(to, false)
			return mem.Rename(source, target)
		}
		text, err := h.readAll(from) // written before the hold began
		if err != nil {
			return err
		}
		h.note(from, true)
		h.note(to, false)
		f, err := mem.Create(target, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return errors.Join(err, f.Close())
	})
}

func (h *holdFS) readAll(path string) ([]byte, error) {
	f, err := h.FS.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// refused makes a change that is not possible in memory.
func (h *holdFS) refused(op, path string, onDisk func() error) error {
	return h.change(onDisk, func(*vfs.MemFS) error { return noRoom(op, path) })
}

// Link implements vfs.FS.
func (h *holdFS) Link(old, path string) error {
	return h.refused("link", path, func() error { return h.FS.Link(old, path) })
}

// RemoveAll implements vfs.FS.
func (h *holdFS) RemoveAll(path string) error {
	return h.refused("remove", path, func() error { return h.FS.RemoveAll(path) })
}

// MkdirAll implements vfs.FS.
func (h *holdFS) MkdirAll(path string, perm iofs.FileMode) error {
	if _, err := h.FS.Stat(path); err == nil {
		return nil
	}
	return h.refused("mkdir", path, func() error { return h.FS.MkdirAll(path, perm) })
}

// OpenReadWrite implements vfs.FS.
func (h *holdFS) OpenReadWrite(path string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (f vfs.File, err error) {
	err = h.refused("open", path, func() (err error) {
		f, err = h.FS.OpenReadWrite(path, category, opts...)
		return err
	})
	return f, err
}

// OpenDir implements vfs.FS.
func (h *holdFS) OpenDir(path string) (vfs.File, error) {
	f, err := h.FS.OpenDir(path)
	if err != nil {
		return nil, err
	}
	return heldDir{f, h}, nil
}

// Open implements vfs.FS.
func (h *holdFS) Open(path string, opts ...vfs.OpenOption) (vfs.File, error) {
	if mem := h.mem.Load(); mem != nil {
		if name, err := h.held("open", path); err == nil {
			if f, err := mem.Open(name, opts...); err == nil {
				return f, nil
			}
		}
		if h.isRemoved(path) {
			return nil, &iofs.PathError{Op: "open", Path: path, Err: iofs.ErrNotExist}
		}
	}
	return h.FS.Open(path, opts...)
}

// Stat implements vfs.FS.
func (h *holdFS) Stat(path string) (vfs.FileInfo, error) {
	if mem := h.mem.Load(); mem != nil {
		if name, err := h.held("stat", path); err == nil {
			if info, err := mem.Stat(name); err == nil {
				return info, nil
			}
		}
		if h.isRemoved(path) {
			return nil, &iofs.PathError{Op: "stat", Path: path, Err: iofs.ErrNotExist}
		}
	}
	return h.FS.Stat(path)
}

// List implements vfs.FS.
func (h *holdFS) List(dir string) ([]string, error) {
	names, err := h.FS.List(dir)
	mem := h.mem.Load()
	if err != nil || mem == nil || dir != h.dir {
		return names, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return h.isRemoved(h.PathJoin(dir, name)) })
	more, err := mem.List(holdRoot)
	names = append(names, more...)
	slices.Sort(names)
	return slices.Compact(names), err
}
