package handoff

import (
	"encoding/binary"
	"fmt"

	"bigset/clock"
	"bigset/keyscheme"
)

// progressVersion is the version of the encoding, which docs/format.md draws. It is on disk.
const progressVersion = 1

const (
	flagSet   = 1 << 0 // a set follows: at least one was begun
	flagBegun = 1 << 1
	flagWhole = 1 << 2
	flagAfter = 1 << 3 // the position follows
	flagCheck = 1 << 4 // the check follows
)

// nodeBytesMax is the longest name of a node.
const nodeBytesMax = 255

// Append appends the encoding of a progress.
func (p *Progress) Append(dst []byte) []byte {
	dst = append(dst, progressVersion)
	dst = appendBytes(dst, []byte(p.from.Node))
	dst = appendBytes(dst, []byte(p.from.Incarnation))
	dst = keyscheme.AppendSlot(keyscheme.AppendSlot(dst, p.slots.First), p.slots.Last)
	flags := b2f(p.set != nil, flagSet) | b2f(p.begun, flagBegun) | b2f(p.whole, flagWhole) | b2f(p.after != nil, flagAfter) | b2f(p.check != nil, flagCheck)
	dst = append(dst, flags)
	if p.set != nil {
		dst = appendBytes(dst, p.set)
	}
	if p.after != nil {
		dst = appendBytes(dst, p.after)
	}
	if p.check != nil {
		dst = appendBytes(dst, p.check.AppendCompressed(nil))
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.owed)))
	for _, o := range p.owed {
		dst = appendBytes(appendBytes(dst, o.Set), o.Check.AppendCompressed(nil))
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func b2f(set bool, flag byte) byte {
	if set {
		return flag
	}
	return 0
}

// Decode inverts Append. It refuses everything that Append does not write, except other ways to compress the same clocks. Its
// errors wrap ErrCorrupt. It does not keep b.
func Decode(b []byte) (*Progress, error) {
	d := decoder{b: b}
	if d.byte() != progressVersion {
		d.fail("unknown version")
	}
	p := &Progress{from: Source{string(d.bytes(1, nodeBytesMax)), clock.Actor(d.bytes(1, clock.ActorBytesMax))}}
	p.slots = Range{d.slot(), d.slot()}
	flags := d.byte()
	if flags&flagSet != 0 {
		p.set = d.set()
	}
	p.begun, p.whole = flags&flagBegun != 0, flags&flagWhole != 0
	if flags&flagAfter != 0 {
		p.after = d.bytes(0, keyscheme.ElementBytesMax)
	}
	if flags&flagCheck != 0 {
		p.check = d.clock()
	}
	n := d.uvarint()
	if n > OwedMax {
		d.fail("too many sets are owed")
	}
	for i := uint64(0); i < n && d.err == nil; i++ {
		p.owed = append(p.owed, Owed{Set: d.set(), Check: d.clock()})
	}
	if d.err == nil && len(d.b) > 0 {
		d.fail("bytes after the end")
	}
	if d.err == nil {
		d.check(p, flags)
	}
	if d.err != nil {
		return nil, d.err
	}
	return p, nil
}

// check refuses a progress that no copy reaches.
func (d *decoder) check(p *Progress, flags byte) {
	within := func(set []byte) bool {
		slot := keyscheme.SetSlot(set)
		return p.slots.First <= slot && slot <= p.slots.Last
	}
	switch {
	case flags >= 2*flagCheck, p.slots.First > p.slots.Last:
		d.fail("flags or range")
	case p.set != nil && !within(p.set), p.begun && p.set == nil:
		d.fail("the current set")
	case (p.whole || p.after != nil || p.check != nil) && !p.begun, p.whole && p.after != nil,
		(p.whole || p.after != nil) != (p.check != nil):
		d.fail("the position")
	}
	for i, o := range p.owed {
		if o.Check.Empty() || !within(o.Set) || p.set == nil || CompareSets(o.Set, p.set) > 0 || p.begun && CompareSets(o.Set, p.set) == 0 ||
			i > 0 && CompareSets(p.owed[i-1].Set, o.Set) >= 0 {
			d.fail("what is owed")
		}
	}
}

// decoder reads fields until it meets one that is malformed.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(reason string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s, %d bytes before the end", ErrCorrupt, reason, len(d.b))
	}
}

func (d *decoder) cut(n uint64) []byte {
	if d.err != nil || n > uint64(len(d.b)) {
		d.fail("cut short")
		return nil
	}
	cut := d.b[:n]
	d.b = d.b[n:]
	return cut
}

func (d *decoder) byte() byte {
	if b := d.cut(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) slot() keyscheme.Slot {
	if b := d.cut(keyscheme.SlotBytes); b != nil {
		return keyscheme.Slot(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if d.err != nil || n <= 0 || n > 1 && d.b[n-1] == 0 {
		d.fail("bad number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes(least, most uint64) []byte {
	n := d.uvarint()
	if n < least || n > most {
		d.fail("a name that is too short or too long")
		return nil
	}
	return append([]byte{}, d.cut(n)...)
}

func (d *decoder) set() []byte { return d.bytes(1, keyscheme.SetNameBytesMax) }

func (d *decoder) clock() *clock.Clock {
	b := d.cut(d.uvarint())
	if d.err != nil {
		return &clock.Clock{}
	}
	c, err := clock.Decode(b)
	if err != nil {
		d.err = fmt.Errorf("%w: %w", ErrCorrupt, err)
		return &clock.Clock{}
	}
	return c
}
