package peer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/fold"
)

// encoder writes the fields of a frame.
type encoder struct {
	b              []byte
	version        byte
	actors, owners names        // that the frame has named
	wide           *clock.Clock // the last wide context
}

func (e *encoder) byte(v byte)      { e.b = append(e.b, v) }
func (e *encoder) uvarint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }

func (e *encoder) text(s string) {
	e.uvarint(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) bytes(b []byte) {
	e.uvarint(uint64(len(b)))
	e.b = append(e.b, b...)
}

// emptyClock is the encoding of the empty clock, with its length.
const emptyClock = "\x02\x01\x00"

// clock writes a clock; nil means the empty one.
func (e *encoder) clock(c *clock.Clock) {
	if c.Empty() {
		e.b = append(e.b, emptyClock...)
		return
	}
	e.bytes(c.AppendCompressed(nil))
}

// named writes a name: in full at its first occurrence in the frame, then as its index in the table.
func (e *encoder) named(table *names, name string) {
	n, ok := table.find(name)
	if e.uvarint(uint64(n)); !ok {
		table.add(name)
		e.text(name)
	}
}

func (e *encoder) actor(a clock.Actor) { e.named(&e.actors, string(a)) }

func (e *encoder) dots(dots []clock.Dot) error {
	e.uvarint(uint64(len(dots)))
	for _, d := range dots {
		if !d.Valid() {
			return fmt.Errorf("%w: %v is no dot", ErrFrame, d)
		}
		e.actor(d.Actor)
		e.uvarint(d.Counter)
	}
	return nil
}

// decoder reads the fields of a frame, which it owns: its results share the frame's memory. After the first error it reads nothing more,
// and returns zero values.
type decoder struct {
	b              []byte
	off            int
	version        byte
	err            error
	actors, owners names
	wide           *clock.Clock   // the last wide context
	wideBytes      int            // the size in memory of all wide contexts
	room, first    []clock.Dot    // memory for dots: the unused part, and the first allocation
	spare          []fold.Element // memory for elements, if it suffices
	answers        room[bool]
	marksRoom      room[bigset.Mark]
	layersRoom     room[bloomslice.Layer]
}

// room is memory for the short lists of a frame; there may be hundreds.
type room[T any] struct{ free []T }

// take returns a slice of n elements. If there is no room for it, take allocates room for most elements at once, or for n.
func (r *room[T]) take(n, most int) []T {
	if len(r.free) < n {
		r.free = make([]T, max(n, most))
	}
	list := r.free[:n:n]
	r.free = r.free[n:]
	return list
}

// names are the names that a frame has named, by index.
type names struct {
	list  []string
	has   map[string]int // of many
	first [2]string      // memory for few
}

// namesFew is the number of names up to which they are searched one by one.
const namesFew = 8

// find returns the index of a name, or the next index.
func (t *names) find(name string) (place int, ok bool) {
	if len(t.list) > namesFew {
		if place, ok = t.has[name]; !ok {
			place = len(t.list)
		}
		return place, ok
	}
	if place = slices.Index(t.list, name); place < 0 {
		return len(t.list), false
	}
	return place, true
}

// add adds a name.
func (t *names) add(name string) {
	if t.list == nil {
		t.list = t.first[:0]
	}
	t.list = append(t.list, name)
	if len(t.list) <= namesFew {
		return
	}
	if t.has == nil {
		t.has = make(map[string]int, 2*namesFew)
		for i, n := range t.list {
			t.has[n] = i
		}
	}
	t.has[name] = len(t.list) - 1
}

func (d *decoder) fail(reason string) { d.failed(reason, nil) }

func (d *decoder) failed(reason string, cause error) {
	if d.err == nil {
		d.err = &FrameError{Offset: d.off, Reason: reason, Err: cause}
	}
}

func (d *decoder) rest() int { return len(d.b) - d.off }

func (d *decoder) byte() byte {
	if d.err != nil || d.rest() == 0 {
		d.fail("ends within a field")
		return 0
	}
	d.off++
	return d.b[d.off-1]
}

func (d *decoder) uvarint() uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.b[d.off:])
	if n <= 0 || n > 1 && d.b[d.off+n-1] == 0 { // the last byte of an overlong varint is 0
		d.fail("bad number")
		return 0
	}
	d.off += n
	return v
}

