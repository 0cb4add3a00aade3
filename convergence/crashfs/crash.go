package crashfs

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
)

// The errors that Fail takes.
var (
	// ErrIO makes every call fail that changes something or syncs. A failed Sync loses what was not synced.
	ErrIO = errors.New("crashfs: input/output error")
	// ErrFull makes a write do its first half and then fail, and makes every creation fail. Names may still be removed and changed,
	// and what was written is synced.
	ErrFull = errors.New("crashfs: no space left")
)

// Fail makes the disk fail until Fail is called with nil. Any error other than ErrFull has the effect of ErrIO.
func (f *FS) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = err
}

// broken reports whether the disk does not work at all.
func (f *FS) broken() bool { return f.fault != nil && !errors.Is(f.fault, ErrFull) }

// Cut cuts the power. It returns the file system that exists when the power is back: everything that was synced, and each other
// change with a probability of keep quarters (0 to 4). f itself has ended: its handles and calls return fs.ErrClosed.
func (f *FS) Cut(r *rand.Rand, keep int) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	c := &copier{rand: r, keep: keep, block: f.block, done: map[*node]*node{}}
	return &FS{root: c.node(f.root), block: f.block}
}

// Clone returns a copy of everything as readers see it now, all of it durable.
func (f *FS) Clone() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &copier{all: true, done: map[*node]*node{}}
	return &FS{root: c.node(f.root), block: f.block}
}

// copier makes the file system after a crash, or a clone.
type copier struct {
	rand  *rand.Rand
	keep  int
	block int
	all   bool            // everything that readers see
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

// names returns the names of a directory that remain. A change is lost if an earlier change to one of its names is lost.
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

// bytes returns what remains of a file: each write is kept or lost block by block.
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
