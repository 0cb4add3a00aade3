package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/peer"
)

// Errors of operations.
var (
	// ErrUnknown is returned for an operation that may have happened; *UnknownError says how far it got.
	ErrUnknown = errors.New("coord: unknown, it may have happened")
	// ErrNoQuorum is returned when too few replicas could be asked; nothing has happened. *QuorumError holds the cause at each replica.
	ErrNoQuorum = errors.New("coord: too few replicas answer")
	// ErrRequest is returned for an impossible request, such as a W above N.
	ErrRequest = errors.New("coord: bad request")
	// ErrClosed is returned by a coordinator, or by hints, after Close.
	ErrClosed = errors.New("coord: closed")
	// ErrBusy is returned when a replica was not asked because too much is in progress. A read that returns it has asked no replica;
	// nothing has happened.
	ErrBusy = errors.New("coord: too much under way")
)

// UnknownError says how far an operation got that too few replicas have acknowledged in time. It may have happened, or may happen later.
// errors.Is finds ErrUnknown in it, and the causes.
type UnknownError struct {
	Set        []byte // or filter
	Acked      int    // replicas that have it
	Durable    int    // how many of these have it on disk
	W, DW      int    // how many were required
	Unanswered int    // replicas that have not answered yet
	Err        error
}

// Error implements error.
func (e *UnknownError) Error() string {
	durable := ""
	if e.DW > 0 {
		durable = fmt.Sprintf(", %d of %d durably", e.Durable, e.DW)
	}
	return withCause(fmt.Sprintf("%v: %.64q: %d of %d replicas have it%s, %d have not answered",
		ErrUnknown, e.Set, e.Acked, e.W, durable, e.Unanswered), e.Err)
}

// Unwrap makes errors.Is find ErrUnknown and the causes.
func (e *UnknownError) Unwrap() []error { return causes(ErrUnknown, e.Err) }

// QuorumError says that fewer replicas than needed could do their part, and that nothing has happened. errors.Is finds ErrNoQuorum in it,
// and the causes.
type QuorumError struct {
	Set          []byte // or filter
	Answered, Of int    // how many answered, and how many were required
	Err          error
}

// Error implements error.
func (e *QuorumError) Error() string {
	return withCause(fmt.Sprintf("%v: for %.64q %d of %d", ErrNoQuorum, e.Set, e.Answered, e.Of), e.Err)
}

// Unwrap makes errors.Is find ErrNoQuorum and the causes.
func (e *QuorumError) Unwrap() []error { return causes(ErrNoQuorum, e.Err) }

// FilterError names the keys of a request on a filter that have no answer, and the causes. errors.Is finds the causes in it, and ErrUnknown
// if some of the keys may be marked.
type FilterError struct {
	Name    []byte
	Keys    []int // indexes in the request of the keys without an answer, ascending
	Unknown int   // how many of them may still be marked, now or later
	Of      int   // number of keys in the request
	Slices  int   // number of slices that failed
	Err     error // some of the causes: each is an *UnknownError, a *QuorumError, or a refusal
}

// Error implements error.
func (e *FilterError) Error() string {
	return withCause(fmt.Sprintf("coord: no answer about %d of %d keys of filter %.64q, %d of them unknown, from %d of its slices",
		len(e.Keys), e.Of, e.Name, e.Unknown, e.Slices), e.Err)
}

// Unwrap makes errors.Is find the causes, and ErrUnknown.
func (e *FilterError) Unwrap() []error {
	if e.Unknown > 0 {
		return causes(ErrUnknown, e.Err)
	}
	return []error{e.Err}
}

// kinds are the errors that a caller may look for among those of many slices.
var kinds = []error{
	ErrUnknown, ErrNoQuorum, ErrRequest, ErrClosed, ErrBusy, peer.ErrUnavailable, peer.ErrJoining, peer.ErrNotMine, peer.ErrFrame, bloomslice.ErrOptions,
	bigset.ErrNoFilter, bigset.ErrCorrupt, bigset.ErrDiskFull, bigset.ErrFailed, bigset.ErrClosed, bigset.ErrLimit, bigset.ErrRequest,
	context.Canceled, context.DeadlineExceeded,
}

// someErrors are a selection of many errors: the first few, and one of each kind.
type someErrors []error

func (s *someErrors) add(err error) {
	if len(*s) < errsMax || slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) && !s.have(kind) }) {
		*s = append(*s, err)
	}
}

func (s *someErrors) have(kind error) bool {
	return slices.ContainsFunc(*s, func(err error) bool { return errors.Is(err, kind) })
}

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
