package peer

import (
	"fmt"

	"bigset"
	"bigset/clock"
	"bigset/fold"
)

// Heal asks to put keys back, and to remove others: Replica.Heal's arguments in a frame.
type Heal struct {
	Facts bigset.Facts
	Wrong []fold.Element
}

func (Heal) kind() byte { return kindHeal }

func (m Heal) appendTo(e *encoder) error {
	if err := Facts(m.Facts).appendTo(e); err != nil {
		return err
	}
	return e.elements(m.Wrong)
}

func (d *decoder) heal() Heal { return Heal{Facts: bigset.Facts(d.facts()), Wrong: d.elements()} }

// HealResult is a bigset.HealResult in a frame.
type HealResult bigset.HealResult

func (HealResult) kind() byte { return kindHealResult }

// healCounts are the numbers of a result, in their order on the wire.
func (m *HealResult) healCounts() []*int {
	return []*int{&m.Healed, &m.Present, &m.Dead, &m.NotSeen, &m.Left, &m.Taken}
}

func (m HealResult) appendTo(e *encoder) error {
	for _, n := range m.healCounts() {
		if *n < 0 || *n > FrameBytesMax {
			return fmt.Errorf("%w: %d keys", ErrFrame, *n)
		}
		e.uvarint(uint64(*n))
	}
	return nil
}

func (d *decoder) healResult() (m HealResult) {
	for _, n := range m.healCounts() {
		v := d.uvarint()
		if v > FrameBytesMax {
			d.fail("more keys than a frame holds")
			return m
		}
		*n = int(v)
	}
	return m
}

// Lost lists the dots of a set that a replica has lost: the answer of Replica.Lost in a frame.
type Lost struct {
	Set  []byte
	Dots *clock.Clock
}

func (Lost) kind() byte { return kindLost }

func (m Lost) appendTo(e *encoder) error {
	e.set(m.Set)
	e.clock(m.Dots)
	return nil
}

func (d *decoder) lost() Lost { return Lost{Set: d.setName(), Dots: d.clock()} }
