package clock

import (
	"encoding/binary"
)

// The first byte of an encoding says which form it has. These are on disk and on the wire.
const (
	formClock  = 1 // actors with base and pages
	formPacked = 2 // formClock, compressed
	formDot    = 3 // exactly one dot: counter, then the actor to the end
)

// DecodedBytesMax bounds the memory that Decode keeps: at most this many bytes for each byte of a canonical encoding. While it
// runs, Decode takes up to 200 KiB more. The worst case is a page of one value.
const DecodedBytesMax = 128

// Append appends the canonical encoding of c: equal clocks give equal bytes, whatever their history, and different clocks give
// different ones. A clock of one dot takes 1 byte, its counter as a varint and its actor; see doc.go for the rest. Append only
// reads c.
func (c *Clock) Append(dst []byte) []byte {
	recs := c.records()
	if len(recs) == 1 && recs[0].count == 1 {
		dst = binary.AppendUvarint(append(dst, formDot), recs[0].Max())
		return append(dst, recs[0].actor...)
	}
	dst = binary.AppendUvarint(append(dst, formClock), uint64(len(recs)))
	var w pageWriter
	for i := range recs {
		dst = w.section(dst, &recs[i])
	}
	return dst
}

// Decode returns the clock that b encodes, plain or compressed. It refuses every encoding but the one that Append makes, so that
// equal clocks have equal bytes even if the bytes come from elsewhere. Its errors wrap ErrCorrupt and are *CorruptError. It does
// not keep b. Memory is bounded by DecodedBytesMax and, for compressed bytes, also by PackRatioMax and EncodedBytesMax.
func Decode(b []byte) (*Clock, error) {
	b, err := unpack(b)
	if err != nil {
		return nil, err
	}
	if len(b) > 0 && b[0] == formDot {
		actor, counter, err := parseDot(b)
		if err != nil {
			return nil, err
		}
		return Of(Dot{Actor(actor), counter}), nil
	}
	c := new(Clock)
	p := parser{b: b}
	if err := p.clock(&loader{c: c, tok: c.token()}); err != nil {
		return nil, err
	}
	return c, nil
}

// UnionEncoded adds to c what b encodes, as Decode and Union would, without making the other clock. On an error c is unchanged. It
// costs O(len(b)) and the pages of c that it touches.
func (c *Clock) UnionEncoded(b []byte) error {
	b, err := unpack(b)
	if err != nil {
		return err
	}
	if len(b) > 0 && b[0] == formDot {
		actor, counter, err := parseDot(b)
		if err == nil {
			c.record(actor).addRange(counter, counter, c.token())
		}
		return err
	}
	p := parser{b: b}
	if err := p.clock(nil); err != nil {
		return err
	}
	return p.clock(&uniter{c: c, tok: c.token()})
}

// record returns the record of an actor, and makes a new one if there is none. It copies the name only then.
func (c *Clock) record(actor []byte) *Counters {
	i, ok := c.find(stringOf(actor))
	if !ok {
		c.insert(i, Actor(actor))
	}
	return &c.recs[i]
}

// sink takes what a parser finds, in order.
type sink interface {
	// clock opens the encoding; actors is the number of sections that follow.
	clock(actors int)
	// section opens an actor; pages is the number of its page records.
	section(actor []byte, base uint64, pages int)
	// full is an extent of the opened actor.
	full(first, last uint64)
	// partial is a page of n values. The parser owns spans.
	partial(index uint64, spans []span, n int)
	// end closes the actor.
	end()
}

// loader builds a clock in normal form out of an encoding that is in normal form: it only appends.
type loader struct {
	c    *Clock
	tok  *token
	r    Counters
	make bitmapMaker
}

func (l *loader) clock(actors int) {
	if actors > 0 {
		l.c.recs = make([]Counters, 0, actors)
	}
}

func (l *loader) section(actor []byte, base uint64, pages int) {
	l.r = Counters{actor: Actor(actor), base: base, count: base, owner: l.tok}
	if pages > 0 {
		l.r.pages = make([]page, 0, pages)
	}
}

func (l *loader) full(first, last uint64) { l.page(extent(first, last)) }

func (l *loader) partial(index uint64, spans []span, n int) {
	l.page(page{first: index, last: index, bits: l.make.of(spans, n), owner: l.tok, n: uint32(n)})
}

func (l *loader) page(p page) {
	l.r.pages = append(l.r.pages, p)
	l.r.count += p.size()
}

func (l *loader) end() { l.c.recs = append(l.c.recs, l.r) }

// uniter adds an encoding that has been validated to a clock.
type uniter struct {
	c    *Clock
	tok  *token
	r    *Counters
	make bitmapMaker
}

func (u *uniter) clock(int) {}

func (u *uniter) section(actor []byte, base uint64, _ int) {
	u.r = u.c.record(actor)
	if base != 0 {
		u.r.addRange(1, base, u.tok)
	}
}

func (u *uniter) full(first, last uint64) {
	u.r.addRange(first<<pageBits, last<<pageBits|lowMask, u.tok)
}

// spansByRange is the number of spans up to which adding them one by one beats making a bitmap of them.
const spansByRange = 4

func (u *uniter) partial(index uint64, spans []span, n int) {
	if len(spans) <= spansByRange {
		for _, s := range spans {
			u.r.addRange(index<<pageBits|uint64(s.first), index<<pageBits|uint64(s.last), u.tok)
		}
		return
	}
	p := page{first: index, last: index, bits: u.make.of(spans, n), n: uint32(n)}
	if p.end() > u.r.base {
		u.r.unionPage(&p, u.tok, true)
		u.r.absorb(u.tok)
	}
}

func (u *uniter) end() {}

// section appends one actor: length and name, base, number of page records, records.
func (w *pageWriter) section(dst []byte, r *Counters) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(r.actor)))
	dst = append(dst, r.actor...)
	dst = binary.AppendUvarint(dst, r.base)
	dst = binary.AppendUvarint(dst, uint64(len(r.pages)))
	at := placeAfter(r.base)
	for i := range r.pages {
		p := &r.pages[i]
		delta, lo := p.first-at.next, at.low(p.first)
		if p.bits == nil {
			dst = binary.AppendUvarint(dst, delta<<kindBits|kindFull)
			dst = binary.AppendUvarint(dst, p.last-p.first+1)
		} else {
			dst = w.page(dst, p, delta, lo)
		}
		at.next = p.last + 1
	}
	return dst
}

// place is where the next page record of an actor may lie. The least counter that a cloud can hold is base+2. Values below it in
// its page are not encoded, so a base in the middle of a page costs nothing, and a base that is not maximal has no encoding.
type place struct {
	next      uint64 // least index
	floor     uint64 // base+2's index
	floorLow  uint64 // base+2's value in it
	afterFull bool   // the record before was an extent
}

func placeAfter(base uint64) place {
	least := base + 2
	return place{next: least >> pageBits, floor: least >> pageBits, floorLow: least & lowMask}
}

// low returns the least value that page index may hold.
func (at *place) low(index uint64) uint32 {
	if index == at.floor {
		return uint32(at.floorLow)
	}
	return 0
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
