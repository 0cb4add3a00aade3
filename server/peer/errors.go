package peer

import (
	"errors"
	"fmt"
)

// Errors of frames. Each of them wraps ErrFrame; a refused frame has changed nothing.
var (
	// ErrFrame is wrapped by all errors about frames. *FrameError says where a malformed one goes wrong.
	ErrFrame = errors.New("peer: frame refused")
	// ErrFrameVersion is returned for a frame of a version that this program does not know.
	ErrFrameVersion = fmt.Errorf("%w: unknown version", ErrFrame)
	// ErrFrameKind is returned for a frame of a kind that this program does not know, or that is not expected here.
	ErrFrameKind = fmt.Errorf("%w: not of a kind that is due", ErrFrame)
	// ErrFrameTooLarge is returned for a frame that is, or would be, longer than FrameBytesMax, or contains more items than allowed.
	ErrFrameTooLarge = fmt.Errorf("%w: too large", ErrFrame)
	// ErrFrameSum is returned for a frame whose checksum does not match: it was damaged on its way.
	ErrFrameSum = fmt.Errorf("%w: checksum does not fit", ErrFrame)
	// ErrSender is returned for a frame, or an answer, from another member than the expected one, or from another incarnation of it.
	ErrSender = fmt.Errorf("%w: wrong sender", ErrFrame)
	// ErrSetSlice is returned for a frame about a slice of a set that is split into slices: this version does not support sliced sets.
	ErrSetSlice = fmt.Errorf("%w: sliced sets are not known to this version", ErrFrame)
)

// Errors of replicas.
var (
	// ErrUnavailable says that the replica did not do the request, and has not begun to: another one may be asked.
	ErrUnavailable = errors.New("peer: replica not available")
	// ErrJoining says that the replica may not have everything that was acknowledged, so that it answers no reads. It wraps ErrUnavailable.
	ErrJoining = fmt.Errorf("%w: its copy is not whole yet", ErrUnavailable)
	// ErrNotMine says that the request was routed by a map other than the replica's, or to a replica that does not own the range. It wraps
	// ErrUnavailable; *EpochError says which map the replica has.
	ErrNotMine = fmt.Errorf("%w: not an owner", ErrUnavailable)
	// ErrOvertaken says that another try of the request has asked for it, so this try does nothing. The other one may have done the request
	// elsewhere. It wraps ErrUnavailable. *OvertakenError has the number of the other try.
	ErrOvertaken = fmt.Errorf("%w: another try of the request has asked for it", ErrUnavailable)
	// ErrAnswer is returned for an invalid answer: cut, foreign, or from another member. It is unknown what has happened. It does not wrap
	// ErrFrame, which the other side returns for a request that it refused.
	ErrAnswer = errors.New("peer: answer can't be read")
	// ErrUnresolvedContexts is returned for a store, or a set, with unresolved wide contexts: they are not replicated.
	ErrUnresolvedContexts = errors.New("peer: unresolved contexts are not replicated")
	// ErrMember is returned for a member with an invalid name, incarnation or state.
	ErrMember = errors.New("peer: not a member")
)

// FrameError says where a frame stopped being valid, and why. errors.Is finds ErrFrame in it, and its cause.
type FrameError struct {
	Offset int // in bytes, into the frame
	Reason string
	Err    error // the cause, or nil
}

// Error implements error.
func (e *FrameError) Error() string {
	text := fmt.Sprintf("%v: %s before byte %d", ErrFrame, e.Reason, e.Offset)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap makes errors.Is find ErrFrame and the cause.
func (e *FrameError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrFrame}
	}
	return []error{ErrFrame, e.Err}
}

// OvertakenError is a replica's answer to a try of a request that another one has overtaken: see Replica.Knows. errors.Is finds ErrOvertaken in it:
// this try does nothing.
type OvertakenError struct {
	Held uint64 // the number of the other try: a try with a larger one may ask again
}

// Error implements error.
func (e *OvertakenError) Error() string { return ErrOvertaken.Error() }

// Unwrap makes errors.Is find ErrOvertaken.
func (e *OvertakenError) Unwrap() error { return ErrOvertaken }

// EpochError is a replica's answer to a request that was routed by a map other than its own. errors.Is finds ErrNotMine in it: nothing has
// happened.
type EpochError struct {
	Epoch uint64 // of the replica's map
	Map   []byte // the replica's assignment of the range, as its cluster encodes it, or nil
}

// Error implements error.
func (e *EpochError) Error() string {
	return fmt.Sprintf("%v: the map here is of epoch %d", ErrNotMine, e.Epoch)
}

// Unwrap makes errors.Is find ErrNotMine.
func (e *EpochError) Unwrap() error { return ErrNotMine }
