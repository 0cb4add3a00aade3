package coord

import (
	"errors"
	"fmt"
)

// Errors of operations.
var (
	// ErrUnknown is returned for an operation that may have happened: *UnknownError says how far it came.
	ErrUnknown = errors.New("coord: unknown, it may have happened")
	// ErrNoQuorum is returned when too few replicas could be asked: nothing has happened. *QuorumError says who failed how.
	ErrNoQuorum = errors.New("coord: too few replicas answer")
	// ErrRequest is returned for a request that can't be, such as a W above N.
	ErrRequest = errors.New("coord: bad request")
	// ErrClosed is returned by a coordinator that was closed, and by hints that were.
	ErrClosed = errors.New("coord: closed")
	// ErrBusy says that so much is under way in the background that a replica was not asked.
	ErrBusy = errors.New("coord: too much under way")
)

// UnknownError says how far an operation came that too few replicas have acknowledged in time. It may have happened, or happen
// later. errors.Is finds ErrUnknown in it, and the causes.
type UnknownError struct {
	Set        []byte
	Acked      int // replicas that have it
	Durable    int // those of them that have it on disk
	W, DW      int // how many there should have been
	Unanswered int // replicas that have not answered yet
	Err        error
}

// Error implements error.
func (e *UnknownError) Error() string {
	return withCause(fmt.Sprintf("%v: write to %.64q has %d of %d replicas, %d of %d durably, %d have not answered",
		ErrUnknown, e.Set, e.Acked, e.W, e.Durable, e.DW, e.Unanswered), e.Err)
}

// Unwrap makes errors.Is find ErrUnknown and the causes.
func (e *UnknownError) Unwrap() []error { return causes(ErrUnknown, e.Err) }

// QuorumError says that fewer replicas than needed could do their part, and that nothing has happened. errors.Is finds
// ErrNoQuorum in it, and the causes.
type QuorumError struct {
	Set          []byte
	Answered, Of int // how many answered, and how many had to
	Err          error
}

// Error implements error.
func (e *QuorumError) Error() string {
	return withCause(fmt.Sprintf("%v: for %.64q %d of %d", ErrNoQuorum, e.Set, e.Answered, e.Of), e.Err)
}

// Unwrap makes errors.Is find ErrNoQuorum and the causes.
func (e *QuorumError) Unwrap() []error { return causes(ErrNoQuorum, e.Err) }

func withCause(text string, cause error) string {
	if cause == nil {
		return text
	}
	return text + ": " + cause.Error()
}

func causes(sentinel, cause error) []error {
	if cause == nil {
		return []error{sentinel}
	}
	return []error{sentinel, cause}
}
