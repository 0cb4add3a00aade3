package faultdisk

import (
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// memory is a file system in memory that knows what was synced. A crashable vfs.MemFS does too, but it visits the files of a folder in
// the random order of a map, so that its crash clones do not repeat.
type memory struct {
	*vfs.MemFS
	short atomic.Pointer[func(path string) error]

	mu   sync.Mutex // during each change, so that a clone is of one moment
	root *node
}

// node is a file or a folder. A file may have several names, and none if it was removed and the removal was not synced.
type node struct {
	entries map[string]*node // of a folder; nil if it is a file
	kept    map[string]*node // those that were synced
	data    vfs.File         // of a file: it reads what was written
	synced  []byte           // and what of it was synced
}

func newMemory() *memory {
	return &memory{MemFS: vfs.NewMem(), root: &node{entries: map[string]*node{}}}
}

// find returns the folder of a path, and the name in it, which is "" for the root. The folder is nil if it does not exist.
func (m *memory) find(name string) (dir *node, base string) {
	parts := strings.FieldsFunc(path.Clean(name), func(c rune) bool { return c == '/' })
	if len(parts) == 0 || parts[0] == "." {
		return m.root, ""
	}
	dir = m.root
	for _, part := range parts[:len(parts)-1] {
		if dir = dir.entries[part]; dir == nil {
			return nil, ""
		}
	}
	return dir, parts[len(parts)-1]
}

// at returns the node of a path; nil if there is none.
func (m *memory) at(name string) *node {
	dir, base := m.find(name)
	if dir == nil || base == "" {
		return dir
	}
	return dir.entries[base]
}

// put gives a node a name. Nil removes the name.
func (m *memory) put(name string, n *node) {
	dir, base := m.find(name)
	switch {
	case dir == nil || base == "":
	case n == nil:
		delete(dir.entries, base)
	default:
		dir.entries[base] = n
	}
}

// change makes a change, and records it if it succeeds.
func (m *memory) change(do func() error, record func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := do()
	if err == nil {
		record()
	}
	return err
}

// created records a new file.
func (m *memory) created(name string) {
	data, err := m.MemFS.Open(name)
	if err == nil { // it exists
		m.put(name, &node{data: data})
	}
}

// open opens a file. With made it is a new one, or may be.
func (m *memory) open(name string, do func() (vfs.File, error), made func() bool) (f vfs.File, err error) {
	opened := &file{disk: m, name: name}
	err = m.change(func() (err error) { opened.File, err = do(); return err }, func() {
		if made() {
			m.created(name)
		}
		opened.node = m.at(name)
	})
	if err != nil {
		return nil, err
	}
	return opened, nil
}

func never() bool  { return false }
func always() bool { return true }

// Create implements vfs.FS.
func (m *memory) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return m.open(name, func() (vfs.File, error) { return m.MemFS.Create(name, category) }, always)
}

// OpenReadWrite implements vfs.FS.
func (m *memory) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return m.open(name, func() (vfs.File, error) { return m.MemFS.OpenReadWrite(name, category, opts...) }, func() bool { return m.at(name) == nil })
}

// Open implements vfs.FS.
func (m *memory) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return m.open(name, func() (vfs.File, error) { return m.MemFS.Open(name, opts...) }, never)
}

// OpenDir implements vfs.FS.
func (m *memory) OpenDir(name string) (vfs.File, error) {
	return m.open(name, func() (vfs.File, error) { return m.MemFS.OpenDir(name) }, never)
}

// ReuseForWrite implements vfs.FS.
func (m *memory) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return m.open(to, func() (vfs.File, error) {
		f, err := m.MemFS.ReuseForWrite(from, to, category)
		if err == nil {
			m.moved(from, to)
		}
		return f, err
	}, never)
}

func (m *memory) moved(from, to string) {
	n := m.at(from)
	m.put(from, nil)
	m.put(to, n)
}

// Rename implements vfs.FS.
func (m *memory) Rename(from, to string) error {
	return m.change(func() error { return m.MemFS.Rename(from, to) }, func() { m.moved(from, to) })
}

// Link implements vfs.FS.
func (m *memory) Link(from, to string) error {
	return m.change(func() error { return m.MemFS.Link(from, to) }, func() { m.put(to, m.at(from)) })
}

// Remove implements vfs.FS.
func (m *memory) Remove(name string) error {
	return m.change(func() error { return m.MemFS.Remove(name) }, func() { m.put(name, nil) })
}

// RemoveAll implements vfs.FS.
func (m *memory) RemoveAll(name string) error {
	return m.change(func() error { return m.MemFS.RemoveAll(name) }, func() { m.put(name, nil) })
}

