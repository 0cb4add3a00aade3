package ring

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// The first byte of an encoding is its kind, the second its version. Both are part of the format, which docs/format.md draws.
const (
	kindAssignment = 'a'
	kindNotMine    = 'n'
	kindPage       = 'p'
	kindDelta      = 'd'
	kindMap        = 'm'

	codecVersion = 1
	sumBytes     = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encoder appends to b. Members are written by their index in a table, or in full if there is no table.
type encoder struct {
	b     []byte
	table map[Member]int
	err   error
}

func newEncoder(dst []byte, kind byte) encoder { return encoder{b: append(dst, kind, codecVersion)} }

// sealed returns what was written since start, with its checksum.
func (e *encoder) sealed(start int) ([]byte, error) {
	if e.err != nil {
		return e.b[:start], e.err
	}
	return binary.LittleEndian.AppendUint32(e.b, crc32.Checksum(e.b[start:], castagnoli)), nil
}

func (e *encoder) byte(b byte)     { e.b = append(e.b, b) }
func (e *encoder) number(n uint64) { e.b = binary.AppendUvarint(e.b, n) }
func (e *encoder) text(s string)   { e.number(uint64(len(s))); e.b = append(e.b, s...) }

func (e *encoder) member(m Member) {
	if e.table == nil {
		e.text(m.Node)
		e.text(m.Incarnation)
		return
	}
	i, ok := e.table[m]
	if !ok && e.err == nil {
		e.err = fmt.Errorf("%w: M6: member %v is in no table", ErrMap, m)
	}
	e.number(uint64(i))
}

func (e *encoder) list(l []Member) {
	e.number(uint64(len(l)))
	for _, m := range l {
		e.member(m)
	}
}

// assignment writes the number of bits of the bucket, the state, the key's bits, epochs, time and lists. A stable assignment has
// one list.
func (e *encoder) assignment(a *Assignment) {
	if err := a.Check(CopiesMax); err != nil {
		e.err = err
		return
	}
	e.byte(byte(a.Bucket.Bits()))
	e.byte(byte(a.State))
	e.number(uint64(bits.Reverse32(a.Bucket.Key) >> (32 - a.Bucket.Bits()))) // in the order of slots
	e.number(a.Epoch)
	e.number(a.Epoch - a.Since)
	e.number(uint64(a.Moved))
	e.list(a.Owners)
	if a.State != Stable {
		e.list(a.Next)
	}
}

func (e *encoder) node(n *Node) {
	e.member(n.Member)
	e.text(n.Addr)
	e.text(n.Zone)
	e.number(uint64(n.Weight))
	e.number(n.Started)
	e.byte(byte(n.State))
}

// decoder reads b. After the first error it reads zeros.
type decoder struct {
	b     []byte
	off   int
	table []Member // nil if members are written in full
	err   error
}

// open returns a decoder of what an encoder of that kind has sealed.
func open(b []byte, kind byte) decoder {
	d := decoder{b: b}
	switch {
	case len(b) < 2+sumBytes:
		d.fail("short")
	case b[0] != kind:
		d.fail("kind %q, expected %q", b[0], kind)
	case b[1] != codecVersion:
		d.fail("version %d, this program reads %d", b[1], codecVersion)
	case crc32.Checksum(b[:len(b)-sumBytes], castagnoli) != binary.LittleEndian.Uint32(b[len(b)-sumBytes:]):
		d.fail("wrong checksum")
	default:
		d.b, d.off = b[:len(b)-sumBytes], 2
	}
	return d
}

// end returns the error, if any, or an error for bytes that were not read.
func (d *decoder) end() error {
	if d.err == nil && d.off != len(d.b) {
		d.fail("bytes after the end")
	}
	return d.err
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: byte %d: %s", ErrCodec, d.off, fmt.Sprintf(format, args...))
	}
}

func (d *decoder) byte() byte {
	if d.err != nil || d.off == len(d.b) {
		d.fail("short")
		return 0
	}
	d.off++
	return d.b[d.off-1]
}

