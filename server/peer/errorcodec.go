package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
)

// ErrorBytesMax is the maximum size of an encoded error, in bytes. It is part of the wire format.
const ErrorBytesMax = 128 << 10

const (
	errorVersion      = 1
	errorTextBytesMax = 4 << 10
	errorCodesMax     = 1 << 10
	detailBytesMax    = 64 << 10
)

// CodedError is an error that callers look for with errors.Is, with its number on the wire.
type CodedError struct {
	Code uint64
	Err  error
}

// errorCodes are the errors whose meaning crosses the wire. The numbers are on the wire: a number that was used is never reused. Those from
// 1000 on are free for Errors.More.
var errorCodes = []CodedError{
	{1, bigset.ErrClosed}, {2, bigset.ErrFailed}, {3, bigset.ErrNotFound}, {4, bigset.ErrLimit}, {5, bigset.ErrContext}, {6, bigset.ErrBehind},
	{7, bigset.ErrContextRequired}, {8, bigset.ErrDelta}, {9, bigset.ErrFacts}, {10, bigset.ErrUnresolved}, {11, bigset.ErrRequest},
	{12, bigset.ErrCorrupt}, {13, bigset.ErrDiskFull}, {14, bigset.ErrNoFilter}, {15, bigset.ErrFilterExists}, {16, bigset.ErrFilterOpen},
	{17, bigset.ErrSliceAway}, {18, bigset.ErrCursor},

	{40, ErrFrame}, {41, ErrFrameVersion}, {42, ErrFrameKind}, {43, ErrFrameTooLarge}, {44, ErrFrameSum}, {45, ErrSender}, {46, ErrSetSlice},
	{47, ErrUnavailable}, {48, ErrJoining}, {49, ErrNotMine}, {50, ErrAnswer}, {51, ErrUnresolvedContexts}, {52, ErrMember},
	{53, ErrOvertaken},

	{80, bloomslice.ErrOptions}, {81, bloomslice.ErrCorruptPage}, {82, clock.ErrCorrupt}, {83, fold.ErrCorrupt}, {84, keyscheme.ErrMalformedKey},
	{85, keyscheme.ErrNameTooLong}, {86, keyscheme.ErrCorruptValue}, {87, keyscheme.ErrToken},

	{120, context.Canceled}, {121, context.DeadlineExceeded},
}

// The kinds of details: errors with fields, which errors.As finds at the other side. They are on the wire.
const (
	detailLimit = 1 // *bigset.LimitError: text, zigzag got, zigzag max
	detailFrame = 2 // *FrameError: offset, text; without its cause, which is among the codes
	detailEpoch = 3 // *EpochError: epoch, bytes
	detailTaken = 4 // *OvertakenError: held
)

// ReplicaError is an error with the member that returned it.
type ReplicaError struct {
	Member Member
	Err    error
}

// Error implements error; the text is that of the cause.
func (e *ReplicaError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ReplicaError) Unwrap() error { return e.Err }

// Errors carries errors of replicas across the wire: with their text, the member that returned them (ReplicaError), all errors with a code
// that errors.Is finds in them, and *bigset.LimitError, *FrameError, *EpochError and *OvertakenError, which errors.As finds. So an error of a change means
// the same at the other side: nothing has happened if it wraps ErrUnavailable or bigset.ErrBehind, or if it is Refused. A code that this
// program does not know stands for an error that it could not look for. If an error of a change has only such codes, it is unknown what has
// happened. The zero value is ready to use.
type Errors struct {
	// More are errors of other packages. Their codes are unique, and 1000 or above.
	More []CodedError
}

// Append appends an error, in at most ErrorBytesMax bytes.
func (c Errors) Append(dst []byte, err error) []byte {
	e := encoder{b: append(dst, errorVersion)}
	text := err.Error()
	e.text(text[:min(len(text), errorTextBytesMax)])
	var from *ReplicaError
	known := errors.As(err, &from) && from.Member.Check() == nil
	if e.bool(known); known {
		e.text(from.Member.Node)
		e.text(string(from.Member.Incarnation))
		e.byte(byte(from.Member.State))
	}
	var codes []byte
	n := uint64(0)
	for _, known := range [][]CodedError{errorCodes, c.More} {
		for i := range known {
			if errors.Is(err, known[i].Err) {
				codes = binary.AppendUvarint(codes, known[i].Code)
				n++
			}
		}
	}
	e.uvarint(n)
	e.b = append(e.b, codes...)
	e.details(err)
	return e.b
}

