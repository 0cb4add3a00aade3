package client

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"bigset"
	"bigset/bloomslice"
	"bigset/keyscheme"
	"bigset/server/api"
	"bigset/server/door"
	"bigset/server/wire"
)

// Errors. The package comment says what they mean for a change. Other errors are those of the packages bigset and keyscheme: errors.Is
// finds bigset.ErrNotFound or keyscheme.ErrTokenSet in an error of a node as in one of a store.
var (
	// ErrUnavailable: no node could do the request, and nothing has happened.
	ErrUnavailable = door.ErrUnavailable
	// ErrMembersAway: what was asked of a filter takes all members of the cluster, and some are away. It wraps ErrUnavailable, and no call is
	// repeated for it.
	ErrMembersAway = door.ErrMembersAway
	// ErrUnknown: it is unknown whether a change was done. The error is an *UnknownError.
	ErrUnknown = door.ErrUnknown
	// ErrQuorum: the request asks for more replicas than exist.
	ErrQuorum = door.ErrQuorum
	// ErrOptions is returned by Open for invalid options.
	ErrOptions = errors.New("client: bad options")
	// ErrForeign is in the chain of an error if something other than a node's port for nodes and clients listens at the address.
	ErrForeign = wire.ErrForeign
	// ErrAnswer: a node has sent an answer that does not fit the request.
	ErrAnswer = errors.New("client: an answer that does not fit")
)

// UnknownError reports that it is unknown whether a change was done. errors.Is finds ErrUnknown and the cause in it.
type UnknownError struct {
	// Request is the id of a write. The same write with this id and with Retry is done once.
	Request []byte
	// Context is what a drop was to remove. The same drop with this context removes nothing else.
	Context Token
	// What describes a change of a filter. It is safe to ask for the change again.
	What string
	// Err says why the outcome is unknown.
	Err error
}

// Error implements error.
func (e *UnknownError) Error() string {
	what := "the drop"
	switch {
	case e.What != "":
		what = e.What
	case len(e.Request) > 0:
		what = "request " + e.RequestText()
	}
	return fmt.Sprintf("client: it is unknown whether %s was done: %v", what, e.Err)
}

// RequestText returns the id for messages: unchanged if it is printable ASCII without blanks, otherwise in hexadecimal.
func (e *UnknownError) RequestText() string {
	for _, b := range e.Request {
		if b <= ' ' || b > '~' {
			return hex.EncodeToString(e.Request)
		}
	}
	return string(e.Request)
}

// Unwrap lets errors.Is find ErrUnknown and the cause. It leaves out a cause that says that nothing has happened: this holds for the last
// try only.
func (e *UnknownError) Unwrap() []error {
	if errors.Is(e.Err, ErrUnavailable) {
		return []error{ErrUnknown}
	}
	return []error{ErrUnknown, e.Err}
}

// nodesError says why no node could do the request: one error for each node asked in the last round.
type nodesError []error

func (e nodesError) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = err.Error()
	}
	return "client: no node could do it: " + strings.Join(texts, "; ")
}

// Is makes errors.Is find ErrUnavailable.
func (e nodesError) Is(target error) bool { return target == ErrUnavailable }

func (e nodesError) Unwrap() []error { return e }

// brokenError reports that an answer in parts ended early.
type brokenError struct{ err error }

func (e brokenError) Error() string { return "client: the answer broke off: " + e.err.Error() }

// Is makes errors.Is find ErrUnavailable: a repeated request may succeed.
func (e brokenError) Is(target error) bool { return target == ErrUnavailable }

func (e brokenError) Unwrap() error { return e.err }

// fate is what an error of one node says about the request there.
type fate byte

const (
	final     fate = iota // nothing has happened, and no node would do it
	untouched             // nothing has happened, and another node may do it
	unsure                // it is unknown whether the request was done
)

func fateOf(err error) fate {
	switch {
	case errors.Is(err, wire.ErrLost) && !errors.Is(err, wire.ErrNotSent), errors.Is(err, ErrUnknown): // both: a refusal whose reason can't be read
		return unsure
	case errors.Is(err, wire.ErrNotSent), errors.Is(err, wire.ErrIdle), errors.Is(err, ErrUnavailable):
		return untouched
	}
	return final
}

// unreached reports whether an error says that the node did not answer.
func unreached(err error) bool {
	return errors.Is(err, wire.ErrNotSent) && !errors.Is(err, wire.ErrBusy)
}

// hopeless reports whether an error says that the node would give the same answer later.
func hopeless(err error) bool {
	return errors.Is(err, wire.ErrRefused) || errors.Is(err, wire.ErrForeign)
}

// verdicts are the errors that follow from the request alone, whatever has happened before. Every node returns them, and also for the first
// of several tries.
var verdicts = []error{
	api.ErrBody, ErrQuorum, bloomslice.ErrOptions, bigset.ErrLimit, bigset.ErrRequest, bigset.ErrContextRequired, keyscheme.ErrTokenMalformed, keyscheme.ErrTokenVersion,
	keyscheme.ErrTokenForm, keyscheme.ErrTokenSet, keyscheme.ErrTokenElement,
}

// verdict reports whether an error says that the request was never done.
func verdict(err error) bool {
	for _, v := range verdicts {
		if errors.Is(err, v) {
			return fateOf(err) == final
		}
	}
	return false
}
