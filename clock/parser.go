package clock

import (
	"encoding/binary"
	"math/bits"
)

// parser reads an encoding and refuses everything that pageWriter would not have written. It allocates only its list of spans.
type parser struct {
	b     []byte
	off   int
	spans []span
}

func (p *parser) fail(reason string) error { return &CorruptError{Offset: p.off, Reason: reason} }

// parseDot reads the form of one dot. The actor is part of b.
func parseDot(b []byte) (actor []byte, counter uint64, err error) {
	p := parser{b: b, off: 1}
	if counter, err = p.uvarint(); err != nil {
		return nil, 0, err
	}
	if actor = b[p.off:]; counter == 0 || len(actor) == 0 || len(actor) > ActorBytesMax {
		return nil, 0, p.fail("not a dot")
	}
	return actor, counter, nil
}

// clock reads a whole encoding into s. If s is nil, it only validates the encoding.
func (p *parser) clock(s sink) error {
	if len(p.b) == 0 || p.b[0] != formClock {
		return p.fail("unknown form")
	}
	p.off = 1
	actors, err := p.uvarint()
	if err != nil {
		return err
	}
	if actors > uint64(len(p.b)-p.off)/4 { // a section has at least four bytes
		return p.fail("more actors than bytes")
	}
	if s != nil {
		s.clock(int(actors))
	}
	var before []byte
	dots := uint64(0)
	for range actors {
		if before, dots, err = p.section(s, before); err != nil {
			return err
		}
	}
	if p.off != len(p.b) {
		return p.fail("bytes after the end")
	}
	if actors == 1 && dots == 1 {
		return p.fail("one dot in the form of many")
	}
	return nil
}

// section reads an actor; it returns the name and the number of its counters.
func (p *parser) section(s sink, before []byte) (actor []byte, dots uint64, err error) {
	if actor, err = p.actor(before); err != nil {
		return nil, 0, err
	}
	base, err := p.uvarint()
	if err != nil {
		return nil, 0, err
	}
	pages, err := p.uvarint()
	switch {
	case err != nil:
		return nil, 0, err
	case pages > uint64(len(p.b)-p.off)/2: // a record has at least two bytes
		return nil, 0, p.fail("more records than bytes")
	case pages == 0 && base == 0:
		return nil, 0, p.fail("actor without counters")
	case pages > 0 && base+2 < base:
		return nil, 0, p.fail("records above the last counter")
	}
	if s != nil {
		s.section(actor, base, int(pages))
	}
	at, dots := placeAfter(base), base
	for range pages {
		n, err := p.record(s, &at)
		if err != nil {
			return nil, 0, err
		}
		dots += n
	}
	if s != nil {
		s.end()
	}
	return actor, dots, nil
}

// actor reads a name that sorts after before.
func (p *parser) actor(before []byte) ([]byte, error) {
	n, err := p.uvarint()
	if err != nil {
		return nil, err
	}
	if n == 0 || n > ActorBytesMax || n > uint64(len(p.b)-p.off) {
		return nil, p.fail("bad length of an actor")
	}
	name := p.b[p.off : p.off+int(n)]
	if string(name) <= string(before) {
		return nil, p.fail("actors out of order")
	}
	p.off += int(n)
	return name, nil
}

// record reads one page record; it returns the number of counters in it.
func (p *parser) record(s sink, at *place) (uint64, error) {
	head, err := p.uvarint()
	if err != nil {
		return 0, err
	}
	kind, delta := head&(1<<kindBits-1), head>>kindBits
	if at.next > indexMax || delta > indexMax-at.next {
		return 0, p.fail("page beyond the last counter")
	}
	index := at.next + delta
	if kind == kindFull {
		return p.full(s, at, index)
	}
	sh, err := p.partial(kind, at.low(index))
	if err != nil {
		return 0, err
	}
	at.next, at.afterFull = index+1, false
	if s != nil {
		s.partial(index, p.spans, sh.values)
	}
	return uint64(sh.values), nil
}

func (p *parser) full(s sink, at *place, index uint64) (uint64, error) {
	if at.low(index) != 0 {
		return 0, p.fail("extent over the base")
	}
	if at.afterFull && index == at.next {
		return 0, p.fail("extents that touch")
	}
	n, err := p.uvarint()
	if err != nil {
		return 0, err
	}
	if n == 0 || n-1 > indexMax-index {
		return 0, p.fail("bad length of an extent")
	}
	at.next, at.afterFull = index+n, true
	if s != nil {
		s.full(index, index+n-1)
	}
	return n << pageBits, nil
}

