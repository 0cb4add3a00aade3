package ring

import (
	"fmt"
	"math"
)

// MapBytesMax is the longest encoding of a map, in bytes.
const MapBytesMax = 64 << 20

// Append appends the whole map: its head, then all assignments. Members are written once, in the table.
func (m *Map) Append(dst []byte) ([]byte, error) {
	if err := m.Check(Limits{}); err != nil {
		return dst, err
	}
	e := newEncoder(dst, kindMap)
	e.head(&m.Head)
	e.number(uint64(m.count))
	for a := range m.All() {
		e.assignment(a)
	}
	if n := len(e.b) - len(dst) + sumBytes; n > MapBytesMax {
		return dst, fmt.Errorf("%w: %d bytes, at most %d", ErrMap, n, MapBytesMax)
	}
	return e.sealed(len(dst))
}

// Decode inverts Map.Append. Its error is ErrCodec for everything that Append does not write, and for a map that breaks an
// invariant. It does not keep b.
func Decode(b []byte) (*Map, error) {
	if len(b) > MapBytesMax {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrCodec, len(b), MapBytesMax)
	}
	d := open(b, kindMap)
	h := d.head()
	list := d.assignments(AssignmentsMax)
	if err := d.end(); err != nil {
		return nil, err
	}
	m, err := New(h, list)
	if err == nil {
		err = m.Check(Limits{})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCodec, err)
	}
	return m, nil
}

// head writes what a map has in addition to its assignments. From then on members are written by their index.
func (e *encoder) head(h *Head) {
	if err := h.Settings.Check(); err != nil {
		e.err = err
		return
	}
	e.b = append(e.b, h.Cluster[:]...)
	e.number(h.Generation)
	e.number(h.Version)
	e.number(h.Term)
	for _, n := range []int{h.N, h.R, h.W, h.DW, h.Buckets, h.Slices} {
		e.number(uint64(n))
	}
	e.number(uint64(len(h.Members)))
	for _, m := range h.Members {
		e.member(m)
	}
	e.table = index(h.Members)
	e.number(uint64(len(h.Nodes)))
	for i := range h.Nodes {
		e.node(&h.Nodes[i])
	}
}

func index(members []Member) map[Member]int {
	table := make(map[Member]int, len(members))
	for i, m := range members {
		table[m] = i
	}
	return table
}

func (d *decoder) head() (h Head) {
	for i := range h.Cluster {
		h.Cluster[i] = d.byte()
	}
	h.Generation, h.Version, h.Term = d.number(math.MaxUint64), d.number(math.MaxUint64), d.number(math.MaxUint64)
	for _, n := range []*int{&h.N, &h.R, &h.W, &h.DW, &h.Buckets, &h.Slices} {
		*n = int(d.number(BucketsMax))
	}
	if d.err == nil {
		d.check(h.Settings.Check())
	}
	h.Members = d.members()
	d.table = append([]Member{}, h.Members...) // not nil: from here on members are indices
	h.Nodes = d.nodes()
	return h
}

// AppendPage appends the assignments that begin in one page, 0 to 255. The reader needs the map's table of members.
func (m *Map) AppendPage(dst []byte, n int) ([]byte, error) {
	e := newEncoder(dst, kindPage)
	e.table = index(m.Members)
	e.byte(byte(n))
	var list []*Assignment
	m.page(n, func(a *Assignment) bool { list = append(list, a); return true })
	e.number(uint64(len(list)))
	for _, a := range list {
		e.assignment(a)
	}
	return e.sealed(len(dst))
}

// DecodePage inverts AppendPage: it returns the number of the page and its assignments, in order. Its error is ErrCodec for
// everything that AppendPage does not write. It does not keep b.
func DecodePage(b []byte, members []Member) (n int, list []Assignment, err error) {
	d := open(b, kindPage)
	d.table = append([]Member{}, members...)
	n = int(d.byte())
	list = d.assignments(AssignmentsMax)
	for i := range list {
		first := list[i].Bucket.First()
		if d.err == nil && (int(first>>24) != n || i > 0 && list[i-1].Bucket.Last()+1 != first) {
			d.fail("bucket %v is not the next of page %d", list[i].Bucket, n)
		}
	}
	if err := d.end(); err != nil {
		return 0, nil, err
	}
	return n, list, nil
}

// AppendDelta appends a change of a map, with its members in full.
func AppendDelta(dst []byte, c *Delta) ([]byte, error) {
	e := newEncoder(dst, kindDelta)
	e.number(c.Generation)
	e.number(c.From)
	e.number(c.Term)
	e.number(uint64(len(c.Members)))
	for _, m := range c.Members {
		e.member(m)
	}
	if c.Nodes == nil {
		e.byte(0)
	} else {
		e.byte(1)
		e.number(uint64(len(c.Nodes)))
		for i := range c.Nodes {
			e.node(&c.Nodes[i])
		}
	}
	e.number(uint64(len(c.Assignments)))
	for i := range c.Assignments {
		e.assignment(&c.Assignments[i])
	}
	return e.sealed(len(dst))
}

// DecodeDelta inverts AppendDelta. Its error is ErrCodec for everything that AppendDelta does not write. It does not keep b.
func DecodeDelta(b []byte) (*Delta, error) {
	d := open(b, kindDelta)
	c := &Delta{Generation: d.number(math.MaxUint64), From: d.number(math.MaxUint64), Term: d.number(math.MaxUint64), Members: d.members()}
	switch has := d.byte(); {
	case has > 1:
		d.fail("a flag is %d", has)
	case has == 1:
		c.Nodes = d.nodes()
	}
	c.Assignments = d.assignments(AssignmentsMax)
	for i := range c.Assignments {
		if i > 0 && d.err == nil && c.Assignments[i-1].Bucket.Last() >= c.Assignments[i].Bucket.First() {
			d.fail("bucket %v is not after %v", c.Assignments[i].Bucket, c.Assignments[i-1].Bucket)
		}
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return c, nil
}
