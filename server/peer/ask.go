package peer

import (
	"encoding/binary"
	"fmt"
	"math"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
)

// The kinds of frames that are only sent over a wire, from version 2 on: they carry requests to a replica and its answers, none of which
// can stand alone. They are on the wire.
const (
	kindWrite           = 'W'
	kindWritten         = 'w'
	kindKnows           = 'Q'
	kindKnown           = 'q'
	kindFactsResult     = 'T'
	kindAskLost         = 'l'
	kindAskState        = 's'
	kindRead            = 'r'
	kindLookup          = 'U'
	kindContexts        = 'u'
	kindAskDigests      = 'a'
	kindAskRangeDigests = 'b'
	kindAskSliceDigests = 'i'
	kindDone            = 'O'
	kindAskCount        = 'o'
	kindPartCounts      = 't'
)

// kindVersion returns the first version of frames that has a kind.
func kindVersion(kind byte) byte {
	switch kind {
	case kindWrite, kindWritten, kindKnows, kindKnown, kindFactsResult, kindAskLost, kindAskState, kindRead, kindLookup, kindContexts, kindAskDigests,
		kindAskRangeDigests, kindAskSliceDigests, kindDone, kindMarkMany, kindMarkedMany, kindCheckMany, kindAnswersMany, kindMarksMany, kindAskCount, kindPartCounts,
		kindAskRequests, kindRequests, kindAskStamp, kindStamp:
		return 2
	case kindDeltas, kindOutcomes:
		return DeltasVersion
	}
	return 1
}

// askMessage decodes the rest of a frame as a message that is only sent over a wire, or returns nil if the kind is not such a message.
func (d *decoder) askMessage(kind byte) Message {
	switch kind {
	case kindWrite:
		return d.write()
	case kindWritten:
		return d.written()
	case kindKnows:
		m := Knows{Set: d.setName(), Request: d.bytes(RequestBytesMax)}
		m.Try = d.try(m.Request)
		return m
	case kindKnown:
		return Known(d.bool())
	case kindFactsResult:
		return FactsResult{Keys: d.uvarint(), Dead: d.uvarint()}
	case kindAskLost:
		return AskLost{d.setName()}
	case kindAskState:
		return AskState{d.setName()}
	case kindRead:
		return d.read()
	case kindLookup:
		return d.lookup()
	case kindContexts:
		return d.contexts()
	case kindAskDigests:
		return AskDigests(d.slots())
	case kindAskRangeDigests:
		return d.askRangeDigests()
	case kindAskSliceDigests:
		return AskSliceDigests(d.slots())
	case kindAskCount:
		return d.askCount()
	case kindPartCounts:
		return PartCounts{ElementDigests: bigset.ElementDigests(d.elementDigests()), Clock: d.optionalClock()}
	case kindDone:
		return Done{}
	}
	return nil
}

// TriesVersion is the least version of frames in which a request with an id has the number of its try. A node that speaks an older one sends none,
// and its tries are not refused.
const TriesVersion = 4

// try writes the number of the try of a request, after its id.
func (e *encoder) try(request []byte, try uint64) {
	if e.version >= TriesVersion && len(request) > 0 {
		e.b = binary.BigEndian.AppendUint64(e.b, try)
	}
}

func (d *decoder) try(request []byte) uint64 {
	if d.version < TriesVersion || len(request) == 0 {
		return 0
	}
	return binary.BigEndian.Uint64(d.raw(8))
}

// Write requests a client's operations: Replica.Write's arguments in a frame.
type Write struct {
	Set     []byte
	Ops     []bigset.Op // at most bigset.BatchOpsMax
	Options bigset.WriteOptions
}

func (Write) kind() byte { return kindWrite }

// opBytesMin is the minimum size of an operation: kind, length of the element, kind of context.
const opBytesMin = 3