// details writes the errors with fields: their number, then for each its kind, and its fields as bytes.
func (e *encoder) details(err error) {
	var all encoder
	n := uint64(0)
	add := func(kind byte, fields encoder) {
		if len(fields.b) <= detailBytesMax {
			all.byte(kind)
			all.bytes(fields.b)
			n++
		}
	}
	var limit *bigset.LimitError
	if errors.As(err, &limit) {
		var f encoder
		f.text(limit.What)
		f.b = binary.AppendVarint(f.b, int64(limit.Got))
		f.b = binary.AppendVarint(f.b, int64(limit.Max))
		add(detailLimit, f)
	}
	var frame *FrameError
	if errors.As(err, &frame) {
		var f encoder
		f.uvarint(uint64(max(0, frame.Offset)))
		f.text(frame.Reason)
		add(detailFrame, f)
	}
	var epoch *EpochError
	if errors.As(err, &epoch) {
		var f encoder
		f.uvarint(epoch.Epoch)
		f.bytes(epoch.Map)
		add(detailEpoch, f)
	}
	var taken *OvertakenError
	if errors.As(err, &taken) {
		var f encoder
		f.uvarint(taken.Held)
		add(detailTaken, f)
	}
	e.uvarint(n)
	e.b = append(e.b, all.b...)
}

// farError is an error of another process.
type farError struct {
	text   string
	causes []error
}

func (e *farError) Error() string   { return e.text }
func (e *farError) Unwrap() []error { return e.causes }

// Decode returns the error that was appended: a *ReplicaError if the member is known. It accepts any bytes: if they are not an error, the
// result says so, and it is unknown what has happened. It does not keep b.
func (c Errors) Decode(b []byte) error {
	d := decoder{b: b}
	if len(b) > ErrorBytesMax || d.byte() != errorVersion {
		return fmt.Errorf("%w: an error of %d bytes, of a version that is not known here", ErrAnswer, len(b))
	}
	far := &farError{text: d.text(errorTextBytesMax)}
	var from *Member
	if d.bool() {
		from = &Member{Node: d.text(NodeBytesMax), Incarnation: clock.Actor(d.text(clock.ActorBytesMax)), State: MemberState(d.byte())}
		if err := from.Check(); err != nil {
			d.failed("member", err)
		}
	}
	for n := d.count(1, errorCodesMax); n > 0; n-- {
		if err := c.coded(d.uvarint()); err != nil {
			far.causes = append(far.causes, err)
		}
	}
	for n := d.count(2, errorCodesMax); n > 0; n-- {
		if err := detail(d.byte(), d.bytes(detailBytesMax)); err != nil {
			far.causes = append(far.causes, err)
		}
	}
	if d.err == nil && d.off != len(b) {
		d.fail("bytes after the end")
	}
	if d.err != nil {
		return fmt.Errorf("%w: an error that is malformed: %v", ErrAnswer, d.err) // not wrapped: FrameError would say that nothing has happened
	}
	if from == nil {
		return far
	}
	return &ReplicaError{*from, far}
}

// coded returns the error with a code, or nil.
func (c Errors) coded(code uint64) error {
	for _, known := range [][]CodedError{errorCodes, c.More} {
		for i := range known {
			if known[i].Code == code {
				return known[i].Err
			}
		}
	}
	return nil
}

// detail returns an error with fields, or nil if the fields or the kind are unknown here.
func detail(kind byte, fields []byte) error {
	d := decoder{b: fields}
	var err error
	switch kind {
	case detailLimit:
		err = &bigset.LimitError{What: d.text(detailBytesMax), Got: int(d.varint()), Max: int(d.varint())}
	case detailFrame:
		err = &FrameError{Offset: int(d.upTo(FrameBytesMax)), Reason: d.text(detailBytesMax)}
	case detailEpoch:
		err = &EpochError{Epoch: d.uvarint(), Map: append([]byte(nil), d.bytes(detailBytesMax)...)}
	case detailTaken:
		err = &OvertakenError{Held: d.uvarint()}
	}
	if d.err != nil {
		return nil
	}
	return err
}

// varint reads a zigzag number.
func (d *decoder) varint() int64 {
	v := d.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}