// upTo reads a number that is at most most.
func (d *decoder) upTo(most uint64) uint64 {
	n := d.uvarint()
	if n > most {
		d.fail("too large a number")
		return 0
	}
	return n
}

// count reads the number of items that follow, which take at least size bytes each.
func (d *decoder) count(size, most int) int {
	n := d.uvarint()
	switch {
	case d.err != nil:
		return 0
	case n > uint64(most):
		d.failed("too many", ErrFrameTooLarge)
		return 0
	case n > uint64(d.rest()/size):
		d.fail("more than there are bytes for")
		return 0
	}
	return int(n)
}

// bytes reads bytes with their length; the result is part of the frame, and never nil.
func (d *decoder) bytes(most int) []byte {
	n := d.count(1, most)
	d.off += n
	return d.b[d.off-n : d.off : d.off]
}

func (d *decoder) text(most int) string { return string(d.bytes(most)) }

// raw reads n bytes; the result is part of the frame.
func (d *decoder) raw(n int) []byte {
	if d.err != nil || d.rest() < n {
		d.fail("ends within a field")
		return make([]byte, n)
	}
	d.off += n
	return d.b[d.off-n : d.off]
}

func (d *decoder) clock() *clock.Clock {
	b := d.bytes(FrameBytesMax)
	if d.err != nil {
		return &clock.Clock{}
	}
	c, err := clock.Decode(b)
	if err != nil {
		d.failed("clock", err)
		return &clock.Clock{}
	}
	return c
}

// someClock reads a clock; it returns nil for the empty one.
func (d *decoder) someClock() *clock.Clock {
	if bytes.HasPrefix(d.b[d.off:], []byte(emptyClock)) && d.err == nil {
		d.off += len(emptyClock)
		return nil
	}
	if c := d.clock(); !c.Empty() {
		return c
	}
	return nil
}

// named reads a name of least to most bytes.
func (d *decoder) named(table *names, least, most int) string {
	n := d.uvarint()
	if d.err != nil {
		return ""
	}
	if n < uint64(len(table.list)) {
		return table.list[n]
	}
	name := d.text(most)
	if _, twice := table.find(name); n > uint64(len(table.list)) || len(name) < least || twice {
		d.fail("bad name, or one that was named before")
		return ""
	}
	table.add(name)
	return name
}

func (d *decoder) actor() clock.Actor {
	return clock.Actor(d.named(&d.actors, 1, clock.ActorBytesMax))
}

// dotBytesMin is the minimum size of a dot: the index of its actor, and its counter.
const dotBytesMin = 2

func (d *decoder) dots(most int) []clock.Dot {
	n := d.count(dotBytesMin, most)
	if n == 0 {
		return nil
	}
	dots := d.dotRoom(n)
	for len(dots) < n && d.err == nil {
		dot := clock.Dot{Actor: d.actor(), Counter: d.uvarint()}
		if dot.Counter == 0 {
			d.fail("not a dot")
		}
		dots = append(dots, dot)
	}
	return dots
}

// dotRoom returns memory for n dots, for which the frame has at least enough bytes.
func (d *decoder) dotRoom(n int) []clock.Dot {
	if cap(d.room) < n {
		d.room = make([]clock.Dot, 0, max(n, min(max(dotsRoom, 2*cap(d.first)), d.rest()/dotBytesMin)))
		d.first = d.room
	}
	dots := d.room[:0:n]
	d.room = d.room[n:n:cap(d.room)]
	return dots
}

// dotsRoom is the number of dots for which memory is first allocated; later allocations double.
const dotsRoom = 128

// ascending reports whether dots are in order, without duplicates.
func ascending(dots []clock.Dot) bool {
	return slices.IsSortedFunc(dots, func(a, b clock.Dot) int {
		if c := a.Compare(b); c != 0 {
			return c
		}
		return 1
	})
}
