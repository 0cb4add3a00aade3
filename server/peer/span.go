package peer

import (
	"fmt"

	"bigset"
	"bigset/clock"
)

// Export asks for a chunk of a copy: Replica.Export's arguments in a frame.
type Export struct {
	Set   []byte
	After []byte // nil is the start
	Bytes int    // at most bigset.SpanBytesMax; 0 is the default
}

func (Export) kind() byte { return kindExport }

func (m Export) appendTo(e *encoder) error {
	if m.Bytes < 0 || m.Bytes > bigset.SpanBytesMax {
		return fmt.Errorf("%w: a span of %d bytes", ErrFrameTooLarge, m.Bytes)
	}
	e.set(m.Set)
	e.optional(m.After)
	e.uvarint(uint64(m.Bytes))
	return nil
}

func (d *decoder) export() Export {
	m := Export{Set: d.setName(), After: d.optional(bigset.ElementBytesMax)}
	n := d.uvarint()
	if n > bigset.SpanBytesMax {
		d.failed("a span that is too large", ErrFrameTooLarge)
	}
	m.Bytes = int(n)
	return m
}

// optional writes bytes that may be nil.
func (e *encoder) optional(b []byte) {
	if b == nil {
		e.byte(0)
		return
	}
	e.byte(1)
	e.bytes(b)
}

func (d *decoder) optional(most int) []byte {
	switch d.byte() {
	case 0:
		return nil
	case 1:
		return d.bytes(most)
	}
	d.fail("neither there nor not")
	return nil
}

// Span is a bigset.Span in a frame: a chunk of a copy. Its keys are packed, and checked by the engine that takes them in.
type Span bigset.Span

func (Span) kind() byte { return kindSpan }

// The flags of a span. They are on the wire.
const (
	spanDone = 1 << 0 // else the bound follows
	spanSeen = 1 << 1 // Seen follows
	spanDead = 1 << 2 // Dead follows
)

// spanKeyBytesMin is the least that a packed key takes: shared, size, actor, counter.
const spanKeyBytesMin = 4

func (m Span) appendTo(e *encoder) error {
	if err := checkSpan(&m); err != nil {
		return err
	}
	var flags byte
	if m.Done {
		flags |= spanDone
	}
	if m.Seen != nil {
		flags |= spanSeen
	}
	if m.Dead != nil {
		flags |= spanDead
	}
	e.set(m.Set)
	e.byte(flags)
	if !m.Done {
		e.bytes(m.Bound)
	}
	e.uvarint(uint64(m.Count))
	e.bytes(m.Keys)
	for _, c := range []*clock.Clock{m.Seen, m.Dead} {
		if c != nil {
			e.clock(c)
		}
	}
	return nil
}

func (d *decoder) span() Span {
	m := Span{Set: d.setName()}
	flags := d.byte()
	if flags >= 2*spanDead {
		d.fail("unknown flags of a span")
	}
	if m.Done = flags&spanDone != 0; !m.Done {
		m.Bound = d.bytes(bigset.ElementBytesMax)
	}
	count := d.uvarint()
	m.Keys = d.bytes(FrameBytesMax)
	if m.Count = int(min(count, FrameBytesMax)); uint64(m.Count) != count {
		d.fail("too many keys")
	}
	if flags&spanSeen != 0 {
		m.Seen = d.clock()
	}
	if flags&spanDead != 0 {
		m.Dead = d.clock()
	}
	if err := checkSpan(&m); d.err == nil && err != nil {
		d.failed("span", err)
	}
	return m
}

// checkSpan checks what can be told without unpacking the keys.
func checkSpan(m *Span) error {
	switch {
	case m.Done != (m.Bound == nil):
		return fmt.Errorf("%w: a span is done, or has a bound", ErrFrame)
	case m.Count < 0 || m.Count > len(m.Keys)/spanKeyBytesMin || m.Count == 0 && len(m.Keys) > 0:
		return fmt.Errorf("%w: a span of %d keys in %d bytes", ErrFrame, m.Count, len(m.Keys))
	case m.Seen != nil && m.Dead != nil && !m.Seen.Descends(m.Dead):
		return fmt.Errorf("%w: dead dots that were not seen", ErrFrame)
	}
	return nil
}
