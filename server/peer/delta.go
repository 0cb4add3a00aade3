package peer

import (
	"fmt"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
)

// The kinds of frames. They are on the wire.
const (
	kindDelta        = 'D'
	kindFacts        = 'F'
	kindLocate       = 'L'
	kindChunk        = 'C'
	kindState        = 'S'
	kindDigests      = 'G'
	kindRangeDigests = 'R'
	kindAsk          = 'A'
	kindDotStatuses  = 'V'
	kindExport       = 'E'
	kindPortion      = 'P'

	kindElementRange   = 'H'
	kindElementDigests = 'K'
	kindHeal           = 'M'
	kindHealResult     = 'N'
	kindLost           = 'X'
)

// Delta is a bigset.Delta in a frame: self-contained, applied whole or not at all.
type Delta bigset.Delta

func (Delta) kind() byte { return kindDelta }

// itemBytesMin is the minimum size of an item: kind, length of the element, number of dots.
const itemBytesMin = 3

func (m Delta) appendTo(e *encoder) error {
	e.set(m.Set)
	return e.change(&m)
}

// change writes a delta without its set.
func (e *encoder) change(m *Delta) error {
	if len(m.Request) > RequestBytesMax {
		return fmt.Errorf("%w: request id of %d bytes", ErrFrameTooLarge, len(m.Request))
	}
	if len(m.Items) > bigset.BatchOpsMax {
		return fmt.Errorf("%w: %d items", ErrFrameTooLarge, len(m.Items))
	}
	e.bytes(m.Request)
	e.clock(m.Clear)
	e.uvarint(uint64(len(m.Items)))
	if len(m.Items) == 0 {
		return nil
	}
	e.actor(m.Actor)
	e.uvarint(m.First)
	for i := range m.Items {
		it := &m.Items[i]
		if it.Wide != nil {
			return fmt.Errorf("%w: item %d of a delta of %q", ErrUnresolvedContexts, i, m.Set)
		}
		e.byte(byte(it.Kind))
		e.bytes(it.Element)
		if err := e.dots(it.Context); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) delta() Delta { return d.change(d.setName(), bigset.BatchOpsMax) }

// change reads a delta of a set, with at most itemsMax items.
func (d *decoder) change(set []byte, itemsMax int) Delta {
	m := Delta{Set: set, Request: d.bytes(RequestBytesMax), Clear: d.someClock()}
	n := d.count(itemBytesMin, itemsMax)
	if n == 0 {
		return m
	}
	m.Actor, m.First = d.actor(), d.uvarint()
	if m.First == 0 || m.First+uint64(n)-1 < m.First {
		d.fail("counters")
		return m
	}
	m.Items = make([]bigset.Item, 0, n)
	for len(m.Items) < n && d.err == nil {
		it := bigset.Item{Kind: keyscheme.Op(d.byte()), Element: d.bytes(bigset.ElementBytesMax), Context: d.dots(bigset.DeltaDotsMax)}
		if it.Kind != keyscheme.OpAdd && it.Kind != keyscheme.OpRemove {
			d.fail("an item that is neither add nor remove")
		}
		m.Items = append(m.Items, it)
	}
	return m
}

// set writes which set a message is about, or which slice of a split set: its name, and the number of the slice. No set is split yet.
func (e *encoder) set(name []byte) {
	e.bytes(name)
	if e.version > 1 {
		e.uvarint(0)
	}
}

func (d *decoder) setName() []byte {
	b := d.bytes(bigset.SetNameBytesMax)
	if len(b) == 0 {
		d.fail("no name of a set")
	}
	if d.version > 1 {
		if slice := d.uvarint(); slice != 0 {
			d.failed("slice of a set", fmt.Errorf("%w: slice %d of %.64q", ErrSetSlice, slice, b))
		}
	}
	return b
}

// Ask asks for the status of dots that an element has elsewhere: DotStatus's arguments in a frame.
type Ask struct {
	Set, Element []byte
	Dots         []clock.Dot // at most bigset.ContextDotsMax
}

func (Ask) kind() byte { return kindAsk }

func (m Ask) appendTo(e *encoder) error {
	if len(m.Dots) > bigset.ContextDotsMax {
		return fmt.Errorf("%w: %d dots", ErrFrameTooLarge, len(m.Dots))
	}
	e.set(m.Set)
	e.bytes(m.Element)
	return e.dots(m.Dots)
}

func (d *decoder) ask() Ask {
	return Ask{Set: d.setName(), Element: d.bytes(bigset.ElementBytesMax), Dots: d.dots(bigset.ContextDotsMax)}
}

// DotStatuses answer an Ask: all live dots of the element, and the status of each dot in the question, in the same order.
type DotStatuses bigset.DotStatuses

func (DotStatuses) kind() byte { return kindDotStatuses }

func (m DotStatuses) appendTo(e *encoder) error {
	if len(m.Statuses) > bigset.ContextDotsMax {
		return fmt.Errorf("%w: %d statuses of dots", ErrFrameTooLarge, len(m.Statuses))
	}
	if !ascending(m.Live) {
		return fmt.Errorf("%w: live dots are not in order", ErrFrame)
	}
	if err := e.dots(m.Live); err != nil {
		return err
	}
	e.uvarint(uint64(len(m.Statuses)))
	for _, v := range m.Statuses {
		code, ok := statusCodes[v]
		if !ok {
			return fmt.Errorf("%w: dot status %d", ErrFrame, v)
		}
		e.byte(code)
	}
	return nil
}

// statusCodes are the bytes that stand for statuses of dots on the wire.
var statusCodes = map[bigset.DotStatus]byte{bigset.Live: 'l', bigset.Dead: 'd', bigset.NotSeen: 'n', bigset.Lost: 'x'}

func (d *decoder) dotStatuses() DotStatuses {
	m := DotStatuses{Live: d.dots(FrameBytesMax)}
	if !ascending(m.Live) {
		d.fail("live dots in no order")
	}
	n := d.count(1, bigset.ContextDotsMax)
	for range n {
		v, ok := statusOf(d.byte())
		if !ok {
			d.fail("unknown status of a dot")
			break
		}
		m.Statuses = append(m.Statuses, v)
	}
	return m
}

func statusOf(code byte) (bigset.DotStatus, bool) {
	for v, c := range statusCodes {
		if c == code {
			return v, true
		}
	}
	return 0, false
}
