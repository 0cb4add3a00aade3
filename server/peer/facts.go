package peer

import (
	"bytes"
	"fmt"

	"bigset"
	"bigset/clock"
	"bigset/fold"
)

// Facts are bigset.Facts in a frame: keys with their dots, and deaths, which the receiver checks against its own state.
type Facts bigset.Facts

func (Facts) kind() byte { return kindFacts }

func (m Facts) appendTo(e *encoder) error {
	e.set(m.Set)
	e.clock(m.Dead)
	return e.elements(m.Keys)
}

func (d *decoder) facts() Facts {
	return Facts{Set: d.setName(), Dead: d.someClock(), Keys: d.elements()}
}

// elementBytesMin is the minimum size of an element: length, number of dots, a dot.
const elementBytesMin = 2 + dotBytesMin

func (e *encoder) elements(all []fold.Element) error {
	if len(all) > ElementsMax {
		return fmt.Errorf("%w: %d elements", ErrFrameTooLarge, len(all))
	}
	e.uvarint(uint64(len(all)))
	for i := range all {
		if len(all[i].Dots) == 0 || !ascending(all[i].Dots) {
			return fmt.Errorf("%w: element %.64q has no dots, or not in order", ErrFrame, all[i].Name)
		}
		e.bytes(all[i].Name)
		if err := e.dots(all[i].Dots); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) elements() []fold.Element {
	n := d.count(elementBytesMin, ElementsMax)
	if n == 0 {
		return nil
	}
	all := d.spare[:0]
	if d.spare = nil; cap(all) < n {
		all = make([]fold.Element, 0, n)
	}
	for len(all) < n && d.err == nil {
		el := fold.Element{Name: d.bytes(bigset.ElementBytesMax), Dots: d.dots(FrameBytesMax)}
		if len(el.Dots) == 0 || !ascending(el.Dots) {
			d.fail("an element without dots, or not in order")
		}
		all = append(all, el)
	}
	return all
}

// Locate asks for the keys or deaths of dots: Replica.Locate's arguments in a frame.
type Locate struct {
	Set  []byte
	Dots *clock.Clock
}

func (Locate) kind() byte { return kindLocate }

func (m Locate) appendTo(e *encoder) error {
	e.set(m.Set)
	e.clock(m.Dots)
	return nil
}

func (d *decoder) locate() Locate { return Locate{Set: d.setName(), Dots: d.clock()} }

// State is a bigset.State in a frame: what a replica has seen of a set, and which of that is dead.
type State bigset.State

func (State) kind() byte { return kindState }

func (m State) appendTo(e *encoder) error {
	e.clock(m.Seen)
	e.clock(m.Dead)
	e.uvarint(m.Unresolved)
	return nil
}

func (d *decoder) state() State {
	m := State{Seen: d.clock(), Dead: d.clock(), Unresolved: d.uvarint()}
	if d.err == nil && !m.Seen.Descends(m.Dead) {
		d.fail("dead dots that were not seen")
	}
	return m
}

// Chunk is a part of a read in a frame. A nil Clock means the clock of the previous chunk. What a chunk counts besides its elements
// (Scanned, Dead) is not sent.
type Chunk fold.Chunk

func (Chunk) kind() byte { return kindChunk }

// The flags of a chunk. They are on the wire.
const (
	chunkDone  = 1 << 0
	chunkBound = 1 << 1 // a bound follows
	chunkClock = 1 << 2 // a clock follows
)

func (m Chunk) appendTo(e *encoder) error {
	if err := checkChunk(&m); err != nil {
		return err
	}
	var flags byte
	if m.Done {
		flags |= chunkDone
	}
	if m.Bound != nil {
		flags |= chunkBound
	}
	if m.Clock != nil {
		flags |= chunkClock
	}
	e.byte(flags)
	if m.Clock != nil {
		e.clock(m.Clock)
	}
	if m.Bound != nil {
		e.bytes(m.Bound)
	}
	return e.elements(m.Elements)
}

// DecodeChunk decodes the frame of a Chunk, in the memory of scrap if that is not nil: a chunk that is no longer used. It does not keep b.
// The error for a frame of another kind is ErrFrameKind.
func DecodeChunk(b []byte, scrap *fold.Chunk) (*fold.Chunk, Member, error) {
	if err := checkFrame(b); err != nil {
		return nil, Member{}, err
	}
	if b[1] != kindChunk {
		return nil, Member{}, fmt.Errorf("%w: %q", ErrFrameKind, b[1])
	}
	var d decoder
	var names []byte
	if scrap != nil {
		d.spare, names, d.room = scrap.Spare()
	}
	d.first = d.room
	names = append(names, b[:len(b)-sumBytes]...)
	d.b = names
	from := d.sender()
	c := fold.Chunk(d.chunk())
	if err := d.end(); err != nil {
		return nil, Member{}, err
	}
	if c.Bound != nil {
		c.Bound = append([]byte{}, c.Bound...) // readers keep it longer than the chunk
	}
	c.Hold(names, d.first)
	return &c, from, nil
}

func (d *decoder) chunk() Chunk {
	flags := d.byte()
	if flags&^(chunkDone|chunkBound|chunkClock) != 0 {
		d.fail("unknown flags")
	}
	m := Chunk{Done: flags&chunkDone != 0}
	if flags&chunkClock != 0 {
		m.Clock = d.clock()
	}
	if flags&chunkBound != 0 {
		m.Bound = d.bytes(bigset.ElementBytesMax)
	}
	m.Elements = d.elements()
	m.Count = len(m.Elements)
	for i := range m.Elements {
		m.Dots += len(m.Elements[i].Dots)
	}
	if err := checkChunk(&m); d.err == nil && err != nil {
		d.failed("chunk", err)
	}
	return m
}

// checkChunk checks that elements ascend or descend without duplicates, and that the bound is not before the last.
func checkChunk(m *Chunk) error {
	if m.Done && m.Bound != nil {
		return fmt.Errorf("%w: a chunk that is done has no bound", ErrFrame)
	}
	direction := 0
	for i := 1; i < len(m.Elements); i++ {
		c := bytes.Compare(m.Elements[i-1].Name, m.Elements[i].Name)
		if c == 0 || direction != 0 && c != direction {
			return fmt.Errorf("%w: elements of a chunk are not in order", ErrFrame)
		}
		direction = c
	}
	if n := len(m.Elements); n > 0 && !m.Done {
		c := bytes.Compare(m.Elements[n-1].Name, m.Bound)
		if m.Bound == nil || c != 0 && direction != 0 && c != direction {
			return fmt.Errorf("%w: the bound of a chunk is before its last element", ErrFrame)
		}
	}
	return nil
}
