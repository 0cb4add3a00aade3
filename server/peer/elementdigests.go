package peer

import (
	"bytes"
	"fmt"

	"bigset"
)

// ElementRange asks for hashes of keys: Replica.ElementDigests's arguments in a frame.
type ElementRange struct {
	Set   []byte
	Range bigset.ElementRange
}

func (ElementRange) kind() byte { return kindElementRange }

func (m ElementRange) appendTo(e *encoder) error {
	if m.Range.Mean < 1 || m.Range.Mean > bigset.ElementsMeanMax {
		return fmt.Errorf("%w: parts of %d elements", ErrFrame, m.Range.Mean)
	}
	e.set(m.Set)
	e.optional(m.Range.After)
	e.optional(m.Range.UpTo)
	e.uvarint(uint64(m.Range.Mean))
	e.clock(m.Range.Within)
	return nil
}

func (d *decoder) elementRange() ElementRange {
	m := ElementRange{Set: d.setName()}
	m.Range.After, m.Range.UpTo = d.optional(bigset.ElementBytesMax), d.optional(bigset.ElementBytesMax)
	mean := d.uvarint()
	if mean < 1 || mean > bigset.ElementsMeanMax {
		d.fail("parts of no such size")
	}
	m.Range.Mean, m.Range.Within = int(mean), d.clock()
	return m
}

// ElementDigests are hashes of keys in a frame: bigset.ElementDigests.
type ElementDigests bigset.ElementDigests

func (ElementDigests) kind() byte { return kindElementDigests }

// elementDigestBytesMin is the minimum size of a part: length of its bound, and number of its elements.
const elementDigestBytesMin = 2

func (m ElementDigests) appendTo(e *encoder) error {
	if len(m.Parts) > bigset.ElementPartsMax {
		return fmt.Errorf("%w: %d parts", ErrFrameTooLarge, len(m.Parts))
	}
	if err := checkElementDigests(&m); err != nil {
		return err
	}
	e.bool(m.Done)
	e.uvarint(uint64(len(m.Parts)))
	for i := range m.Parts {
		p := &m.Parts[i]
		e.bytes(p.Bound)
		if e.uvarint(p.Elements); p.Elements > 0 {
			e.b = append(e.b, p.Sum[:]...)
		}
	}
	return nil
}

func (d *decoder) elementDigests() ElementDigests {
	m := ElementDigests{Done: d.bool()}
	n := d.count(elementDigestBytesMin, bigset.ElementPartsMax)
	for len(m.Parts) < n && d.err == nil {
		p := bigset.ElementDigest{Bound: d.bytes(bigset.ElementBytesMax), Elements: d.uvarint()}
		if p.Elements > 0 {
			copy(p.Sum[:], d.raw(sumLen))
		}
		m.Parts = append(m.Parts, p)
	}
	if err := checkElementDigests(&m); d.err == nil && err != nil {
		d.failed("hashes of elements", err)
	}
	return m
}

// checkElementDigests checks that parts ascend, that a part without elements has no sum, and that an answer that is not done has a part to
// continue after.
func checkElementDigests(m *ElementDigests) error {
	if !m.Done && len(m.Parts) == 0 {
		return fmt.Errorf("%w: hashes of nothing, and not done", ErrFrame)
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		if i > 0 && bytes.Compare(m.Parts[i-1].Bound, p.Bound) >= 0 {
			return fmt.Errorf("%w: parts are not in order", ErrFrame)
		}
		if p.Elements == 0 && p.Sum != [16]byte{} {
			return fmt.Errorf("%w: a sum of no elements", ErrFrame)
		}
	}
	return nil
}

func (e *encoder) bool(v bool) {
	if v {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

func (d *decoder) bool() bool {
	v := d.byte()
	if v > 1 {
		d.fail("neither true nor false")
	}
	return v == 1
}
