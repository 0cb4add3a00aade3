package peer

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"bigset/clock"
)

// The sizes of frames. They are part of the wire format.
const (
	// FrameBytesMax is the longest frame, in bytes.
	FrameBytesMax = 64 << 20
	// RequestBytesMax is the longest request id, in bytes.
	RequestBytesMax = 64
	// ElementsMax is the largest number of elements in a chunk or in facts, and DigestsMax that of digests in a frame.
	ElementsMax = 1 << 20
	DigestsMax  = 1 << 16
)

const (
	frameVersion = 1
	sumBytes     = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Message is what a frame carries. Of sets: a Delta, Facts, Locate, Chunk, State, Digests, RangeDigests, Ask, Judgement, Export, Span,
// ElementRange, ElementDigests, Heal, HealResult or Lost. Of slices of bloom filters: a Mark, Marked, Marks, Check, KeyAnswers,
// DropGeneration, SliceDigests, AskPageSums, PageSums, AskPages, SlicePages or FlushSlice. docs/format.md draws them.
type Message interface {
	kind() byte
	// appendTo writes the message. It returns an error for one that can't be sent.
	appendTo(*encoder) error
}

// Append appends the frame of a message that a member sends. Its error is ErrFrameTooLarge, ErrOpenContexts, ErrMember, or that of
// a message which could not be decoded.
func Append(dst []byte, from Member, m Message) ([]byte, error) {
	if err := from.Check(); err != nil {
		return dst, err
	}
	e := encoder{b: append(dst, frameVersion, m.kind())}
	e.text(from.Node)
	e.text(string(from.Incarnation))
	e.byte(byte(from.State))
	if err := m.appendTo(&e); err != nil {
		return dst, err
	}
	if n := len(e.b) - len(dst) + sumBytes; n > FrameBytesMax {
		return dst, fmt.Errorf("%w: %d bytes", ErrFrameTooLarge, n)
	}
	return binary.LittleEndian.AppendUint32(e.b, crc32.Checksum(e.b[len(dst):], castagnoli)), nil
}

// Decode returns what a frame carries, and who sent it. It refuses, with an error that wraps ErrFrame, all that Append does not
// write, but for other ways to compress the same clocks. It does not keep b.
func Decode(b []byte) (Message, Member, error) {
	switch {
	case len(b) > FrameBytesMax:
		return nil, Member{}, fmt.Errorf("%w: %d bytes", ErrFrameTooLarge, len(b))
	case len(b) < 2+sumBytes:
		return nil, Member{}, &FrameError{Offset: len(b), Reason: "short"}
	case b[0] != frameVersion:
		return nil, Member{}, fmt.Errorf("%w: %d", ErrFrameVersion, b[0])
	}
	body, sum := b[:len(b)-sumBytes], binary.LittleEndian.Uint32(b[len(b)-sumBytes:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, Member{}, ErrFrameSum
	}
	d := decoder{b: body, off: 2}
	from := Member{Node: d.text(NodeBytesMax), Incarnation: clock.Actor(d.text(clock.ActorBytesMax)), State: MemberState(d.byte())}
	if err := from.Check(); d.err == nil && err != nil {
		d.failed("sender", err)
	}
	m, err := d.message(b[1])
	if err != nil {
		return nil, Member{}, err
	}
	if d.err == nil && d.off != len(d.b) {
		d.fail("bytes behind the end")
	}
	if d.err != nil {
		return nil, Member{}, d.err
	}
	return m, from, nil
}

// DecodeFrom decodes a frame that must be from a member, in its incarnation, and returns the member in the state that it says.
// Its error is ErrSender for one from another.
func DecodeFrom(b []byte, want Member) (Message, Member, error) {
	m, from, err := Decode(b)
	if err == nil && !from.Is(want) {
		return nil, Member{}, fmt.Errorf("%w: from %v, expected from %v", ErrSender, from, want)
	}
	return m, from, err
}

// message decodes the rest of a frame as a message of that kind.
func (d *decoder) message(kind byte) (Message, error) {
	switch kind {
	case kindDelta:
		return d.delta(), nil
	case kindFacts:
		return d.facts(), nil
	case kindLocate:
		return d.locate(), nil
	case kindChunk:
		return d.chunk(), nil
	case kindState:
		return d.state(), nil
	case kindDigests:
		return d.digests(), nil
	case kindAsk:
		return d.ask(), nil
	case kindRangeDigests:
		return d.rangeDigests(), nil
	case kindJudgement:
		return d.judgement(), nil
	case kindExport:
		return d.export(), nil
	case kindSpan:
		return d.span(), nil
	case kindElementRange:
		return d.elementRange(), nil
	case kindElementDigests:
		return d.elementDigests(), nil
	case kindHeal:
		return d.heal(), nil
	case kindHealResult:
		return d.healResult(), nil
	case kindLost:
		return d.lost(), nil
	}
	if m := d.sliceMessage(kind); m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrFrameKind, kind)
}