func (m Write) appendTo(e *encoder) error {
	switch {
	case len(m.Ops) > bigset.BatchOpsMax:
		return fmt.Errorf("%w: %d operations", ErrFrameTooLarge, len(m.Ops))
	case len(m.Options.Request) > RequestBytesMax:
		return fmt.Errorf("%w: request id of %d bytes", ErrFrameTooLarge, len(m.Options.Request))
	case m.Options.Policy > bigset.PolicyRequired || m.Options.Durability > bigset.NoSync:
		return fmt.Errorf("%w: policy %d, durability %d", ErrFrame, m.Options.Policy, m.Options.Durability)
	}
	e.set(m.Set)
	e.bytes(m.Options.Request)
	e.try(m.Options.Request, m.Options.Try)
	e.byte(byte(m.Options.Policy))
	e.byte(byte(m.Options.Durability))
	e.uvarint(uint64(len(m.Ops)))
	for i := range m.Ops {
		op := &m.Ops[i]
		if op.Kind != keyscheme.OpAdd && op.Kind != keyscheme.OpRemove {
			return fmt.Errorf("%w: operation %d of kind %q", ErrFrame, i, op.Kind)
		}
		e.byte(byte(op.Kind))
		e.bytes(op.Element)
		if err := e.context(&op.Context); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) write() Write {
	m := Write{Set: d.setName()}
	m.Options.Request = d.bytes(RequestBytesMax)
	m.Options.Try = d.try(m.Options.Request)
	m.Options.Policy, m.Options.Durability = bigset.Policy(d.byte()), bigset.Durability(d.byte())
	if m.Options.Policy > bigset.PolicyRequired || m.Options.Durability > bigset.NoSync {
		d.fail("no such policy or durability")
	}
	n := d.count(opBytesMin, bigset.BatchOpsMax)
	if n == 0 {
		return m
	}
	m.Ops = make([]bigset.Op, 0, n)
	for len(m.Ops) < n && d.err == nil {
		op := bigset.Op{Kind: keyscheme.Op(d.byte()), Element: d.bytes(bigset.ElementBytesMax), Context: d.context()}
		if op.Kind != keyscheme.OpAdd && op.Kind != keyscheme.OpRemove {
			d.fail("an operation that is neither add nor remove")
		}
		m.Ops = append(m.Ops, op)
	}
	return m
}

// The kinds of contexts. They are on the wire.
const (
	contextNone   = 0
	contextNarrow = 1 // dots follow
	contextWide   = 2 // a clock follows
	contextSame   = 3 // the clock of the previous wide context
)

func (e *encoder) context(c *bigset.Context) error {
	switch {
	case !c.Given && (c.Wide != nil || len(c.Dots) > 0):
		return fmt.Errorf("%w: a context that is not given", ErrFrame)
	case !c.Given:
		e.byte(contextNone)
	case c.Wide != nil && c.Wide == e.wide:
		e.byte(contextSame)
	case c.Wide != nil:
		e.wide = c.Wide
		e.byte(contextWide)
		e.clock(c.Wide)
	case len(c.Dots) > bigset.ContextDotsMax:
		return fmt.Errorf("%w: %d dots", ErrFrameTooLarge, len(c.Dots))
	default:
		e.byte(contextNarrow)
		return e.dots(c.Dots)
	}
	return nil
}

func (d *decoder) context() bigset.Context {
	switch d.byte() {
	case contextNone:
		return bigset.Context{}
	case contextNarrow:
		return bigset.Context{Given: true, Dots: d.dots(bigset.ContextDotsMax)}
	case contextWide:
		d.wide = d.clock()
		if d.wideBytes += d.wide.HeapBytes(); d.wideBytes > bigset.BatchBytesMax {
			d.failed("wide contexts", ErrFrameTooLarge)
		}
		return bigset.SawAll(d.wide)
	case contextSame:
		if d.wide != nil {
			return bigset.SawAll(d.wide)
		}
	}
	d.fail("no such context")
	return bigset.Context{}
}

// Written is a bigset.Result in a frame. The elements of its delta are copies.
type Written bigset.Result

func (Written) kind() byte { return kindWritten }

func (m Written) appendTo(e *encoder) error {
	if len(m.Dots) > bigset.BatchOpsMax || m.Removed < 0 || m.Removed > bigset.BatchOpsMax {
		return fmt.Errorf("%w: %d dots, %d removed", ErrFrameTooLarge, len(m.Dots), m.Removed)
	}
	e.uvarint(uint64(m.Removed))
	e.uvarint(uint64(len(m.Dots)))
	for _, dot := range m.Dots {
		if e.bool(dot.Valid()); dot.Valid() {
			e.actor(dot.Actor)
			e.uvarint(dot.Counter)
		}
	}
	has := len(m.Delta.Set) > 0
	if e.bool(has); !has {
		return nil
	}
	return Delta(m.Delta).appendTo(e)
}

func (d *decoder) written() Written {
	m := Written{Removed: int(d.upTo(bigset.BatchOpsMax))}
	if n := d.count(1, bigset.BatchOpsMax); n > 0 {
		m.Dots = make([]clock.Dot, 0, n)
		for len(m.Dots) < n && d.err == nil {
			var dot clock.Dot
			if d.bool() {
				if dot.Actor, dot.Counter = d.actor(), d.uvarint(); dot.Counter == 0 {
					d.fail("not a dot")
				}
			}
			m.Dots = append(m.Dots, dot)
		}
	}
	if d.bool() {
		m.Delta = bigset.Delta(d.delta())
	}
	return m
}

// Knows asks whether a replica has a client's request: Replica.Knows's arguments in a frame.
type Knows struct {
	Set, Request []byte
	Try          uint64
}

func (Knows) kind() byte { return kindKnows }

func (m Knows) appendTo(e *encoder) error {
	if len(m.Request) > RequestBytesMax {
		return fmt.Errorf("%w: request id of %d bytes", ErrFrameTooLarge, len(m.Request))
	}
	e.set(m.Set)
	e.bytes(m.Request)
	e.try(m.Request, m.Try)
	return nil
}

// Known answers Knows.
type Known bool

func (Known) kind() byte { return kindKnown }

func (m Known) appendTo(e *encoder) error {
	e.bool(bool(m))
	return nil
}

// FactsResult is a bigset.FactsResult in a frame.
type FactsResult bigset.FactsResult

func (FactsResult) kind() byte { return kindFactsResult }

func (m FactsResult) appendTo(e *encoder) error {
	e.uvarint(m.Keys)
	e.uvarint(m.Dead)
	return nil
}

// AskLost asks which dots of a set a replica has lost: Replica.Lost's argument in a frame.
type AskLost struct{ Set []byte }

func (AskLost) kind() byte { return kindAskLost }

func (m AskLost) appendTo(e *encoder) error {
	e.set(m.Set)
	return nil
}

// AskState asks for the State of a set: Replica.State's argument in a frame.
type AskState struct{ Set []byte }

func (AskState) kind() byte { return kindAskState }

func (m AskState) appendTo(e *encoder) error {
	e.set(m.Set)
	return nil
}

// Read asks for the elements of a set: Replica.Read's arguments in a frame, except for the reader's scrap.
type Read struct {
	Set     []byte
	Options bigset.ReadOptions
}

func (Read) kind() byte { return kindRead }

func (m Read) appendTo(e *encoder) error {
	o := &m.Options
	if o.Limit < 0 || o.BatchSize < 0 || o.BatchSize > bigset.BatchSizeMax {
		return fmt.Errorf("%w: a read of %d elements, %d in a chunk", ErrFrame, o.Limit, o.BatchSize)
	}
	e.set(m.Set)
	for _, b := range [][]byte{o.From, o.To, o.Prefix, o.After} {
		e.optional(b)
	}
	e.bool(o.Reverse)
	e.uvarint(uint64(o.Limit))
	e.uvarint(uint64(o.BatchSize))
	return nil
}

func (d *decoder) read() Read {
	m := Read{Set: d.setName()}
	for _, b := range []*[]byte{&m.Options.From, &m.Options.To, &m.Options.Prefix, &m.Options.After} {
		*b = d.optional(bigset.ElementBytesMax)
	}
	m.Options.Reverse = d.bool()
	m.Options.Limit, m.Options.BatchSize = int(d.upTo(math.MaxInt)), int(d.upTo(bigset.BatchSizeMax))
	return m
}

// Lookup asks by which dots elements are present: Replica.Lookup's arguments in a frame.
type Lookup struct {
	Set      []byte
	Elements [][]byte // at most ElementsMax
}

func (Lookup) kind() byte { return kindLookup }

func (m Lookup) appendTo(e *encoder) error {
	if len(m.Elements) > ElementsMax {
		return fmt.Errorf("%w: %d elements", ErrFrameTooLarge, len(m.Elements))
	}
	e.set(m.Set)
	e.uvarint(uint64(len(m.Elements)))
	for _, el := range m.Elements {
		e.bytes(el)
	}
	return nil
}

func (d *decoder) lookup() Lookup {
	m := Lookup{Set: d.setName()}
	if n := d.count(1, ElementsMax); n > 0 {
		m.Elements = make([][]byte, 0, n)
		for len(m.Elements) < n && d.err == nil {
			m.Elements = append(m.Elements, d.bytes(bigset.ElementBytesMax))
		}
	}
	return m
}

// Contexts answer a Lookup: one for each element, in the order of the elements.
type Contexts []bigset.Context // at most ElementsMax

func (Contexts) kind() byte { return kindContexts }

func (m Contexts) appendTo(e *encoder) error {
	if len(m) > ElementsMax {
		return fmt.Errorf("%w: %d contexts", ErrFrameTooLarge, len(m))
	}
	e.uvarint(uint64(len(m)))
	for i := range m {
		if err := e.context(&m[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) contexts() Contexts {
	n := d.count(1, ElementsMax)
	if n == 0 {
		return nil
	}
	m := make(Contexts, 0, n)
	for len(m) < n && d.err == nil {
		m = append(m, d.context())
	}
	return m
}

// AskDigests asks for the digests of the sets in a range of slots: Replica.Digests's arguments in a frame.
type AskDigests slots

// AskSliceDigests asks for the digests of the slices in a range of slots: SliceReplica.SliceDigests's arguments in a frame.
type AskSliceDigests slots

// slots are a range of slots, both ends included.
type slots struct{ First, Last keyscheme.Slot }

func (AskDigests) kind() byte      { return kindAskDigests }
func (AskSliceDigests) kind() byte { return kindAskSliceDigests }

func (m AskDigests) appendTo(e *encoder) error      { return e.slots(slots(m)) }
func (m AskSliceDigests) appendTo(e *encoder) error { return e.slots(slots(m)) }

func (e *encoder) slots(r slots) error {
	e.slot(r.First)
	e.slot(r.Last)
	return nil
}

func (d *decoder) slots() slots { return slots{First: d.slot(), Last: d.slot()} }

// AskRangeDigests asks for the digests of parts of a range of slots: Replica.RangeDigests's arguments in a frame.
type AskRangeDigests struct {
	First, Last keyscheme.Slot
	Parts       int // 1 to bigset.RangePartsMax
}

func (AskRangeDigests) kind() byte { return kindAskRangeDigests }

func (m AskRangeDigests) appendTo(e *encoder) error {
	if m.Parts < 1 || m.Parts > bigset.RangePartsMax {
		return fmt.Errorf("%w: a range in %d parts", ErrFrame, m.Parts)
	}
	e.slot(m.First)
	e.slot(m.Last)
	e.uvarint(uint64(m.Parts))
	return nil
}

func (d *decoder) askRangeDigests() AskRangeDigests {
	m := AskRangeDigests{First: d.slot(), Last: d.slot(), Parts: int(d.upTo(bigset.RangePartsMax))}
	if m.Parts == 0 {
		d.fail("a range in no parts")
	}
	return m
}

// Done says that a request has been done, or that a stream is complete.
type Done struct{}

func (Done) kind() byte { return kindDone }

func (Done) appendTo(*encoder) error { return nil }
