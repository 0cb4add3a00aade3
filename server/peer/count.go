package peer

import (
	"fmt"

	"bigset"
	"bigset/clock"
)

// AskCount asks for counts of elements: Replica.CountParts's arguments in a frame.
type AskCount struct {
	Set   []byte
	Range bigset.CountRange
}

func (AskCount) kind() byte { return kindAskCount }

func (m AskCount) appendTo(e *encoder) error {
	if m.Range.Mean < 1 || m.Range.Mean > bigset.ElementsMeanMax {
		return fmt.Errorf("%w: parts of %d elements", ErrFrame, m.Range.Mean)
	}
	e.set(m.Set)
	for _, b := range [][]byte{m.Range.From, m.Range.To, m.Range.Prefix, m.Range.After} {
		e.optional(b)
	}
	e.uvarint(uint64(m.Range.Mean))
	e.bool(m.Range.Clock)
	return nil
}

func (d *decoder) askCount() AskCount {
	m := AskCount{Set: d.setName()}
	for _, b := range []*[]byte{&m.Range.From, &m.Range.To, &m.Range.Prefix, &m.Range.After} {
		*b = d.optional(bigset.ElementBytesMax)
	}
	if m.Range.Mean = int(d.upTo(bigset.ElementsMeanMax)); m.Range.Mean == 0 {
		d.fail("parts of no elements")
	}
	m.Range.Clock = d.bool()
	return m
}

// PartCounts are counts of elements in a frame: bigset.PartCounts.
type PartCounts bigset.PartCounts

func (PartCounts) kind() byte { return kindPartCounts }

func (m PartCounts) appendTo(e *encoder) error {
	if err := ElementDigests(m.ElementDigests).appendTo(e); err != nil {
		return err
	}
	e.bool(m.Clock != nil)
	if m.Clock != nil {
		e.clock(m.Clock)
	}
	return nil
}

// optionalClock reads a clock, or that there is none.
func (d *decoder) optionalClock() *clock.Clock {
	if !d.bool() {
		return nil
	}
	return d.clock()
}