// partial reads a page of values into p.spans.
func (p *parser) partial(kind uint64, lo uint32) (sh shape, err error) {
	p.spans = p.spans[:0]
	switch kind {
	case kindRuns:
		err = p.runs(lo)
	case kindValues:
		err = p.values(lo)
	case kindHoles:
		err = p.holes(lo)
	case kindBitmap:
		err = p.bitmap(lo)
	default:
		err = p.fail("unknown kind of record")
	}
	if err != nil {
		return sh, err
	}
	sh = measure(p.spans, lo)
	if sh.values == pageValues || sh.kind() != kind {
		err = p.fail("not the smallest kind of record")
	}
	return sh, err
}

func (p *parser) runs(lo uint32) error {
	n, err := p.count(pageValues / 2)
	if err != nil {
		return err
	}
	next := lo
	for range n {
		first, err := p.value(next)
		if err != nil {
			return err
		}
		last, err := p.value(first)
		if err != nil {
			return err
		}
		p.spans = append(p.spans, span{uint16(first), uint16(last)})
		next = last + 2
	}
	return nil
}

func (p *parser) values(lo uint32) error {
	n, err := p.count(pageValues)
	if err != nil {
		return err
	}
	next := lo
	for range n {
		v, err := p.value(next)
		if err != nil {
			return err
		}
		p.join(v, v)
		next = v + 1
	}
	return nil
}

func (p *parser) holes(lo uint32) error {
	last, err := p.value(lo)
	if err != nil {
		return err
	}
	n, err := p.uvarint()
	if err != nil {
		return err
	}
	next := lo
	for range n {
		hole, err := p.value(next)
		if err != nil {
			return err
		}
		if hole >= last {
			return p.fail("hole above the last value")
		}
		if hole > next {
			p.join(next, hole-1)
		}
		next = hole + 1
	}
	p.join(next, last)
	return nil
}

func (p *parser) bitmap(lo uint32) error {
	last, err := p.value(lo)
	if err != nil {
		return err
	}
	n := int(last-lo)/8 + 1
	if n > len(p.b)-p.off {
		return p.fail("bitmap cut short")
	}
	raw := p.b[p.off : p.off+n]
	if bits.Len8(raw[n-1]) != int(last-lo)%8+1 {
		return p.fail("bitmap of another width")
	}
	for i, c := range raw {
		for c != 0 {
			from := bits.TrailingZeros8(c)
			size := bits.TrailingZeros8(^(c >> from))
			v := lo + uint32(i*8+from)
			p.join(v, v+uint32(size)-1)
			c &= ^(1<<(from+size) - 1)
		}
	}
	p.off += n
	return nil
}

// join appends a span, or lengthens the last one if they touch.
func (p *parser) join(first, last uint32) {
	if k := len(p.spans) - 1; k >= 0 && uint32(p.spans[k].last)+1 == first {
		p.spans[k].last = uint16(last)
		return
	}
	p.spans = append(p.spans, span{uint16(first), uint16(last)})
}

// value reads a distance from next and returns the value at that distance, which must lie in the page.
func (p *parser) value(next uint32) (uint32, error) {
	d, err := p.uvarint()
	if err != nil {
		return 0, err
	}
	if next > lowMask || d > uint64(lowMask-next) {
		return 0, p.fail("value beyond its page")
	}
	return next + uint32(d), nil
}

// count reads a number from 1 to most.
func (p *parser) count(most uint64) (uint64, error) {
	n, err := p.uvarint()
	if err == nil && (n == 0 || n > most) {
		err = p.fail("bad count")
	}
	return n, err
}

// uvarint reads a varint and refuses one that could be shorter.
func (p *parser) uvarint() (uint64, error) {
	if p.off < len(p.b) && p.b[p.off] < 0x80 { // most are
		p.off++
		return uint64(p.b[p.off-1]), nil
	}
	v, n := binary.Uvarint(p.b[min(p.off, len(p.b)):])
	if n <= 0 {
		return 0, p.fail("bad varint")
	}
	if n > 1 && p.b[p.off+n-1] == 0 {
		return 0, p.fail("varint longer than need be")
	}
	p.off += n
	return v, nil
}
