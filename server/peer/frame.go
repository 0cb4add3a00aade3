package peer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"bigset/clock"
)

// The sizes of frames. They are part of the wire format.
const (
	// FrameBytesMax is the maximum size of a frame, in bytes.
	FrameBytesMax = 64 << 20
	// RequestBytesMax is the maximum length of a request id, in bytes.
	RequestBytesMax = 64
	// ElementsMax is the maximum number of elements in a chunk or in facts, and DigestsMax that of digests in a frame.
	ElementsMax = 1 << 20
	DigestsMax  = 1 << 16
)

// The versions of frames. They are on the wire, and in hints on disk.
const (
	// FrameVersion is the version that Append writes, when none was negotiated: on disk, in hints. FrameVersionLeast is the oldest version
	// that Decode reads and AppendVersion writes: it has no messages that are only sent over a wire, and names sets without a slice.
	// FrameVersionMost is the newest version. A program that knows a new version still writes the previous one to disk, so that the
	// previous program can be run again.
	FrameVersion      = 2
	FrameVersionLeast = 1
	FrameVersionMost  = frameVersionKnown + versionNext
)

// frameVersionKnown is the newest version of a program as it is released: its frames are those of version 2, with
// more messages for the wire and the numbers of tries.
const frameVersionKnown = TriesVersion

const sumBytes = 4

// nextMark follows the kind in a frame of the next version, so that neither version reads the other's frames by accident. Only tests build
// it.
const nextMark = 0xb5

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Message is the content of a frame. About sets: a Delta, Facts, Locate, Chunk, State, Digests, RangeDigests, Ask, DotStatuses, Export,
// Portion, ElementRange, ElementDigests, Heal, HealResult or Lost; and, from version 2 on, a Write, Written, Knows, Known, FactsResult,
// AskLost, AskState, Read, Lookup, Contexts, AskDigests, AskRangeDigests, AskCount, PartCounts, AskRequests or Requests. About slices of
// bloom filters: a Mark, Marked, Marks, Check, KeyAnswers, DropGeneration, SliceDigests, AskPageSums, PageSums, AskPages, SlicePages or
// FlushSlice; and, from version 2 on, AskSliceDigests, MarkMany, MarkedMany, CheckMany, AnswersMany, MarksMany, AskStamp or Stamp. About both: Done.
// From version 3 on: Deltas or Outcomes. docs/format.md draws them.
type Message interface {
	kind() byte
	// appendTo writes the message, or returns an error if it can't be sent.
	appendTo(*encoder) error
}

// Append appends the frame of a message from a member, in FrameVersion. The error is ErrFrameTooLarge, ErrUnresolvedContexts, ErrMember, or
// that of a message that could not be decoded.
func Append(dst []byte, from Member, m Message) ([]byte, error) {
	return AppendVersion(dst, FrameVersion, from, m)
}

// AppendVersion appends a frame as Append does, in a version that the other side knows. The error is ErrFrameKind for a message that the
// version does not have, and ErrFrameVersion for a version that this program does not write.
func AppendVersion(dst []byte, version byte, from Member, m Message) ([]byte, error) {
	switch {
	case version < FrameVersionLeast || version > FrameVersionMost:
		return dst, fmt.Errorf("%w: %d", ErrFrameVersion, version)
	case version < kindVersion(m.kind()):
		return dst, fmt.Errorf("%w: version %d has no message %q", ErrFrameKind, version, m.kind())
	}
	if err := from.Check(); err != nil {
		return dst, err
	}
	e := encoder{b: append(dst, version, m.kind()), version: version}
	if version > frameVersionKnown {
		e.byte(nextMark)
	}
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

// Decode returns the content of a frame, and its sender. It refuses, with an error that wraps ErrFrame, everything that Append and
// AppendVersion do not write, except for other compressions of the same clocks. It does not keep b: the message owns its memory, which is
// that of the whole frame.
func Decode(b []byte) (Message, Member, error) {
	if err := checkFrame(b); err != nil {
		return nil, Member{}, err
	}
	return decode(&decoder{b: bytes.Clone(b[:len(b)-sumBytes])})
}

// DecodeOwned is Decode for bytes that no one else uses from now on: the message may share their memory.
func DecodeOwned(b []byte) (Message, Member, error) {
	if err := checkFrame(b); err != nil {
		return nil, Member{}, err
	}
	return decode(&decoder{b: b[:len(b)-sumBytes]})
}

// checkFrame checks what can be checked of a frame without its body.
func checkFrame(b []byte) error {
	switch {
	case len(b) > FrameBytesMax:
		return fmt.Errorf("%w: %d bytes", ErrFrameTooLarge, len(b))
	case len(b) < 2+sumBytes:
		return &FrameError{Offset: len(b), Reason: "short"}
	case b[0] < FrameVersionLeast || b[0] > FrameVersionMost:
		return fmt.Errorf("%w: %d", ErrFrameVersion, b[0])
	}
	if crc32.Checksum(b[:len(b)-sumBytes], castagnoli) != binary.LittleEndian.Uint32(b[len(b)-sumBytes:]) {
		return ErrFrameSum
	}
	return nil
}

// decode reads a frame without its sum.
func decode(d *decoder) (Message, Member, error) {
	from := d.sender()
	m, err := d.message(d.b[1])
	if err == nil {
		err = d.end()
	}
	if err != nil {
		return nil, Member{}, err
	}
	return m, from, nil
}

// sender reads the start of a frame.
func (d *decoder) sender() Member {
	d.version, d.off = d.b[0], 2
	if d.version > frameVersionKnown && d.byte() != nextMark {
		d.fail("no mark of the next version")
	}
	from := Member{Node: d.text(NodeBytesMax), Incarnation: clock.Actor(d.text(clock.ActorBytesMax)), State: MemberState(d.byte())}
	if err := from.Check(); d.err == nil && err != nil {
		d.failed("sender", err)
	}
	return from
}

// end returns the error of a frame that has been read.
func (d *decoder) end() error {
	if d.err == nil && d.off != len(d.b) {
		d.fail("bytes after the end")
	}
	return d.err
}

// message decodes the rest of a frame as a message of the given kind.
func (d *decoder) message(kind byte) (Message, error) {
	if d.version < kindVersion(kind) {
		return nil, fmt.Errorf("%w: version %d has no %q", ErrFrameKind, d.version, kind)
	}
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
	case kindDotStatuses:
		return d.dotStatuses(), nil
	case kindExport:
		return d.export(), nil
	case kindPortion:
		return d.portion(), nil
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
	for _, read := range []func(byte) Message{d.sliceMessage, d.askMessage, d.manyMessage, d.requestMessage, d.deltasMessage, d.stampMessage} {
		if m := read(kind); m != nil {
			return m, nil
		}
	}
	return nil, fmt.Errorf("%w: %q", ErrFrameKind, kind)
}
