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

// Errors. The package comment says what they mean for a change. Others are those of package bigset and keyscheme: errors.Is finds
// bigset.ErrNotFound or keyscheme.ErrTokenSet in an error of a node as in one of a store.
var (
	// ErrUnavailable says that no node could do what was asked, and that nothing has happened.
	ErrUnavailable = door.ErrUnavailable
	// ErrUnknown says that nobody knows whether a change was done. The error is an *UnknownError.
	ErrUnknown = door.ErrUnknown
	// ErrQuorum says that a request wants more replicas than there are.
	ErrQuorum = door.ErrQuorum
	// ErrOptions is returned by Open for options that can't be used.
	ErrOptions = errors.New("client: bad options")
	// ErrForeign is in the chain of an error of an address at which something else listens than the port of a node for nodes and clients.
	ErrForeign = wire.ErrForeign
	// ErrAnswer says that a node has sent an answer that does not fit what was asked.
	ErrAnswer = errors.New("client: an answer that does not fit")
)

// UnknownError says that nobody knows whether a change was done. errors.Is finds ErrUnknown and the cause in it.
type UnknownError struct {
	// Request is the id of a write. The same write with this id, and with Retry, is done once.
	Request []byte
	// Context is what a drop was to remove. The same drop with this context removes nothing else.
	Context Token
	// What is what was asked, of a change of a filter. To ask again is safe.
	What string
	// Err says why it is unknown.
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
	return fmt.Sprintf("client: nobody knows whether %s was done: %v", what, e.Err)
}

// RequestText returns the id for messages: as it is if it is printable ASCII without blanks, else in hexadecimal.
func (e *UnknownError) RequestText() string {
	for _, b := range e.Request {
		if b <= ' ' || b > '~' {
			return hex.EncodeToString(e.Request)
		}
	}
	return string(e.Request)
}

// Unwrap makes errors.Is find ErrUnknown and the cause. A cause that says that nothing has happened speaks of the last try alone, and is not found.
func (e *UnknownError) Unwrap() []error {
	if errors.Is(e.Err, ErrUnavailable) {
		return []error{ErrUnknown}
	}
	return []error{ErrUnknown, e.Err}
}

// nodesError says why no node could do what was asked: one error for each that was asked last.
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

// brokenError says that an answer in parts ended early.
type brokenError struct{ err error }

func (e brokenError) Error() string { return "client: the answer broke off: " + e.err.Error() }

// Is makes errors.Is find ErrUnavailable: asking again may help.
func (e brokenError) Is(target error) bool { return target == ErrUnavailable }

func (e brokenError) Unwrap() error { return e.err }

// fate is what an error of one node says of the request there.
type fate byte

const (
	final     fate = iota // nothing has happened, and no node would do it
	untouched             // nothing has happened, and another node may do it
	unsure                // nobody knows whether it was done
)

func fateOf(err error) fate {
	switch {
	case errors.Is(err, wire.ErrLost), errors.Is(err, ErrUnknown):
		return unsure
	case errors.Is(err, wire.ErrNotSent), errors.Is(err, ErrUnavailable):
		return untouched
	}
	return final
}

// unreached reports whether an error says that the node did not answer.
func unreached(err error) bool {
	return errors.Is(err, wire.ErrNotSent) && !errors.Is(err, wire.ErrBusy)
}

// hopeless reports whether an error says that asking the node later gives the same.
func hopeless(err error) bool {
	return errors.Is(err, wire.ErrRefused) || errors.Is(err, wire.ErrForeign)
}

// verdicts are the errors that follow from a request alone, whatever has happened before: all nodes give them, also to the first of several tries.
var verdicts = []error{
	api.ErrBody, ErrQuorum, bigset.ErrFilterOpen, bloomslice.ErrOptions, bigset.ErrLimit, bigset.ErrRequest, bigset.ErrContextRequired, keyscheme.ErrTokenMalformed, keyscheme.ErrTokenVersion,
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
