package model

import (
	"encoding/binary"
	"errors"
)

var errMalformed = errors.New("model: malformed")

// Kinds of operations and messages, as their first byte.
const (
	opAdd    = 'a'
	opRemove = 'r'
	opClear  = 'c'

	msgDelta   = 'D' // operations
	msgFacts   = 'F' // keys and deaths: of an answer or of read repair
	msgClock   = 'S' // a clock to be joined: no correct replica sends one
	msgElement = 'E' // an element as a reader saw it: no correct replica sends one
)

// item is one operation of a delta.
type item struct {
	kind byte
	elem string
	dot  dot
	ctx  dots
	wide bool   // ctx is not resolved
	id   string // of the client's operation
}

type delta struct {
	stamp int64
	items []item
}

func (d delta) append(b []byte) []byte {
	b = append(b, msgDelta)
	b = binary.AppendVarint(b, d.stamp)
	b = append(b, byte(len(d.items)))
	for i := range d.items {
		it := &d.items[i]
		b = append(b, it.kind, flag(it.wide))
		b = appendString(b, it.elem)
		b = append(b, it.dot.actor, it.dot.ctr)
		b = it.ctx.append(b)
		b = appendString(b, it.id)
	}
	return b
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func (s *dots) append(b []byte) []byte {
	at := len(b)
	b = append(b, 0)
	for a, w := range s {
		if w != 0 {
			b[at]++
			b = append(b, byte(a))
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	return b
}

// facts are keys, deaths and unresolved operations.
type facts struct {
	keys       []key
	dead       dots
	unresolved []wide
	asked      dots // what the answer is about: only a broken receiver reads it
}

func (f *facts) append(b []byte) []byte {
	b = append(b, msgFacts, byte(len(f.keys)))
	for _, k := range f.keys {
		b = appendString(b, k.elem)
		b = append(b, k.dot.actor, k.dot.ctr)
		b = binary.AppendVarint(b, k.stamp)
	}
	b = f.dead.append(b)
	b = f.asked.append(b)
	b = append(b, byte(len(f.unresolved)))
	for i := range f.unresolved {
		o := &f.unresolved[i]
		b = appendString(b, o.elem)
		b = append(b, o.dot.actor, o.dot.ctr, flag(o.add))
		b = o.ctx.append(b)
	}
	return b
}

// decoder decodes bytes. After the first error everything is zero.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) string() string {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > uint64(len(d.b)-size) {
		d.bad = true
		return ""
	}
	d.b = d.b[size:]
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) dot() dot {
	k := dot{d.byte(), d.byte()}
	if k.actor >= actors || k.ctr < 1 || k.ctr > counters {
		d.bad = true
		return dot{0, 1}
	}
	return k
}

func (d *decoder) dots() (s dots) {
	for range d.byte() {
		a := d.byte()
		if a >= actors || len(d.b) < 8 {
			d.bad = true
			return s
		}
		s[a] = binary.LittleEndian.Uint64(d.b)
		d.b = d.b[8:]
	}
	return s
}

func (d *decoder) end() error {
	if d.bad || len(d.b) > 0 {
		return errMalformed
	}
	return nil
}

func (d *decoder) delta() (m delta) {
	m.stamp = d.varint()
	for range d.byte() {
		it := item{kind: d.byte(), wide: d.byte() == 1, elem: d.string()}
		if it.kind == opClear {
			d.byte()
			d.byte()
		} else {
			it.dot = d.dot()
		}
		it.ctx, it.id = d.dots(), d.string()
		m.items = append(m.items, it)
	}
	return m
}

func (d *decoder) facts() (f facts) {
	for range d.byte() {
		f.keys = append(f.keys, key{elem: d.string(), dot: d.dot(), stamp: d.varint()})
	}
	f.dead, f.asked = d.dots(), d.dots()
	for range d.byte() {
		f.unresolved = append(f.unresolved, wide{elem: d.string(), dot: d.dot(), add: d.byte() == 1, ctx: d.dots()})
	}
	return f
}

// context is what a client had seen: the dots of an element that it was shown, and if it is wide also the clock of the whole set.
// The dots are named in addition to the clock: a coordinator that has seen them die can no longer find them by the clock, and the
// replicas to which it sends the operation may not know of that death.
type context struct {
	wide  bool
	elem  string
	dots  dots
	clock dots
}

func (c *context) append(b []byte) []byte {
	b = append(b, flag(c.wide))
	b = appendString(b, c.elem)
	b = c.dots.append(b)
	return c.clock.append(b)
}

func decodeContext(b []byte) (c context, err error) {
	if b == nil {
		return c, nil
	}
	d := decoder{b: b}
	c = context{wide: d.byte() == 1, elem: d.string(), dots: d.dots(), clock: d.dots()}
	return c, d.end()
}
