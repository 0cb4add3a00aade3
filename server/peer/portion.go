package peer

import (
	"fmt"
	"slices"

	"bigset"
	"bigset/clock"
)

// Export asks for a chunk of a copy: Replica.Export's arguments in a frame.
type Export struct {
	Set   []byte
	After []byte // nil means the start
	Bytes int    // at most bigset.PortionBytesMax; 0 means the default
}

func (Export) kind() byte { return kindExport }

func (m Export) appendTo(e *encoder) error {
	if m.Bytes < 0 || m.Bytes > bigset.PortionBytesMax {
		return fmt.Errorf("%w: a portion of %d bytes", ErrFrameTooLarge, m.Bytes)
	}
	e.set(m.Set)
	e.optional(m.After)
	e.uvarint(uint64(m.Bytes))
	return nil
}

func (d *decoder) export() Export {
	m := Export{Set: d.setName(), After: d.optional(bigset.ElementBytesMax)}
	n := d.uvarint()
	if n > bigset.PortionBytesMax {
		d.failed("a portion that is too large", ErrFrameTooLarge)
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

// Portion is a bigset.Portion in a frame: a chunk of a copy. Its keys are packed, and checked by the engine that ingests them.
type Portion bigset.Portion

func (Portion) kind() byte { return kindPortion }

// portionRest is how much room a frame of a portion has for what is not keys: most clocks are smaller.
const portionRest = 4 << 10

// The flags of a portion. They are on the wire.
const (
	portionDone = 1 << 0 // otherwise the bound follows
	portionSeen = 1 << 1 // Seen follows
	portionDead = 1 << 2 // Dead follows
)

// portionKeyBytesMin is the minimum size of a packed key: shared, size, actor, counter.
const portionKeyBytesMin = 4

func (m Portion) appendTo(e *encoder) error {
	if err := checkPortion(&m); err != nil {
		return err
	}
	var flags byte
	if m.Done {
		flags |= portionDone
	}
	if m.Seen != nil {
		flags |= portionSeen
	}
	if m.Dead != nil {
		flags |= portionDead
	}
	e.set(m.Set)
	e.byte(flags)
	if !m.Done {
		e.bytes(m.Bound)
	}
	e.uvarint(uint64(m.Count))
	e.b = slices.Grow(e.b, len(m.Keys)+portionRest)
	e.bytes(m.Keys)
	for _, c := range []*clock.Clock{m.Seen, m.Dead} {
		if c != nil {
			e.clock(c)
		}
	}
	return nil
}

func (d *decoder) portion() Portion {
	m := Portion{Set: d.setName()}
	flags := d.byte()
	if flags >= 2*portionDead {
		d.fail("unknown flags of a portion")
	}
	if m.Done = flags&portionDone != 0; !m.Done {
		m.Bound = d.bytes(bigset.ElementBytesMax)
	}
	count := d.uvarint()
	m.Keys = d.bytes(FrameBytesMax)
	if m.Count = int(min(count, FrameBytesMax)); uint64(m.Count) != count {
		d.fail("too many keys")
	}
	if flags&portionSeen != 0 {
		m.Seen = d.clock()
	}
	if flags&portionDead != 0 {
		m.Dead = d.clock()
	}
	if err := checkPortion(&m); d.err == nil && err != nil {
		d.failed("portion", err)
	}
	return m
}

// checkPortion checks what can be checked without unpacking the keys.
func checkPortion(m *Portion) error {
	switch {
	case m.Done != (m.Bound == nil):
		return fmt.Errorf("%w: a portion is done, or has a bound", ErrFrame)
	case m.Count < 0 || m.Count > len(m.Keys)/portionKeyBytesMin || m.Count == 0 && len(m.Keys) > 0:
		return fmt.Errorf("%w: a portion of %d keys in %d bytes", ErrFrame, m.Count, len(m.Keys))
	case m.Seen != nil && m.Dead != nil && !m.Seen.Descends(m.Dead):
		return fmt.Errorf("%w: dead dots that were not seen", ErrFrame)
	}
	return nil
}
