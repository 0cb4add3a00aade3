package peer

import (
	"errors"
	"fmt"
)

// Errors of frames. Each of them wraps ErrFrame; a frame that is refused has changed nothing.
var (
	// ErrFrame is what all errors about frames have in common. *FrameError says where a malformed one goes wrong.
	ErrFrame = errors.New("peer: frame refused")
	// ErrFrameVersion says that the frame is of a version that this program does not know.
	ErrFrameVersion = fmt.Errorf("%w: unknown version", ErrFrame)
	// ErrFrameKind says that the frame carries something that this program does not know, or not what is due here.
	ErrFrameKind = fmt.Errorf("%w: not of a kind that is due", ErrFrame)
	// ErrFrameTooLarge says that a frame is, or would be, longer than FrameBytesMax, or holds more than one may.
	ErrFrameTooLarge = fmt.Errorf("%w: too large", ErrFrame)
	// ErrFrameSum says that the checksum of the frame does not fit: it was damaged on its way.
	ErrFrameSum = fmt.Errorf("%w: checksum does not fit", ErrFrame)
	// ErrSender says that the frame, or an answer, is from another member than the one that was asked, or from another
	// incarnation of it.
	ErrSender = fmt.Errorf("%w: wrong sender", ErrFrame)
	// ErrSetSlice says that the frame is about a slice of a set that is split into slices: this version does not know sliced sets.
	ErrSetSlice = fmt.Errorf("%w: sliced sets are not known to this version", ErrFrame)
)

// Errors of replicas.
var (
	// ErrUnavailable says that the replica did not do what it was asked, and has not begun to: another may be asked.
	ErrUnavailable = errors.New("peer: replica not available")
	// ErrJoining says that the replica may lack what was acknowledged, so that it answers no reads. It wraps ErrUnavailable.
	ErrJoining = fmt.Errorf("%w: its copy is not whole yet", ErrUnavailable)
	// ErrNotMine says that the request was routed by a map that is not the replica's, or to one that does not own the range. It wraps
	// ErrUnavailable; *EpochError says which map the replica has.
	ErrNotMine = fmt.Errorf("%w: not an owner", ErrUnavailable)
	// ErrAnswer says that an answer came that can't be one: cut, foreign, or from another member. Nobody knows what has happened. It does not
	// wrap ErrFrame: that is the other side's word for a request that it refused.
	ErrAnswer = errors.New("peer: answer can't be read")
	// ErrUnresolvedContexts is returned for a store, or a set, with wide contexts that are kept open: they do not go between replicas.
	ErrUnresolvedContexts = errors.New("peer: unresolved contexts are not replicated")
	// ErrMember is returned for a member whose name, incarnation or state can't be.
	ErrMember = errors.New("peer: not a member")
)

// FrameError says where a frame stopped being one, and why. errors.Is finds ErrFrame in it, and its cause.
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

// EpochError is the answer of a replica to a request that was routed by another map than its own. errors.Is finds ErrNotMine in it: nothing
// has happened.
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
