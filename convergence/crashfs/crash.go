package crashfs

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
)

// What Fail takes.
var (
	// ErrIO makes every call fail that changes something or syncs, and Sync lose what was not synced.
	ErrIO = errors.New("crashfs: input/output error")
	// ErrFull lets a write do its first half and then fail, and lets nothing be made. Names may go and change, and what was
	// written is synced.
	ErrFull = errors.New("crashfs: no space left")
)

// Fail makes the disk fail by ErrIO or ErrFull, or by another error as by ErrIO, until it is given nil.
func (f *FS) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = err
}

// broken reports whether the disk does not work at all.
func (f *FS) broken() bool { return f.fault != nil && !errors.Is(f.fault, ErrFull) }

// Cut cuts the power, and returns the file system that is there when it is back: with everything that was synced, and of what
// was not each change with a chance of keep quarters (0 to 4). This one is at its end: its handles and calls return
// fs.ErrClosed.
func (f *FS) Cut(r *rand.Rand, keep int) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	c := &copier{rand: r, keep: keep, block: f.block, done: map[*node]*node{}}
	return &FS{root: c.node(f.root), block: f.block}
}

// Clone returns a copy of everything as it is seen now, all of it durable.
func (f *FS) Clone() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &copier{all: true, done: map[*node]*node{}}
	return &FS{root: c.node(f.root), block: f.block}
}

// copier makes the file system of after a crash, or a clone.
type copier struct {
	rand  *rand.Rand
	keep  int
	block int
	all   bool            // everything that is seen
	done  map[*node]*node // a node may have two names
}

func (c *copier) node(n *node) *node {
	if m := c.done[n]; m != nil {
		return m
	}
	m := &node{dir: n.dir}
	c.done[n] = m
	if !n.dir {
		m.data = c.bytes(n)
		m.disk = slices.Clone(m.data)
		return m
	}
	m.names, m.kept = map[string]*node{}, map[string]*node{}
	names := c.names(n)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		child := c.node(names[name])
		m.names[name], m.kept[name] = child, child
	}
	return m
}

func (c *copier) survives() bool { return c.rand.IntN(4) < c.keep }

// names returns the names of a directory that are left. A change is lost with those before it that it builds on.
func (c *copier) names(n *node) map[string]*node {
	if c.all {
		return n.names
	}
	left, lost := maps.Clone(n.kept), map[string]bool{}
	for _, change := range n.changes {
		ok := c.survives() && !slices.ContainsFunc(change, func(e entry) bool { return lost[e.name] })
		if ok {
			apply(left, change)
			continue
		}
		for _, e := range change {
			lost[e.name] = true
		}
	}
	return left
}

// bytes returns what is left of a file: each write by block.
func (c *copier) bytes(n *node) []byte {
	if c.all {
		return slices.Clone(n.data)
	}
	b := slices.Clone(n.disk)
	for _, w := range n.writes {
		if w.cut {
			if c.survives() {
				b = w.apply(b)
			}
			continue
		}
		for len(w.data) > 0 {
			part := w
			part.data = w.data[:min(len(w.data), c.block-int(w.off%int64(c.block)))]
			w.off, w.data = w.off+int64(len(part.data)), w.data[len(part.data):]
			if c.survives() {
				b = part.apply(b)
			} else if w.off > int64(len(b)) && c.keep > 0 && c.rand.IntN(4) == 0 {
				b = resize(b, w.off) // the length without the bytes
			}
		}
	}
	return b
}