// number reads a number that is at most most, in its shortest form.
func (d *decoder) number(most uint64) uint64 {
	if d.err != nil {
		return 0
	}
	n, used := binary.Uvarint(d.b[d.off:])
	switch {
	case used <= 0:
		d.fail("bad number")
		return 0
	case used > 1 && d.b[d.off+used-1] == 0:
		d.fail("number in a long form")
		return 0
	case n > most:
		d.fail("%d, at most %d", n, most)
		return 0
	}
	d.off += used
	return n
}

// count reads how many things follow, each of at least size bytes: no more than the rest of the bytes can hold.
func (d *decoder) count(most, size int) int {
	n := d.number(uint64(most))
	if rest := uint64(len(d.b)-d.off) / uint64(size); n > rest {
		d.fail("%d, at most %d", n, rest)
		return 0
	}
	return int(n)
}

func (d *decoder) text(most int) string {
	n := d.count(most, 1)
	if d.err != nil {
		return ""
	}
	d.off += n
	return string(d.b[d.off-n : d.off])
}

func (d *decoder) member() Member {
	if d.table == nil {
		m := Member{Node: d.text(NodeBytesMax), Incarnation: d.text(IncarnationBytesMax)}
		d.check(m.Check())
		return m
	}
	if i := d.number(MembersMax); i < uint64(len(d.table)) {
		return d.table[i]
	}
	d.fail("a member beyond the table")
	return Member{}
}

// check makes the decoder fail if err is not nil.
func (d *decoder) check(err error) {
	if err != nil {
		d.fail("%v", err)
	}
}

func (d *decoder) list() []Member {
	n := d.count(CopiesMax, 1)
	if d.err != nil {
		return nil
	}
	l := make([]Member, 0, n)
	for range n {
		l = append(l, d.member())
	}
	return l
}

// assignment reads an assignment. It shares the lists of before, if that is not nil and they are equal.
func (d *decoder) assignment(before *Assignment) (a Assignment) {
	depth := int(d.byte())
	if depth > 32 {
		d.fail("a bucket of %d bits", depth)
		return a
	}
	a.State = State(d.byte())
	key := d.number(1<<depth - 1)
	a.Bucket = BucketOf(Slot(key<<(32-depth)), depth)
	a.Epoch = d.number(1<<64 - 1)
	a.Since = a.Epoch - d.number(a.Epoch)
	a.Moved = uint32(d.number(1<<32 - 1))
	a.Owners = d.list()
	if before != nil && slices.Equal(before.Owners, a.Owners) {
		a.Owners = before.Owners
	}
	if a.Next = a.Owners; a.State != Stable {
		a.Next = d.list()
	}
	if d.err == nil {
		d.check(a.Check(CopiesMax))
	}
	return a
}

func (d *decoder) assignments(most int) []Assignment {
	n := d.count(most, assignmentBytesMin)
	list := make([]Assignment, 0, n)
	for i := 0; i < n && d.err == nil; i++ {
		var before *Assignment
		if i > 0 {
			before = &list[i-1]
		}
		list = append(list, d.assignment(before))
	}
	return list
}

// The fewest bytes of an assignment, a node and a member, with members of a table and in full.
const (
	assignmentBytesMin = 8
	nodeBytesMin       = 6
	memberBytesMin     = 3
)

func (d *decoder) node() (n Node) {
	n.Member = d.member()
	n.Addr, n.Zone = d.text(AddrBytesMax), d.text(ZoneBytesMax)
	n.Weight = uint32(d.number(WeightMax))
	n.Started = d.number(1<<64 - 1)
	n.State = NodeState(d.byte())
	if d.err == nil {
		d.check(n.Check())
	}
	return n
}

