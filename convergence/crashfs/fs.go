package crashfs

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"sync"
)

// BlockDefault is the length of a block in bytes when New is given 0: small, so that even the short records of tests can be torn.
const BlockDefault = 16

var (
	errExist    = fs.ErrExist
	errNotExist = fs.ErrNotExist
	errIsDir    = errors.New("is a directory")
	errNotDir   = errors.New("not a directory")
	errNotEmpty = errors.New("directory not empty")
	errMoved    = errors.New("a directory does not move to another one")
)

// FS is a file system in memory. It implements fs.FS, and is safe for concurrent use.
type FS struct {
	mu    sync.Mutex
	root  *node
	block int
	fault error // of every call that changes something; nil when the disk works
	ended bool  // the power was cut
}

// node is a file or a directory. It lives as long as a name or a handle refers to it.
type node struct {
	dir bool

	data   []byte  // of a file: what readers see
	disk   []byte  // what is durable of it
	writes []write // since the last Sync

	names   map[string]*node // of a directory: what readers see
	kept    map[string]*node // what is durable of it
	changes []change         // since the last Sync
}

// write is a write that is not synced: bytes at an offset, or a new length.
type write struct {
	off  int64 // or the length
	data []byte
	cut  bool
}

// change is what happens atomically to some names of a directory.
type change []entry

type entry struct {
	name string
	n    *node // nil: the name is removed
}

// New returns an empty file system with blocks of block bytes; 0 means BlockDefault.
func New(block int) *FS {
	if block <= 0 {
		block = BlockDefault
	}
	return &FS{root: newDir(), block: block}
}

func newDir() *node {
	return &node{dir: true, names: map[string]*node{}, kept: map[string]*node{}}
}

// change records a change of a directory's names.
func (n *node) change(c ...entry) {
	n.changes = append(n.changes, c)
	apply(n.names, c)
}

func apply(names map[string]*node, c change) {
	for _, e := range c {
		if e.n == nil {
			delete(names, e.name)
		} else {
			names[e.name] = e.n
		}
	}
}

// find returns the node that a name refers to, or nil, and the directory that contains it. The directory is nil for the root, and
// if it does not exist.
func (f *FS) find(name string) (dir, n *node, err error) {
	switch {
	case f.ended:
		return nil, nil, fs.ErrClosed
	case !fs.ValidPath(name):
		return nil, nil, fs.ErrInvalid
	case name == ".":
		return nil, f.root, nil
	}
	dir = f.root
	if parent := path.Dir(name); parent != "." {
		if _, dir, err = f.find(parent); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case dir == nil:
		return nil, nil, errNotExist
	case !dir.dir:
		return nil, nil, errNotDir
	}
	return dir, dir.names[path.Base(name)], nil
}

// Open opens a file or a directory for reading. What it returns is a *File. It implements fs.FS.
func (f *FS) Open(name string) (fs.File, error) {
	h, err := f.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Create makes a file, or empties it if it exists, and opens it for reading and writing.
func (f *FS) Create(name string) (*File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

// OpenFile opens a file with the flags of package os, except O_SYNC. A directory can be opened only for reading.
func (f *FS) OpenFile(name string, flag int) (*File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.open(name, flag)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &File{fs: f, n: n, name: name, flag: flag}, nil
}

func (f *FS) open(name string, flag int) (*node, error) {
	dir, n, err := f.find(name)
	writes := flag&(os.O_WRONLY|os.O_RDWR) != 0
	switch {
	case err != nil:
		return nil, err
	case flag&os.O_SYNC != 0:
		return nil, fs.ErrInvalid
	case n == nil && flag&os.O_CREATE == 0:
		return nil, errNotExist
	case n == nil:
		if f.fault != nil {
			return nil, f.fault
		}
		n = &node{}
		dir.change(entry{path.Base(name), n})
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, errExist
	case n.dir && (writes || flag&os.O_CREATE != 0):
		return nil, errIsDir
	case flag&os.O_TRUNC != 0 && writes:
		return n, f.truncate(n, 0)
	}
	return n, nil
}

// Mkdir makes a directory.
func (f *FS) Mkdir(name string) error {
	return f.do("mkdir", name, func(dir, n *node) error {
		switch {
		case n != nil:
			return errExist
		case f.fault != nil:
			return f.fault
		}
		dir.change(entry{path.Base(name), newDir()})
		return nil
	})
}

// Remove removes a file, or an empty directory. Handles to it stay valid.
func (f *FS) Remove(name string) error {
	return f.do("remove", name, func(dir, n *node) error {
		switch {
		case n == nil:
			return errNotExist
		case dir == nil:
			return fs.ErrInvalid
		case len(n.names) > 0:
			return errNotEmpty
		case f.broken():
			return f.fault
		}
		dir.change(entry{path.Base(name), nil})
		return nil
	})
}

// Rename gives a file another name, and replaces the file that has that name. A directory keeps its parent, and replaces nothing.
func (f *FS) Rename(name, to string) error {
	return f.do("rename", name, func(dir, n *node) error {
		into, old, err := f.find(to)
		switch {
		case err != nil:
			return err
		case n == nil:
			return errNotExist
		case dir == nil || into == nil:
			return fs.ErrInvalid
		case name == to:
			return nil
		case old != nil && (old.dir || n.dir):
			return errExist
		case n.dir && dir != into:
			return errMoved
		case f.broken():
			return f.fault
		}
		here, there := entry{path.Base(name), nil}, entry{path.Base(to), n}
		if dir == into {
			dir.change(here, there)
		} else {
			into.change(there)
			dir.change(here)
		}
		return nil
	})
}

// SyncDir makes the names in a directory durable.
func (f *FS) SyncDir(name string) error {
	return f.do("sync", name, func(_, n *node) error {
		switch {
		case n == nil:
			return errNotExist
		case !n.dir:
			return errNotDir
		}
		return f.sync(n)
	})
}

func (f *FS) do(op, name string, call func(dir, n *node) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, n, err := f.find(name)
	if err == nil {
		err = call(dir, n)
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

// sync makes a file's bytes, or a directory's names, durable.
func (f *FS) sync(n *node) error {
	if n.dir {
		if f.broken() {
			return f.fault
		}
		n.kept, n.changes = maps.Clone(n.names), nil
		return nil
	}
	writes := n.writes
	n.writes = nil // even if the sync fails: they count as written, but are not
	if f.broken() {
		return f.fault
	}
	for _, w := range writes {
		n.disk = w.apply(n.disk)
	}
	return nil
}