// MkdirAll implements vfs.FS.
func (m *memory) MkdirAll(name string, perm os.FileMode) error {
	return m.change(func() error { return m.MemFS.MkdirAll(name, perm) }, func() {
		for parts, i := strings.Split(path.Clean(name), "/"), 1; i <= len(parts); i++ {
			if up := strings.Join(parts[:i], "/"); m.at(up) == nil {
				m.put(up, &node{entries: map[string]*node{}})
			}
		}
	})
}

// Lock implements vfs.FS. The lock is a new file.
func (m *memory) Lock(name string) (lock io.Closer, err error) {
	err = m.change(func() (err error) { lock, err = m.MemFS.Lock(name); return err }, func() { m.created(name) })
	return lock, err
}

// survives decides whether something that was not synced survives a power cut: a block of a file, or (entry) the entry of a folder.
type survives func(name string, block int) bool

const entry = -1

// byChance lets a part of it survive. What else the disk has does not matter: a file that background work has not removed yet changes
// nothing for the others.
func byChance(percent int, seed uint64) survives {
	return func(name string, block int) bool {
		h := fnv.New64a()
		_, _ = io.WriteString(h, name) // it can't fail
		return rand.New(rand.NewPCG(seed, h.Sum64()+uint64(block))).IntN(100) < percent
	}
}

// clone returns what a power cut leaves: what was synced, and what survives. If survives is nil, nothing else does.
func (m *memory) clone(left survives) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newMemory()
	c.root = m.root.clone(c.MemFS, "", left)
	return c
}

func (n *node) clone(to *vfs.MemFS, name string, left survives) *node {
	if n.entries == nil {
		return newFile(to, name, n.remains(name, left))
	}
	if name != "" {
		must(to.MkdirAll(name, 0o755))
	}
	remain := map[string]*node{}
	maps.Copy(remain, n.kept)
	for base, old := range n.entries {
		if left != nil && left(path.Join(name, base), entry) {
			remain[base] = old
		}
	}
	c := &node{entries: map[string]*node{}}
	for base, old := range remain {
		c.entries[base] = old.clone(to, path.Join(name, base), left)
	}
	c.kept = maps.Clone(c.entries)
	return c
}

// blockBytes is how many bytes of a file a power cut keeps or loses together.
const blockBytes = 4096

// remains returns what a power cut leaves of a file. Blocks that were lost before one that was not are zeros.
func (n *node) remains(name string, left survives) []byte {
	data := slices.Clone(n.synced)
	if left == nil {
		return data
	}
	written := n.written(nil)
	for i := 0; i < len(written); i += blockBytes {
		if !left(name, i/blockBytes) {
			continue
		}
		block := written[i:min(i+blockBytes, len(written))]
		if grow := i + len(block) - len(data); grow > 0 {
			data = append(data, make([]byte, grow)...)
		}
		copy(data[i:], block)
	}
	return data
}

// written returns what was written to a file, in the memory of b.
func (n *node) written(b []byte) []byte {
	info, err := n.data.Stat()
	must(err)
	b = slices.Grow(b[:0], int(info.Size()))[:info.Size()]
	if len(b) > 0 {
		_, err = n.data.ReadAt(b, 0)
		must(err)
	}
	return b
}

// sync records that what was written to a file, or the entries of a folder, survive a power cut.
func (n *node) sync() {
	if n.entries != nil {
		n.kept = maps.Clone(n.entries)
		return
	}
	n.synced = n.written(n.synced)
}

// newFile makes a file with data that was synced.
func newFile(fs *vfs.MemFS, name string, data []byte) *node {
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	must(err)
	_, err = f.Write(slices.Clone(data)) // Write may change what it is given
	must(err)
	must(f.Close())
	n := &node{synced: data}
	n.data, err = fs.Open(name)
	must(err)
	return n
}

// must panics if memory fails, which it can't.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// file is an open file or folder.
type file struct {
	vfs.File
	disk *memory
	name string
	node *node
}

// Write implements io.Writer.
func (f *file) Write(b []byte) (n int, err error) {
	short := f.disk.short.Load()
	if short != nil {
		err = (*short)(f.name)
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err != nil {
		n, _ = f.File.Write(b[:len(b)/2])
		return n, err
	}
	return f.File.Write(b)
}

// WriteAt implements io.WriterAt.
func (f *file) WriteAt(b []byte, at int64) (n int, err error) {
	err = f.disk.change(func() error { n, err = f.File.WriteAt(b, at); return err }, func() {})
	return n, err
}

// Sync implements vfs.File.
func (f *file) Sync() error { return f.disk.change(f.File.Sync, f.node.sync) }

// SyncData implements vfs.File.
func (f *file) SyncData() error { return f.Sync() }