func (d *decoder) nodes() []Node {
	n := d.count(NodesMax, nodeBytesMin)
	list := make([]Node, 0, n)
	for i := 0; i < n && d.err == nil; i++ {
		if list = append(list, d.node()); i > 0 && list[i-1].Node >= list[i].Node {
			d.fail("node %s is not before node %s", list[i-1].Node, list[i].Node)
		}
	}
	return list
}

func (d *decoder) members() []Member {
	n := d.count(MembersMax, memberBytesMin)
	list := make([]Member, 0, n)
	for i := 0; i < n && d.err == nil; i++ {
		list = append(list, d.member())
	}
	return list
}

// AppendAssignment appends one assignment, with its members in full.
func AppendAssignment(dst []byte, a *Assignment) ([]byte, error) {
	e := newEncoder(dst, kindAssignment)
	e.assignment(a)
	return e.sealed(len(dst))
}

// DecodeAssignment inverts AppendAssignment. Its error is ErrCodec for everything that AppendAssignment does not write. It does not
// keep b.
func DecodeAssignment(b []byte) (*Assignment, error) {
	d := open(b, kindAssignment)
	a := d.assignment(nil)
	if err := d.end(); err != nil {
		return nil, err
	}
	return &a, nil
}

// AppendNotMine appends the answer to a refused request.
func AppendNotMine(dst []byte, n *NotMine) ([]byte, error) {
	e := newEncoder(dst, kindNotMine)
	if !n.Verdict.Refuses() || n.Assignment == nil && len(n.Addrs) > 0 {
		e.err = fmt.Errorf("%w: verdict %v is not a refusal", ErrCodec, n.Verdict)
	}
	e.byte(byte(n.Verdict))
	if n.Assignment == nil {
		e.byte(0)
		return e.sealed(len(dst))
	}
	e.byte(1)
	e.assignment(n.Assignment)
	names := addressed(n)
	e.number(uint64(len(names)))
	for _, name := range names {
		if addr := n.Addrs[name]; e.err == nil && (addr == "" || len(addr) > AddrBytesMax || !utf8.ValidString(addr)) {
			e.err = fmt.Errorf("%w: node %s has an address of %d bytes", ErrMember, name, len(addr))
		}
		e.text(name)
		e.text(n.Addrs[name])
	}
	return e.sealed(len(dst))
}

// addressed returns the nodes of the lists that have an address, in the order of their names. Addresses of other nodes are not
// sent.
func addressed(n *NotMine) (names []string) {
	for _, m := range n.Assignment.Everyone() {
		if _, ok := n.Addrs[m.Node]; ok && !slices.Contains(names, m.Node) {
			names = append(names, m.Node)
		}
	}
	slices.Sort(names)
	return names
}

// DecodeNotMine inverts AppendNotMine. Its error is ErrCodec for everything that AppendNotMine does not write. It does not keep b.
func DecodeNotMine(b []byte) (*NotMine, error) {
	d := open(b, kindNotMine)
	n := &NotMine{Verdict: Verdict(d.byte())}
	if !n.Verdict.Refuses() {
		d.fail("verdict %v is not a refusal", n.Verdict)
	}
	switch has := d.byte(); {
	case has > 1:
		d.fail("a flag is %d", has)
	case has == 1:
		a := d.assignment(nil)
		n.Assignment = &a
		n.Addrs = d.addrs(&a)
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return n, nil
}

// addrs reads the addresses of nodes of an assignment.
func (d *decoder) addrs(a *Assignment) map[string]string {
	n := d.count(2*CopiesMax, 4)
	out := make(map[string]string, n)
	last := ""
	for i := 0; i < n && d.err == nil; i++ {
		name, addr := d.text(NodeBytesMax), d.text(AddrBytesMax)
		switch {
		case name <= last:
			d.fail("node %q is not after node %q", name, last)
		case addr == "" || !utf8.ValidString(addr):
			d.fail("node %q has the address %q", name, addr)
		case !slices.ContainsFunc(a.Everyone(), func(m Member) bool { return m.Node == name }):
			d.fail("node %q is in no list", name)
		}
		out[name], last = addr, name
	}
	return out
}
