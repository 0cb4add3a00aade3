package ring

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// ID names a cluster: 16 random bytes, drawn at its birth.
type ID [16]byte

// The bounds of a map.
const (
	NodesMax       = 1 << 12 // nodes of a cluster
	MembersMax     = 1 << 16 // members that a cluster ever had
	AssignmentsMax = 1 << 21
)

// Head is what a map has in addition to its assignments.
type Head struct {
	Cluster ID
	// Generation rises when the map is made again from what the members know. A map of a lower generation does not count.
	Generation uint64
	// Version counts the changes of the map. A change names the version that it was planned from.
	Version uint64
	// Term is that of the manager that made the last change.
	Term uint64
	Settings
	// Nodes are the nodes of the cluster, in the order of their names.
	Nodes []Node
	// Members are all members that the cluster ever had. The table only grows: pages name a member by its index.
	Members []Member
}

// Map says for each slot which members hold it. It is immutable: a change returns another Map, which shares what did not change.
// Any number of goroutines may use one.
type Map struct {
	Head
	pages [pages]page
	count int
}

// pages is how many pages a map has: one for each value of a slot's top byte.
const pages = 256

// page has the assignments that have slots with one top byte, in order. An assignment that covers several pages is in all of them,
// and these are then the same page.
type page struct {
	firsts []Slot // of the assignments: what a look-up searches
	list   []Assignment
}

// New returns a map of assignments, which must be in the order of their slots and have all of them. Check checks the other
// invariants.
func New(h Head, list []Assignment) (*Map, error) {
	if len(list) > AssignmentsMax {
		return nil, fmt.Errorf("%w: %d assignments, at most %d", ErrMap, len(list), AssignmentsMax)
	}
	m := &Map{Head: h, count: len(list)}
	if err := m.lay(0, pages-1, list); err != nil {
		return nil, err
	}
	return m, nil
}

// Lookup returns the assignment of a slot, which the caller must not change.
func (m *Map) Lookup(s Slot) *Assignment {
	p := &m.pages[s>>24]
	low, high := 0, len(p.firsts)-1 // the last assignment that begins at s or before it
	for low < high {
		if mid := (low + high + 1) / 2; p.firsts[mid] <= s {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return &p.list[low]
}

// Len returns how many assignments the map has.
func (m *Map) Len() int { return m.count }

// All yields the assignments in the order of their slots. The caller must not change them.
func (m *Map) All() iter.Seq[*Assignment] {
	return func(yield func(*Assignment) bool) {
		for n := range m.pages {
			if !m.page(n, yield) {
				return
			}
		}
	}
}

// page yields the assignments that begin in a page.
func (m *Map) page(n int, yield func(*Assignment) bool) bool {
	p := &m.pages[n]
	for i, first := range p.firsts {
		if int(first>>24) == n && !yield(&p.list[i]) {
			return false
		}
	}
	return true
}

// Epoch returns the highest epoch of the map. In a cluster of fixed members all assignments have it.
func (m *Map) Epoch() (highest uint64) {
	for a := range m.All() {
		highest = max(highest, a.Epoch)
	}
	return highest
}

// Node returns the node of a name, or nil.
func (m *Map) Node(name string) *Node {
	i, ok := slices.BinarySearchFunc(m.Nodes, name, func(n Node, name string) int { return cmp.Compare(n.Node, name) })
	if !ok {
		return nil
	}
	return &m.Nodes[i]
}

// Current reports whether a member is its node's current incarnation, and the node is not lost.
func (m *Map) Current(who Member) bool {
	n := m.Node(who.Node)
	return n != nil && n.Member == who && n.State != NodeLost
}

// WithNodes returns a map with other nodes, under the next version. New members join the table. The assignments stay as they are.
func (m *Map) WithNodes(nodes []Node) (*Map, error) {
	out := *m
	out.Version++
	out.Nodes = slices.Clone(nodes)
	slices.SortFunc(out.Nodes, func(a, b Node) int { return cmp.Compare(a.Node, b.Node) })
	out.Members = enrol(m.Members, out.Nodes)
	if err := out.checkTables(); err != nil {
		return nil, err
	}
	return &out, nil
}

// enrol returns the table of members with those of nodes.
func enrol(table []Member, nodes []Node) []Member {
	table = slices.Clip(table)
	known := make(map[Member]bool, len(table))
	for _, m := range table {
		known[m] = true
	}
	for _, n := range nodes {
		if !known[n.Member] {
			known[n.Member] = true
			table = append(table, n.Member)
		}
	}
	return table
}

// lay fills the pages from first to last with the assignments of a list, which must have exactly their slots.
func (m *Map) lay(first, last int, list []Assignment) error {
	next := uint64(first) << 24
	for i := range list {
		b := list[i].Bucket
		if err := b.Check(); err != nil {
			return err
		}
		if uint64(b.First()) != next {
			return fmt.Errorf("%w: M1: bucket %v begins at slot %08x, not at %08x", ErrMap, b, b.First(), next)
		}
		next = uint64(b.Last()) + 1
	}
	if end := uint64(last+1) << 24; next != end {
		return fmt.Errorf("%w: M1: the assignments end at slot %08x, not at %08x", ErrMap, next, end)
	}
	for i := 0; i < len(list); {
		n := int(list[i].Bucket.First() >> 24)
		j := i + 1
		for j < len(list) && int(list[j].Bucket.First()>>24) == n {
			j++
		}
		p := newPage(list[i:j:j])
		for end := int(list[j-1].Bucket.Last() >> 24); n <= end; n++ {
			m.pages[n] = p
		}
		i = j
	}
	return nil
}

func newPage(list []Assignment) page {
	p := page{firsts: make([]Slot, len(list)), list: list}
	for i := range list {
		p.firsts[i] = list[i].Bucket.First()
	}
	return p
}
